"""Functions that XLA merges with the operation that made their operand, as if floats were real numbers.

To its algebraic simplifier `log(exp(x))` is `x`, and so is `exp(x) * exp(y)` `exp(x + y)`: what eager PyTorch has rounded on the
way, or what is infinite there, is lost. An operand behind a barrier, which XLA drops before it fuses, does not show how it
was made. (For sums, products with constants and quotients see `Builder.unfolded` and `elementwise.divide`.)
"""

from __future__ import annotations

from collections.abc import Container

from jaxlib.mlir import ir

from compiler.lowering.builder import Builder
from compiler.lowering.origins import origin

_MOVES = frozenset({"stablehlo.broadcast_in_dim", "stablehlo.reshape", "stablehlo.slice", "stablehlo.transpose"})

PRODUCTS = frozenset({"stablehlo.multiply"})
ROOTS = frozenset({"stablehlo.rsqrt", "stablehlo.sqrt"})
POWERS = frozenset({"stablehlo.exponential", "stablehlo.power"})


def apart(b: Builder, value: ir.Value, makers: Container[str]) -> ir.Value:
    """A float, behind a barrier if one of `makers` made it."""
    if b.target != "xla" or b.element(value)[0] not in "fb":
        return value
    made = origin(value, _MOVES)
    return value if made is None or made.name not in makers else b.opaque(value)


__all__ = ["POWERS", "PRODUCTS", "ROOTS", "apart"]
