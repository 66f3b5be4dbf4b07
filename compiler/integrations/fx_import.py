"""A host's FX graph as handles, for analysis: every node is imported, one that cannot be is an op of unknown behaviour.

Unlike an import for compilation, nothing is refused: what a node declares about its effects is believed, and a node that
declares nothing reads and writes all it can reach. Each op knows its node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import torch
from torch import fx
from torch._higher_order_ops.triton_kernel_wrap import get_mutated_tensors
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket
from torch.fx.node import map_aggregate
from torch.utils import _pytree as pytree
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from compiler.analysis.alias import argument_attributes, main_function
from compiler.analysis.layout_conflicts import ANY_LAYOUT, POSITIONED
from compiler.errors import CompileError
from compiler.frontend.capture import Captured, Input
from compiler.frontend.expansion import Expansion
from compiler.frontend.forms import Handle, Root
from compiler.frontend.importer import Importer
from compiler.frontend.schemas import Facts, bind, facts, overload_name
from compiler.program import Leaf
from dialects.alias import DONATED, Effects, ResultAlias, effects, results
from dialects.calls import HandleCall
from dialects.fx import CallOp, Operand

METADATA = ("val", "example_value")
"""Where hosts keep a fake tensor per node."""


@dataclass(frozen=True)
class Imported:
    """A graph as IR.

    Attributes:
        node_of: the node of each op. ops_of: the ops of each node. env: what each node evaluates to.
        reshaped: tensors whose shape, strides or storage a node changes in place, each with the last such node.
        counted: memories in which nodes count from the first byte of the storage, and no op shows it.
    """

    function: FuncOp
    node_of: dict[Operation, fx.Node]
    ops_of: dict[fx.Node, list[Operation]]
    env: dict[fx.Node, Any]
    reshaped: dict[Handle, fx.Node]
    counted: frozenset[Root]


def import_host_graph(graph: fx.Graph, example_inputs: Sequence[Any] | None, donated: Iterable[str]) -> Imported:
    """Import a graph as it is.

    Args:
        example_inputs: real tensors, which also show what shares memory; without them, the nodes' metadata.
        donated: names of placeholders whose memory the caller gives up.

    Raises:
        CompileError: metadata is missing.
    """
    owner = graph.owning_module
    module: Any = owner if owner is not None and owner.graph is graph else SimpleNamespace(graph=graph)
    importer = _HostImporter(captured_graph(module, graph, example_inputs))
    program = importer.program()
    function = main_function(program.module)
    for op, node in importer.node_of.items():
        if isinstance(op, HandleCall) and _takes_any_layout(op, node):
            op.attributes[ANY_LAYOUT] = UnitAttr()
    names = set(donated)
    given_up: list[DictionaryAttr] = []
    for attributes in argument_attributes(function):
        name = attributes.get("fx.name")
        if isinstance(name, StringAttr) and name.data in names:
            attributes[DONATED] = UnitAttr()
        given_up.append(DictionaryAttr(attributes))
    function.arg_attrs = ArrayAttr(given_up)
    return Imported(function, importer.node_of, importer.ops_of, importer.env, importer.reshaped, importer.counted())


def _takes_any_layout(op: HandleCall, node: fx.Node) -> bool:
    """Whether the node is a call of an operator that is tagged as one that takes operands with other strides."""
    called: Any = node.target
    if isinstance(called, OpOverloadPacket):
        called = getattr(called, op.target.data.rsplit(".", 1)[-1], None)
    return (
        isinstance(called, OpOverload)
        and overload_name(called) == op.target.data
        and torch.Tag.flexible_layout in called.tags
    )


def parameter_operands(op: HandleCall, form: Facts) -> dict[str, int]:
    """Operand number of each parameter that is a single tensor of this call."""
    positional = [p.name for p in form.parameters if not p.keyword_only]
    named = [
        *zip(positional, op.arguments.data, strict=False),
        *(op.keywords.data.items() if op.keywords is not None else ()),
    ]
    return {name: value.data for name, value in named if isinstance(value, Operand)}


def captured_graph(module: Any, graph: fx.Graph, example_inputs: Sequence[Any] | None) -> Captured:
    """A host's graph with what is known about its inputs: the examples, or the placeholders' metadata.

    The importer says what its outputs are (`with_outputs`).
    """
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    if example_inputs is not None and len(example_inputs) != len(placeholders):
        raise CompileError(f"the graph has {len(placeholders)} inputs, {len(example_inputs)} were given")
    inputs: list[Input] = []
    for position, node in enumerate(placeholders):
        value = example_inputs[position] if example_inputs is not None else metadata(node)
        if isinstance(value, torch.Tensor):
            # Fake tensors that share a storage are believed to; separate ones are what a host guarantees.
            inputs.append(Input(node.name, "input", value, real=True))
        else:
            inputs.append(Input(node.name, "input", None, constant=value))
    leaves = tuple(
        Leaf(i) if item.tensor is not None else Leaf(constant=item.constant) for i, item in enumerate(inputs)
    )
    tree = pytree.tree_structure(0)
    return Captured(module, tuple(inputs), tree, leaves, tree, ())


def metadata(node: fx.Node) -> Any:
    """What the node is known to evaluate to.

    Raises:
        CompileError: nothing is known.
    """
    for key in METADATA:
        if key in node.meta:
            return node.meta[key]
    raise CompileError(
        f"node {node.name} has no metadata", node=node.name, hint="give example inputs, or run fake propagation"
    )


def with_outputs(captured: Captured, output: Any) -> Captured:
    """The graph with the leaves of what its output evaluates to: a node in it may stand for a tuple of tensors."""
    leaves, tree = pytree.tree_flatten(output, is_leaf=lambda x: isinstance(x, Handle))
    return replace(captured, out_tree=tree, out_leaves=tuple(map(Leaf, range(len(leaves)))))


class _HostImporter(Importer):
    """Imports what the compiler's importer refuses as calls with declared or unknown effects."""

    def __init__(self, captured: Captured) -> None:
        super().__init__(captured)
        self.node_of: dict[Operation, fx.Node] = {}
        self.ops_of: dict[fx.Node, list[Operation]] = {}
        self.env: dict[fx.Node, Any] = {}
        self.reshaped: dict[Handle, fx.Node] = {}
        self._counted: set[Root] = set()
        self._placed: list[tuple[Root, Root]] = []
        self._current: fx.Node | None = None
        self._graph = captured.graph.graph
        self.expander.copies = False  # what is a view must stay one: the graph is not rewritten from this import

    def run(self, graph: Any, inputs: Sequence[Any]) -> Any:
        if graph.graph is self._graph:
            self.env = dict(zip((n for n in self._graph.nodes if n.op == "placeholder"), inputs, strict=True))
        output = super().run(graph, inputs)
        if graph.graph is self._graph:
            self.captured = with_outputs(self.captured, output)
        return output

    def _node(self, graph: Any, node: fx.Node, env: dict[fx.Node, Any]) -> Any:
        first = len(self.ops)
        if node.graph is self._graph:
            self._current = node
        try:
            value = super()._node(graph, node, env)
        except Exception as error:
            if node.op == "get_attr" or self._written_since(first):
                raise
            del self.ops[first:]
            value = self._opaque(node, env, error)
        if node.graph is self._graph:
            self.env[node] = value
            self.ops_of[node] = self.ops[first:]
            self.node_of.update((op, node) for op in self.ops[first:])
        return value

    def _emit(self, expansion: Expansion, operands: list[Handle]) -> Any:
        self._reshape(operands[number] for number, _ in expansion.rebound)
        roots = [handle.root for handle in operands]
        value = super()._emit(expansion, operands)
        targets = {step.properties["target"].data for step in expansion.steps if "target" in step.properties}  # type: ignore[attr-defined]
        if not targets or not targets <= POSITIONED:
            self._counted.update(roots[slot] for slot in expansion.counted if slot < len(roots))
        if isinstance(value, Handle):
            self._placed += [(value.root, roots[operand]) for _, operand in expansion.placed if operand < len(roots)]
        return value

    def counted(self) -> frozenset[Root]:
        """Memories that a node counts in, or in a copy of their storage, and no op on them shows it."""
        for copy, root in reversed(self._placed):
            if copy.counted:
                self._counted.add(root)
        return frozenset(self._counted)

    def _reshape(self, handles: Iterable[Handle]) -> None:
        assert self._current is not None, "constants are no operands of a node"
        self.reshaped.update((handle, self._current) for handle in handles)

    def _higher_order(self, target: HigherOrderOperator, args: Any, kwargs: Any) -> Any:
        if target.name() == "control_deps" and isinstance(args[1], fx.GraphModule) and not kwargs:
            return self.run(args[1], args[2:])  # what it waits for, it does not look at
        return super()._higher_order(target, args, kwargs)

    def _written_since(self, first: int) -> bool:
        """Whether a node that failed half-way had already changed which handle an operand is."""
        return any(isinstance(op, HandleCall) and op.effects.writes() != () for op in self.ops[first:])

    def _opaque(self, node: fx.Node, env: dict[fx.Node, Any], error: Exception) -> Any:
        """One call for a node whose inside is not known."""
        args = map_aggregate(node.args, lambda a: env[a] if isinstance(a, fx.Node) else a)
        kwargs = map_aggregate(node.kwargs, lambda a: env[a] if isinstance(a, fx.Node) else a)
        handles = [h for h in pytree.tree_leaves((args, kwargs), is_leaf=_is_handle) if _is_handle(h)]
        handles = list({id(h): h for h in handles}.values())
        try:
            value = metadata(node) if node.users else None
        except CompileError:
            raise error from None
        tensors, tree = pytree.tree_flatten(value)
        declared, aliased = _declared(node, args, kwargs, handles)
        if declared.data is None and not isinstance(node.target, HigherOrderOperator):
            self._reshape(handles)  # for all that is known
        forms, entries, sources = [], [], []
        for position, tensor in enumerate(tensors):
            if not isinstance(tensor, torch.Tensor):
                continue
            alias = aliased(position)
            if alias.kind == "same":
                forms.append(handles[alias.operand].form)
                sources.append(handles[alias.operand].root)
            else:
                form = (
                    self.forms.of(tensor, 0)
                    if alias.kind == "fresh"
                    else self.forms.get(tensor.dtype, tuple(tensor.shape), tensor.stride(), 0, "")
                )
                forms.append(form)
                sources.append(Root(1 << 62))
            entries.append(alias)
        op = CallOp.create(
            operands=[h.value for h in handles],
            result_types=[form.type for form in forms],
            properties={
                "target": StringAttr(_name(node)),
                "arguments": ArrayAttr([Operand(i) for i in range(len(handles))]),
                "effects": declared,
                "aliases": results(entries),
            },
            location=self._location,
        )
        self.ops.append(op)
        for handle in handles:
            handle.root.written = True
        made = iter(Handle(result, form, root) for result, form, root in zip(op.results, forms, sources, strict=True))
        return pytree.tree_unflatten([next(made) if isinstance(t, torch.Tensor) else t for t in tensors], tree)


