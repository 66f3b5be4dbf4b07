"""Functional collectives over listed replica groups, in the operators that the Neuron compiler documents."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from compiler.errors import CompileError, UnsupportedError
from compiler.lowering.builder import Builder
from compiler.lowering.registry import Call, lowering

_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": hlo.add, "avg": hlo.add, "prod": hlo.multiply, "product": hlo.multiply, "min": hlo.minimum, "max": hlo.maximum,
    "band": hlo.and_, "bor": hlo.or_, "and": hlo.and_, "or": hlo.or_,
}  # fmt: skip


@lowering("_c10d_functional.wait_tensor.default")
def wait_tensor(b: Builder, call: Call) -> ir.Value:
    """Values are there when they are used."""
    return call.args[0]


@lowering("_c10d_functional.all_reduce.default")
def all_reduce(b: Builder, call: Call) -> ir.Value:
    value, reduction, groups = call.args
    return _all_reduce(b, value, reduction, groups)


@lowering("_c10d_functional.all_reduce_coalesced.default")
def all_reduce_coalesced(b: Builder, call: Call) -> Sequence[ir.Value]:
    values, reduction, groups = call.args
    return [_all_reduce(b, value, reduction, groups) for value in values]


@lowering("_c10d_functional.all_gather_into_tensor.default")
def all_gather(b: Builder, call: Call) -> ir.Value:
    value, size, groups = call.args
    return _all_gather(b, value, size, groups)


@lowering("_c10d_functional.all_gather_into_tensor_coalesced.default")
def all_gather_coalesced(b: Builder, call: Call) -> Sequence[ir.Value]:
    values, size, groups = call.args
    return [_all_gather(b, value, size, groups) for value in values]


@lowering("_c10d_functional.reduce_scatter_tensor.default")
def reduce_scatter(b: Builder, call: Call) -> ir.Value:
    value, reduction, size, groups = call.args
    return _reduce_scatter(b, value, reduction, size, groups)


@lowering("_c10d_functional.reduce_scatter_tensor_coalesced.default")
def reduce_scatter_coalesced(b: Builder, call: Call) -> Sequence[ir.Value]:
    values, reduction, size, groups = call.args
    return [_reduce_scatter(b, value, reduction, size, groups) for value in values]


@lowering("_c10d_functional.all_to_all_single.default")
def all_to_all(b: Builder, call: Call) -> ir.Value:
    value, received, sent, groups = call.args
    size = _width(groups)
    rows = b.shape(value)[0]
    if rows % size or any(n != rows // size for n in (*received, *sent)) or len(sent) != size:
        raise UnsupportedError(
            f"ranks exchange uneven parts ({list(sent)} of {rows} rows), and HLO exchanges equal ones; pad the parts"
        )
    op = hlo.AllToAllOp([value], 0, 0, size, _attribute(groups))
    return op.results[0]


@lowering("_c10d_functional.broadcast.default")
def broadcast(b: Builder, call: Call) -> ir.Value:
    """Everybody gathers, and takes the part of rank number `source` of the group."""
    value, source, groups = call.args
    size, shape = _width(groups), b.shape(value)
    if not 0 <= source < size:
        raise CompileError(f"rank {source} is not in a group of {size}")
    parts = _all_gather(b, b.reshape(value, (1, *shape)), size, groups)
    rest = [0] * len(shape)
    part = hlo.slice(parts, [source, *rest], [source + 1, *shape], [1] * (len(shape) + 1))
    return b.reshape(part, shape)


# -- forms -------------------------------------------------------------------------------------


def _all_reduce(b: Builder, value: ir.Value, reduction: str, groups: Any) -> ir.Value:
    combine, element = _reduction(reduction), b.element(value)
    if combine in (hlo.and_, hlo.or_) and element != "i1":
        return _bitwise(b, value, combine, groups)
    op = hlo.AllReduceOp([value.type], [value], _attribute(groups))
    b.region(op, [b.tensor(element, ())] * 2, combine)
    return _average(b, op.results[0], reduction, groups)


def _bitwise(b: Builder, value: ir.Value, combine: Callable[..., Any], groups: Any) -> ir.Value:
    """Integers bit by bit: XLA's CPU back end reduces over ranks with `and` and `or` for booleans only."""
    size, element, shape = _width(groups), b.element(value), b.shape(value)
    parts = _all_gather(b, b.reshape(value, (1, *shape)), size, groups)
    neutral = b.splat(-1 if combine is hlo.and_ else 0, element)
    return b.reduce([parts], [neutral], [0], combine)[0]


def _all_gather(b: Builder, value: ir.Value, size: int, groups: Any) -> ir.Value:
    _require_width(size, groups)
    shape = b.shape(value) or (1,)
    whole = b.tensor(b.element(value), (shape[0] * size, *shape[1:]))
    return hlo.AllGatherOp([whole], [b.reshape(value, shape)], 0, _attribute(groups)).results[0]


def _reduce_scatter(b: Builder, value: ir.Value, reduction: str, size: int, groups: Any) -> ir.Value:
    _require_width(size, groups)
    shape = b.shape(value)
    if not shape or shape[0] % size:
        raise UnsupportedError(f"{math.prod(shape[:1])} rows cannot be scattered evenly over {size} ranks; pad them")
    element = b.element(value)
    part = b.tensor(element, (shape[0] // size, *shape[1:]))
    op = hlo.ReduceScatterOp(part, value, 0, _attribute(groups))
    b.region(op, [b.tensor(element, ())] * 2, _reduction(reduction))
    return _average(b, op.results[0], reduction, groups)


def _average(b: Builder, value: ir.Value, reduction: str, groups: Any) -> ir.Value:
    if reduction.lower() != "avg":
        return value
    return hlo.divide(value, b.splat(_width(groups), b.element(value), b.shape(value)))


def _reduction(name: str) -> Callable[..., Any]:
    found = _REDUCTIONS.get(name.lower())
    if found is None:
        raise UnsupportedError(f"there is no reduction {name!r} in HLO; use one of {', '.join(_REDUCTIONS)}")
    return found


def _width(groups: Any) -> int:
    if isinstance(groups, str):
        raise UnsupportedError(f"the ranks of process group {groups!r} are not known; resolve the replica groups first")
    return len(groups[0])


def _require_width(size: int, groups: Any) -> None:
    if _width(groups) != size:
        raise CompileError(f"the call speaks of {size} ranks, its groups have {_width(groups)}")


def _attribute(groups: Any) -> ir.Attribute:
    """One row per group."""
    _width(groups)
    return ir.DenseIntElementsAttr.get(np.array(groups, np.int64))
