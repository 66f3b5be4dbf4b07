"""Operations on floats that XLA merges with the one that made their operand, as if they were real numbers.

To its algebraic simplifier `(x + c) - c` is `x`, `x / y / z` is `x / (y * z)` and `log(exp(x))` is `x`: what eager PyTorch rounds on
the way, or what is infinite there, is lost. An operand behind a barrier, which XLA drops before it fuses, does not show how it
was made.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from compiler.lowering.origins import origin

if TYPE_CHECKING:
    from compiler.lowering.builder import Builder

_MOVES = frozenset({"stablehlo.broadcast_in_dim", "stablehlo.reshape", "stablehlo.slice", "stablehlo.transpose"})
_FLOATS = frozenset({"f64", "f32", "f16", "bf16"})

SUMS = frozenset({"stablehlo.add", "stablehlo.subtract"})
PRODUCTS = frozenset({"stablehlo.multiply"})
QUOTIENTS = frozenset({"stablehlo.divide"})
ROOTS = frozenset({"stablehlo.rsqrt", "stablehlo.sqrt"})
POWERS = frozenset({"stablehlo.exponential", "stablehlo.power"})


def apart(b: Builder, value: ir.Value, makers: Container[str]) -> ir.Value:
    """A float, behind a barrier if one of `makers` made it."""
    if b.target != "xla" or b.element(value) not in _FLOATS:
        return value
    made = origin(value, _MOVES)
    if made is None or made.name not in makers:
        return value
    return hlo.OptimizationBarrierOp([value]).results[0]


def apart_with_constant(b: Builder, value: ir.Value, makers: Container[str]) -> ir.Value:
    """A float, behind a barrier if one of `makers` made it from a constant."""
    if b.target != "xla" or b.element(value) not in _FLOATS:
        return value
    made = origin(value, _MOVES)
    if made is None or made.name not in makers:
        return value
    operands = (origin(operand, _MOVES) for operand in made.operands)
    if not any(o is not None and o.name == "stablehlo.constant" for o in operands):
        return value
    return hlo.OptimizationBarrierOp([value]).results[0]


__all__ = ["POWERS", "PRODUCTS", "QUOTIENTS", "ROOTS", "SUMS", "apart", "apart_with_constant"]
