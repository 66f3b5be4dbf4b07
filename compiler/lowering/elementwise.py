"""Arithmetic, comparison, bit and selection operators, element by element."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import chlo
from jaxlib.mlir.dialects import stablehlo as hlo

from compiler.lowering.builder import Builder
from compiler.lowering.promotion import (
    category,
    computed,
    finish,
    on_first,
    operands,
    pointwise,
    register_pointwise,
    rounded,
    wide,
)
from compiler.lowering.reassociation import apart, factors
from compiler.lowering.registry import Call, lowering
from compiler.lowering.windows import choose
from compiler.lowering.wrapping import wrapping


def like(b: Builder, number: complex | float | int, value: ir.Value) -> ir.Value:
    """A Python number in the type and shape of a value."""
    return b.splat(number, b.element(value), b.shape(value))


def kind(b: Builder, value: ir.Value) -> int:
    return category(b.element(value))


def is_nan(b: Builder, x: ir.Value) -> ir.Value:
    return b.compare("NE", x, x)


def sign_bit(b: Builder, x: ir.Value) -> ir.Value:
    """Whether the sign bit is set; unlike `x < 0` true for -0.0 and for negative NaNs."""
    element = b.element(x)
    if kind(b, x) == 2:
        bits = {"f64": "i64", "f32": "i32", "f16": "i16", "bf16": "i16"}[element]
        x = hlo.bitcast_convert(b.tensor(bits, b.shape(x)), x)
    return b.compare("LT", x, like(b, 0, x))


def divide(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
    """A correctly rounded quotient. XLA turns division by what it finds to be a broadcast value into a product with its
    reciprocal, where 49 / 49 is less than 1, and quotients of quotients, roots and powers into others that overflow elsewhere;
    behind a barrier, which it drops before fusing, operands look like none of these."""
    if b.target == "xla" and kind(b, x) == 2:
        x, y = b.opaque(x), b.opaque(y)
    return hlo.divide(x, y)


def multiply(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
    """A product, of floats whose constants XLA does not put together."""
    return wrapping(b, hlo.multiply(*factors(b, *b.unfolded(x, y))))


# -- functions that are one operation ----------------------------------------------------------

for _name, _operation in {
    "sin": hlo.sine, "cos": hlo.cosine, "tan": hlo.tan, "tanh": hlo.tanh, "exp": hlo.exponential,
    "expm1": hlo.exponential_minus_one, "log1p": hlo.log_plus_one,
    "sigmoid": hlo.logistic, "special_expit": hlo.logistic,
    "asin": chlo.asin, "acos": chlo.acos, "atan": chlo.atan, "sinh": chlo.sinh, "cosh": chlo.cosh,
    "asinh": chlo.asinh, "acosh": chlo.acosh, "atanh": chlo.atanh,
    "erf": chlo.erf, "erfc": chlo.erfc, "erfinv": chlo.erf_inv, "special_erfinv": chlo.erf_inv,
    "lgamma": chlo.lgamma,
}.items():  # fmt: skip
    register_pointwise(lambda b, x, operation=_operation: operation(x), f"aten.{_name}.default")

for _name, _operation in {"log": hlo.log, "sqrt": hlo.sqrt, "rsqrt": hlo.rsqrt}.items():
    register_pointwise(lambda b, x, operation=_operation: operation(apart(b, x)), f"aten.{_name}.default")

register_pointwise(lambda b, x, y: hlo.atan2(x, y), "aten.atan2.default")


@pointwise("aten.digamma.default", "aten.special_digamma.default", "aten.special_psi.default")
def digamma(b: Builder, x: ir.Value) -> ir.Value:
    """At zero it has the infinity of the side from which zero comes."""
    pole = hlo.divide(like(b, -1, x), x)
    return hlo.select(b.compare("EQ", x, like(b, 0, x)), pole, chlo.digamma(x))


register_pointwise(lambda b, x, y: chlo.next_after(x, y), "aten.nextafter.default", exact=True)

for _name, _operation in {"floor": hlo.floor, "ceil": hlo.ceil, "round": hlo.round_nearest_even}.items():
    register_pointwise(
        lambda b, x, operation=_operation: operation(x) if kind(b, x) == 2 else x, f"aten.{_name}.default", exact=True
    )

# PyTorch's kernels of these two take a scalar second operand as it is.
register_pointwise(multiply, "aten.mul.Tensor", "aten.mul.Scalar", unrounded=(1,))
register_pointwise(divide, "aten.div.Tensor", "aten.div.Scalar", unrounded=(1,))
register_pointwise(lambda b, x: hlo.negate(x), "aten.neg.default", exact=True)
register_pointwise(lambda b, x: x, "aten.positive.default", exact=True)


# -- arithmetic --------------------------------------------------------------------------------


@lowering("aten.add.Tensor", "aten.add.Scalar")
def add(b: Builder, call: Call) -> ir.Value:
    x, y = computed(b, call, call.args[:2])
    factor = call.arg(2, "alpha", 1)
    if kind(b, y) == 2 and factor < 0:
        # The same to the bit, while XLA takes 0 + z for z, which has another sign where z is -3 times 0.
        return finish(b, call, b.minus(x, _scaled(b, call, y, -factor)))
    return finish(b, call, b.plus(x, _scaled(b, call, y, factor)))


@lowering("aten.sub.Tensor", "aten.sub.Scalar")
def sub(b: Builder, call: Call) -> ir.Value:
    x, y = computed(b, call, call.args[:2])
    return finish(b, call, b.minus(x, _scaled(b, call, y, call.arg(2, "alpha", 1))))


@lowering("aten.rsub.Tensor", "aten.rsub.Scalar")
def rsub(b: Builder, call: Call) -> ir.Value:
    x, y = computed(b, call, call.args[:2])
    return finish(b, call, b.minus(y, _scaled(b, call, x, call.arg(2, "alpha", 1))))


def _scaled(b: Builder, call: Call, value: ir.Value, factor: Any) -> ir.Value:
    """Times `alpha`, which is rounded to the type of the result."""
    element = call.types[0][0]
    if factor == 1:
        return value
    narrow = wide(element) != element
    one = rounded(b, factor, element) if narrow else b.splat(factor, b.element(value))
    return multiply(b, value, b.broadcast(b.convert(one, b.element(value)), b.shape(value)))


def _times(b: Builder, value: ir.Value, factor: float) -> ir.Value:
    return value if factor == 1 else multiply(b, value, like(b, factor, value))


def truncate(b: Builder, x: ir.Value) -> ir.Value:
    """Round towards zero; keeps the sign of zero."""
    return hlo.select(sign_bit(b, x), hlo.ceil(x), hlo.floor(x)) if kind(b, x) == 2 else x


register_pointwise(truncate, "aten.trunc.default", exact=True)


@pointwise("aten.frac.default")
def frac(b: Builder, x: ir.Value) -> ir.Value:
    return hlo.subtract(x, truncate(b, x))


def _signs_differ(b: Builder, remainder: ir.Value, divisor: ir.Value) -> ir.Value:
    """Whether a non-zero remainder of truncating division has the other sign than the divisor."""
    zero = like(b, 0, divisor)
    differ = hlo.xor(b.compare("LT", remainder, zero), b.compare("LT", divisor, zero))
    return hlo.and_(differ, b.compare("NE", remainder, zero))


@pointwise("aten.remainder.Tensor", "aten.remainder.Scalar", "aten.remainder.Scalar_Tensor")
def remainder(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
    rest = hlo.remainder(x, y)
    return hlo.select(_signs_differ(b, rest, y), hlo.add(rest, y), rest)


register_pointwise(lambda b, x, y: hlo.remainder(x, y), "aten.fmod.Tensor", "aten.fmod.Scalar")


@lowering("aten.floor_divide.default", "aten.floor_divide.Scalar")
def floor_division(b: Builder, call: Call) -> ir.Value:
    x, y, step = _division(b, call)
    return finish(b, call, floor_divide(b, x, y, step))


@lowering("aten.div.Tensor_mode", "aten.div.Scalar_mode")
def div_mode(b: Builder, call: Call) -> ir.Value:
    mode = call.arg(2, "rounding_mode")
    x, y, step = _division(b, call)
    if mode == "floor":
        return finish(b, call, floor_divide(b, x, y, step))
    quotient = divide(b, x, y)
    return finish(b, call, truncate(b, step(quotient)) if mode == "trunc" else quotient)


Step = Callable[[ir.Value], ir.Value]


def _division(b: Builder, call: Call) -> tuple[ir.Value, ir.Value, Step]:
    """Both operands, and what PyTorch does after each step of a division that rounds to integers: in a 16-bit type it rounds
    to that type, unless the divisor is a scalar, which it takes as it is."""
    x, y = computed(b, call, call.args[:2], unrounded=(1,))
    element, divisor = call.types[0][0], call.args[1]
    scalar = not isinstance(divisor, ir.Value) or not b.shape(divisor)
    narrow = wide(element) != element and not scalar
    return x, y, (lambda value: rounded(b, value, element)) if narrow else (lambda value: value)


def floor_divide(b: Builder, x: ir.Value, y: ir.Value, step: Step = lambda value: value) -> ir.Value:
    """Floored division, for floats corrected by the exact remainder, as Python's `//`."""
    rest = hlo.remainder(x, y)
    down = _signs_differ(b, rest, y)
    if kind(b, x) != 2:
        quotient = hlo.divide(x, y)
        return hlo.select(down, hlo.subtract(quotient, like(b, 1, x)), quotient)
    quotient = step(divide(b, step(hlo.subtract(x, step(rest))), y))
    quotient = hlo.select(down, step(hlo.subtract(quotient, like(b, 1, x))), quotient)
    floor = hlo.floor(quotient)
    off = b.compare("GT", hlo.subtract(quotient, floor), like(b, 0.5, x))
    floor = hlo.select(off, hlo.add(floor, like(b, 1, x)), floor)
    plain = divide(b, x, y)
    floor = hlo.select(b.compare("EQ", quotient, like(b, 0, x)), copy_sign(b, like(b, 0, x), plain), floor)
    return hlo.select(b.compare("EQ", y, like(b, 0, y)), plain, floor)


