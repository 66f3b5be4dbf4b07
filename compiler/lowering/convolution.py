"""Convolution over any number of spatial dimensions, its transpose, and the gradients of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from compiler.lowering.builder import Builder
from compiler.lowering.promotion import finish, wide
from compiler.lowering.reductions import add_up
from compiler.lowering.registry import Call, lowering
from compiler.lowering.wrapping import wrapping


@dataclass(frozen=True)
class _Geometry:
    """How a kernel moves over an image; one number a spatial dimension."""

    stride: list[int]
    padding: list[int]
    dilation: list[int]
    groups: int

    @staticmethod
    def of(
        spatial: int, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int
    ) -> _Geometry:
        """A list of one number stands for every spatial dimension."""
        strides, paddings, dilations = (
            list(v) * spatial if len(v) == 1 else list(v) for v in (stride, padding, dilation)
        )
        return _Geometry(strides, paddings, dilations, groups)

    def extent(self, kernel: Sequence[int]) -> list[int]:
        """Distance from a kernel's first element to its last."""
        return [d * (k - 1) for d, k in zip(self.dilation, kernel, strict=True)]


def _padding(widths: list[tuple[int, int]]) -> ir.DenseIntElementsAttr:
    i64 = ir.IntegerType.get_signless(64)
    numbers: list[ir.Attribute] = [ir.IntegerAttr.get(i64, width) for pair in widths for width in pair]
    return ir.DenseIntElementsAttr(ir.DenseElementsAttr.get(numbers, ir.RankedTensorType.get((len(widths), 2), i64)))


def _correlate(b: Builder, x: ir.Value, weight: ir.Value, how: _Geometry, shape: tuple[int, ...]) -> ir.Value:
    """The convolution of an image (batch, in, ...) with a weight (out, in / groups, ...)."""
    spatial = list(range(2, len(shape)))
    numbers = hlo.ConvDimensionNumbers.get(0, 1, spatial, 1, 0, spatial, 0, 1, spatial)
    return hlo.convolution(
        b.tensor(wide(b.element(x)), shape), x, weight, numbers, how.groups, 1, window_strides=how.stride,
        padding=_padding([(p, p) for p in how.padding]), rhs_dilation=how.dilation,
    )  # fmt: skip


def _spread(b: Builder, x: ir.Value, weight: ir.Value, how: _Geometry, shape: tuple[int, ...]) -> ir.Value:
    """The transpose of `_correlate`: the image, spread by the stride, under the reversed kernel; weight (in, out / groups, ...)."""
    spatial = list(range(2, len(shape)))
    into, out, *kernel = b.shape(weight)
    split = b.reshape(weight, (how.groups, into // how.groups, out, *kernel))
    turned = b.transpose(split, [1, 0, 2, *range(3, 3 + len(kernel))])
    swapped = hlo.reverse(b.reshape(turned, (into // how.groups, how.groups * out, *kernel)), spatial)
    low = [e - p for e, p in zip(how.extent(kernel), how.padding, strict=True)]
    high = [
        size - (n - 1) * s - 1 - front + e
        for size, n, s, front, e in zip(
            shape[2:], b.shape(x)[2:], how.stride, low, how.extent(kernel), strict=True
        )
    ]  # fmt: skip
    numbers = hlo.ConvDimensionNumbers.get(0, 1, spatial, 0, 1, spatial, 0, 1, spatial)
    return hlo.convolution(
        b.tensor(wide(b.element(x)), shape), x, swapped, numbers, how.groups, 1, window_strides=[1] * len(spatial),
        padding=_padding(list(zip(low, high, strict=True))), lhs_dilation=how.stride, rhs_dilation=how.dilation,
    )  # fmt: skip


def _weight_gradient(b: Builder, x: ir.Value, grad: ir.Value, how: _Geometry, shape: tuple[int, ...]) -> ir.Value:
    """The gradient of `_correlate` for its weight: the image under the output's gradient, summed over the batch."""
    spatial = list(range(2, len(shape)))
    widths = [
        (p, e + (o - 1) * s + 1 - n - p)
        for p, e, o, s, n in zip(
            how.padding, how.extent(shape[2:]), b.shape(grad)[2:], how.stride, b.shape(x)[2:], strict=True
        )
    ]  # fmt: skip
    numbers = hlo.ConvDimensionNumbers.get(1, 0, spatial, 0, 1, spatial, 1, 0, spatial)
    return hlo.convolution(
        b.tensor(wide(b.element(x)), shape), x, grad, numbers, 1, how.groups, window_strides=how.dilation,
        padding=_padding(widths), rhs_dilation=how.stride,
    )  # fmt: skip


@lowering("aten.convolution.default", "aten._convolution.default", "aten.convolution_overrideable.default")
def convolution(b: Builder, call: Call) -> ir.Value:
    x, weight, bias, stride, padding, dilation, transposed, _, groups = call.args[:9]
    shape = call.types[0][1]
    how = _Geometry.of(len(shape) - 2, stride, padding, dilation, groups)
    out = wrapping(b, (_spread if transposed else _correlate)(b, x, weight, how, shape))
    if bias is not None:
        column = b.reshape(b.convert(bias, b.element(out)), (shape[1], *[1] * (len(shape) - 2)))
        out = hlo.add(out, b.broadcast(column, shape))
    return finish(b, call, out)


@lowering("aten.convolution_backward.default")
def convolution_backward(b: Builder, call: Call) -> list[ir.Value]:
    """Gradients of image, weight and bias: those the mask asks for."""
    grad, x, weight, _, stride, padding, dilation, transposed, _, groups, mask = call.args
    how = _Geometry.of(len(b.shape(x)) - 2, stride, padding, dilation, groups)
    gradients: list[ir.Value] = []
    if mask[0]:
        gradients.append((_correlate if transposed else _spread)(b, grad, weight, how, b.shape(x)))
    if mask[1]:
        image, above = (grad, x) if transposed else (x, grad)
        gradients.append(_weight_gradient(b, image, above, how, b.shape(weight)))
    if mask[2]:
        summed = (0, *range(2, len(b.shape(grad))))
        gradients.append(add_up(b, b.convert(grad, wide(b.element(grad))), summed))
    return [finish(b, call, gradient, i) for i, gradient in enumerate(gradients)]
