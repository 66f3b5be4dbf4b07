"""Calls with interchangeable implementations: donation, the choice, and what runs afterwards."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator

import pytest
import torch
from custom_ops import OPS
from fx_graphs import BY_ID, FX_CASES
from fx_oracle import FxCase, Hand, annotate, check_clone_removal
from torch import fx
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from compiler.analysis.alias import argument_attributes, main_function
from compiler.errors import CompileError
from compiler.integrations.fx_import import import_host_graph
from compiler.integrations.vllm import CloneEliminationPass, PassContext
from compiler.integrations.vllm_ir import InterchangeableOp, Provider, choose_later
from compiler.integrations.vllm_lowering import functionalize, lower
from compiler.reference import run_handles
from compiler.transforms.donate_activations import donate_activations
from compiler.transforms.eliminate_clones import EliminateClones
from compiler.transforms.lower_implementations import LowerImplementations
from dialects.alias import DONATED
from dialects.fx import CallOp
from dialects.types import element_name
from dialects.vllm_ir import ImplementedCallOp

A = torch.ops.aten
CASES = [case for case in FX_CASES if case.category == "ir_inplace"]
FUSED = Provider("fused", OPS.fused_add_rms_norm_.default, gives=("x", "residual"))


def add_norm(*providers: Provider) -> InterchangeableOp:
    return InterchangeableOp(OPS.add_norm.default, ("x", "residual"), OPS.add_norm.maybe_inplace, providers)


def imported(graph: fx.GraphModule, *providers: Provider, donated: tuple[str, ...] = ()) -> ModuleOp:
    """The graph with the choice still open, and its calls functional."""
    function = import_host_graph(graph.graph, None, donated).function
    module = function.parent_op()
    assert isinstance(module, ModuleOp)
    choose_later(module, [add_norm(*providers)])
    donate_activations(function)
    module.verify()
    return module


def lowered(module: ModuleOp, *priority: str, eliminate: bool = True) -> ModuleOp:
    LowerImplementations(priority).apply(Context(), module)
    if eliminate:
        EliminateClones().apply(Context(), module)
    module.verify()
    return module


def targets(module: ModuleOp) -> list[str]:
    return [op.target.data.split(".")[1] for op in module.walk() if isinstance(op, CallOp | ImplementedCallOp)]


def donated(module: ModuleOp) -> list[int]:
    return [n for n, attributes in enumerate(argument_attributes(main_function(module))) if DONATED in attributes]


@pytest.mark.parametrize("priority", ["fused", "native"])
@pytest.mark.parametrize("case", [case for case in CASES if case.error != "must"], ids=lambda case: case.id)
def test_cases_are_right_with_every_implementation(case: FxCase, priority: str):
    module = imported(case.build(), FUSED)
    assert donated(module) == case.extra["donated"]
    lowered(module, priority)
    report = check_clone_removal(case, lambda *inputs: run_handles(module, inputs), case.extra["donated"])
    assert not report.errors
    # Every activation is donated or dead; one value as both of them needs a copy.
    assert targets(module).count("clone") == (priority == "fused" and case.id == "ir_same_twice")
    assert ("fused_add_rms_norm_" in targets(module)) == (priority == "fused")


@pytest.mark.parametrize("case, activation", [("ir_reuse", "argument x"), ("ir_reuse_in_output", "argument r")])
def test_a_donated_value_that_is_used_again_is_refused(case: str, activation: str):
    with pytest.raises(
        CompileError, match=f"aliascases.add_norm.default .* may overwrite its activation {activation}, but"
    ) as caught:
        imported(BY_ID[case].build(), FUSED)
    assert caught.value.node and "clone" in caught.value.hint


def norm_of(prepare: Callable[[Hand], Iterator[fx.Node]], *, overload=OPS.add_norm.maybe_inplace) -> fx.GraphModule:
    """`prepare` gives the activation, and after the call whatever else is returned."""
    h = Hand("x", "r", "w")
    steps = prepare(h)
    t = h.f(overload, next(steps), h.ins[1], h.ins[2])
    h.out((h.f(operator.getitem, t, 0), *steps))
    return annotate(h.module(), [torch.rand(2, 4), torch.rand(2, 4), torch.rand(4)])


def test_a_view_of_a_donated_value_counts():
    def steps(h: Hand):
        y = h.f(A.sin.default, h.ins[0])
        row = h.f(A.select.int, y, 0, 1)
        yield y
        yield h.f(A.sum.default, row)

    with pytest.raises(
        CompileError, match=r"activation the result of aten.sin.default .* reads its memory through .*aten.select.int"
    ):
        imported(norm_of(steps), FUSED)


def test_a_disjoint_view_does_not_count():
    def steps(h: Hand):
        pool = h.f(A.cat.default, [h.ins[0], h.ins[0]])
        yield h.f(A.slice.Tensor, pool, 0, 0, 2)
        yield h.f(A.sum.default, h.f(A.slice.Tensor, pool, 0, 2, 4))

    module = imported(norm_of(steps), FUSED)
    assert donated(module) == [1]
    assert targets(lowered(module)).count("clone") == 0


def read_later(h: Hand):
    y = h.f(A.sin.default, h.ins[0])
    yield y
    yield h.f(A.sum.default, y)


def test_a_functional_call_keeps_the_copies_it_needs():
    graph = norm_of(read_later, overload=OPS.add_norm.default)
    inputs = [torch.rand(2, 4), torch.rand(2, 4), torch.rand(4)]
    expected, before = graph(*inputs), [t.clone() for t in inputs]
    module = imported(graph, FUSED)
    assert donated(module) == []
    lowered(module, eliminate=False)
    assert targets(module).count("clone") == 2
    EliminateClones().apply(Context(), module)
    assert targets(module).count("clone") == 2, "y is read later, r is the caller's"
    for result, want in zip(run_handles(module, inputs), expected, strict=True):
        torch.testing.assert_close(result, want)
    assert all(map(torch.equal, inputs, before))
    again = lowered(imported(graph, FUSED, donated=("r",)))
    assert targets(again).count("clone") == 1, "the caller gives r away"


def test_a_provider_that_does_not_support_the_call_is_no_choice():
    def half_only(call: CallOp) -> bool:
        return element_name(call.args[0].type.element_type) == "f16"  # type: ignore[attr-defined]

    graph = norm_of(read_later, overload=OPS.add_norm.default)
    picky = Provider("fused", FUSED.op, FUSED.gives, half_only)
    assert targets(lowered(imported(graph, picky), "fused")) == ["sin", "add_norm", "sum"]
    out_of_place = Provider("again", OPS.add_norm.default)
    assert targets(lowered(imported(graph, picky, out_of_place, FUSED), "again", "fused")) == ["sin", "add_norm", "sum"]


def test_operators_of_one_compilation_are_unknown_to_the_next():
    graph = norm_of(read_later, overload=OPS.add_norm.default)
    imported(graph, FUSED)
    function = import_host_graph(graph.graph, None, ()).function
    choose_later(function.parent_op(), [])  # type: ignore[arg-type]
    assert not any(isinstance(op, ImplementedCallOp) for op in function.walk())


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: InterchangeableOp(OPS.scale_.default), "is no native form"),
        (lambda: InterchangeableOp(OPS.add_norm.default, ("eps",)), "no tensor parameter 'eps'"),
        (lambda: InterchangeableOp(OPS.add_norm.default, ("x",), OPS.add_norm.maybe_inplace), "writes 'residual'"),
        (lambda: add_norm(Provider("other", OPS.scale_.default)), "does not take the parameters"),
        (lambda: add_norm(Provider("fused", FUSED.op)), "gives 0 results"),
        (lambda: add_norm(Provider("fused", FUSED.op, ("x", "weight"))), "does not write 'weight'"),
        (lambda: add_norm(Provider("fused", FUSED.op, ("x", 0))), "has no result 0 of its own"),
        (lambda: add_norm(Provider("native", FUSED.op, ("x", "residual"))), "name 'native'"),
    ],
)
def test_overloads_that_do_not_fit_are_refused(make, message: str):
    with pytest.raises(CompileError, match=message):
        make()


# -- FX in, FX out --------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [case for case in CASES if case.error != "must"], ids=lambda case: case.id)
def test_fx_graphs_are_lowered_to_in_place_operators_without_needless_copies(case: FxCase):
    graph, context = case.build(), PassContext()
    given = functionalize(graph.graph, [add_norm(FUSED)], context)
    inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
    assert [inputs.index(node) for node in given] == case.extra["donated"]
    chosen = lower(graph.graph, [add_norm(FUSED)], ["fused"])
    assert set(chosen.values()) == {"fused"}
    eliminate = CloneEliminationPass(context=context)
    eliminate(graph.graph)
    graph.graph.lint()
    graph.recompile()
    assert not check_clone_removal(case, graph, case.extra["donated"]).errors
    left = [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]
    assert left.count("aten.clone.default") == (case.id == "ir_same_twice")
    assert "aliascases.fused_add_rms_norm_.default" in left and "aliascases.add_norm.default" not in left


@pytest.mark.parametrize("case", ["ir_reuse", "ir_reuse_in_output"])
def test_a_refused_fx_graph_is_as_it_was(case: str):
    graph = BY_ID[case].build()
    before = str(graph.graph)
    with pytest.raises(CompileError, match="may overwrite its activation"):
        functionalize(graph.graph, [add_norm(FUSED)], context := PassContext())
    assert str(graph.graph) == before and not context.donated_input_ids


def test_lowered_nodes_have_metadata_and_the_native_form_stays_where_nothing_fits():
    graph = norm_of(read_later, overload=OPS.add_norm.default)
    assert lower(graph.graph, [add_norm(FUSED)], ["other"]) == {}
    assert lower(graph.graph, [add_norm(Provider("again", OPS.add_norm.maybe_inplace, (0, 1)))], ["again"])
    results = [node for node in graph.graph.nodes if node.target is operator.getitem]
    assert all(node.meta["val"].shape == (2, 4) for node in results)
    inputs = [torch.rand(2, 4), torch.rand(2, 4), torch.rand(4)]
    before = [t.clone() for t in inputs]
    graph.recompile()
    expected = norm_of(read_later, overload=OPS.add_norm.default)(*inputs)
    for result, want in zip(graph(*inputs), expected, strict=True):
        torch.testing.assert_close(result, want)
    assert all(map(torch.equal, inputs, before)), "what it overwrites is copied"
