"""Functions that XLA merges with the operation that made their operand, as if floats were real numbers.

To its algebraic simplifier `log(exp(x))` is `x`, and so is `exp(x) * exp(y)` `exp(x + y)`: what eager PyTorch has rounded on the
way, or what is infinite there, is lost. An operand behind a barrier, which XLA drops before it fuses, does not show how it
was made. (For sums, products with constants and quotients see `Builder.unfolded` and `elementwise.divide`.)
"""

from __future__ import annotations

from jaxlib.mlir import ir

from compiler.lowering.builder import Builder
from compiler.lowering.origins import origin

_MOVES = frozenset({"stablehlo.broadcast_in_dim", "stablehlo.reshape", "stablehlo.slice", "stablehlo.transpose"})

_ROOTS_AND_POWERS = frozenset({"stablehlo.exponential", "stablehlo.power", "stablehlo.rsqrt", "stablehlo.sqrt"})

_SEEN_THROUGH = frozenset({
    "stablehlo.clamp", "stablehlo.concatenate", "stablehlo.convert", "stablehlo.pad", "stablehlo.reduce", "stablehlo.select",
})  # fmt: skip
"""Operations that XLA may find to give their operand as it is."""


def apart(b: Builder, value: ir.Value) -> ir.Value:
    """A float, behind a barrier if the program made it."""
    if b.target != "xla" or b.element(value)[0] not in "fb":
        return value
    made = origin(value, _MOVES)
    return value if made is None else b.opaque(value)


def factors(b: Builder, x: ir.Value, y: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Both factors of a product, which XLA does not take for one root or power if these are of two."""
    both = [origin(v, _MOVES) for v in (x, y)]
    merging = all(m is not None and m.name in _ROOTS_AND_POWERS | _SEEN_THROUGH for m in both)
    return (apart(b, x), y) if merging else (x, y)


__all__ = ["apart", "factors"]