@pointwise("aten.abs.default", exact=True)
def absolute(b: Builder, x: ir.Value) -> ir.Value:
    if kind(b, x) == 3:  # infinite where one part is, also beside NaN
        size = hlo.abs(x)
        return hlo.select(isinf(b, x), like(b, math.inf, size), size)
    return x if b.element(x)[0] == "u" or kind(b, x) == 0 else wrapping(b, hlo.abs(x))


@pointwise("aten.reciprocal.default")
def reciprocal(b: Builder, x: ir.Value) -> ir.Value:
    return divide(b, like(b, 1, x), x)


register_pointwise(lambda b, x: multiply(b, x, x), "aten.square.default")


@pointwise("aten.sign.default", exact=True)
def sign(b: Builder, x: ir.Value) -> ir.Value:
    """-1, 0 or 1; 0 for NaN, as in PyTorch and unlike HLO."""
    if kind(b, x) == 0:
        return x
    zero = like(b, 0, x)
    positive = b.convert(b.compare("GT", x, zero), b.element(x))
    return hlo.subtract(positive, b.convert(b.compare("LT", x, zero), b.element(x)))


@pointwise("aten.sgn.default")
def sgn(b: Builder, x: ir.Value) -> ir.Value:
    if kind(b, x) < 3:
        return sign(b, x)
    size = b.convert(hlo.abs(x), b.element(x))
    zero = like(b, 0, x)
    return hlo.select(b.compare("EQ", x, zero), zero, hlo.divide(x, size))


