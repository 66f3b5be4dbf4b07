"""Values made from nothing but their type: fills, ranges, identities. Unwritten memory reads as zeros."""

from __future__ import annotations

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from compiler.lowering.builder import Builder
from compiler.lowering.promotion import category, finish
from compiler.lowering.registry import Call, lowering

_EXACT = 1 << 24
"""Integers up to here are exact in f32."""


def _fill(b: Builder, call: Call, value: ir.Value | complex) -> ir.Value:
    return finish(b, call, value) if isinstance(value, ir.Value) else b.splat(value, *call.types[0])


@lowering(
    "aten.zeros.default", "aten.zeros_like.default", "aten.new_zeros.default", "aten.zero.default",
    "aten.empty.memory_format", "aten.empty_like.default", "aten.empty_strided.default", "aten.empty_permuted.default",
    "aten.new_empty.default", "aten.new_empty_strided.default", "aten._efficientzerotensor.default",
)  # fmt: skip
def zeros(b: Builder, call: Call) -> ir.Value:
    return _fill(b, call, 0)


@lowering("aten.ones.default", "aten.ones_like.default", "aten.new_ones.default")
def ones(b: Builder, call: Call) -> ir.Value:
    return _fill(b, call, 1)


@lowering("aten.full.default", "aten.full_like.default", "aten.fill.Scalar", "aten.fill.Tensor")
def full(b: Builder, call: Call) -> ir.Value:
    return _fill(b, call, call.arg(1, "value" if call.target.startswith("aten.fill.") else "fill_value"))


@lowering("aten.new_full.default")
def new_full(b: Builder, call: Call) -> ir.Value:
    return _fill(b, call, call.arg(2, "fill_value"))


@lowering("aten.scalar_tensor.default")
def scalar_tensor(b: Builder, call: Call) -> ir.Value:
    return _fill(b, call, call.args[0])


@lowering("aten.arange.default", "aten.arange.start", "aten.arange.start_step")
def arange(b: Builder, call: Call) -> ir.Value:
    """start + i * step, in i64 for integers; in f64, rounded once, where f32 would not hold every term."""
    start, step = 0, call.arg(2, "step", 1)
    if not call.target.endswith("default"):
        start = call.args[0]
    element, shape = call.types[0]
    whole = float(start).is_integer() and float(step).is_integer()
    if category(element) == 1:
        number = element
    else:
        exact = whole and max(abs(start), abs(start + step * shape[0])) < _EXACT
        number = "f32" if exact and element != "f64" else "f64"
    return b.convert(_line(b, number, shape, start, step), element)


def _line(b: Builder, element: str, shape: tuple[int, ...], start: float, step: float) -> ir.Value:
    value = b.iota(element, shape, 0)
    if step != 1:
        value = hlo.multiply(value, b.splat(step, element, shape))
    return hlo.add(value, b.splat(start, element, shape)) if start != 0 else value


@lowering("aten.linspace.default")
def linspace(b: Builder, call: Call) -> ir.Value:
    """From both ends towards the middle, as PyTorch does, so that both ends are exact."""
    start, end = call.args[0], call.args[1]
    element, shape = call.types[0]
    count = shape[0]
    step = (end - start) / (count - 1) if count > 1 else 0.0
    index = b.iota("f64", shape, 0)
    from_start = hlo.add(b.splat(start, "f64", shape), hlo.multiply(index, b.splat(step, "f64", shape)))
    left = hlo.subtract(b.splat(count - 1, "f64", shape), index)
    from_end = hlo.subtract(b.splat(end, "f64", shape), hlo.multiply(left, b.splat(step, "f64", shape)))
    return b.convert(
        hlo.select(b.compare("LT", index, b.splat(count // 2 if count > 1 else 1, "f64", shape)), from_start, from_end), element
    )


@lowering("aten.eye.default", "aten.eye.m")
def eye(b: Builder, call: Call) -> ir.Value:
    element, shape = call.types[0]
    return b.convert(b.compare("EQ", b.iota("i32", shape, 0), b.iota("i32", shape, 1)), element)


@lowering("aten.tril_indices.default", "aten.triu_indices.default")
def triangle_indices(b: Builder, call: Call) -> ir.Value:
    """Coordinates of a triangle, row by row: static, so a constant."""
    import numpy as np

    rows, columns, offset = call.args[0], call.args[1], call.arg(2, "offset", 0)
    make = np.tril_indices if call.target.startswith("aten.tril") else np.triu_indices
    indices = np.stack(make(rows, offset, columns)).astype("int64")
    return b.convert(b.literal(indices, "i64"), call.types[0][0])
