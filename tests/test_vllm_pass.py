"""The drop-in pass for vLLM: donations by identity, helper answers, cache key, dumps."""

from __future__ import annotations

import operator
import pickle
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from custom_ops import OPS
from fx_graphs import BY_ID
from fx_oracle import Hand, annotate, check_clone_removal
from torch import fx
from torch._functorch._aot_autograd.descriptors import DummyAOTInput, PlainAOTInput
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from compiler.integrations.vllm import (
    DONATION,
    CloneEliminationPass,
    PassContext,
    UnsafeCloneEliminationPass,
    clone_preserves_layout,
    user_writes_to_node,
    would_alias_graph_io,
)

A = torch.ops.aten
ROOT = Path(__file__).parents[1]


def placeholder(graph: fx.Graph, index: int) -> fx.Node:
    return [node for node in graph.nodes if node.op == "placeholder"][index]


def test_donated_ids_are_honoured_by_identity():
    case = BY_ID["cg_lowered_norm"]
    graph, context, dumps = case.build(), PassContext(), []
    context.donate(placeholder(graph.graph, 1))
    apply = UnsafeCloneEliminationPass(context=context, dump=lambda name, text: dumps.append(name))
    apply(graph.graph)
    graph.recompile()
    assert apply.report is not None and len(apply.report.removed) == 2 and apply.milliseconds > 0
    assert not check_clone_removal(case, graph, (1,)).errors
    assert dumps == ["post_grad.0.clone_elimination.before", "post_grad.0.clone_elimination.after"]


def test_an_id_of_another_graph_is_not_honoured():
    graph = BY_ID["cg_lowered_norm"].build()
    apply = CloneEliminationPass(context=PassContext(donated_input_ids={1}))
    apply(graph.graph)
    assert apply.report is not None and len(apply.report.removed) == 1
    assert "counts as not donated" in apply.report.kept[-1].reason


def swapped(names: tuple[str, str] = ("arg0_1", "arg1_1")) -> fx.GraphModule:
    """A post-grad `w.clone().add_(x)`, whose inputs are in another order than pre-grad: the weight comes first."""
    h = Hand(*names)
    w, x = h.ins
    h.out(h.f(A.add_.Tensor, h.f(A.clone.default, w), x))
    graph = h.module()
    annotate(graph, (torch.rand(3), torch.rand(3)))
    return graph


def pre_grad() -> tuple[fx.Graph, PassContext]:
    """`arg0_1` is the activation, and donated; `arg1_1` is the weight."""
    graph, context = fx.Graph(), PassContext()
    inputs = [graph.placeholder("arg0_1"), graph.placeholder("arg1_1")]
    graph.output((inputs[1],))
    context.donate(inputs[0])
    return graph, context


def test_a_name_is_no_identity():
    _, context = pre_grad()
    graph, apply = swapped(), CloneEliminationPass(context=context)
    apply(graph.graph)
    graph.recompile()
    assert apply.report is not None and apply.report.removed == ()
    assert "donated input 0 counts as not donated: no placeholder can be verified" in apply.report.kept[-1].reason
    weight = torch.ones(3)
    graph(weight, torch.ones(3))
    assert torch.equal(weight, torch.ones(3))


@pytest.mark.parametrize("positions, gone", [((1, 0), 0), ((0, 1), 1), ((0, 0), 0), ((2, 1), 0)])
def test_a_description_of_the_input_is_an_identity(positions: tuple[int, int], gone: int):
    _, context = pre_grad()
    graph, apply = swapped(), CloneEliminationPass(context=context)
    for index, position in enumerate(positions):
        placeholder(graph.graph, index).meta["desc"] = PlainAOTInput(position)
    apply(graph.graph)
    assert apply.report is not None and len(apply.report.removed) == gone
    other = swapped()
    for index, position in enumerate(positions):
        placeholder(other.graph, index).meta["desc"] = DummyAOTInput(position)  # counts something else
    apply(other.graph)
    assert apply.report.removed == ()


