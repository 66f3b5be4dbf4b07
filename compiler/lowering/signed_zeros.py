"""Sums whose sign of zero XLA would lose.

By IEEE 754 -0 + 0 is +0, and a sum with +0 gives back every other number. XLA takes `x + 0` for `x`, -0 too, wherever it finds the
zero to be a constant.
"""

from __future__ import annotations

import math

from jaxlib.mlir import ir

from compiler.lowering.origins import origin

_MOVES = frozenset(
    {"stablehlo.broadcast_in_dim", "stablehlo.convert", "stablehlo.reshape", "stablehlo.slice", "stablehlo.transpose"}
)
"""Give elements of their operand only, so that zeros stay zeros."""


def is_constant_zero(value: ir.Value) -> bool:
    """Whether all elements are +0, as XLA's folding will find out too."""
    made = origin(value, _MOVES)
    if made is None:
        return False
    if made.name == "stablehlo.constant":
        return _is_zero(ir.DenseElementsAttr(made.attributes["value"]))
    return made.name == "stablehlo.concatenate" and all(map(is_constant_zero, made.operands))


def _is_zero(elements: ir.DenseElementsAttr) -> bool:
    if not elements.is_splat:
        return False
    element = elements.get_splat_value()
    if isinstance(element, ir.FloatAttr):
        return element.value == 0 and math.copysign(1, element.value) > 0
    return isinstance(element, ir.IntegerAttr | ir.BoolAttr) and not element.value


__all__ = ["is_constant_zero"]
