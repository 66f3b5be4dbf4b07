"""Clone elimination beside higher-order operators: by what they declare, the unknown ones by the worst.

Every test has a twin whose copy stays because the source is read later, and one whose copy goes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from custom_ops import OPS
from fx_oracle import FxCase, Hand, annotate, check_clone_removal
from torch import fx
from torch._higher_order_ops.auto_functionalize import auto_functionalized, auto_functionalized_v2
from torch._higher_order_ops.triton_kernel_wrap import triton_kernel_wrapper_functional, triton_kernel_wrapper_mutation
from torch._inductor.fx_passes.control_dependencies import control_deps
from torch._ops import HigherOrderOperator

from compiler.integrations import fx_import
from compiler.integrations.fx_clones import CloneReport, eliminate_clones

A = torch.ops.aten
late = pytest.mark.parametrize("late", [False, True], ids=["goes", "stays"])


def inputs() -> list[torch.Tensor]:
    return [torch.arange(6.0).reshape(2, 3) + 0.5, torch.arange(6.0).reshape(2, 3) - 2]


def copied(h: Hand, late: bool, use: Callable[[Hand, fx.Node], list[fx.Node]]) -> Hand:
    """A copy of a computed value, what uses it, and maybe a read of the value afterwards."""
    y = h.f(A.sin.default, h.ins[0])
    results = use(h, h.f(A.clone.default, y))
    return h.out((*results, *([h.f(A.sum.default, y)] if late else [])))


def eliminated(make: Callable[[], Hand]) -> tuple[CloneReport, fx.GraphModule]:
    """What is left of a graph that can be run, which must give what it gave."""
    case = FxCase("higher_order", "clone", make, inputs, "", "", style="hand")
    graph = case.build()
    report = eliminate_clones(graph, case.inputs())
    graph.graph.lint()
    assert not check_clone_removal(case, graph).errors
    return report, graph


def in_place_again(graph: fx.GraphModule) -> fx.GraphModule:
    """Auto-functionalised calls as calls on their own operands, with no look at who else uses these."""
    for node in list(graph.graph.nodes):
        if node.target not in (auto_functionalized, auto_functionalized_v2):
            continue
        op, bases = node.args[0], node.kwargs.get("_all_bases")
        written = [a.name for a in op._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
        operands = list(bases) if bases is not None else [node.kwargs[name] for name in written]
        given = {k: v for k, v in node.kwargs.items() if not k.startswith("_")}
        given |= {name: bases[node.kwargs[f"_{name}_base_index"]] for name in written} if bases is not None else {}
        with graph.graph.inserting_before(node):
            graph.graph.call_function(op, (), given)
        for user in list(node.users):
            assert user.target is operator.getitem and user.args[1] >= 1
            user.replace_all_uses_with(operands[user.args[1] - 1])
            graph.graph.erase_node(user)
        graph.graph.erase_node(node)
    graph.recompile()
    return graph


def first_version(h: Hand, c: fx.Node) -> fx.Node:
    return h.f(auto_functionalized, OPS.mul_to.default, a=h.ins[1], b=h.ins[1], out=c)


def second_version(h: Hand, c: fx.Node) -> fx.Node:
    return h.f(auto_functionalized_v2, OPS.mul_to.default, a=h.ins[1], b=h.ins[1], _out_base_index=0, _all_bases=[c])


@late
@pytest.mark.parametrize("version", [first_version, second_version])
def test_auto_functionalized_calls_write_what_they_name(version: Callable[..., fx.Node], late: bool):
    def use(h: Hand, c: fx.Node) -> list[fx.Node]:
        return [h.f(A.sum.default, h.f(operator.getitem, version(h, c), 1))]

    report, graph = eliminated(lambda: copied(Hand("x", "v"), late, use))
    assert len(report.removed) == (not late)
    if late:
        assert (
            "aten.sum.default (sum_default_1) at <graph>:0 would read what auto_functionalized" in report.kept[0].reason
        )
    expected = graph(*inputs())
    assert all(map(torch.equal, in_place_again(graph)(*inputs()), expected))


@late
@pytest.mark.parametrize("version", [first_version, second_version])
def test_their_results_may_be_the_copy_or_a_copy_of_it(version: Callable[..., fx.Node], late: bool):
    """A write into such a result must reach neither the source nor what is read of it."""

    def use(h: Hand, c: fx.Node) -> list[fx.Node]:
        out = h.f(operator.getitem, version(h, c), 1)
        h.f(A.add_.Tensor, out, 1)
        return [out]

    report, graph = eliminated(lambda: copied(Hand("x", "v"), late, use))
    assert len(report.removed) == (not late)
    expected = graph(*inputs())
    assert all(map(torch.equal, in_place_again(graph)(*inputs()), expected))


def test_a_store_of_such_a_result_is_no_store_of_a_value_into_its_own_memory():
    def hand() -> Hand:
        h = Hand("x", "v")
        y = h.f(A.sin.default, h.ins[0])
        out = h.f(operator.getitem, first_version(h, h.f(A.clone.default, y)), 1)
        h.f(A.copy_.default, y, out)
        return h.out((h.f(A.sum.default, y),))

    report, graph = eliminated(hand)
    assert any(node.target is A.copy_.default for node in graph.graph.nodes), report


@pytest.mark.parametrize("offset", [0, 1])
def test_a_view_counted_from_the_start_of_the_storage_does_not_move(offset: int):
    """The second version may name a window of its base by strides and a position."""

    def hand() -> Hand:
        h = Hand("x", "v")
        y = h.f(A.sin.default, h.f(A.cat.default, [h.ins[0], h.ins[1]]))
        c = h.f(A.clone.default, h.f(A.slice.Tensor, y, 0, offset, offset + 2))
        made = h.f(
            auto_functionalized_v2, OPS.scale_.default, s=3.0, _x_base_index=0, _x_size=(3,), _x_stride=(1,),
            _x_storage_offset=3, _all_bases=[c],
        )  # fmt: skip
        return h.out((h.f(A.sum.default, h.f(operator.getitem, made, 1)),))

    report, _ = eliminated(hand)
    assert len(report.removed) == (offset == 0)
    assert all("counts positions from the start of the storage" in remark.reason for remark in report.kept)


# -- Triton ------------------------------------------------------------------------------------


def triton(h: Hand, c: fx.Node, mutation: bool) -> fx.Node:
    common: dict[str, Any] = {
        "kernel_idx": 0, "constant_args_idx": 0, "grid": [(1, 1, 1)], "tma_descriptor_metadata": {},
        "kwargs": {"source": h.ins[1], "target": c},
    }  # fmt: skip
    if mutation:
        return h.f(triton_kernel_wrapper_mutation, **common)
    return h.f(triton_kernel_wrapper_functional, **common, tensors_to_clone=["target"])


def described(hand: Hand) -> fx.GraphModule:
    """Metadata for a graph with kernels that cannot be run here."""
    graph = hand.module()
    for node in graph.graph.nodes:
        shape = torch.empty((), device="meta") if node.target is A.sum.default else torch.empty(2, 3, device="meta")
        functional = node.target is triton_kernel_wrapper_functional
        node.meta["val"] = (
            {"target": shape} if functional else None if node.target is triton_kernel_wrapper_mutation else shape
        )
    return graph


@late
def test_a_kernel_that_mutates_writes_the_copy(late: bool):
    def use(h: Hand, c: fx.Node) -> list[fx.Node]:
        triton(h, c, mutation=True)
        return [h.f(A.sum.default, c)]

    report = eliminate_clones(described(copied(Hand("x", "v"), late, use)))
    assert len(report.removed) == (not late)
    assert all("would read what triton_kernel_wrapper_mutation" in remark.reason for remark in report.kept)


@pytest.mark.parametrize("written, gone", [(["source"], 1), (["source", "target"], 0)])
def test_what_a_kernel_writes_is_what_pytorch_finds_out(written: list[str], gone: int, monkeypatch):
    monkeypatch.setattr(fx_import, "get_mutated_tensors", lambda *arguments: written)

    def use(h: Hand, c: fx.Node) -> list[fx.Node]:
        triton(h, c, mutation=True)
        return []

    assert len(eliminate_clones(described(copied(Hand("x", "v"), True, use))).removed) == gone


@late
def test_a_functional_kernel_reads_only(late: bool):
    def use(h: Hand, c: fx.Node) -> list[fx.Node]:
        made = h.f(operator.getitem, triton(h, c, mutation=False), "target")
        if late:
            h.f(A.add_.Tensor, c, 1)
        return [h.f(A.sum.default, made)]

    report = eliminate_clones(described(copied(Hand("x", "v"), True, use)))
    assert len(report.removed) == (not late), "a write beside the kernel still counts"


# -- control flow ------------------------------------------------------------------------------


def branch(write: bool) -> fx.GraphModule:
    h = Hand("a")
    b = h.f(A.mul.Tensor, h.ins[0], 2.0)
    if write:
        h.f(A.add_.Tensor, h.ins[0], 1)
    return h.out((b,)).module()


def with_branches(*names: str, write: bool) -> Hand:
    return Hand(*names, yes=branch(write), no=branch(False))


@late
@pytest.mark.parametrize("write", [False, True], ids=["reads", "writes"])
def test_a_branch_counts_by_what_its_regions_do(write: bool, late: bool):
    def use(h: Hand, c: fx.Node) -> list[fx.Node]:
        predicate = h.f(A.gt.Scalar, h.f(A.sum.default, h.ins[1]), 0)
        made = h.f(torch.ops.higher_order.cond, predicate, h.attr("yes"), h.attr("no"), (c,))
        return [h.f(operator.getitem, made, 0)]

    def hand() -> Hand:
        return copied(with_branches("x", "v", write=write), late, use)

    if write:  # eager refuses to write an operand of a branch; a host's graph may have it
        report = eliminate_clones(annotated_through(hand(), write))
        assert len(report.removed) == (not late)
    else:
        report, _ = eliminated(hand)
        assert len(report.removed) == 1


def annotated_through(hand: Hand, write: bool) -> fx.GraphModule:
    """Metadata, with the higher-order operator's filled in by hand."""
    graph = annotate(hand.module(), inputs())
    for node in graph.graph.nodes:
        if "val" not in node.meta and node.op == "call_function":
            full, one = torch.empty(2, 3), torch.empty(())
            node.meta["val"] = (
                (full,)
                if isinstance(node.target, HigherOrderOperator)
                else one
                if node.target is A.sum.default
                else full
            )
    return graph


