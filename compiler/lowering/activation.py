"""Activation functions, computed in f32 for the 16-bit floats."""

from __future__ import annotations

import math

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import chlo
from jaxlib.mlir.dialects import stablehlo as hlo

from compiler.lowering.builder import Builder
from compiler.lowering.elementwise import divide, like, multiply
from compiler.lowering.promotion import computed, finish, on_first, pointwise
from compiler.lowering.registry import Call, lowering


@pointwise("aten.relu.default", exact=True)
def relu(b: Builder, x: ir.Value) -> ir.Value:
    """The maximum with zero that keeps -0.0."""
    zero = like(b, 0, x)
    return hlo.select(b.compare("LT", x, zero), zero, x)


@on_first("aten.gelu.default")
def gelu(b: Builder, call: Call, x: ir.Value) -> ir.Value:
    half = multiply(b, x, like(b, 0.5, x))
    if call.arg(1, "approximate", "none") == "none":
        return multiply(b, half, b.plus(like(b, 1, x), chlo.erf(multiply(b, x, like(b, math.sqrt(0.5), x)))))
    cube = multiply(b, multiply(b, x, x), x)
    inner = multiply(b, like(b, math.sqrt(2 / math.pi), x), b.plus(x, multiply(b, like(b, 0.044715, x), cube)))
    return multiply(b, half, b.plus(like(b, 1, x), hlo.tanh(inner)))


@pointwise("aten.silu.default")
def silu(b: Builder, x: ir.Value) -> ir.Value:
    return divide(b, x, b.plus(like(b, 1, x), hlo.exponential(hlo.negate(x))))


def _softplus(b: Builder, x: ir.Value, beta: float, threshold: float) -> ir.Value:
    scaled = multiply(b, x, like(b, beta, x))
    soft = divide(b, hlo.log_plus_one(hlo.exponential(scaled)), like(b, beta, x))
    return hlo.select(b.compare("GT", scaled, like(b, threshold, x)), x, soft)


@on_first("aten.softplus.default")
def softplus(b: Builder, call: Call, x: ir.Value) -> ir.Value:
    return _softplus(b, x, call.arg(1, "beta", 1), call.arg(2, "threshold", 20))


@pointwise("aten.mish.default")
def mish(b: Builder, x: ir.Value) -> ir.Value:
    return multiply(b, x, hlo.tanh(_softplus(b, x, 1, math.inf)))


@on_first("aten.leaky_relu.default", exact=False)
def leaky_relu(b: Builder, call: Call, x: ir.Value) -> ir.Value:
    slope = like(b, call.arg(1, "negative_slope", 0.01), x)
    return hlo.select(b.compare("GT", x, like(b, 0, x)), x, multiply(b, x, slope))


@on_first("aten.elu.default")
def elu(b: Builder, call: Call, x: ir.Value) -> ir.Value:
    alpha, scale, inner = call.arg(1, "alpha", 1), call.arg(2, "scale", 1), call.arg(3, "input_scale", 1)
    negative = multiply(b, hlo.exponential_minus_one(multiply(b, x, like(b, inner, x))), like(b, alpha * scale, x))
    return hlo.select(b.compare("LT", x, like(b, 0, x)), negative, multiply(b, x, like(b, scale, x)))


def _shifted_gate(b: Builder, x: ir.Value) -> ir.Value:
    """min(max(x + 3, 0), 6)."""
    return hlo.minimum(hlo.maximum(b.plus(x, like(b, 3, x)), like(b, 0, x)), like(b, 6, x))


@pointwise("aten.hardswish.default")
def hardswish(b: Builder, x: ir.Value) -> ir.Value:
    return divide(b, multiply(b, x, _shifted_gate(b, x)), like(b, 6, x))


@pointwise("aten.hardsigmoid.default")
def hardsigmoid(b: Builder, x: ir.Value) -> ir.Value:
    return divide(b, _shifted_gate(b, x), like(b, 6, x))


@on_first("aten.threshold.default", exact=True)
def threshold(b: Builder, call: Call, x: ir.Value) -> ir.Value:
    return hlo.select(b.compare("LE", x, like(b, call.arg(1), x)), like(b, call.arg(2), x), x)


@on_first("aten.hardshrink.default", exact=True)
def hardshrink(b: Builder, call: Call, x: ir.Value) -> ir.Value:
    bound = call.arg(1, "lambd", 0.5)
    inside = hlo.and_(b.compare("GE", x, like(b, -bound, x)), b.compare("LE", x, like(b, bound, x)))
    return hlo.select(inside, like(b, 0, x), x)


@on_first("aten.softshrink.default")
def softshrink(b: Builder, call: Call, x: ir.Value) -> ir.Value:
    bound = like(b, call.arg(1, "lambd", 0.5), x)
    low = hlo.select(b.compare("LT", x, hlo.negate(bound)), b.plus(x, bound), multiply(b, x, like(b, 0, x)))
    return hlo.select(b.compare("GT", x, bound), b.minus(x, bound), low)


@pointwise("aten._prelu_kernel.default")
def prelu(b: Builder, x: ir.Value, weight: ir.Value) -> ir.Value:
    return hlo.select(b.compare("GT", x, like(b, 0, x)), x, multiply(b, x, weight))


@lowering("aten.glu.default")
def glu(b: Builder, call: Call) -> ir.Value:
    x, dim = call.args[0], call.arg(1, "dim", -1)
    shape = b.shape(x)
    dim %= len(shape)
    half = shape[dim] // 2
    cut = [list(shape[:dim]) + [end] + list(shape[dim + 1 :]) for end in (half, shape[dim])]
    start, ones = [0] * len(shape), [1] * len(shape)
    left = hlo.slice(x, start, cut[0], ones)
    start[dim] = half
    values, gate = computed(b, call, [left, hlo.slice(x, start, cut[1], ones)])
    return finish(b, call, multiply(b, values, hlo.logistic(gate)))


@lowering("aten.log_sigmoid_forward.default")
def log_sigmoid(b: Builder, call: Call) -> list[ir.Value]:
    """min(x, 0) - log1p(exp(-|x|)), and exp(-|x|), which PyTorch's CPU kernel keeps for the backward pass."""
    (x,) = computed(b, call, call.args)
    kept = hlo.exponential(hlo.negate(hlo.abs(x)))
    value = b.minus(hlo.minimum(x, like(b, 0, x)), hlo.log_plus_one(kept))
    buffer = kept if len(call.types[1][1]) == len(call.types[0][1]) else b.splat(0, b.element(kept), call.types[1][1])
    return [finish(b, call, value), finish(b, call, buffer, 1)]
