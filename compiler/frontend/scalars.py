"""In a graph, a number taken from the data of a tensor (`x.item()`) is a 0-d tensor: f64, i64 or bool, as Python's are.

Arithmetic among such numbers becomes operators on those tensors, and an operator on tensors that is given one becomes its
overload that takes a tensor in the number's place, found by schema. The type of the result is that with a number: it raises
the category of a tensor's type, not the width. A size, an index or a branch cannot depend on data and is refused.
"""

from __future__ import annotations

import itertools
import math
import operator
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload

from compiler.errors import UnsupportedError
from compiler.frontend.sources import node_source

aten = torch.ops.aten

SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)

_ARITHMETIC: dict[Any, OpOverload] = {
    operator.add: aten.add.Tensor, operator.sub: aten.sub.Tensor, operator.mul: aten.mul.Tensor,
    operator.truediv: aten.div.Tensor, operator.mod: aten.remainder.Tensor, operator.pow: aten.pow.Tensor_Tensor,
    operator.eq: aten.eq.Tensor, operator.ne: aten.ne.Tensor, operator.lt: aten.lt.Tensor, operator.le: aten.le.Tensor,
    operator.gt: aten.gt.Tensor, operator.ge: aten.ge.Tensor, operator.and_: aten.bitwise_and.Tensor,
    operator.or_: aten.bitwise_or.Tensor, operator.floordiv: aten.floor_divide.default,
    torch.sym_max: aten.maximum.default, torch.sym_min: aten.minimum.default,
}  # fmt: skip
_FUNCTIONS: dict[Any, OpOverload] = {
    operator.neg: aten.neg.default, abs: aten.abs.default, operator.abs: aten.abs.default, torch.sym_not: aten.logical_not.default,
    math.floor: aten.floor.default, math.ceil: aten.ceil.default, math.trunc: aten.trunc.default,
} | {
    getattr(torch, f"_sym_{name}"): getattr(aten, name).default
    for name in ("sqrt", "cos", "cosh", "sin", "sinh", "tan", "tanh", "asin", "acos", "atan", "log2")
    if hasattr(torch, f"_sym_{name}")
}  # fmt: skip

_ASSERTIONS = frozenset(
    {
        aten._assert_scalar.default,
        aten.sym_constrain_range.default,
        aten.sym_constrain_range_for_size.default,
        torch._check,
    }
)
"""What states a fact about a number and computes nothing."""

TAKES = frozenset({aten._local_scalar_dense.default, aten.item.default})
"""What takes the number out of a tensor."""

_FILLED = frozenset({aten.full, aten.full_like, aten.new_full, aten.scalar_tensor})
"""Factories whose every element is the number."""

_FACTORS = (("alpha", "other"), ("value", "tensor1"))
"""Of add and sub, addcmul and addcdiv: the number, and the operand that it multiplies first."""


def without_numbers(graph: fx.GraphModule) -> fx.GraphModule:
    """A graph that takes no numbers from data; the given one stays as it is, and is the result if it takes none."""
    if not any(node.target in TAKES for node in graph.graph.nodes):
        return graph
    copy, known = fx.Graph(), {}
    copy.output(copy.graph_copy(graph.graph, known))
    found = fx.GraphModule(graph, copy)
    numbers_to_tensors(found)
    return found


def numbers_to_tensors(graph: fx.GraphModule) -> None:
    """Rewrite the graph in place."""
    numbers: dict[fx.Node, fx.Node] = {}
    for node in list(graph.graph.nodes):
        if node.target in TAKES:
            numbers[node] = _taken(graph.graph, node)
        elif numbers and any(n in numbers for n in node.all_input_nodes):
            if node.op == "output":
                node.args = fx.map_arg(node.args, lambda n: numbers.get(n, n))
            elif node.target not in _ASSERTIONS:
                _replaced(graph.graph, node, numbers)
    for node in reversed(graph.graph.nodes) if numbers else ():
        if node in numbers or node.target in _ASSERTIONS:
            graph.graph.erase_node(node)
    if numbers:
        graph.recompile()


def _taken(graph: fx.Graph, node: fx.Node) -> fx.Node:
    """The element as it is now: later writes do not change it."""
    source: Any = node.args[0]
    with graph.inserting_before(node):
        copy = _call(graph, node, aten._to_copy.default, (source,), {"dtype": _type(node.meta["val"])})
        return _call(graph, node, aten.view.default, (copy, []))


