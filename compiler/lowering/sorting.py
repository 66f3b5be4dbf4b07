"""Order: sorting, positions of extremes, and running reductions. NaN is the greatest element, as in PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from compiler.lowering.builder import Builder
from compiler.lowering.elementwise import is_nan, kind
from compiler.lowering.indexing import gather
from compiler.lowering.promotion import finish, wide
from compiler.lowering.reductions import add_up, greatest, highest, least, lowest
from compiler.lowering.registry import Call, lowering
from compiler.lowering.shaping import axis, cut, pad


def _vector(b: Builder, x: ir.Value) -> ir.Value:
    """A 0-d value as one of one element: it has one dimension to order along."""
    return x if b.shape(x) else b.reshape(x, (1,))


def _stored(b: Builder, call: Call, value: ir.Value, result: int = 0) -> ir.Value:
    element, shape = call.types[result]
    return b.reshape(b.convert(value, element), shape)


# -- sorting -----------------------------------------------------------------------------------


def _before(b: Builder, left: ir.Value, right: ir.Value, descending: bool) -> ir.Value:
    """Whether `left` sorts strictly before `right`."""
    if descending:
        left, right = right, left
    less = b.compare("LT", left, right)
    if kind(b, left) != 2:
        return less
    return hlo.or_(less, hlo.and_(is_nan(b, right), hlo.not_(is_nan(b, left))))


def sorted_with_positions(b: Builder, x: ir.Value, dim: int, descending: bool) -> tuple[ir.Value, ir.Value]:
    """A stable sort along one dimension, and where each element was."""
    positions = b.iota("i32", b.shape(x), dim)
    op = hlo.SortOp([x.type, positions.type], [x, positions], dimension=dim, is_stable=True)
    scalars = [b.tensor(b.element(x), ())] * 2 + [b.tensor("i32", ())] * 2
    b.region(op, scalars, lambda left, right, *_: _before(b, left, right, descending))
    return op.results[0], op.results[1]


@lowering("aten.sort.default", "aten.sort.stable")
def sort(b: Builder, call: Call) -> list[ir.Value]:
    x = _vector(b, call.args[0])
    first = 1 if call.target.endswith("default") else 2  # `stable` comes before dim
    dim, descending = call.arg(first, "dim", -1), call.arg(first + 1, "descending", False)
    values, positions = sorted_with_positions(b, x, axis(dim, len(b.shape(x))), descending)
    return [_stored(b, call, values), _stored(b, call, positions, 1)]


@lowering("aten.argsort.default", "aten.argsort.stable")
def argsort(b: Builder, call: Call) -> ir.Value:
    x = _vector(b, call.args[0])
    if call.target.endswith("default"):
        dim, descending = call.arg(1, "dim", -1), call.arg(2, "descending", False)
    else:
        dim, descending = call.arg(2, "dim", -1), call.arg(3, "descending", False)
    return _stored(b, call, sorted_with_positions(b, x, axis(dim, len(b.shape(x))), descending)[1])


@lowering("aten.topk.default")
def topk(b: Builder, call: Call) -> list[ir.Value]:
    x = _vector(b, call.args[0])
    dim = axis(call.arg(2, "dim", -1), len(b.shape(x)))
    found = sorted_with_positions(b, x, dim, call.arg(3, "largest", True))
    return [_stored(b, call, cut(b, value, dim, 0, call.args[1]), i) for i, value in enumerate(found)]


@lowering("aten.kthvalue.default", "aten.median.dim")
def kth_value(b: Builder, call: Call) -> list[ir.Value]:
    """The element at one position of the sorted order; the lower median of an even number."""
    x = _vector(b, call.args[0])
    median = call.target.startswith("aten.median")
    dim = axis(call.arg(1 if median else 2, "dim", -1), len(b.shape(x)))
    values, positions = sorted_with_positions(b, x, dim, False)
    place = (b.shape(x)[dim] - 1) // 2 if median else call.args[1] - 1
    picked = [cut(b, v, dim, place, place + 1) for v in (values, positions)]
    if median and kind(b, x) == 2:
        # One NaN makes the median NaN, and its own position is the answer's.
        peak = extreme_position(b, x, dim, largest=True)
        slab = b.shape(picked[0])
        top = cut(b, values, dim, b.shape(x)[dim] - 1, b.shape(x)[dim])
        broken = is_nan(b, top)
        picked = [hlo.select(broken, top, picked[0]), hlo.select(broken, b.reshape(peak, slab), picked[1])]
    return [_stored(b, call, value, i) for i, value in enumerate(picked)]


_NOTHING = {"i32": -(1 << 31), "i64": -(1 << 63)}
"""What PyTorch makes of NaN, the median of no elements, in the wide integer types; in the narrow ones it is zero."""


@lowering("aten.median.default")
def median(b: Builder, call: Call) -> ir.Value:
    """The lower median of all elements; NaN when there is one."""
    size = math.prod(b.shape(call.args[0]))
    if not size:
        return b.splat(_NOTHING.get(call.types[0][0], math.nan if kind(b, call.args[0]) == 2 else 0), *call.types[0])
    x = b.reshape(call.args[0], (size,))
    values, _ = sorted_with_positions(b, x, 0, False)
    found = cut(b, values, 0, (size - 1) // 2, (size + 1) // 2)
    if kind(b, x) == 2:
        last = cut(b, values, 0, size - 1, size)
        found = hlo.select(is_nan(b, last), last, found)
    return _stored(b, call, found)


# -- positions of extremes ---------------------------------------------------------------------


def extreme_position(b: Builder, x: ir.Value, dim: int, largest: bool) -> ir.Value:
    """The first position of the extreme along `dim`, kept with size 1: two plain reductions, no pairs to reduce."""
    shape = b.shape(x)
    extreme = b.broadcast((greatest if largest else least)(b, x, (dim,), keep=True), shape)
    found = b.compare("EQ", x, extreme)
    if kind(b, x) == 2:
        found = hlo.or_(found, is_nan(b, x))
    nowhere = b.splat(shape[dim], "i32", shape)
    return least(b, hlo.select(found, b.iota("i32", shape, dim), nowhere), (dim,), keep=True)


def _position(b: Builder, call: Call, largest: bool) -> ir.Value:
    x, dim = call.args[0], call.arg(1, "dim")
    if dim is None:
        x, dim = b.reshape(x, (math.prod(b.shape(x)),)), 0
    x = _vector(b, x)
    return _stored(b, call, extreme_position(b, x, axis(dim, len(b.shape(x))), largest))


@lowering("aten.argmax.default")
def argmax(b: Builder, call: Call) -> ir.Value:
    return _position(b, call, True)


@lowering("aten.argmin.default")
def argmin(b: Builder, call: Call) -> ir.Value:
    return _position(b, call, False)


@lowering("aten.max.dim", "aten.min.dim")
def extreme_with_position(b: Builder, call: Call) -> list[ir.Value]:
    x = _vector(b, call.args[0])
    dim = axis(call.args[1], len(b.shape(x)))
    largest = call.target == "aten.max.dim"
    value = (greatest if largest else least)(b, x, (dim,))
    return [_stored(b, call, value), _stored(b, call, extreme_position(b, x, dim, largest), 1)]


# -- running reductions ------------------------------------------------------------------------


def scan(
    b: Builder, values: list[ir.Value], neutral: list[float], dim: int, combine: Callable[..., list[ir.Value]]
) -> list[ir.Value]:
    """Inclusive scan of an associative operation by doubling: log2(n) steps of pad and combine."""
    size, reach = b.shape(values[0])[dim], 1
    while reach < size:
        low = [reach if i == dim else 0 for i in range(len(b.shape(values[0])))]
        high = [-width for width in low]
        earlier = [pad(b, v, start, low, high) for v, start in zip(values, neutral, strict=True)]
        values = combine(*earlier, *values)
        reach *= 2
    return values


def _running(b: Builder, call: Call, neutral: float, combine: Callable[..., ir.Value]) -> ir.Value:
    x = _vector(b, b.convert(call.args[0], wide(call.types[0][0])))
    if neutral == 0:
        x = b.plus(x, b.splat(0, b.element(x), b.shape(x)))  # eager starts its sums with +0: none is -0
    dim = axis(call.args[1], len(b.shape(x)))
    return _stored(b, call, scan(b, [x], [neutral], dim, lambda left, right: [combine(left, right)])[0])


@lowering("aten.cumsum.default")
def cumsum(b: Builder, call: Call) -> ir.Value:
    return _running(b, call, 0, b.plus)


@lowering("aten.cumprod.default")
def cumprod(b: Builder, call: Call) -> ir.Value:
    return _running(b, call, 1, lambda left, right: hlo.multiply(left, right))


@lowering("aten.logcumsumexp.default")
def logcumsumexp(b: Builder, call: Call) -> ir.Value:
    def combine(left: ir.Value, right: ir.Value) -> ir.Value:
        peak = hlo.maximum(left, right)
        gap = hlo.negate(hlo.abs(hlo.subtract(left, right)))
        total = hlo.add(peak, hlo.log_plus_one(hlo.exponential(gap)))
        infinite = hlo.and_(b.compare("EQ", left, right), hlo.not_(hlo.is_finite(left)))
        return hlo.select(infinite, left, total)

    return _running(b, call, float("-inf"), combine)


def _running_extreme(b: Builder, call: Call, direction: str, neutral: float) -> list[ir.Value]:
    """Ties and NaNs go to the later position, and a NaN stays."""
    x = _vector(b, call.args[0])
    dim = axis(call.args[1], len(b.shape(x)))

    def combine(left: ir.Value, where: ir.Value, right: ir.Value, here: ir.Value) -> list[ir.Value]:
        later = b.compare(direction, right, left)
        if kind(b, left) == 2:
            later = hlo.or_(is_nan(b, right), later)
        return [hlo.select(later, right, left), hlo.select(later, here, where)]

    found = scan(b, [x, b.iota("i32", b.shape(x), dim)], [neutral, 0], dim, combine)
    return [_stored(b, call, value, i) for i, value in enumerate(found)]


@lowering("aten.cummax.default")
def cummax(b: Builder, call: Call) -> list[ir.Value]:
    return _running_extreme(b, call, "GE", lowest(b.element(call.args[0])))


@lowering("aten.cummin.default")
def cummin(b: Builder, call: Call) -> list[ir.Value]:
    return _running_extreme(b, call, "LE", highest(b.element(call.args[0])))


@lowering("aten.searchsorted.Tensor", "aten.bucketize.Tensor")
def search_sorted(b: Builder, call: Call) -> ir.Value:
    """How many boundaries lie before each value; NaN lies after all of them."""
    if call.target.startswith("aten.bucketize"):
        values, edges, right = call.args[0], call.args[1], call.kwargs.get("right", False)
        edges = b.reshape(edges, (1,) * len(b.shape(values)) + b.shape(edges))
    else:
        edges, values = call.args
        sorter = call.kwargs.get("sorter")
        if sorter is not None:
            kind_ = (b.element(edges), b.shape(edges))
            edges = cast(
                ir.Value, gather(b, Call("aten.gather.default", (edges, len(kind_[1]) - 1, sorter), {}, (kind_,)))
            )
        right = call.kwargs.get("right", False) or call.kwargs.get("side") == "right"
        ranks = len(b.shape(values)) - len(b.shape(edges)) + 1
        edges = b.reshape(edges, b.shape(edges)[:-1] + (1,) * ranks + b.shape(edges)[-1:])
    shape = (*b.shape(values), b.shape(edges)[-1])
    value = b.broadcast(b.reshape(values, (*b.shape(values), 1)), shape)
    edge = b.broadcast(b.convert(edges, b.element(values)), shape)
    passed = b.compare("LE" if right else "LT", edge, value)
    if kind(b, value) == 2:
        passed = hlo.or_(passed, is_nan(b, value))
    return finish(b, call, add_up(b, b.convert(passed, "i32"), (len(shape) - 1,)))