def loop_parts() -> dict[str, fx.GraphModule]:
    condition = Hand("i", "a")
    condition.out(condition.f(A.lt.Scalar, condition.ins[0], 3))
    body = Hand("i", "a")
    body.out((body.f(A.add.Tensor, body.ins[0], 1), body.f(A.mul.Tensor, body.ins[1], 2.0)))
    return {"condition": condition.module(), "body": body.module()}


@late
def test_a_loop_reads_what_it_starts_from(late: bool):
    def use(h: Hand, c: fx.Node) -> list[fx.Node]:
        start = h.f(A.zeros.default, [], dtype=torch.int64)
        made = h.f(torch.ops.higher_order.while_loop, h.attr("condition"), h.attr("body"), (start, c), ())
        if late:
            h.f(A.add_.Tensor, c, 1)
        return [h.f(operator.getitem, made, 1)]

    report, _ = eliminated(lambda: copied(Hand("x", "v", **loop_parts()), True, use))
    assert len(report.removed) == (not late)


@late
def test_control_dependencies_are_no_reads(late: bool):
    """What waits does what its subgraph does; what it waits for is not looked at."""

    def hand() -> Hand:
        inner = Hand("a")
        inner.out(inner.f(A.add_.Tensor, inner.ins[0], 1))
        h = Hand("x", "v", step=inner.module())
        y = h.f(A.sin.default, h.ins[0])
        c = h.f(A.clone.default, y)
        h.f(control_deps, (y,), h.attr("step"), c)
        done = h.f(A.sum.default, c)
        read = h.f(A.sum.default, y) if late else h.f(control_deps, (y,), h.attr("step"), h.f(A.cos.default, h.ins[1]))
        return h.out((done, read))

    report, _ = eliminated(hand)
    assert len(report.removed) == (not late)