def _replaced(graph: fx.Graph, node: fx.Node, numbers: dict[fx.Node, fx.Node]) -> None:
    value = node.meta.get("val")
    with graph.inserting_before(node):
        if isinstance(value, SYMBOLIC):
            numbers[node] = _arithmetic(graph, node, numbers)
        elif isinstance(node.target, OpOverload) and (one := _for_one(node.target)) is not None:
            _each(graph, node, node.target, one, numbers)
        elif isinstance(node.target, OpOverload):
            node.replace_all_uses_with(_operator(graph, node, node.target, numbers))
            graph.erase_node(node)
        else:
            raise _refusal(node, "a number from data")


def _arithmetic(graph: fx.Graph, node: fx.Node, numbers: dict[fx.Node, fx.Node]) -> fx.Node:
    """A number computed from numbers, in Python's types: one float makes all floats, and so does a true division."""
    target: Any = node.target
    kind = _type(node.meta["val"])
    operands = [_tensor(graph, node, a, numbers) for a in node.args]
    if target in (torch.sym_float, torch.sym_int):
        return _call(graph, node, aten._to_copy.default, (operands[0],), {"dtype": kind})
    if target in _FUNCTIONS:
        if kind is torch.float64 or target is math.trunc:
            operands = [_call(graph, node, aten._to_copy.default, (operands[0],), {"dtype": torch.float64})]
        made = _call(graph, node, _FUNCTIONS[target], tuple(operands))
    elif target in _ARITHMETIC:
        if kind is torch.float64:
            operands = [_call(graph, node, aten._to_copy.default, (o,), {"dtype": kind}) for o in operands]
        made = _call(graph, node, _ARITHMETIC[target], tuple(operands))
    else:
        raise _refusal(node, f"{getattr(target, '__name__', target)} of a number from data")
    return _call(graph, node, aten._to_copy.default, (made,), {"dtype": kind})


def _operator(graph: fx.Graph, node: fx.Node, target: OpOverload, numbers: dict[fx.Node, fx.Node]) -> fx.Node:
    named = _named(node, target)
    result = node.meta.get("val")
    given = [name for name, value in named.items() if isinstance(value, fx.Node) and value in numbers]
    if not given or any(n in numbers for name, value in named.items() if name not in given for n in _nodes(value)):
        raise _refusal(node, f"a size, an index or a list of {target} depends on data")
    if target.overloadpacket in _FILLED and isinstance(result, torch.Tensor):
        scalar = _call(graph, node, aten._to_copy.default, (numbers[named[given[0]]],), {"dtype": result.dtype})
        spread = _call(graph, node, aten.expand.default, (scalar, list(result.shape)))
        return _call(graph, node, aten.clone.default, (spread,), {"memory_format": torch.contiguous_format})
    for factor, operand in _FACTORS:
        if factor in given and operand in named:
            other = _tensor(graph, node, named[operand], numbers)
            scaled = _call(graph, node, aten.mul.Tensor, (other, _beside(graph, node, other, numbers[named[factor]])))
            named = {name: value for name, value in named.items() if name != factor} | {operand: scaled}
            given = [name for name in given if name not in (factor, operand)]
            if not given:
                return _bound(graph, node, target, named)
    twin = _takes_tensors(target, given)
    if twin is None:
        raise _refusal(node, f"{', '.join(given)} of {target} is a number from data")
    first = next((v for v in named.values() if isinstance(v, fx.Node) and v not in numbers), None)
    for formal in twin._schema.arguments:
        value = named.get(formal.name)
        if str(formal.type) in ("Tensor", "Optional[Tensor]") and value is not None:
            if not isinstance(value, fx.Node) or value in numbers:
                named[formal.name] = _beside(graph, node, first, _tensor(graph, node, value, numbers))
    return _bound(graph, node, twin, named)


def _for_one(target: OpOverload) -> OpOverload | None:
    """The operator that an operator on lists of tensors does to each of them: `mul_.Scalar` for `_foreach_mul_.Scalar`."""
    _, lists, name = target._schema.name.rpartition("_foreach_")
    packet = getattr(aten, name, None) if lists else None
    wanted = [str(formal.type).removeprefix("List[").removesuffix("]") for formal in target._schema.arguments]
    for overload in packet.overloads() if packet is not None else ():
        candidate: OpOverload = getattr(packet, overload)
        formals = candidate._schema.arguments
        rest = formals[len(wanted) :]
        if wanted == [str(f.type) for f in formals[: len(wanted)]] and all(f.has_default_value() for f in rest):
            return candidate
    return None


