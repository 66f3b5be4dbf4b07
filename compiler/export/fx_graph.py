"""Functional IR as an out-of-place FX graph that computes the same values wherever it is replayed.

Value calls become calls of their overloads, windows become plain views and scatters, and an operator without an
out-of-place twin runs on copies of what it writes (`value_call`). No node writes an operand.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import fx
from torch._ops import OpOverload
from torch.utils import _pytree as pytree
from xdsl.dialects.builtin import DictionaryAttr, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue

from compiler.errors import CompileError, UnsupportedError
from compiler.export.fx_windows import Windows
from compiler.locations import source_of
from compiler.reference import constant_tensor
from compiler.torch_types import DTYPES, overload, python_argument
from dialects.calls import ValueCall
from dialects.control import ValueCondOp, ValueWhileOp
from dialects.fx import ConstantOp, EmptyOp, ExtractOp, InsertOp, ReinterpretOp
from dialects.nki import KernelCall
from dialects.types import Geometry, element_name

A = torch.ops.aten
CLONE = "aten.clone.default"
VIEWS = frozenset({A.slice.Tensor, A.reshape.default, A.permute.default})
"""Views of values, which never differ from one another while their arguments are the same."""


def value_call(
    op: OpOverload, written: Sequence[int], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Any, ...]:
    """Call a writing operator as a function of values: it runs on copies of the tensors it writes.

    Args:
        written: which tensors among the arguments it writes, counted from the left, lists included.

    Returns:
        The operator's own tensor results, then the new value of every written tensor.
    """
    leaves, tree = pytree.tree_flatten((list(args), dict(kwargs)))
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    for number in written:
        leaves[places[number]] = leaves[places[number]].clone()
    positional, named = pytree.tree_unflatten(leaves, tree)
    own = pytree.tree_leaves(op(*positional, **named))
    return (*(r for r in own if isinstance(r, torch.Tensor)), *(leaves[places[number]] for number in written))


@dataclass
class Origin:
    """What is known about the node that an operation came from.

    Attributes:
        meta: metadata that its successors inherit.
        roots: names of the states it writes, in the order of its operands.
        device: the device it mentions, or None.
        kernel: for a kernel call, makes operator and arguments from the tensor operands.
        single: whether it gives one tensor, not a tuple.
    """

    meta: dict[str, Any] = field(default_factory=dict)
    roots: tuple[str, ...] = ()
    device: Any = None
    kernel: Callable[[Sequence[fx.Node]], tuple[Any, tuple[Any, ...], dict[str, Any]]] | None = None
    single: bool = True


class FxExporter:
    """Appends the body of a purified function to an FX graph."""

    def __init__(
        self,
        graph: fx.Graph,
        owner: torch.nn.Module,
        origin: Callable[[Operation], Origin],
        fake: Callable[[torch.dtype, Sequence[int]], dict[str, Any]],
        device: torch.device | None = None,
    ) -> None:
        """
        Args:
            owner: module that will hold the graph; constants become its buffers.
            origin: what is known about the node an operation came from.
            fake: metadata of a node that gives a tensor of this type.
            device: where helper tensors go, None for the default.
        """
        self.graph, self.owner, self._origin_of, self._fake = graph, owner, origin, fake
        self._device = device
        self.windows = Windows(self.emit, device)
        self.env: dict[SSAValue, fx.Node] = {}
        self._origin = Origin()
        self._state: dict[SSAValue, str] = {}
        self._named_nodes: set[fx.Node] = set()
        self._views: dict[Any, fx.Node] = {}
        self._constants = 0
        self._dtypes: dict[Any, torch.dtype] = {}

    def run(self, function: FuncOp, parameters: Sequence[fx.Node]) -> list[fx.Node]:
        """The nodes of the function's results, computed from those of its parameters."""
        block = function.body.block
        self.env.update(zip(block.args, parameters, strict=True))
        for op in block.ops:
            if isinstance(op, ReturnOp):
                self._origin = Origin()
                return [self.env[value] for value in op.operands]
            self._origin = self._origin_of(op)
            count = len(self.graph.nodes)
            self._operation(op)
            if self._origin.roots and isinstance(op, (ValueCall, InsertOp)) and len(self.graph.nodes) > count:
                self._name_states(op)
        raise CompileError("the function has no return")

    def _name_states(self, op: Operation) -> None:
        """Call the new values of a state after it: `<state>_modified`."""
        roots = self._origin.roots
        if isinstance(op, InsertOp):
            states = {op.result: self._state.get(op.value) or roots[0]}
        elif isinstance(op, KernelCall):
            # In the order of the operands that they are the new values of.
            states = {op.outs[result]: root for (_, result), root in zip(sorted(op.stored), roots, strict=False)}
        elif isinstance(op, ValueCall) and op.writes is not None:
            written = op.outs[len(op.outs) - len(op.writes.writes() or ()) :]
            states = dict(zip(written, roots, strict=False))
        else:
            states = {op.results[0]: roots[0]} if op.results else {}
        for value, root in states.items():
            self._state[value] = root
            node = self.env.get(value)
            if node is not None and node.op == "call_function" and node not in self._named_nodes:
                self._named_nodes.add(node)
                node._rename(f"{root}_modified")

    def emit(
        self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dtype: torch.dtype, sizes: Sequence[int]
    ) -> fx.Node:
        """A node that gives one tensor; a view that is there already serves again."""
        if target not in VIEWS:
            return self._node(target, args, kwargs, self._fake(dtype, sizes))
        key = (target, args[0], str(args[1:]))
        node = self._views.get(key)
        if node is None:
            node = self._views[key] = self._node(target, args, kwargs, self._fake(dtype, sizes))
        return node

    def _node(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], meta: dict[str, Any]) -> fx.Node:
        node = self.graph.create_node("call_function", target, args, kwargs)
        node.meta.update(self._origin.meta)
        node.meta.update(meta)
        return node

    # -- operations ----------------------------------------------------------------------------

    def _operation(self, op: Operation) -> None:
        operands = [self.env[value] for value in op.operands]
        match op:
            case ValueCall():
                self._value_call(op, operands)
            case ExtractOp():
                dtype, shape = tensor_type(op.base)
                self.env[op.value] = self.windows.extract(operands[0], dtype, shape, op.window.data)
            case InsertOp():
                dtype, shape = tensor_type(op.result)
                base = operands[1] if len(operands) > 1 else None
                self.env[op.result] = self.windows.insert(operands[0], base, dtype, shape, op.window.data)
            case ReinterpretOp():
                source, have = tensor_type(op.value)
                self.env[op.result] = self.reinterpret(operands[0], source, have, *tensor_type(op.result))
            case EmptyOp():
                if not all(_copies(use.operation) for use in op.value.uses):
                    self.env[op.value] = self.windows.zeros(*tensor_type(op.value))
                else:
                    self.env[op.value] = None  # type: ignore[assignment]
            case ConstantOp():
                self.env[op.value] = self._constant(op)
            case ValueCondOp() | ValueWhileOp():
                location, node = source_of(op)
                kind, way_out = (
                    ("branch", "compute both sides and choose with torch.where")
                    if isinstance(op, ValueCondOp)
                    else ("loop", "unroll the loop")
                )
                raise UnsupportedError(
                    f"a {kind} on values known only at run time has no out-of-place form in an FX graph", location=location,
                    node=node, hint=f"{way_out}; compiler.compile(program, inputs) keeps it, for XLA",
                )  # fmt: skip
            case _:
                location, node = source_of(op)
                raise UnsupportedError(
                    f"{op.name} has no form in an FX graph", location=location, node=node,
                    hint="compile the program with compiler.compile(program, inputs)",
                )  # fmt: skip

    def reinterpret(
        self, value: fx.Node, source: torch.dtype, have: tuple[int, ...], dtype: torch.dtype, sizes: tuple[int, ...]
    ) -> fx.Node:
        """The same bytes as another dtype."""
        if source == dtype:
            return value
        dense = self.emit(A.contiguous.default, (value,), {}, source, have) if math.prod(have) > 1 else value
        return self.emit(A.view.dtype, (dense, dtype), {}, dtype, sizes)

    def _constant(self, op: ConstantOp) -> fx.Node:
        while hasattr(self.owner, f"_constant_{self._constants}"):
            self._constants += 1
        name = f"_constant_{self._constants}"
        self.owner.register_buffer(name, constant_tensor(op))
        node = self.graph.get_attr(name)
        node.meta.update(self._fake(*tensor_type(op.value)))
        return node

    # -- calls ---------------------------------------------------------------------------------

    def _value_call(self, op: ValueCall, operands: list[fx.Node]) -> None:
        target = op.target.data
        if isinstance(op, KernelCall):
            self._kernel(op, operands)
            return
        if target == CLONE and isinstance(op.args[0].owner, ValueCall):
            self.env[op.outs[0]] = operands[0]  # of a fresh value nobody needs a copy
            return
        if _copies(op):
            self.env[op.outs[0]] = self._copy(op, operands[-1])
            return
        args = tuple(python_argument(a, operands) for a in op.arguments.data)
        kwargs = _named(op.keywords, operands)
        function = cast(OpOverload, overload(target))
        self._place(function, kwargs)
        if op.writes is not None:
            written = op.writes.writes() or ()
            call = self._tuple(value_call, (function, list(written), list(args), kwargs), {})
            self._items(op, call, range(len(op.outs)))
            return
        returns = [str(r.type) for r in function._schema.returns]
        if returns == ["Tensor"]:
            self._single(op, function, args, kwargs)
            return
        positions = [i for i, kind in enumerate(returns) if "Tensor" in kind]
        self._items(op, self._tuple(function, args, kwargs), range(len(op.outs)) if len(returns) == 1 else positions)

    def _single(self, op: ValueCall, function: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """One result, in the type of the memory it is stored to: the twin of an in-place operator may promote."""
        dtype, sizes = tensor_type(op.outs[0])
        promoted = self._promoted(op) if self._origin.roots else dtype
        if promoted == dtype:
            self.env[op.outs[0]] = self.emit(function, args, kwargs, dtype, sizes)
            return
        value = self.emit(function, args, kwargs, promoted, sizes)
        self.env[op.outs[0]] = self.emit(A._to_copy.default, (value,), {"dtype": dtype}, dtype, sizes)

    def _promoted(self, op: ValueCall) -> torch.dtype:
        """The dtype that the overload gives for these operands."""
        key = (op.target.data, op.arguments, op.keywords, *(operand.type for operand in op.args))
        found = self._dtypes.get(key)
        if found is None:
            operands = []
            for value in op.args:
                dtype, sizes = tensor_type(value)
                operands.append(torch.empty(sizes, dtype=dtype, device="meta"))
            kwargs = _named(op.keywords, operands)
            kwargs.update((n, "meta") for n, v in kwargs.items() if isinstance(v, torch.device))
            with torch.no_grad():
                result = overload(op.target.data)(*(python_argument(a, operands) for a in op.arguments.data), **kwargs)
            found = self._dtypes[key] = result.dtype
        return found

    def _kernel(self, op: ValueCall, operands: list[fx.Node]) -> None:
        """The host's own call with values for handles: what it writes, it gives back."""
        make = self._origin.kernel
        if make is None:
            location, node = source_of(op)
            raise UnsupportedError("a kernel call inside a nested graph", location=location, node=node,
                                   hint="inline the nested graph first")  # fmt: skip
        target, args, kwargs = make(operands)
        if self._origin.single:
            self.env[op.outs[0]] = self.emit(target, args, kwargs, *tensor_type(op.outs[0]))
        else:
            self._items(op, self._tuple(target, args, kwargs), range(len(op.outs)))

    def _tuple(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> fx.Node:
        return self._node(target, args, kwargs, {})

    def _items(self, op: ValueCall, call: fx.Node, positions: Sequence[int]) -> None:
        for result, position in zip(op.outs, positions, strict=True):
            if result.first_use is not None:
                self.env[result] = self.emit(operator.getitem, (call, position), {}, *tensor_type(result))

    def _copy(self, op: ValueCall, source: fx.Node) -> fx.Node:
        """The source as the destination's type: what `copy_` stores."""
        dtype, sizes = tensor_type(op.outs[0])
        have, shape = tensor_type(op.args[-1])
        if have != dtype:
            source = self.emit(A._to_copy.default, (source,), {"dtype": dtype}, dtype, shape)
        if shape != sizes:
            source = self.emit(A.expand.default, (source, list(sizes)), {}, dtype, sizes)
        return source

    def _place(self, function: OpOverload, kwargs: dict[str, Any]) -> None:
        """The device that the program mentioned, which is not where the import computed."""
        for formal in function._schema.arguments:
            if "Device" in str(formal.type) and formal.name in kwargs:
                if self._origin.device is None:
                    del kwargs[formal.name]
                else:
                    kwargs[formal.name] = self._origin.device


def _copies(op: Operation) -> bool:
    """Whether an operation gives its second operand in the type of the first, whose elements nobody looks at."""
    if not isinstance(op, ValueCall) or op.target.data != "aten.copy.default" or len(op.args) != 2:
        return False
    return isinstance(op.args[0].owner, EmptyOp)


def _named(keywords: DictionaryAttr | None, operands: Sequence[Any]) -> dict[str, Any]:
    return {name: python_argument(value, operands) for name, value in keywords.data.items()} if keywords else {}


def tensor_type(value: SSAValue) -> tuple[torch.dtype, tuple[int, ...]]:
    """Dtype and shape of a value."""
    kind = cast("TensorType[Attribute]", value.type)
    return DTYPES[element_name(kind.element_type)], kind.get_shape()


def permuted(window: Geometry) -> list[int]:
    """Dimensions of a dense window from the outermost in memory inwards, as `memory_order` lists their sizes."""
    dimensions = range(len(window.sizes))
    return list(dimensions) if 0 in window.sizes else sorted(dimensions, key=lambda i: (-window.strides[i], i))


__all__ = ["FxExporter", "Origin", "permuted", "tensor_type", "value_call"]
