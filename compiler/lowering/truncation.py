"""Floats as integers, also where the integer does not fit: as eager PyTorch converts them on x86 CPUs, not as XLA does.

XLA gives the nearest integer of the type, and 0 for NaN. PyTorch leaves it to C++, which leaves it to the processor: it
truncates to 32 or 64 bits, where what does not fit and NaN become the least integer, and narrower types get the low bits of
that. So -1.0 is 255 as an 8-bit unsigned integer, and 158.0 is -98 as a signed one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

if TYPE_CHECKING:
    from compiler.lowering.builder import Builder

_THROUGH_64 = frozenset({"i64", "ui32", "ui64"})


def truncate(b: Builder, value: ir.Value, element: str) -> ir.Value:
    """A float tensor as integers of type `element`."""
    if b.element(value) not in ("f32", "f64"):
        value = b.convert(value, "f32")
    source, shape = b.element(value), b.shape(value)
    # The low 8 bits of a f32 beyond 32 bits are 0, as those of the least integer are.
    wide = element in _THROUGH_64 or (element == "ui8" and source == "f64")
    through, bits = ("i64", 64) if wide else ("i32", 32)

    def is_below(power: int) -> ir.Value:
        return b.compare("LT", value, b.splat(2.0**power, source, shape))

    whole = hlo.convert(b.tensor(through, shape), value)
    whole = hlo.select(is_below(bits - 1), whole, b.splat(-(1 << (bits - 1)), through, shape))
    if element == "ui64":  # what fits into it but not into 63 bits is converted by itself
        large = hlo.select(is_below(64), hlo.convert(b.tensor(element, shape), value), b.splat(0, element, shape))
        fits = b.compare("GE", value, b.splat(2.0**63, source, shape))
        return hlo.select(fits, large, hlo.convert(b.tensor(element, shape), whole))
    return whole if element == through else hlo.convert(b.tensor(element, shape), whole)


__all__ = ["truncate"]
