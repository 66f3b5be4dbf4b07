"""Hurwitz' zeta, the incomplete gamma functions and common divisors: iterations that end when every element has converged."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import chlo
from jaxlib.mlir.dialects import stablehlo as hlo

from compiler.lowering.builder import Builder
from compiler.lowering.elementwise import like
from compiler.lowering.promotion import computed, finish, pointwise
from compiler.lowering.registry import Call, lowering

_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798)
_MOST = 1 << 20
"""Iterations at most: a number that does not change any more when one is added would go on for ever."""


def _until(
    b: Builder, state: Sequence[ir.Value], busy: Callable[..., ir.Value], body: Callable[..., Sequence[ir.Value]]
) -> list[ir.Value]:
    """`state = body(*state)` while `busy(*state)` is true of an element."""
    held = [b.splat(0, "i32"), *state]
    types = [v.type for v in held]
    op = hlo.WhileOp(types, held)

    def condition(k: ir.Value, *values: ir.Value) -> ir.Value:
        marks = busy(*values)
        dims = list(range(len(b.shape(marks))))
        any_ = b.reduce([marks], [b.splat(False, "i1")], dims, lambda a, e: hlo.or_(a, e))[0]
        return hlo.and_(any_, b.compare("LT", k, b.splat(_MOST, "i32")))

    b.region(op, types, condition, 0)
    b.region(op, types, lambda k, *values: [hlo.add(k, b.splat(1, "i32")), *body(*values)], 1)
    results: list[ir.Value] = list(op.results)
    return results[1:]


@pointwise("aten.special_zeta.default", "aten.special_zeta.other_scalar", "aten.special_zeta.self_scalar")
def zeta(b: Builder, s: ir.Value, q: ir.Value) -> ir.Value:
    """Terms one by one until their base is beyond 9, then Euler's and Maclaurin's expansion of the rest."""
    zero, one, nine = like(b, 0, s), like(b, 1, s), like(b, 9, s)
    minus = hlo.negate(s)

    def busy(base: ir.Value, total: ir.Value) -> ir.Value:
        return b.compare("LE", base, nine)

    def body(base: ir.Value, total: ir.Value) -> list[ir.Value]:
        going = busy(base, total)
        term = hlo.select(going, hlo.power(base, minus), zero)
        return [hlo.select(going, hlo.add(base, one), base), hlo.add(total, term)]

    base, total = _until(b, [q, zero], busy, body)
    power = hlo.power(base, minus)
    rest = hlo.divide(hlo.multiply(power, base), hlo.subtract(s, one))
    total = hlo.add(hlo.add(total, rest), hlo.multiply(power, like(b, 0.5, s)))
    inverse = hlo.divide(one, base)
    rising = hlo.multiply(hlo.multiply(power, inverse), s)
    for j, number in enumerate(_BERNOULLI, 1):
        total = hlo.add(total, hlo.multiply(rising, like(b, number / math.factorial(2 * j), s)))
        for step in (2 * j - 1, 2 * j):
            rising = hlo.multiply(hlo.multiply(rising, inverse), hlo.add(s, like(b, step, s)))
    nan, infinite = like(b, math.nan, s), like(b, math.inf, s)
    negative = b.compare("LE", q, zero)
    total = hlo.select(hlo.and_(negative, b.compare("NE", s, hlo.floor(s))), nan, total)
    total = hlo.select(hlo.and_(negative, b.compare("EQ", q, hlo.floor(q))), infinite, total)
    # Some base lies between -1 and 1 then, and its power is infinite.
    total = hlo.select(hlo.and_(b.compare("EQ", s, infinite), b.compare("LT", q, one)), infinite, total)
    total = hlo.select(b.compare("LT", s, one), nan, total)
    return hlo.select(b.compare("EQ", s, one), infinite, total)


@pointwise("aten.gcd.default")
def gcd(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
    """Euclid's algorithm, until every second number is zero."""
    zero, one = like(b, 0, x), like(b, 1, x)

    def busy(x: ir.Value, y: ir.Value) -> ir.Value:
        return b.compare("NE", y, zero)

    def body(x: ir.Value, y: ir.Value) -> list[ir.Value]:
        going = busy(x, y)
        rest = hlo.remainder(x, hlo.select(going, y, one))
        return [hlo.select(going, y, x), hlo.select(going, rest, y)]

    if b.element(x)[0] != "u":
        x, y = hlo.abs(x), hlo.abs(y)
    return _until(b, [x, y], busy, body)[0]


