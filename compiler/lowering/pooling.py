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
    size: Sequence[int],
    out: Sequence[int],
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
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
    sums = _window_sums(b, x, [1] * lead + kernel, [1] * lead + stride, shape)
    counts = _counts(size, out, kernel, stride, padding, include, divisor)
    return finish(b, call, hlo.divide(sums, _parts(b, counts, b.element(x), shape)))


@lowering("aten.avg_pool2d_backward.default", "aten.avg_pool3d_backward.default")
def avg_pool_backward(b: Builder, call: Call) -> ir.Value:
    """Every element gets its share from each window it is in: window sums over the spread gradient."""
    grad, x, kernel, stride, padding, _, include, divisor = call.args
    element, shape = call.types[0]
    spatial = 2 if "avg_pool2d" in call.target else 3
    size, out = shape[-spatial:], b.shape(grad)[-spatial:]
    kernel = _per_dimension(kernel, spatial)
    stride = _per_dimension(stride or kernel, spatial)
    padding = _per_dimension(padding, spatial)
    lead = len(shape) - spatial
    grad = b.convert(grad, wide(element))
    parts = _parts(b, _counts(size, out, kernel, stride, padding, include, divisor), b.element(grad), b.shape(grad))
    low = [k - 1 - p for k, p in zip(kernel, padding, strict=True)]
    high = [
        n + k - 1 - front - (o - 1) * s - 1 for n, k, front, o, s in zip(size, kernel, low, out, stride, strict=True)
    ]
    zero = b.splat(0, b.element(grad))
    edges = ([0] * lead + low, [0] * lead + high, [0] * lead + [s - 1 for s in stride])
    spread = hlo.pad(hlo.divide(grad, parts), zero, *edges)
    return finish(b, call, _window_sums(b, spread, [1] * lead + kernel, [1] * len(shape), shape))


def _window_sums(b: Builder, x: ir.Value, kernel: list[int], stride: list[int], shape: tuple[int, ...]) -> ir.Value:
    zero = b.splat(0, b.element(x))
    op = hlo.ReduceWindowOp([b.tensor(b.element(x), shape)], [x], [zero], kernel, window_strides=stride)
    b.region(op, [zero.type] * 2, lambda a, e: hlo.add(a, e))
    return op.results[0]


def _counts(
    size: Sequence[int],
    out: Sequence[int],
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    include: bool,
    divisor: int | None,
) -> np.ndarray:
    """How many elements PyTorch counts in each window."""
    if divisor is not None:
        return np.full(out, float(divisor))
    counts = np.ones(out)
    for d in range(len(kernel)):
        start = np.arange(out[d]) * stride[d] - padding[d]
        stop = np.minimum(start + kernel[d], size[d] + padding[d])
        if not include:
            start, stop = np.maximum(start, 0), np.minimum(stop, size[d])
        counts *= (stop - start).reshape([-1 if i == d else 1 for i in range(len(kernel))])
    return counts


def _parts(b: Builder, counts: np.ndarray, element: str, shape: tuple[int, ...]) -> ir.Value:
    """Static divisors as a value: one number where all are equal."""
    if np.all(counts == counts.flat[0]):
        return b.splat(float(counts.flat[0]), element, shape)
    return b.broadcast(b.convert(b.literal(counts.astype("float32"), "f32"), element), shape)
