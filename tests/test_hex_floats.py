"""Floats in dense constants survive printing and parsing bit for bit."""

from __future__ import annotations

import math

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import (
    Builtin,
    ComplexType,
    DenseIntOrFPElementsAttr,
    TensorType,
    bf16,
    f16,
    f32,
    f64,
)
from xdsl.parser import Parser

from compiler.errors import CompileError
from compiler.ir_text import parse, to_text
from dialects.fx import ConstantOp

VALUES = [math.inf, -math.inf, math.nan, 2.0**24, 1234567.0, 0.1, -0.0]


def data(text: str) -> DenseIntOrFPElementsAttr:
    [op] = parse(text).body.block.ops
    assert isinstance(op, ConstantOp)
    return op.data


@pytest.mark.parametrize("element", [f32, f64, bf16, f16], ids=str)
@pytest.mark.parametrize("value", VALUES, ids=str)
@pytest.mark.parametrize("count", [1, 3], ids=["splat", "list"])
def test_round_trip(element, value: float, count: int) -> None:
    if element == f16 and abs(value) > 65504 and not math.isinf(value):
        value = 65504.0  # the largest finite f16
    values = [value] * count + ([1.5] if count > 1 else [])
    constant = DenseIntOrFPElementsAttr.from_list(TensorType(element, [len(values)]), values)
    read = data(to_text(ConstantOp.create(properties={"data": constant}, result_types=[constant.type])))
    assert read.data.data == constant.data.data


def test_complex_round_trip() -> None:
    kind = TensorType(ComplexType(f32), [2])
    constant = DenseIntOrFPElementsAttr.from_list(kind, [(math.inf, 1.5), (2.0**24, -0.25)])
    read = data(to_text(ConstantOp.create(properties={"data": constant}, result_types=[constant.type])))
    assert read.data.data == constant.data.data


def test_scalar_form() -> None:
    assert data("fx.constant dense<0x7F800000> : tensor<f32> : tensor<f32>").get_values() == (math.inf,)


def test_stock_parser_still_needs_the_repair() -> None:
    """When this fails, xDSL has been repaired and `dialects/hex_floats.py` can shrink."""
    context = Context()
    context.load_dialect(Builtin)
    read = Parser(context, "dense<0x7F800000> : tensor<f32>").parse_attribute()
    assert isinstance(read, DenseIntOrFPElementsAttr)
    assert read.get_values() == (2139095040.0,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dense<0x1FFFFFFFF> : tensor<f32> : tensor<f32>", "more bits"),
        ("dense<(1.0, 2.0)> : tensor<f32> : tensor<f32>", "complex number among real ones"),
        ("dense<1.0> : tensor<complex<f32>> : tensor<complex<f32>>", "expected a complex number"),
        ("dense<1.0> : tensor<99999999999xf32> : tensor<99999999999xf32>", "pass large data as an argument"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        parse(f"fx.constant {text}")
