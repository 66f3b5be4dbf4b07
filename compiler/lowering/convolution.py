"""Convolution over any number of spatial dimensions, and its transpose."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from compiler.lowering.builder import Builder
from compiler.lowering.promotion import finish, wide
from compiler.lowering.registry import Call, lowering


def _per_dimension(values: Sequence[int], spatial: int) -> list[int]:
    """One number stands for every spatial dimension."""
    return list(values) * spatial if len(values) == 1 else list(values)


def _swapped_channels(b: Builder, weight: ir.Value, groups: int) -> ir.Value:
    """A transposed weight (in, out / groups, ...) as (in / groups, out, ...), the groups side by side in `out`."""
    into, out, *kernel = b.shape(weight)
    split = b.reshape(weight, (groups, into // groups, out, *kernel))
    turned = b.transpose(split, [1, 0, 2, *range(3, 3 + len(kernel))])
    return b.reshape(turned, (into // groups, groups * out, *kernel))


@lowering("aten.convolution.default", "aten._convolution.default", "aten.convolution_overrideable.default")
def convolution(b: Builder, call: Call) -> ir.Value:
    x, weight, bias, stride, padding, dilation, transposed, output_padding, groups = call.args[:9]
    element, shape = call.types[0]
    spatial = list(range(2, len(b.shape(weight))))
    stride, padding, dilation, extra = (
        _per_dimension(v, len(spatial)) for v in (stride, padding, dilation, output_padding)
    )
    if transposed:
        # The gradient of a convolution: spread the input by the stride, and slide the reversed kernel over it.
        reach = [d * (k - 1) for d, k in zip(dilation, b.shape(weight)[2:], strict=True)]
        widths = [[r - p, r - p + e] for r, p, e in zip(reach, padding, extra, strict=True)]
        weight = hlo.reverse(_swapped_channels(b, weight, groups), spatial)
        strides, spread, kernel_in, kernel_out = [1] * len(spatial), stride, 0, 1
    else:
        widths = [[p, p] for p in padding]
        strides, spread, kernel_in, kernel_out = stride, [1] * len(spatial), 1, 0
    numbers = hlo.ConvDimensionNumbers.get(0, 1, spatial, kernel_in, kernel_out, spatial, 0, 1, spatial)
    out = hlo.convolution(
        b.tensor(wide(element), shape), x, weight, numbers, groups, 1,
        window_strides=strides, padding=ir.DenseIntElementsAttr.get(np.array(widths, np.int64)),
        lhs_dilation=spread, rhs_dilation=dilation,
    )  # fmt: skip
    if bias is not None:
        column = b.reshape(b.convert(bias, b.element(out)), (shape[1], *([1] * len(spatial))))
        out = hlo.add(out, b.broadcast(column, shape))
    return finish(b, call, out)