@pointwise("aten.exp2.default", "aten.special_exp2.default")
def exp2(b: Builder, x: ir.Value) -> ir.Value:
    return hlo.power(like(b, 2, x), x)


def _logarithm(b: Builder, x: ir.Value, base: int) -> ir.Value:
    """Both parts of a complex logarithm are divided alone: that of 0 has an infinite one, and a complex quotient would be NaN."""
    found = hlo.log(apart(b, x))
    if kind(b, x) < 3:
        return hlo.divide(found, like(b, math.log(base), found))
    real, imag = hlo.real(found), hlo.imag(found)
    divisor = like(b, math.log(base), real)
    return hlo.complex(hlo.divide(real, divisor), hlo.divide(imag, divisor))


register_pointwise(lambda b, x: _logarithm(b, x, 2), "aten.log2.default")
register_pointwise(lambda b, x: _logarithm(b, x, 10), "aten.log10.default")


@on_first("aten.round.decimals")
def round_decimals(b: Builder, call: Call, x: ir.Value) -> ir.Value:
    decimals = call.arg(1, "decimals", 0)
    if kind(b, x) != 2 or decimals == 0:
        return hlo.round_nearest_even(x) if kind(b, x) == 2 else x
    scale = like(b, 10.0 ** abs(decimals), x)
    if decimals > 0:
        return divide(b, hlo.round_nearest_even(multiply(b, x, scale)), scale)
    return multiply(b, hlo.round_nearest_even(divide(b, x, scale)), scale)