def test_a_copy_inside_a_node_is_not_the_node():
    """A subgraph that copies its operand, and a method whose copy is of an argument, not of the receiver."""

    def hand() -> Hand:
        inner = Hand("a")
        inner.out((inner.f(A.clone.default, inner.ins[0]),))
        h = Hand("x", "v", copy=inner.module())
        y = h.f(A.sin.default, h.ins[0])
        made = h.f(operator.getitem, h.f(torch.ops.higher_order.invoke_subgraph, h.attr("copy"), "copy", y), 0)
        other = h.m("new_tensor", h.f(A.cos.default, h.ins[1]), y)
        return h.out((h.f(A.sum.default, made), h.f(A.sum.default, other)))

    report, _ = eliminated(hand)
    assert "copy" not in report.removed


# -- unknown ones ------------------------------------------------------------------------------


class Opaque(HigherOrderOperator):
    def __init__(self) -> None:
        super().__init__("clones_opaque")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(*args, **kwargs)


@late
def test_an_unknown_operator_reads_and_writes_all_that_it_can_reach(late: bool):
    opaque = Opaque()

    def use(h: Hand, c: fx.Node) -> list[fx.Node]:
        h.f(opaque, [h.ins[1], {"deep": c}])
        return []

    graph = annotate(copied(Hand("x", "v"), late, use).module(), inputs())
    for node in graph.graph.nodes:
        if node.target is A.sum.default:
            node.meta["val"] = torch.empty(())
    report = eliminate_clones(graph)
    assert len(report.removed) == (not late)
    assert all("would read what clones_opaque" in remark.reason for remark in report.kept)