def test_a_mark_of_another_compilation_is_none_of_this_one():
    (_, other), (_, mine) = pre_grad(), pre_grad()
    for context, gone in ((other, 0), (mine, 1)):
        graph, apply = swapped(("w", "x")), CloneEliminationPass(context=mine)
        placeholder(graph.graph, 0).meta[DONATION] = context.donations[0].mark
        apply(graph.graph)
        assert apply.report is not None and len(apply.report.removed) == gone


def test_the_pass_pickles_with_what_it_was_told():
    for given in ({}, {OPS.mul_to.default: ("out",)}):
        _, context = pre_grad()
        apply = CloneEliminationPass(context=context, overwrites=given)
        graph = swapped()
        placeholder(graph.graph, 0).meta[DONATION] = context.donations[0].mark
        again = pickle.loads(pickle.dumps(apply))
        assert again.uuid() == apply.uuid() and again.overwrites == given
        again(graph.graph)
        assert again.report is not None and len(again.report.removed) == 1
        assert pickle.loads(pickle.dumps(again)).report == again.report


def test_uuid_includes_donations():
    graph, context = BY_ID["cg_two_inputs"].build(), PassContext()
    apply = CloneEliminationPass(context=context)
    before = apply.uuid()
    assert before == CloneEliminationPass().uuid()
    context.donate(placeholder(graph.graph, 0))
    assert apply.uuid() != before


def test_uuid_tells_apart_what_changes_the_result():
    """The same in another process and with another object; other donations and declarations are another key."""
    graph, other = BY_ID["cg_two_inputs"].build(), BY_ID["cg_two_inputs"].build()
    keys = []
    for given in ((graph, 0), (other, 0), (graph, 1)):
        context = PassContext()
        context.donate(placeholder(given[0].graph, given[1]))
        keys.append(CloneEliminationPass(context=context).uuid())
    assert keys[0] == keys[1] != keys[2]
    script = "from compiler.integrations.vllm import CloneEliminationPass; print(CloneEliminationPass().uuid())"
    printed = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout
    assert printed.strip() == CloneEliminationPass().uuid()
    assert CloneEliminationPass(overwrites={OPS.mul_to.default: ("out",)}).uuid() != printed.strip()


def test_the_recipe_does_what_it_says():
    """Its code, as it stands in the documentation, in a manager that calls passes as vLLM's does."""
    blocks = re.findall(r"(?:^    .*\n|^\n)+", (ROOT / "docs/recipes/vllm.md").read_text(), re.M)
    code = [textwrap.dedent(block) for block in blocks if re.search(r"^    (from|context|fused)", block, re.M)]
    assert len(code) == 3
    dumps: dict[str, str] = {}
    # Two norms in a row; the caller gives its activations up, the graph is traced with `maybe_inplace`.
    case = BY_ID["ir_two_layers"]
    graph = case.build()

    class Manager:
        passes: list = []

    names = {
        "self": Manager(),
        "lowering": lambda graph: None,
        "config": None,
        "write_dump": dumps.__setitem__,
        "ops": OPS,
    }
    exec(code[0], names)
    names["graph"] = graph.graph
    exec(code[2], names)
    names["node"] = placeholder(graph.graph, 2)
    exec(code[1], names)  # the weight, for all that the recipe knows
    assert names["context"].donated_input_ids
    for each in names["self"].passes:
        each(graph.graph)
    graph.recompile()
    assert not check_clone_removal(case, graph, (*case.extra["donated"], 2)).errors
    left = [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]
    assert "aten.clone.default" not in left and "aliascases.fused_add_rms_norm_.default" in left
    assert list(dumps) == ["post_grad.1.clone_elimination.before", "post_grad.1.clone_elimination.after"]


def test_dumps_and_timing_survive_a_failure(monkeypatch):
    def fail(*_args, **_named):
        raise StopIteration

    monkeypatch.setattr("compiler.integrations.vllm.eliminate_clones", fail)
    graph, dumps = fx.Graph(), []
    apply = CloneEliminationPass(dump=lambda name, text: dumps.append(name))
    with pytest.raises(StopIteration):
        apply(graph)
    assert dumps[-1].endswith("after") and apply.milliseconds > 0


