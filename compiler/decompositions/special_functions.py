"""Special functions as series, asymptotic expansions and quadratures in f64, whose coefficients follow from their formulas.

Every function is exact to better than f32; the pieces of each meet where both are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from compiler.decompositions import decomposition

EULER = 0.57721566490153286


def special(*overloads: str) -> Callable[[Callable[[Tensor], Tensor]], Callable[[Tensor], Tensor]]:
    """Register a function of one f64 tensor as the decomposition of overloads that take any real type."""

    def register(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        def rounded(x: Tensor) -> Tensor:
            kind = x.dtype if x.dtype.is_floating_point else torch.get_default_dtype()
            return function(x.to(torch.float64)).to(kind)

        decomposition(*(f"{name}.default" for name in overloads))(rounded)
        return function

    return register


def _polynomial(coefficients: Sequence[float], z: Tensor) -> Tensor:
    """By Horner's rule, the constant term first."""
    found = torch.full_like(z, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        found = found * z + c
    return found


def _ascending(order: int, terms: int, weight: Callable[[int], float] = lambda k: 1.0) -> list[float]:
    """weight(k) / (k! (k + order)!): the series of all Bessel functions in z = x^2 / 4, or -z."""
    return [weight(k) / (math.factorial(k) * math.factorial(k + order)) for k in range(terms)]


def _harmonic(k: int) -> float:
    return sum(1 / j for j in range(1, k + 1))


def _hankel(order: int, terms: int) -> list[float]:
    """Coefficients of the expansions for large x, in 1 / x."""
    found = [1.0]
    for k in range(1, terms):
        found.append(found[-1] * (4 * order * order - (2 * k - 1) ** 2) / (8 * k))
    return found


# -- Bessel functions ----------------------------------------------------------------------------

_NEAR, _TERMS = 12.0, 36
"""Up to where the series is used, in which terms of alternating sign cancel, and how many terms it has."""


def _waves(order: int, x: Tensor) -> tuple[Tensor, Tensor]:
    """J and Y for large positive x."""
    a = _hankel(order, 22)
    y = 1 / (x * x)
    even = _polynomial([(-1) ** k * c for k, c in enumerate(a[0::2])], y)
    odd = _polynomial([(-1) ** k * c for k, c in enumerate(a[1::2])], y) / x
    phase, size = x - (order / 2 + 0.25) * math.pi, torch.sqrt(2 / (math.pi * x))
    sine, cosine = torch.sin(phase), torch.cos(phase)
    return size * (even * cosine - odd * sine), size * (even * sine + odd * cosine)


def _bessel_j(order: int, x: Tensor) -> Tensor:
    size = x.abs()
    near, far = size.clamp(max=_NEAR), size.clamp(min=_NEAR)
    series = _polynomial(_ascending(order, _TERMS), -near * near / 4) * (near / 2) ** order
    found = torch.where(size <= _NEAR, series, _waves(order, far)[0])
    return torch.where(x < 0, -found, found) if order % 2 else found


def _bessel_y(order: int, x: Tensor) -> Tensor:
    near, far = x.clamp(max=_NEAR), x.clamp(min=_NEAR)
    logarithm = torch.log(near / 2)
    z = -near * near / 4
    if order == 0:
        rest = _polynomial(_ascending(0, _TERMS, _harmonic), z)
        series = 2 / math.pi * ((logarithm + EULER) * _bessel_j(0, near) - rest)
    else:
        rest = _polynomial(_ascending(1, _TERMS, lambda k: _harmonic(k) + _harmonic(k + 1) - 2 * EULER), z)
        series = -2 / (math.pi * near) + 2 / math.pi * logarithm * _bessel_j(1, near) - near / (2 * math.pi) * rest
    found = torch.where(x <= _NEAR, series, _waves(order, far)[1])
    return torch.where(x == 0, -math.inf, torch.where(x < 0, math.nan, found))


special("special_bessel_j0")(lambda x: _bessel_j(0, x))
special("special_bessel_j1")(lambda x: _bessel_j(1, x))
special("special_bessel_y0")(lambda x: _bessel_y(0, x))
special("special_bessel_y1")(lambda x: _bessel_y(1, x))


@special("special_spherical_bessel_j0")
def spherical_bessel_j0(x: Tensor) -> Tensor:
    small = x.abs() < 1e-4
    found = torch.sin(x) / torch.where(small, 1.0, x)
    return torch.where(small, 1 - x * x / 6, torch.where(x.isinf(), 0.0, found))


# -- modified Bessel functions -------------------------------------------------------------------


def _scaled_i(order: int, x: Tensor) -> Tensor:
    """exp(-|x|) I(x)."""
    size = x.abs()
    near, far = size.clamp(max=16.0), size.clamp(min=16.0)
    series = _polynomial(_ascending(order, 48), near * near / 4) * (near / 2) ** order * torch.exp(-near)
    a = [(-1) ** k * c for k, c in enumerate(_hankel(order, 26))]
    found = torch.where(size <= 16.0, series, _polynomial(a, 1 / far) / torch.sqrt(2 * math.pi * far))
    return torch.where(x < 0, -found, found) if order % 2 else found


def _quadrature(x: Tensor, factor: Callable[[Tensor], Tensor]) -> Tensor:
    """exp(x) K(x) for x not small: its integral over t with 2 sinh(t / 2) = u / sqrt(x), in which exp(-u^2 / 2) is left.

    The trapezoidal rule is exact to double precision for such integrands. `factor` is cosh(order t), given s = u / sqrt(x).
    """
    step = 0.25
    root = torch.sqrt(x)
    total = torch.full_like(x, 0.5)
    for k in range(1, 38):
        u = step * k
        s = u / root
        total = total + math.exp(-u * u / 2) * factor(s) / torch.sqrt(1 + s * s / 4)
    return total * step / root


def _scaled_k(order: int, x: Tensor) -> Tensor:
    """exp(x) K(x)."""
    near, far = x.clamp(max=2.0), x.clamp(min=2.0)
    logarithm, z = torch.log(near / 2), near * near / 4
    inside = _scaled_i(order, near) * torch.exp(near)
    if order == 0:
        series = _polynomial(_ascending(0, 20, _harmonic), z) - (logarithm + EULER) * inside
        tail = _quadrature(far, torch.ones_like)
    else:
        rest = _polynomial(_ascending(1, 20, lambda k: _harmonic(k) + _harmonic(k + 1) - 2 * EULER), z)
        series = 1 / near + logarithm * inside - near / 4 * rest
        tail = _quadrature(far, lambda s: 1 + s * s / 2)
    found = torch.where(x <= 2, series * torch.exp(near), tail)
    return torch.where(x == 0, math.inf, torch.where(x < 0, math.nan, found))


special("special_i0e")(lambda x: _scaled_i(0, x))
special("special_i1e")(lambda x: _scaled_i(1, x))
special("i0", "special_i0", "special_modified_bessel_i0")(lambda x: _scaled_i(0, x) * torch.exp(x.abs()))
special("special_i1", "special_modified_bessel_i1")(lambda x: _scaled_i(1, x) * torch.exp(x.abs()))
special("special_scaled_modified_bessel_k0")(lambda x: _scaled_k(0, x))
special("special_scaled_modified_bessel_k1")(lambda x: _scaled_k(1, x))
special("special_modified_bessel_k0")(lambda x: _scaled_k(0, x) * torch.exp(-x))
special("special_modified_bessel_k1")(lambda x: _scaled_k(1, x) * torch.exp(-x))


# -- Airy ----------------------------------------------------------------------------------------


def _airy_series(first: int, terms: int = 32) -> list[float]:
    """The solution of y'' = x y that starts with x^first, over x^first, in x^3."""
    found = [1.0]
    for k in range(1, terms):
        n = 3 * k + first
        found.append(found[-1] / (n * (n - 1)))
    return found


def _airy_asymptotic(terms: int = 20) -> list[float]:
    return [math.gamma(3 * k + 0.5) / (54**k * math.factorial(k) * math.gamma(k + 0.5)) for k in range(terms)]


@special("special_airy_ai")
def airy_ai(x: Tensor) -> Tensor:
    middle = x.clamp(-8.0, 3.0)
    cube = middle**3
    at_zero, slope = 3 ** (-2 / 3) / math.gamma(2 / 3), 3 ** (-1 / 3) / math.gamma(1 / 3)
    series = at_zero * _polynomial(_airy_series(0), cube) - slope * middle * _polynomial(_airy_series(1), cube)
    right = x.clamp(min=3.0)
    zeta = 2 / 3 * right * torch.sqrt(right)
    third = _quadrature(zeta, lambda s: torch.cosh(2 / 3 * torch.asinh(s / 2)))
    decay = torch.sqrt(right / 3) / math.pi * third * torch.exp(-zeta)
    left = (-x).clamp(min=8.0)
    zeta = 2 / 3 * left * torch.sqrt(left)
    u, y = _airy_asymptotic(), 1 / (zeta * zeta)
    even = _polynomial([(-1) ** k * c for k, c in enumerate(u[0::2])], y)
    odd = _polynomial([(-1) ** k * c for k, c in enumerate(u[1::2])], y) / zeta
    phase = zeta + math.pi / 4
    wave = (torch.sin(phase) * even - torch.cos(phase) * odd) / (math.sqrt(math.pi) * torch.sqrt(torch.sqrt(left)))
    found = torch.where(x > 3, decay, torch.where(x < -8, wave, series))
    return torch.where(x.isnan(), x, found)


# -- the error function's relatives, gamma's -----------------------------------------------------


@special("special_erfcx")
def erfcx(x: Tensor) -> Tensor:
    near, far = x.clamp(max=10.0), x.clamp(min=10.0)
    y = 1 / (2 * far * far)
    coefficients = [float((-1) ** k * math.prod(range(1, 2 * k, 2))) for k in range(10)]
    tail = _polynomial(coefficients, y) / (far * math.sqrt(math.pi))
    return torch.where(x > 10, tail, torch.exp(near * near) * torch.erfc(near))


@special("special_ndtri")
def ndtri(p: Tensor) -> Tensor:
    """The quantile of the normal distribution; in the lower tail by Newton's rule on the logarithm of its integral."""
    lower = torch.minimum(p, 1 - p).clamp(min=1e-300, max=0.25)
    z = -torch.sqrt(-2 * torch.log(lower))
    for _ in range(6):
        area = torch.erfc(-z * math.sqrt(0.5)) / 2
        density = torch.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        z = z - (torch.log(area) - torch.log(lower)) * area / density
    inner = math.sqrt(2) * torch.erfinv(2 * p.clamp(0.2, 0.8) - 1)
    found = torch.where((p > 0.2) & (p < 0.8), inner, torch.where(p < 0.5, z, -z))
    found = torch.where(p == 0, -math.inf, torch.where(p == 1, math.inf, found))
    return torch.where((p < 0) | (p > 1) | p.isnan(), math.nan, found)


@decomposition("polygamma.default", "special_polygamma.default")
def polygamma(n: int, x: Tensor) -> Tensor:
    kind = x.dtype if x.dtype.is_floating_point else torch.get_default_dtype()
    x = x.to(torch.float64)
    if n == 0:
        return torch.digamma(x).to(kind)
    if n > 1:
        sign = 1.0 if n % 2 else -1.0
        return (sign * math.factorial(n) * torch.special.zeta(torch.full_like(x, n + 1.0), x)).to(kind)
    mirrored = torch.special.zeta(torch.full_like(x, 2.0), torch.where(x < 0.5, 1 - x, x))
    sine = torch.sin(math.pi * x)
    found = torch.where(x < 0.5, (math.pi / sine) ** 2 - mirrored, mirrored)
    return torch.where(x == math.inf, 0.0, found).to(kind)


def _power_of_two(exponent: Tensor, kind: torch.dtype) -> Tensor:
    """Exact, for exponents of normal numbers."""
    whole, fraction, bias = (torch.int64, 52, 1023) if kind == torch.float64 else (torch.int32, 23, 127)
    return ((exponent.to(whole) + bias) << fraction).view(kind)


@decomposition("ldexp.Tensor")
def ldexp(x: Tensor, exponent: Tensor) -> Tensor:
    """Floats by integers are exact, and rounded once where they end up too small to be normal; others are a product."""
    if not x.is_floating_point() or exponent.is_floating_point() or exponent.is_complex():
        real = x.dtype.to_real()
        base = torch.full((), 2.0, dtype=real) if real.is_floating_point and real != torch.float32 else 2.0
        return x * torch.pow(base, exponent)
    wide, most = (torch.float64, 1000) if x.dtype == torch.float64 else (torch.float32, 120)
    mantissa, own = torch.frexp(x.to(wide))
    total = (own.to(torch.int64) + exponent.to(torch.int32)).clamp(-2 * most, 2 * most)
    first = total.clamp(-most, most)
    scaled = mantissa * _power_of_two(first, wide) * _power_of_two(total - first, wide)
    return scaled.to(x.dtype)


@decomposition("frexp.Tensor")
def frexp(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mantissa in [1/2, 1) and exponent, read off the bits; numbers too small to be normal are scaled first."""
    wide, whole, fraction = (
        (torch.float64, torch.int64, 52) if x.dtype == torch.float64 else (torch.float32, torch.int32, 23)
    )
    bits_of_exponent = 11 if wide == torch.float64 else 8
    bias = (1 << (bits_of_exponent - 1)) - 2
    value = x.to(wide)
    tiny = value.abs() < torch.finfo(wide).tiny
    bits = torch.where(tiny, value * 2.0**fraction, value).view(whole)
    exponent = ((bits >> fraction) & ((1 << bits_of_exponent) - 1)) - bias - torch.where(tiny, fraction, 0)
    kept = (bits & ((1 << fraction) - 1)) | (bias << fraction)
    mantissa = kept.view(wide)
    mantissa = torch.where(torch.signbit(value), -mantissa, mantissa)
    plain = (value == 0) | ~value.isfinite()
    return torch.where(plain, value, mantissa).to(x.dtype), torch.where(plain, 0, exponent).to(torch.int32)
