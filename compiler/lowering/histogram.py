"""Histograms: every element is compared with every bin, which needs no scatter."""

from __future__ import annotations

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from compiler.lowering.builder import Builder
from compiler.lowering.promotion import wide
from compiler.lowering.registry import Call, lowering


@lowering("aten.histc.default")
def histc(b: Builder, call: Call) -> ir.Value:
    """Counts in `bins` equal intervals of [min, max], the last one closed; min = max stands for the range of the data."""
    x = call.args[0]
    bins, low, high = (call.arg(i, name, d) for i, name, d in ((1, "bins", 100), (2, "min", 0), (3, "max", 0)))
    element = wide(b.element(x))
    count = 1
    for size in b.shape(x):
        count *= size
    flat = b.convert(b.reshape(x, (count,)), element)
    one = b.splat(1, element)
    if low != high:
        first, last = b.splat(low, element), b.splat(high, element)
    elif count == 0:
        first, last = b.splat(low, element), b.splat(low + 1, element)
    else:
        infinite = b.splat(float("inf"), element)
        (first,) = b.reduce([flat], [infinite], [0], hlo.minimum)
        (last,) = b.reduce([flat], [hlo.negate(infinite)], [0], hlo.maximum)
        same = b.compare("EQ", first, last)
        first = hlo.select(same, hlo.subtract(first, one), first)
        last = hlo.select(same, hlo.add(last, one), last)
    inside = hlo.and_(
        b.compare("GE", flat, b.broadcast(first, (count,))), b.compare("LE", flat, b.broadcast(last, (count,)))
    )
    offset = hlo.multiply(hlo.subtract(flat, b.broadcast(first, (count,))), b.splat(bins, element, (count,)))
    position = hlo.floor(hlo.divide(offset, b.broadcast(hlo.subtract(last, first), (count,))))
    position = hlo.minimum(position, b.splat(bins - 1, element, (count,)))
    bin_ = b.iota(element, (bins, count), 0)
    hit = hlo.and_(b.compare("EQ", bin_, b.broadcast(position, (bins, count))), b.broadcast(inside, (bins, count)))
    (total,) = b.reduce([b.convert(hit, element)], [b.splat(0, element)], [1], hlo.add)
    return b.convert(total, call.types[0][0])