def _gamma_parts(b: Builder, a: ir.Value, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The lower and the upper regularised incomplete gamma function, for positive a and x."""
    zero, one = like(b, 0, a), like(b, 1, a)
    low = b.compare("LT", x, hlo.add(a, one))
    tiny = like(b, 2.0**-54, a)
    logarithm = hlo.subtract(hlo.multiply(a, hlo.log(x)), x)
    front = hlo.exponential(hlo.subtract(logarithm, chlo.lgamma(a)))  # x^a exp(-x) / gamma(a)
    x_low = hlo.select(low, x, zero)  # where the other expansion is used, this one ends at once

    def series_busy(n: ir.Value, term: ir.Value, total: ir.Value) -> ir.Value:
        return b.compare("GT", term, hlo.multiply(total, tiny))

    def series_body(n: ir.Value, term: ir.Value, total: ir.Value) -> list[ir.Value]:
        n = hlo.add(n, one)
        term = hlo.multiply(term, hlo.divide(x_low, n))
        return [n, term, hlo.add(total, term)]

    _, _, series = _until(b, [a, one, one], series_busy, series_body)
    series = hlo.multiply(hlo.divide(front, a), series)

    # The continued fraction of the upper part by Lentz' rule: its steps are factors that approach one.
    start = hlo.subtract(hlo.add(x, one), a)
    safe = hlo.select(low, one, start)
    huge = like(b, 1e300, a)

    def fraction_busy(i: ir.Value, at: ir.Value, c: ir.Value, d: ir.Value, h: ir.Value, change: ir.Value) -> ir.Value:
        return hlo.and_(hlo.not_(low), b.compare("GT", hlo.abs(hlo.subtract(change, one)), tiny))

    def fraction_body(
        i: ir.Value, at: ir.Value, c: ir.Value, d: ir.Value, h: ir.Value, change: ir.Value
    ) -> list[ir.Value]:
        i = hlo.add(i, one)
        numerator = hlo.multiply(i, hlo.subtract(a, i))
        at = hlo.add(at, like(b, 2, a))
        d = hlo.divide(one, hlo.add(hlo.multiply(numerator, d), at))
        c = hlo.add(at, hlo.divide(numerator, c))
        change = hlo.multiply(c, d)
        return [i, at, c, d, hlo.multiply(h, change), change]

    first = hlo.divide(one, safe)
    state = [zero, safe, huge, first, first, zero]
    fraction = _until(b, state, fraction_busy, fraction_body)[4]
    fraction = hlo.multiply(front, fraction)
    return hlo.select(low, series, hlo.subtract(one, fraction)), hlo.select(low, hlo.subtract(one, series), fraction)


@lowering(
    "aten.igamma.default", "aten.special_gammainc.default", "aten.igammac.default", "aten.special_gammaincc.default"
)
def incomplete_gamma(b: Builder, call: Call) -> ir.Value:
    a, x = (b.convert(v, "f64") for v in computed(b, call, call.args))
    upper = call.target in ("aten.igammac.default", "aten.special_gammaincc.default")
    zero, one = like(b, 0, a), like(b, 1, a)
    infinite = like(b, math.inf, a)
    usual = hlo.and_(
        hlo.and_(b.compare("GT", a, zero), b.compare("GT", x, zero)),
        hlo.and_(b.compare("LT", a, infinite), b.compare("LT", x, infinite)),
    )
    found = _gamma_parts(b, hlo.select(usual, a, one), hlo.select(usual, x, one))[upper]
    # At the edges the lower part is 0 or 1; the upper one the rest.
    start, end = (one, zero) if upper else (zero, one)
    nan = like(b, math.nan, a)
    edge = hlo.select(b.compare("EQ", x, infinite), end, nan)
    edge = hlo.select(b.compare("EQ", x, zero), start, edge)
    edge = hlo.select(b.compare("EQ", a, infinite), hlo.select(b.compare("EQ", x, infinite), nan, start), edge)
    edge = hlo.select(b.compare("EQ", a, zero), hlo.select(b.compare("GT", x, zero), end, nan), edge)
    negative = hlo.or_(b.compare("LT", a, zero), b.compare("LT", x, zero))
    return finish(b, call, hlo.select(usual, found, hlo.select(negative, nan, edge)))
