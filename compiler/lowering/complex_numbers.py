"""Complex numbers and their parts."""

from __future__ import annotations

import math

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from compiler.lowering.builder import Builder
from compiler.lowering.elementwise import is_nan, kind, like
from compiler.lowering.promotion import operands, pointwise
from compiler.lowering.registry import Call, lowering


@lowering("aten.complex.default")
def make_complex(b: Builder, call: Call) -> ir.Value:
    element = "f64" if call.types[0][0] == "complex<f64>" else "f32"
    return hlo.complex(*operands(b, call.args[:2], element, call.types[0][1]))


@lowering("aten.polar.default")
def polar(b: Builder, call: Call) -> ir.Value:
    element = "f64" if call.types[0][0] == "complex<f64>" else "f32"
    size, angle = operands(b, call.args[:2], element, call.types[0][1])
    return hlo.complex(hlo.multiply(size, hlo.cosine(angle)), hlo.multiply(size, hlo.sine(angle)))


@pointwise("aten.conj_physical.default", "aten._conj.default", "aten._conj_physical.default", exact=True)
def conjugate(b: Builder, x: ir.Value) -> ir.Value:
    return hlo.complex(hlo.real(x), hlo.negate(hlo.imag(x))) if kind(b, x) == 3 else x


@pointwise("aten.angle.default")
def angle(b: Builder, x: ir.Value) -> ir.Value:
    if kind(b, x) == 3:
        return hlo.atan2(hlo.imag(x), hlo.real(x))
    negative = b.compare("LT", x, like(b, 0, x))
    return hlo.select(is_nan(b, x), x, hlo.select(negative, like(b, math.pi, x), like(b, 0, x)))


@lowering("aten.real.default", "aten.imag.default", "aten.view_as_real.default", "aten.view_as_real_copy.default")
def parts(b: Builder, call: Call) -> ir.Value:
    x = call.args[0]
    if kind(b, x) < 3:
        return x
    if call.target == "aten.real.default":
        return hlo.real(x)
    if call.target == "aten.imag.default":
        return hlo.imag(x)
    pair = (*b.shape(x), 1)
    return hlo.concatenate([b.reshape(hlo.real(x), pair), b.reshape(hlo.imag(x), pair)], len(pair) - 1)


@lowering("aten.view_as_complex.default", "aten.view_as_complex_copy.default")
def view_as_complex(b: Builder, call: Call) -> ir.Value:
    x, shape = call.args[0], b.shape(call.args[0])
    ones = [1] * len(shape)
    halves = [
        b.reshape(hlo.slice(x, [0] * (len(shape) - 1) + [i], [*shape[:-1], i + 1], ones), shape[:-1]) for i in (0, 1)
    ]
    return hlo.complex(*halves)