@pointwise("aten.copysign.Tensor", "aten.copysign.Scalar")
def copy_sign(b: Builder, size: ir.Value, sign: ir.Value) -> ir.Value:
    size = hlo.abs(size)
    return hlo.select(sign_bit(b, sign), hlo.negate(size), size)


@pointwise("aten.hypot.default")
def hypot(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
    """Scaled by the larger side, so that squares do not overflow; infinite when either side is."""
    x, y = hlo.abs(x), hlo.abs(y)
    long, short = hlo.maximum(x, y), hlo.minimum(x, y)
    zero, one, infinity = like(b, 0, x), like(b, 1, x), like(b, math.inf, x)
    ratio = hlo.divide(short, hlo.select(b.compare("EQ", long, zero), one, long))
    length = hlo.multiply(long, hlo.sqrt(hlo.add(one, hlo.multiply(ratio, ratio))))
    infinite = hlo.or_(b.compare("EQ", x, infinity), b.compare("EQ", y, infinity))
    return hlo.select(infinite, infinity, length)


@lowering("aten.xlogy.Tensor", "aten.xlogy.Scalar_Self", "aten.xlogy.Scalar_Other")
def xlogy(b: Builder, call: Call) -> ir.Value:
    x, y = computed(b, call, call.args)
    zero, element = like(b, 0, x), call.types[0][0]
    log = hlo.log(apart(b, y))
    log = rounded(b, log, element) if wide(element) != element else log
    return finish(
        b, call, hlo.select(is_nan(b, y), y, hlo.select(b.compare("EQ", x, zero), zero, hlo.multiply(x, log)))
    )


@pointwise("aten.logaddexp.default")
def log_add_exp(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
    big = hlo.maximum(x, y)
    gap = hlo.negate(hlo.abs(hlo.subtract(x, y)))
    return hlo.select(
        b.compare("EQ", x, y), hlo.add(x, like(b, math.log(2), x)), hlo.add(big, hlo.log_plus_one(hlo.exponential(gap)))
    )


@lowering("aten.lerp.Scalar", "aten.lerp.Tensor")
def lerp(b: Builder, call: Call) -> ir.Value:
    start, end, weight = operands(b, call.args[:3], wide(call.types[0][0]), call.types[0][1])
    gap = hlo.subtract(end, start)
    from_start = hlo.add(start, hlo.multiply(weight, gap))
    from_end = hlo.subtract(end, hlo.multiply(gap, hlo.subtract(like(b, 1, weight), weight)))
    near = b.compare("LT", absolute(b, weight), b.splat(0.5, b.element(absolute(b, weight)), b.shape(weight)))
    return finish(b, call, hlo.select(near, from_start, from_end))


@lowering("aten.addcmul.default")
def addcmul(b: Builder, call: Call) -> ir.Value:
    x, left, right = computed(b, call, call.args[:3])
    return finish(b, call, b.plus(x, multiply(b, _times(b, left, call.arg(3, "value", 1)), right)))


@lowering("aten.addcdiv.default")
def addcdiv(b: Builder, call: Call) -> ir.Value:
    x, left, right = computed(b, call, call.args[:3])
    return finish(b, call, b.plus(x, divide(b, _times(b, left, call.arg(3, "value", 1)), right)))


@lowering("prims.fma.default")
def multiply_add(b: Builder, call: Call) -> ir.Value:
    """As eager PyTorch computes it, which rounds the product too."""
    left, right, x = computed(b, call, call.args[:3])
    return finish(b, call, b.plus(multiply(b, left, right), x))


# -- smallest and largest ----------------------------------------------------------------------

register_pointwise(lambda b, x, y: hlo.maximum(x, y), "aten.maximum.default", exact=True)
register_pointwise(lambda b, x, y: hlo.minimum(x, y), "aten.minimum.default", exact=True)


@pointwise("aten.fmax.default", exact=True)
def fmax(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
    return _skip_nan(b, x, y, hlo.maximum(x, y))


@pointwise("aten.fmin.default", exact=True)
def fmin(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
    return _skip_nan(b, x, y, hlo.minimum(x, y))


def _skip_nan(b: Builder, x: ir.Value, y: ir.Value, otherwise: ir.Value) -> ir.Value:
    if kind(b, x) != 2:
        return otherwise
    return hlo.select(is_nan(b, x), y, hlo.select(is_nan(b, y), x, otherwise))


@lowering("aten.clamp.default", "aten.clamp.Tensor", "aten.hardtanh.default")
def clamp(b: Builder, call: Call) -> ir.Value:
    tanh = call.target.startswith("aten.hardtanh")
    low, high = (
        call.arg(1, "min_val" if tanh else "min", -1 if tanh else None),
        call.arg(2, "max_val" if tanh else "max", 1 if tanh else None),
    )
    return _clamp(b, call, low, high)


@lowering("aten.clamp_min.default", "aten.clamp_min.Tensor")
def clamp_min(b: Builder, call: Call) -> ir.Value:
    return _clamp(b, call, call.arg(1, "min"), None)


@lowering("aten.clamp_max.default", "aten.clamp_max.Tensor")
def clamp_max(b: Builder, call: Call) -> ir.Value:
    return _clamp(b, call, None, call.arg(1, "max"))


def _clamp(b: Builder, call: Call, low: ir.Value | float | None, high: ir.Value | float | None) -> ir.Value:
    element, shape = call.types[0]
    given = [call.args[0], *(bound for bound in (low, high) if bound is not None)]
    # Bounds that are tensors promote, and what is written in place is converted afterwards.
    promote = any(isinstance(bound, ir.Value) for bound in (low, high))
    value, *bounds = computed(b, call, given, exact=True) if promote else operands(b, given, element, shape)
    if low is not None:
        value = _bounded(b, value, bounds[0], low, "LT")
    if high is not None:
        value = _bounded(b, value, bounds[-1], high, "GT")
    return finish(b, call, value)


def _bounded(b: Builder, value: ir.Value, bound: ir.Value, given: ir.Value | float, beyond: str) -> ir.Value:
    """No further out than a bound. Zero for a bound keeps the sign of a zero, which a maximum or a minimum does not."""
    if kind(b, value) == 2 and not isinstance(given, ir.Value) and given == 0:
        return hlo.select(b.compare(beyond, value, bound), bound, value)
    return hlo.maximum(value, bound) if beyond == "LT" else hlo.minimum(value, bound)


# -- comparison and logic ----------------------------------------------------------------------

for _name, _direction in {"eq": "EQ", "ne": "NE", "lt": "LT", "le": "LE", "gt": "GT", "ge": "GE"}.items():
    register_pointwise(
        lambda b, x, y, direction=_direction: b.compare(direction, *b.unfolded(x, y)),
        f"aten.{_name}.Tensor", f"aten.{_name}.Scalar", exact=True,
    )  # fmt: skip


for _name, _operation in {"logical_and": hlo.and_, "logical_or": hlo.or_, "logical_xor": hlo.xor}.items():
    register_pointwise(
        lambda b, x, y, operation=_operation: operation(b.convert(x, "i1"), b.convert(y, "i1")),
        f"aten.{_name}.default", exact=True,
    )  # fmt: skip
register_pointwise(lambda b, x: hlo.not_(b.convert(x, "i1")), "aten.logical_not.default", exact=True)


def _bits_in_both(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
    """XLA (jaxlib 0.10.2) moves `&` and `|` of two conversions to a wider integer in front of these, and with conversions to a
    narrower one before them crashes, or forgets what was cut off. LLVM makes one instruction of this."""
    if b.target != "xla" or kind(b, x) != 1:
        return hlo.and_(x, y)
    return hlo.xor(x, hlo.and_(x, hlo.not_(y)))


def _bits_in_either(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
    if b.target != "xla" or kind(b, x) != 1:
        return hlo.or_(x, y)
    return hlo.xor(x, hlo.and_(hlo.not_(x), y))


register_pointwise(_bits_in_both, *(f"aten.bitwise_and.{o}" for o in ("Tensor", "Scalar", "Scalar_Tensor")))
register_pointwise(_bits_in_either, *(f"aten.bitwise_or.{o}" for o in ("Tensor", "Scalar", "Scalar_Tensor")))
register_pointwise(
    lambda b, x, y: hlo.xor(x, y), *(f"aten.bitwise_xor.{o}" for o in ("Tensor", "Scalar", "Scalar_Tensor"))
)
register_pointwise(lambda b, x: hlo.not_(x), "aten.bitwise_not.default")

_SHIFTS = ("Tensor", "Tensor_Scalar", "Scalar_Tensor")
register_pointwise(lambda b, x, y: hlo.shift_left(x, y), *(f"aten.bitwise_left_shift.{o}" for o in _SHIFTS))
register_pointwise(lambda b, x, y: hlo.shift_left(x, y), "aten.__lshift__.Tensor", "aten.__lshift__.Scalar")


@pointwise(*(f"aten.bitwise_right_shift.{o}" for o in _SHIFTS), "aten.__rshift__.Tensor", "aten.__rshift__.Scalar")
def shift_right(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
    return hlo.shift_right_logical(x, y) if b.element(x)[0] == "u" else hlo.shift_right_arithmetic(x, y)


@pointwise("aten.isnan.default", exact=True)
def isnan(b: Builder, x: ir.Value) -> ir.Value:
    return is_nan(b, x)


@pointwise("aten.isinf.default", exact=True)
def isinf(b: Builder, x: ir.Value) -> ir.Value:
    if kind(b, x) == 3:
        return hlo.or_(isinf(b, hlo.real(x)), isinf(b, hlo.imag(x)))
    return b.compare("EQ", hlo.abs(x), like(b, math.inf, x)) if kind(b, x) == 2 else b.splat(False, "i1", b.shape(x))


@pointwise("aten.isfinite.default", exact=True)
def isfinite(b: Builder, x: ir.Value) -> ir.Value:
    if kind(b, x) == 3:
        return hlo.and_(isfinite(b, hlo.real(x)), isfinite(b, hlo.imag(x)))
    return hlo.is_finite(x) if kind(b, x) == 2 else b.splat(True, "i1", b.shape(x))


for _name, _infinity in {"isposinf": math.inf, "isneginf": -math.inf}.items():
    register_pointwise(
        lambda b, x, infinity=_infinity: b.compare("EQ", x, like(b, infinity, x))
        if kind(b, x) == 2 else b.splat(False, "i1", b.shape(x)),
        f"aten.{_name}.default", exact=True,
    )  # fmt: skip


@pointwise("aten.signbit.default", exact=True)
def signbit(b: Builder, x: ir.Value) -> ir.Value:
    return b.splat(False, "i1", b.shape(x)) if kind(b, x) == 0 else sign_bit(b, x)


# -- selection ---------------------------------------------------------------------------------


@lowering("aten.where.self", "aten.where.ScalarSelf", "aten.where.ScalarOther", "aten.where.Scalar")
def where(b: Builder, call: Call) -> ir.Value:
    element, shape = call.types[0]
    condition = b.broadcast(b.convert(call.args[0], "i1"), shape)
    return choose(b, condition, *operands(b, call.args[1:3], element, shape))


_LARGEST = {"f64": 1.7976931348623157e308, "f32": 3.4028234663852886e38, "bf16": 3.3895313892515355e38, "f16": 65504.0}


@on_first("aten.nan_to_num.default", exact=True)
def nan_to_num(b: Builder, call: Call, x: ir.Value) -> ir.Value:
    if kind(b, x) != 2:
        return x
    nan, high, low = call.arg(1, "nan"), call.arg(2, "posinf"), call.arg(3, "neginf")
    largest = _LARGEST[b.element(x)]
    whole = hlo.select(is_nan(b, x), like(b, nan or 0.0, x), x)
    for infinity, number in (
        (math.inf, high if high is not None else largest),
        (-math.inf, low if low is not None else -largest),
    ):
        whole = hlo.select(b.compare("EQ", x, like(b, infinity, x)), like(b, number, x), whole)
    return whole


@pointwise("aten.heaviside.default", exact=True)
def heaviside(b: Builder, x: ir.Value, at_zero: ir.Value) -> ir.Value:
    zero = like(b, 0, x)
    return hlo.select(b.compare("EQ", x, zero), at_zero, b.convert(b.compare("GT", x, zero), b.element(x)))
