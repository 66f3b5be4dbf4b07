"""Values made from nothing but their type: fills, ranges, identities. Unwritten memory reads as zeros."""

from __future__ import annotations

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from compiler.lowering.builder import Builder
from compiler.lowering.promotion import category, finish, wide
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
    """start + i * step: integers by iota, other numbers in f64 and rounded once."""
    start = 0 if call.target.endswith("default") else call.args[0]
    step = call.arg(2, "step", 1) if call.target.endswith("start_step") else 1
    element, shape = call.types[0]
    whole = float(start).is_integer() and float(step).is_integer()
    exact = whole and max(abs(start), abs(start + step * shape[0])) < _EXACT
    if category(element) != 1 and not exact:
        return _constant(b, start + np.arange(shape[0]) * step, element)
    number = element if category(element) == 1 else wide(element)
    value = b.iota(number, shape, 0)
    if step != 1:
        value = hlo.multiply(value, b.splat(step, number, shape))
    return b.convert(hlo.add(value, b.splat(start, number, shape)) if start != 0 else value, element)


def _constant(b: Builder, numbers: np.ndarray, element: str) -> ir.Value:
    """Numbers that were computed in f64, stored in the result's type or, for small types, in f32."""
    stored = {"f64": "float64", "i64": "int64"}.get(element, "float32" if category(element) >= 2 else "int32")
    kind = {"float64": "f64", "float32": "f32", "int64": "i64", "int32": "i32"}[stored]
    return b.convert(b.literal(numbers.astype(stored), kind), element)


@lowering("aten.linspace.default")
def linspace(b: Builder, call: Call) -> ir.Value:
    """From both ends towards the middle, as PyTorch does, so that both ends are exact."""
    element, shape = call.types[0]
    start, end = (int(n) if element[0] in "iu" else n for n in call.args[:2])
    count = shape[0]
    step = (end - start) / (count - 1) if count > 1 else 0.0
    index = np.arange(count)
    numbers = np.where(index < max(count // 2, 1), start + index * step, end - (count - 1 - index) * step)
    return _constant(b, numbers, element)


@lowering("aten.logspace.default")
def logspace(b: Builder, call: Call) -> ir.Value:
    """Powers of the base; with integers the first and the last exponent are integers, and powers are cut off."""
    start, end, base = call.args[0], call.args[1], call.arg(3, "base", 10.0)
    element, shape = call.types[0]
    whole = element[0] in "iu"
    ends = (int(start), int(end)) if whole else (start, end)
    step = (ends[1] - ends[0]) / (shape[0] - 1) if shape[0] > 1 else 0.0
    numbers = np.power(float(base), ends[0] + step * np.arange(shape[0]))
    return _constant(b, np.trunc(numbers) if whole else numbers, element)


@lowering(
    "aten.linspace.Tensor_Tensor", "aten.linspace.Tensor_Scalar", "aten.linspace.Scalar_Tensor",
    "aten.logspace.Tensor_Tensor", "aten.logspace.Tensor_Scalar", "aten.logspace.Scalar_Tensor",
)  # fmt: skip
def between_tensors(b: Builder, call: Call) -> ir.Value:
    """The same with ends known at run time; powers of integers start from the first end alone."""
    element, shape = call.types[0]
    count, whole, powers = shape[0], element[0] in "iu", call.target.startswith("aten.logspace")
    number = "f64" if whole else wide(element)
    start, end = (
        b.convert(b.convert(e, element), number) if isinstance(e, ir.Value) else b.splat(int(e) if whole else e, number)
        for e in call.args[:2]
    )
    step = hlo.divide(hlo.subtract(end, start), b.splat(max(count - 1, 1), number))
    index = np.arange(count)
    front = index < max(count // 2, 1)
    if whole and powers:
        front[:] = True
    steps = b.convert(b.literal(np.where(front, index, index - (count - 1)), "i64"), number)
    side = hlo.select(b.literal(front, "i1"), b.broadcast(start, shape), b.broadcast(end, shape))
    found = hlo.add(side, hlo.multiply(b.broadcast(step, shape), steps))
    if powers:
        found = hlo.power(b.splat(call.arg(3, "base", 10.0), number, shape), found)
    return b.convert(found, element)


@lowering("aten.eye.default", "aten.eye.m")
def eye(b: Builder, call: Call) -> ir.Value:
    element, shape = call.types[0]
    return b.convert(b.compare("EQ", b.iota("i32", shape, 0), b.iota("i32", shape, 1)), element)


@lowering("aten.tril_indices.default", "aten.triu_indices.default")
def triangle_indices(b: Builder, call: Call) -> ir.Value:
    """Coordinates of a triangle, row by row: static, so a constant."""
    rows, columns, offset = call.args[0], call.args[1], call.arg(2, "offset", 0)
    make = np.tril_indices if call.target.startswith("aten.tril") else np.triu_indices
    indices = np.stack(make(rows, offset, columns)).astype("int64")
    return b.convert(b.literal(indices, "i64"), call.types[0][0])