def _each(graph: fx.Graph, node: fx.Node, target: OpOverload, one: OpOverload, numbers: dict[fx.Node, fx.Node]) -> None:
    """The operator on lists as calls of the one on tensors."""
    named = _named(node, target)
    given = [(f, named[a.name]) for f, a in zip(one._schema.arguments, target._schema.arguments) if a.name in named]
    keywords = {f.name for f in one._schema.arguments if f.kwarg_only}
    made: list[fx.Node] = []
    for place, element in enumerate(named["self"]):
        now = {f.name: v[place] if isinstance(v, (list, tuple)) else v for f, v in given}
        args = tuple(value for name, value in now.items() if name not in keywords)
        call = graph.call_function(one, args, {name: value for name, value in now.items() if name in keywords})
        call.meta = node.meta | {"val": element.meta["val"]}
        made.append(_operator(graph, call, one, numbers) if any(n in numbers for n in call.all_input_nodes) else call)
        if made[-1] is not call:
            graph.erase_node(call)
    for user in list(node.users):
        user.replace_all_uses_with(made[user.args[1]])  # type: ignore[index]
        graph.erase_node(user)
    graph.erase_node(node)


def _beside(graph: fx.Graph, node: fx.Node, first: Any, scalar: fx.Node) -> fx.Node:
    """The 0-d tensor in a type with which PyTorch promotes as it does with the number."""
    other = first.meta.get("val") if isinstance(first, fx.Node) else None
    if not isinstance(other, torch.Tensor):
        return scalar
    kind = scalar.meta["val"].dtype
    wanted = torch.result_type(
        torch.empty(other.shape, dtype=other.dtype, device="meta"), torch.zeros((), dtype=kind).item()
    )
    if other.dim() and _category(kind) <= _category(other.dtype):
        return scalar  # which loses none of its digits
    return _call(graph, node, aten._to_copy.default, (scalar,), {"dtype": wanted})


def _takes_tensors(target: OpOverload, given: list[str]) -> OpOverload | None:
    """The overload with the same arguments, tensors in place of those given."""
    packet = target.overloadpacket
    mine = {a.name: str(a.type) for a in target._schema.arguments}
    for candidate in [target, *(getattr(packet, name) for name in packet.overloads())]:
        theirs = {a.name: str(a.type) for a in candidate._schema.arguments}
        tensors = all("Tensor" in theirs.get(name, "") and "List" not in theirs[name] for name in given)
        same = theirs.keys() == mine.keys() and all("Tensor" in theirs[n] or theirs[n] == mine[n] for n in mine)
        if tensors and same:
            return candidate
    return None


def _bound(graph: fx.Graph, node: fx.Node, target: OpOverload, named: dict[str, Any]) -> fx.Node:
    formals = target._schema.arguments
    first = list(itertools.takewhile(lambda formal: formal.name in named and not formal.kwarg_only, formals))
    keywords = {formal.name: named[formal.name] for formal in formals[len(first) :] if formal.name in named}
    return _call(graph, node, target, tuple(named[formal.name] for formal in first), keywords)


def _named(node: fx.Node, target: OpOverload) -> dict[str, Any]:
    formals = [a for a in target._schema.arguments if not a.kwarg_only]
    return {formal.name: value for formal, value in zip(formals, node.args)} | dict(node.kwargs)


def _tensor(graph: fx.Graph, node: fx.Node, value: Any, numbers: dict[fx.Node, fx.Node]) -> fx.Node:
    if isinstance(value, fx.Node):
        return numbers.get(value, value)
    kind = torch.bool if isinstance(value, bool) else torch.int64 if isinstance(value, int) else torch.float64
    return _call(graph, node, aten.full.default, ([], value), {"dtype": kind})


def _call(
    graph: fx.Graph, node: fx.Node, target: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
) -> fx.Node:
    """A call at the user's line of `node`, with what it gives on meta tensors as its value."""
    made = graph.call_function(target, args, kwargs or {})
    made.meta = {key: node.meta[key] for key in ("stack_trace", "nn_module_stack", "custom") if key in node.meta}

    def example(value: fx.Node) -> Any:
        found = value.meta.get("val")
        return torch.empty_like(found, device="meta") if isinstance(found, torch.Tensor) else found

    with torch.no_grad():
        made.meta["val"] = target(*fx.map_arg(args, example), **fx.map_arg(kwargs or {}, example))
    return made


def _type(value: Any) -> torch.dtype:
    if isinstance(value, (torch.SymBool, bool)):
        return torch.bool
    return torch.int64 if isinstance(value, (torch.SymInt, int)) else torch.float64


def _category(kind: torch.dtype) -> int:
    return 3 if kind.is_complex else 2 if kind.is_floating_point else 0 if kind is torch.bool else 1


def _nodes(value: Any) -> list[fx.Node]:
    found: list[fx.Node] = []
    fx.map_arg(value, found.append)
    return found


def _refusal(node: fx.Node, what: str) -> UnsupportedError:
    return UnsupportedError(
        f"{what}: shapes and addresses are static, and a number taken from a tensor is known only at run time",
        location=str(node_source(node) or ""), node=node.name,
        hint="keep it a tensor: torch.where, index_select, index_copy_, a mask",
    )  # fmt: skip
