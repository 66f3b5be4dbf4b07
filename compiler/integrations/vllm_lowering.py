"""A host's FX graph with interchangeable operators: made functional with donation on record, and lowered to what runs.

`functionalize` goes before the host's own functionalization, `lower` after it and before clone elimination: it leaves
`clone, clone, in-place operator` where it chooses an implementation that works in place.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_arg
from xdsl.dialects.builtin import ModuleOp, StringAttr

from compiler.analysis.alias import argument_attributes
from compiler.frontend.schemas import bind, facts
from compiler.integrations.fx_import import METADATA, import_host_graph
from compiler.integrations.vllm import PassContext
from compiler.integrations.vllm_ir import ChooseLater, InterchangeableOp, Provider, choose_later
from compiler.transforms.donate_activations import donate_activations
from compiler.transforms.lower_implementations import Copy, select
from dialects.alias import DONATED
from dialects.calls import HandleCall
from dialects.vllm_ir import ImplementationData, ImplementedCallOp

CLONE = torch.ops.aten.clone.default


def functionalize(
    graph: fx.Graph,
    operators: Sequence[InterchangeableOp],
    context: PassContext | None = None,
    example_inputs: Sequence[Any] | None = None,
) -> tuple[fx.Node, ...]:
    """Replace overloads that may consume their activations by the native form; the placeholders that are donated.

    Args:
        context: told of each of them.

    Raises:
        CompileError: an activation, or a view of it, is used afterwards. The graph is as it was.
    """
    function = import_host_graph(graph, example_inputs, ()).function
    module = function.parent_op()
    assert isinstance(module, ModuleOp)
    choose_later(module, operators)
    donate_activations(function)
    native: dict[Any, Any] = {each.maybe_inplace: each.native for each in operators if each.maybe_inplace is not None}
    for node in graph.nodes:
        if node.op == "call_function":
            node.target = native.get(node.target, node.target)
    given = [a.get("fx.name") for a in argument_attributes(function) if DONATED in a]
    names = {name.data for name in given if isinstance(name, StringAttr)}
    donated = tuple(node for node in graph.nodes if node.op == "placeholder" and node.name in names)
    if context is not None:
        for node in donated:
            context.donate(node)
    return donated


def lower(
    graph: fx.Graph,
    operators: Sequence[InterchangeableOp],
    priority: Sequence[str] = (),
    example_inputs: Sequence[Any] | None = None,
) -> dict[str, str]:
    """Replace calls of native forms by the implementations of choice; the name of each replaced node, and its provider."""
    imported = import_host_graph(graph, example_inputs, ())
    natives: dict[Any, InterchangeableOp] = {each.native: each for each in operators}
    chooser = ChooseLater(operators)
    lowered: dict[str, str] = {}
    for node in list(graph.nodes):
        each = natives.get(node.target) if node.op == "call_function" else None
        ops = imported.ops_of.get(node, ())
        if each is None or len(ops) != 1 or not isinstance(ops[0], HandleCall):
            continue
        call = chooser.implemented(ops[0])
        selected = None if call is None else select(call, priority)
        single = len(each.facts.returns) == 1
        if call is None or selected is None or not (single or all(u.target is operator.getitem for u in node.users)):
            continue
        provider = next(p for p in each.providers if p.name == selected[0].name)
        with graph.inserting_before(node):
            values = _emit(graph, node, call, provider, *selected)
        if single:
            node.replace_all_uses_with(values[0])
        for user in () if single else tuple(node.users):
            user.replace_all_uses_with(values[user.args[1]])
            graph.erase_node(user)
        graph.erase_node(node)
        lowered[node.name] = provider.name
    return lowered


def _emit(
    graph: fx.Graph,
    node: fx.Node,
    call: ImplementedCallOp,
    provider: Provider,
    chosen: ImplementationData,
    copies: dict[int, Copy],
) -> list[fx.Node]:
    """Emit the copies and the provider's call; the nodes that the results of the native form become."""
    handles = [n for _, value in bind(facts(provider.op), node.args, node.kwargs) for n in _nodes(value)]
    clones: dict[int, fx.Node] = {}
    for number, copy in copies.items():
        keywords: dict[str, Any] = {"memory_format": torch.contiguous_format} if copy.row_major else {}
        clone = clones[number] = graph.call_function(CLONE, (handles[number],), keywords)
        clone.meta = {k: v for k, v in node.meta.items() if k not in METADATA}
        for key in METADATA:
            if isinstance(value := handles[number].meta.get(key), torch.Tensor):
                clone.meta[key] = CLONE(value.detach(), **keywords)
    position = iter(range(len(handles)))
    arguments = {
        p.name: map_arg(value, lambda n: clones.get(next(position), n))
        for p, value in bind(facts(provider.op), node.args, node.kwargs)
    }
    positional = [p for p in facts(provider.op).parameters if not p.keyword_only]
    args = []
    for parameter in positional:
        if parameter.name not in arguments:
            break
        args.append(arguments.pop(parameter.name))
    made = graph.call_function(provider.op, tuple(args), arguments)
    made.meta = {k: v for k, v in node.meta.items() if k not in METADATA}
    values: list[fx.Node] = []
    for index, output in enumerate(chosen.gives):
        if output.kind == "write":
            values.append(clones[output.index])
            continue
        value = made if len(chosen.results.data) == 1 else graph.call_function(operator.getitem, (made, output.index))
        values.append(value)
        for key in METADATA:
            if key in node.meta:
                known = node.meta[key]
                value.meta[key] = known[index] if isinstance(known, (tuple, list)) else known
    _describe_call(made, node, chosen, clones, handles)
    return values


def _describe_call(
    made: fx.Node, node: fx.Node, chosen: ImplementationData, clones: dict[int, fx.Node], handles: list[fx.Node]
) -> None:
    """Metadata of the provider's call itself: what it returns."""
    for key in METADATA:
        if key not in node.meta:
            continue
        known = node.meta[key] if isinstance(node.meta[key], (tuple, list)) else (node.meta[key],)
        given = {output.index: known[i] for i, output in enumerate(chosen.gives) if output.kind == "result"}
        results = [
            clones.get(alias.operand, handles[max(alias.operand, 0)]).meta.get(key)
            if alias.kind == "same"
            else given[number]
            for number, alias in enumerate(chosen.results.data)
        ]
        made.meta[key] = None if not results else results[0] if len(results) == 1 else tuple(results)


def _nodes(value: Any) -> list[fx.Node]:
    found: list[fx.Node] = []
    map_arg(value, lambda n: found.append(n) or n)
    return found


__all__ = ["functionalize", "lower"]