def _is_handle(value: Any) -> bool:
    return isinstance(value, Handle)


def _name(node: fx.Node) -> str:
    target = node.target
    if isinstance(target, str):
        return f"{node.op}.{target}"
    return target.name() if isinstance(target, HigherOrderOperator) else getattr(target, "__name__", str(target))


def _declared(
    node: fx.Node, args: Any, kwargs: dict[str, Any], handles: list[Handle]
) -> tuple[Effects, Callable[[int], ResultAlias]]:
    """Effects and result aliases that an operator declares: in its schema, or a higher-order one in its arguments; else unknown."""
    number = {id(handle): i for i, handle in enumerate(handles)}

    def numbers(values: Iterable[Any]) -> list[int]:
        return sorted({number[id(h)] for h in pytree.tree_leaves(list(values), is_leaf=_is_handle) if _is_handle(h)})

    target = node.target
    name = target.name() if isinstance(target, HigherOrderOperator) else ""
    every = range(len(handles))
    table = kwargs.get("operand_output_aliases")
    if table is not None and "args" in kwargs:
        # A kernel call: full argument position -> result position.
        written = {int(result): kwargs["args"][int(position)] for position, result in table.items()}
        owner = {result: number[id(h)] for result, h in written.items() if _is_handle(h)}
        if len(owner) == len(written):
            return effects(
                every, sorted(set(owner.values()))
            ), lambda i: ResultAlias("same", owner[i]) if i in owner else ResultAlias("fresh")
    if name in ("auto_functionalized", "auto_functionalized_v2") and args and isinstance(args[0], OpOverload):
        return _functionalized(args[0], kwargs, numbers, len(handles))
    if name == "triton_kernel_wrapper_mutation" and isinstance(kwargs.get("kwargs"), dict):
        named = kwargs["kwargs"]
        return effects(every, numbers(named[n] for n in _written_by_kernel(node))), lambda i: ResultAlias("may")
    if name == "triton_kernel_wrapper_functional":
        return effects(every, ()), lambda i: ResultAlias("fresh")
    if isinstance(target, OpOverload) and not (facts(target).silent or facts(target).metadata):
        written = [value for parameter, value in bind(facts(target), args, kwargs) if parameter.writes]
        return effects(every, numbers(written)), lambda i: ResultAlias("may")
    return Effects(None), lambda i: ResultAlias("may")


