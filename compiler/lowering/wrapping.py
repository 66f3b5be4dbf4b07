"""Integers that XLA would take for not negative: products and absolute values, which are negative after an overflow.

XLA's algebraic simplifier finds a sign in the form of an expression (`x * x`, also where it makes one out of a contraction or
a reduction; `abs(x)`, also for the smallest integer) and folds comparisons with it.
"""

from __future__ import annotations

from jaxlib.mlir import ir

from compiler.lowering.builder import Builder
from compiler.lowering.origins import origin


def wrapping(b: Builder, value: ir.Value) -> ir.Value:
    """The value; if it is of signed integers, behind a barrier, which XLA drops before it fuses."""
    if b.target != "xla" or b.element(value) not in ("i8", "i16", "i32", "i64") or _is_scaled(value):
        return value
    return b.opaque(value)


def _is_scaled(value: ir.Value) -> bool:
    """Whether it is a product with a constant, which is no square."""
    if isinstance(value.owner, ir.Block) or value.owner.name != "stablehlo.multiply":
        return False
    made = (origin(operand, ("stablehlo.broadcast_in_dim",)) for operand in value.owner.operands)
    return any(m is not None and m.name == "stablehlo.constant" for m in made)


__all__ = ["wrapping"]
