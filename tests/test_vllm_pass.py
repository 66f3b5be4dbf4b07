"""The drop-in pass for vLLM: donations by identity, helper answers, cache key, dumps."""

from __future__ import annotations

import operator

import pytest
import torch
from custom_ops import OPS
from fx_graphs import BY_ID
from fx_oracle import Hand, annotate, check_clone_removal
from torch import fx

from compiler.integrations.vllm import (
    CloneEliminationPass,
    PassContext,
    UnsafeCloneEliminationPass,
    clone_preserves_layout,
    user_writes_to_node,
    would_alias_graph_io,
)

A = torch.ops.aten


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


def test_uuid_includes_donations():
    graph, context = BY_ID["cg_two_inputs"].build(), PassContext()
    apply = CloneEliminationPass(context=context)
    before = apply.uuid()
    assert before == CloneEliminationPass().uuid()
    context.donate(placeholder(graph.graph, 0))
    assert apply.uuid() != before


def test_dumps_and_timing_survive_a_failure():
    graph, dumps = fx.Graph(), []
    apply = CloneEliminationPass(dump=lambda name, text: dumps.append(name))
    with pytest.raises(StopIteration):
        apply(graph)  # no output node
    assert dumps[-1].endswith("after") and apply.milliseconds > 0


def test_symbolic_sizes_keep_copies():
    def program(x):
        y = x.relu()
        return y.clone().add_(1), y.sum()

    from torch.fx.experimental.proxy_tensor import make_fx

    graph = make_fx(program, tracing_mode="symbolic")(torch.rand(4, 3))
    apply = CloneEliminationPass()
    apply(graph.graph)
    assert apply.report is not None and not apply.report.removed and apply.report.kept


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
