"""Pooling windows over two or three spatial dimensions; the result's shape says how far they reach."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from compiler.lowering.builder import Builder
from compiler.lowering.elementwise import is_nan, kind
from compiler.lowering.promotion import finish, wide
from compiler.lowering.reductions import lowest
from compiler.lowering.registry import Call, lowering
from compiler.lowering.shaping import pad


def _per_dimension(values: Sequence[int], spatial: int) -> list[int]:
    return list(values) * spatial if len(values) == 1 else list(values)


def _edges(
    size: Sequence[int], out: Sequence[int], kernel: list[int], stride: list[int], padding: list[int], dilation: list[int]
) -> list[int]:
    """Padding behind, so that the last window fits exactly (negative where the last elements are never reached)."""
    return [
        (o - 1) * s + d * (k - 1) + 1 - n - p
        for n, o, k, s, p, d in zip(size, out, kernel, stride, padding, dilation, strict=True)
    ]


@lowering("aten.max_pool2d_with_indices.default", "aten.max_pool3d_with_indices.default")
def max_pool(b: Builder, call: Call) -> list[ir.Value]:
    """One strided slice per window position, and the first greatest (or last NaN) wins with its place in the plane."""
    x, (_, shape) = call.args[0], call.types[0]
    spatial = 2 if "max_pool2d" in call.target else 3
    size = b.shape(x)[-spatial:]
    kernel = _per_dimension(call.args[1], spatial)
    stride = _per_dimension(call.arg(2, "stride") or kernel, spatial)
    padding = _per_dimension(call.arg(3, "padding", (0,)), spatial)
    dilation = _per_dimension(call.arg(4, "dilation", (1,)), spatial)
    behind = _edges(size, shape[-spatial:], kernel, stride, padding, dilation)
    lead = len(shape) - spatial
    padded = pad(b, x, lowest(b.element(x)), [0] * lead + padding, [0] * lead + behind)
    plane = b.reshape(b.iota("i32", (math.prod(size),), 0), size)
    places = pad(b, plane, -1, padding, behind)

    def window(value: ir.Value, first: int, offset: Sequence[int]) -> ir.Value:
        start = [0] * first + [o * d for o, d in zip(offset, dilation, strict=True)]
        reach = [s + (n - 1) * t + 1 for s, n, t in zip(start[first:], shape[-spatial:], stride, strict=True)]
        return hlo.slice(value, start, [*shape[:first], *reach], [1] * first + stride)

    best = place = None
    for offset in itertools.product(*(range(k) for k in kernel)):
        value, here = window(padded, lead, offset), b.broadcast(window(places, 0, offset), shape)
        if best is None or place is None:
            best, place = value, here
            continue
        # A padded position has no place: any real element takes over from it, even the lowest there is.
        better = hlo.or_(b.compare("GT", value, best), b.compare("LT", place, b.splat(0, "i32", shape)))
        if kind(b, x) == 2:
            better = hlo.or_(better, is_nan(b, value))
        better = hlo.and_(better, b.compare("GE", here, b.splat(0, "i32", shape)))
        best, place = hlo.select(better, value, best), hlo.select(better, here, place)
    assert best is not None and place is not None
    return [finish(b, call, best), finish(b, call, place, 1)]


@lowering("aten.avg_pool2d.default", "aten.avg_pool3d.default")
def avg_pool(b: Builder, call: Call) -> ir.Value:
    """Window sums by reduce_window, divided by how many elements PyTorch counts in each (static, so a constant)."""
    element, shape = call.types[0]
    spatial = 2 if "avg_pool2d" in call.target else 3
    x = b.convert(call.args[0], wide(element))
    size, out = b.shape(x)[-spatial:], shape[-spatial:]
    kernel = _per_dimension(call.args[1], spatial)
    stride = _per_dimension(call.arg(2, "stride") or kernel, spatial)
    padding = _per_dimension(call.arg(3, "padding", (0,)), spatial)
    include, divisor = call.arg(5, "count_include_pad", True), call.arg(6, "divisor_override")
    lead = len(shape) - spatial
    x = pad(b, x, 0, [0] * lead + padding, [0] * lead + _edges(size, out, kernel, stride, padding, [1] * spatial))
    scalar = b.splat(0, b.element(x))
    op = hlo.ReduceWindowOp(
        [b.tensor(b.element(x), shape)], [x], [scalar], [1] * lead + kernel, window_strides=[1] * lead + stride
    )
    b.region(op, [scalar.type] * 2, lambda a, e: hlo.add(a, e))
    counts = np.ones(out)
    for d in range(spatial):
        start = np.arange(out[d]) * stride[d] - padding[d]
        stop = np.minimum(start + kernel[d], size[d] + padding[d])
        if not include:
            start, stop = np.maximum(start, 0), np.minimum(stop, size[d])
        counts *= (stop - start).reshape([-1 if i == d else 1 for i in range(spatial)])
    if divisor is not None:
        counts = np.full(out, float(divisor))
    if np.all(counts == counts.flat[0]):
        parts = b.splat(float(counts.flat[0]), b.element(x), shape)
    else:
        parts = b.broadcast(b.convert(b.literal(counts, "f64"), b.element(x)), shape)
    return finish(b, call, hlo.divide(op.results[0], parts))