def _functionalized(
    op: OpOverload, kwargs: dict[str, Any], numbers: Callable[[Iterable[Any]], list[int]], count: int
) -> tuple[Effects, Callable[[int], ResultAlias]]:
    """What an auto-functionalised call declares. It writes in place again before it runs: a writer of the operands it names,
    whose last results are these operands or copies of them."""
    names = [a.name for a in op._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    written = kwargs["_all_bases"] if "_all_bases" in kwargs else [kwargs.get(name) for name in names]
    first = max(1, len(op._schema.returns))

    def alias(position: int) -> ResultAlias:
        if position < first:
            return ResultAlias("fresh")
        operand = numbers(written[position - first : position - first + 1])
        return ResultAlias("may", operand[0]) if len(operand) == 1 else ResultAlias("may")

    lists = any(isinstance(value, (list, tuple)) for value in written) or any(
        str(r.type) != "Tensor" for r in op._schema.returns
    )
    return effects(range(count), numbers(written)), (lambda i: ResultAlias("may")) if lists else alias


def _written_by_kernel(node: fx.Node) -> list[str]:
    """Names of the arguments that a Triton kernel writes, as far as PyTorch finds out; else all."""
    kernel: Any = node.kwargs
    named = kernel["kwargs"]
    known = {name: metadata(value) if isinstance(value, fx.Node) else value for name, value in named.items()}
    try:
        return get_mutated_tensors(
            kernel["kernel_idx"], kernel["constant_args_idx"], known, kernel.get("tma_descriptor_metadata", {})
        )
    except Exception:  # no Triton, no such kernel, or a kernel that its analysis does not understand
        return list(named)


__all__ = ["Imported", "METADATA", "captured_graph", "import_host_graph", "metadata", "parameter_operands"]
