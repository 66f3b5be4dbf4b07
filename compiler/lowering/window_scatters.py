"""Values with one window replaced: out-of-place forms of assignments to views."""

from __future__ import annotations

import math

from jaxlib.mlir import ir

from compiler.lowering import windows
from compiler.lowering.addressing import put, value
from compiler.lowering.builder import Builder
from compiler.lowering.registry import Call, lowering
from compiler.lowering.shaping import axis as axis_of
from dialects.types import Geometry, row_major


def _insert(b: Builder, base: ir.Value, source: ir.Value, window: Geometry) -> ir.Value:
    kind, sizes = b.element(base), b.shape(base)
    return windows.insert(b, b.broadcast(b.convert(source, kind), window.sizes), window, base, kind, sizes)


@lowering("aten.select_scatter.default")
def select_scatter(b: Builder, call: Call) -> ir.Value:
    base, source, dimension, position = call.args[:4]
    sizes = b.shape(base)
    axis, strides = axis_of(dimension, len(sizes)), row_major(sizes)
    rest = [d for d in range(len(sizes)) if d != axis]
    offset = position % sizes[axis] * strides[axis]
    window = Geometry(tuple(sizes[d] for d in rest), tuple(strides[d] for d in rest), offset)
    return _insert(b, base, source, window)


@lowering("aten.slice_scatter.default")
def slice_scatter(b: Builder, call: Call) -> ir.Value:
    base, source = call.args[:2]
    sizes = b.shape(base)
    axis = axis_of(call.arg(2, "dim", 0), len(sizes))
    start, stop, step = slice(call.arg(3, "start"), call.arg(4, "end"), call.arg(5, "step", 1)).indices(sizes[axis])
    strides = row_major(sizes)
    count = len(range(start, stop, step))
    window = Geometry(
        (*sizes[:axis], count, *sizes[axis + 1 :]),
        (*strides[:axis], strides[axis] * step, *strides[axis + 1 :]),
        start * strides[axis] if count else 0,
    )
    return _insert(b, base, source, window)


@lowering("aten.diagonal_scatter.default")
def diagonal_scatter(b: Builder, call: Call) -> ir.Value:
    base, source = call.args[:2]
    shift = call.arg(2, "offset", 0)
    sizes = b.shape(base)
    strides = row_major(sizes)
    first, second = (axis_of(call.arg(3, "dim1", 0), len(sizes)), axis_of(call.arg(4, "dim2", 1), len(sizes)))
    down, right = max(-shift, 0), max(shift, 0)
    count = max(min(sizes[first] - down, sizes[second] - right), 0)
    rest = [d for d in range(len(sizes)) if d not in (first, second)]
    window = Geometry(
        (*(sizes[d] for d in rest), count),
        (*(strides[d] for d in rest), strides[first] + strides[second]),
        down * strides[first] + right * strides[second] if count else 0,
    )
    return _insert(b, base, source, window)


@lowering("aten.as_strided_scatter.default")
def as_strided_scatter(b: Builder, call: Call) -> ir.Value:
    base, source, sizes, strides = call.args[:4]
    return _insert(b, base, source, Geometry(tuple(sizes), tuple(strides), call.arg(4, "storage_offset") or 0))


@lowering("aten.unfold_backward.default")
def unfold_backward(b: Builder, call: Call) -> ir.Value:
    grad, sizes, dimension, _, step = call.args[:5]
    sizes = tuple(sizes)
    axis, strides = axis_of(dimension, len(sizes)), row_major(sizes)
    moved = (*strides[:axis], strides[axis] * step, *strides[axis + 1 :], strides[axis])
    kind, numel = b.element(grad), math.prod(sizes)
    positions = windows.flat_positions(b, Geometry(b.shape(grad), moved, 0), ())
    return b.reshape(value(b, put(b, b.splat(0, kind, (numel,)), {0: positions}, grad, 0, "add")), sizes)
