"""Orthogonal polynomials of a degree that each element brings along: one three-term recurrence, run to the highest degree."""

from __future__ import annotations

from collections.abc import Callable

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from compiler.lowering.builder import Builder
from compiler.lowering.elementwise import like
from compiler.lowering.promotion import computed, finish
from compiler.lowering.reductions import greatest
from compiler.lowering.registry import Call, lowering

_HIGHEST = 1 << 30
"""Degrees beyond it take PyTorch hours."""

Step = Callable[[Builder, ir.Value, ir.Value, ir.Value, ir.Value], ir.Value]
"""(builder, x, k, degree k - 1, degree k) -> degree k + 1; k has the type and shape of x."""


def _linear(b: Builder, x: ir.Value, slope: float, constant: float) -> ir.Value:
    return hlo.add(hlo.multiply(like(b, slope, x), x), like(b, constant, x))


def _chebyshev(b: Builder, x: ir.Value, k: ir.Value, before: ir.Value, now: ir.Value) -> ir.Value:
    return hlo.subtract(hlo.multiply(_linear(b, x, 2, 0), now), before)


def _hermite(b: Builder, x: ir.Value, k: ir.Value, before: ir.Value, now: ir.Value) -> ir.Value:
    return hlo.subtract(hlo.multiply(_linear(b, x, 2, 0), now), hlo.multiply(_linear(b, k, 2, 0), before))


def _hermite_e(b: Builder, x: ir.Value, k: ir.Value, before: ir.Value, now: ir.Value) -> ir.Value:
    return hlo.subtract(hlo.multiply(x, now), hlo.multiply(k, before))


def _laguerre(b: Builder, x: ir.Value, k: ir.Value, before: ir.Value, now: ir.Value) -> ir.Value:
    top = hlo.subtract(hlo.multiply(hlo.subtract(_linear(b, k, 2, 1), x), now), hlo.multiply(k, before))
    return hlo.divide(top, _linear(b, k, 1, 1))


def _legendre(b: Builder, x: ir.Value, k: ir.Value, before: ir.Value, now: ir.Value) -> ir.Value:
    top = hlo.subtract(hlo.multiply(hlo.multiply(_linear(b, k, 2, 1), x), now), hlo.multiply(k, before))
    return hlo.divide(top, _linear(b, k, 1, 1))


def _register(name: str, first: tuple[float, float], step: Step, shifted: bool = False) -> None:
    """`first` is the polynomial of degree one: slope and constant; a shifted one is of 2 x - 1."""

    def rule(b: Builder, call: Call) -> ir.Value:
        x, degrees = computed(b, call, call.args)
        if shifted:
            x = _linear(b, x, 2, -1)
        # A degree that is no number has no polynomial, and none is so high that the count of turns would run over.
        most = b.splat(_HIGHEST, b.element(degrees), b.shape(degrees))
        countable = hlo.and_(hlo.is_finite(degrees), b.compare("LE", degrees, most))
        degree = b.convert(hlo.select(countable, degrees, like(b, -1, degrees)), "i32")
        shape = b.shape(x)
        one = b.splat(1, "i32")
        last = greatest(b, degree, tuple(range(len(shape)))) if 0 not in shape else b.splat(0, "i32")
        start = hlo.select(b.compare("EQ", degree, like(b, 0, degree)), like(b, 1, x), like(b, 0, x))
        now = _linear(b, x, *first)
        held = [one, last, x, degree, like(b, 1, x), now, start]
        op = hlo.WhileOp([v.type for v in held], held)
        types = [v.type for v in held]
        b.region(op, types, lambda k, last, *_: b.compare("LE", k, last), 0)

        def body(
            k: ir.Value, last: ir.Value, x: ir.Value, degree: ir.Value, before: ir.Value, now: ir.Value, found: ir.Value
        ) -> list[ir.Value]:
            found = hlo.select(b.compare("EQ", degree, b.broadcast(k, shape)), now, found)
            number = b.broadcast(b.convert(k, b.element(x)), shape)
            after = step(b, x, number, before, now)
            return [hlo.add(k, b.splat(1, "i32")), last, x, degree, now, after, found]

        b.region(op, types, body, 1)
        return finish(b, call, op.results[6])

    lowering(*(f"aten.special_{name}.{overload}" for overload in ("default", "x_scalar", "n_scalar")))(rule)


for _prefix, _shifted in (("", False), ("shifted_", True)):
    _register(f"{_prefix}chebyshev_polynomial_t", (1, 0), _chebyshev, _shifted)
    _register(f"{_prefix}chebyshev_polynomial_u", (2, 0), _chebyshev, _shifted)
    _register(f"{_prefix}chebyshev_polynomial_v", (2, -1), _chebyshev, _shifted)
    _register(f"{_prefix}chebyshev_polynomial_w", (2, 1), _chebyshev, _shifted)
_register("hermite_polynomial_h", (2, 0), _hermite)
_register("hermite_polynomial_he", (1, 0), _hermite_e)
_register("laguerre_polynomial_l", (-1, 1), _laguerre)
_register("legendre_polynomial_p", (1, 0), _legendre)
