"""Powers: of integers by repeated squaring, of other numbers by HLO's own operation where no simpler one gives them."""

from __future__ import annotations

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from compiler.lowering.builder import Builder
from compiler.lowering.elementwise import divide, kind, like, multiply
from compiler.lowering.promotion import computed, finish
from compiler.lowering.reassociation import apart
from compiler.lowering.registry import Call, lowering


@lowering("aten.pow.Tensor_Tensor", "aten.pow.Tensor_Scalar", "aten.pow.Scalar")
def power(b: Builder, call: Call) -> ir.Value:
    exponent = call.args[1]
    x, y = computed(b, call, call.args[:2])
    if not isinstance(exponent, ir.Value) and kind(b, x) >= 2 and not isinstance(exponent, complex):
        one = like(b, 1, x)
        if exponent in (2, 3, -2):
            x2 = multiply(b, x, x)
            return finish(
                b, call, x2 if exponent == 2 else hlo.multiply(x2, x) if exponent == 3 else divide(b, one, x2)
            )
        if exponent in (0.5, -0.5) and kind(b, x) == 2 and call.types[0][0] != "f16":
            x = apart(b, x)
            return finish(b, call, hlo.sqrt(x) if exponent == 0.5 else hlo.rsqrt(x))
        if exponent == -1:
            return finish(b, call, divide(b, one, x))
    if b.target == "xla" and kind(b, x) < 2:
        if isinstance(exponent, int) and exponent >= 0:
            return finish(b, call, _constant_power(b, x, exponent))
        return finish(b, call, _integer_power(b, x, y))
    x, y = b.unfolded(apart(b, x), y)  # XLA takes a power of 0.5 for a root, which has another sign for -0
    return finish(b, call, hlo.power(x, y))


def _constant_power(b: Builder, x: ir.Value, exponent: int) -> ir.Value:
    """By repeated squaring; XLA's own power of integers looks at the last six bits of the exponent."""
    result = None
    while exponent:
        if exponent & 1:
            result = x if result is None else multiply(b, result, x)
        exponent >>= 1
        x = multiply(b, x, x) if exponent else x
    return like(b, 1, x) if result is None else result


def _integer_power(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
    """By repeated squaring, as often as the largest exponent has bits. A negative power is that of a unit, or zero."""
    zero, one, two = like(b, 0, x), like(b, 1, x), like(b, 2, x)
    if b.element(x)[0] == "i":
        negative = b.compare("LT", y, zero)
        unit = hlo.or_(b.compare("EQ", x, one), b.compare("EQ", x, like(b, -1, x)))
        x = hlo.select(hlo.and_(negative, hlo.not_(unit)), zero, x)
        y = hlo.select(negative, hlo.subtract(two, hlo.and_(y, one)), y)
    state = [one, x, y]
    types = [v.type for v in state]
    op = hlo.WhileOp(types, state)

    def unfinished(result: ir.Value, base: ir.Value, rest: ir.Value) -> ir.Value:
        more = b.compare("NE", rest, zero)
        return b.reduce([more], [b.splat(False, "i1")], range(len(b.shape(more))), lambda a, e: hlo.or_(a, e))[0]

    def step(result: ir.Value, base: ir.Value, rest: ir.Value) -> list[ir.Value]:
        odd = b.compare("EQ", hlo.and_(rest, one), one)
        result = hlo.select(odd, multiply(b, result, base), result)
        return [result, multiply(b, base, base), hlo.shift_right_logical(rest, one)]

    b.region(op, types, unfinished, 0)
    b.region(op, types, step, 1)
    return op.results[0]