def tokens(program, *shapes: tuple[int, ...]) -> fx.GraphModule:
    """A graph whose first dimension is known only at run time."""
    mode = FakeTensorMode(shape_env=ShapeEnv())
    inputs = [
        mode.from_tensor(
            torch.rand(shape),
            symbolic_context=StatelessSymbolicContext([DimDynamic.DYNAMIC] + [DimDynamic.STATIC] * (len(shape) - 1)),
        )
        for shape in shapes
    ]
    with mode:
        return make_fx(program, tracing_mode="real")(*inputs)


@pytest.mark.parametrize("late", [False, True])
def test_a_copy_of_any_number_of_tokens_goes_where_nothing_reads_its_source_later(late: bool):
    def program(x):
        y = x.relu()
        c = y.clone().add_(1)
        return (c, y.sum()) if late else (c,)

    graph = tokens(program, (4, 3))
    assert any(isinstance(size, torch.SymInt) for size in placeholder(graph.graph, 0).meta["val"].shape)
    apply = CloneEliminationPass()
    apply(graph.graph)
    graph.recompile()
    assert apply.report is not None and len(apply.report.removed) == (not late)
    assert all("would read what aten.add_" in remark.reason and remark.bytes == 12 for remark in apply.report.kept)
    for count in (1, 4, 9):
        x = torch.rand(count, 3) - 0.5
        assert all(map(torch.equal, graph(x.clone()), program(x)))


@pytest.mark.parametrize(
    "program, reason",
    [
        (lambda x: (x.relu()[:, :2].clone(),), "its size is not known, and its source has other strides"),
        (
            lambda x: (x.relu().view(-1).view(3, -1).clone().sum(),),
            "neither its size nor the strides of its source are known",
        ),
        (lambda x: (x.relu()[:1].clone(), x.relu()[1:].clone(), x.relu().t().clone().sum()), ""),
    ],
)
def test_copies_of_unknown_size_go_or_say_why_not(program, reason: str):
    apply = CloneEliminationPass()
    apply(tokens(program, (4, 3)).graph)
    assert apply.report is not None and [remark.reason for remark in apply.report.kept] == [reason] * bool(reason)


def test_copies_of_known_size_come_first_where_they_share_memory():
    def program(x):
        y = x.relu()
        row = y[0].clone().mul(2)
        return y.clone().add_(1), row.sum()

    apply = CloneEliminationPass()
    apply(tokens(program, (4, 3)).graph)
    assert apply.report is not None and len(apply.report.removed) == 1
    assert [remark.reason for remark in apply.report.kept] == [
        "its size is not known, and its memory is shared by copies whose size is"
    ]


def test_helpers():
    h = Hand("x", "z")
    x, z = h.ins
    y = h.f(A.t.default, h.f(A.relu.default, x))
    same = h.f(A.clone.default, y)
    dense = h.f(A.clone.default, y, memory_format=torch.contiguous_format)
    listed = h.f(OPS.shift_all_, [z, same], 1.0)
    out = h.f(A.mul.out, z, z, out=dense)
    method = h.m("add_", same, 1)
    item = h.f(operator.setitem, dense, 0, 1.0)
    read = h.f(A.sum.default, same)
    given = h.f(A.clone.default, x)
    unknown = h.f(lambda a: a, same)
    h.out((given, same, unknown))
    annotate(h.module(), [torch.rand(2, 2), torch.rand(2, 2)])
    assert clone_preserves_layout(same, y) and not clone_preserves_layout(dense, y)
    assert user_writes_to_node(listed, same) and user_writes_to_node(listed, z)
    assert user_writes_to_node(out, dense) and not user_writes_to_node(out, z)
    assert user_writes_to_node(method, same) and user_writes_to_node(item, dense)
    assert not user_writes_to_node(read, same) and user_writes_to_node(unknown, same)
    assert would_alias_graph_io(given, x) and not would_alias_graph_io(dense, y)
