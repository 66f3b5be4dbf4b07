"""Floats in dense constants survive printing and parsing bit for bit, and rubbish ends at once."""

from __future__ import annotations

import math

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    Builtin,
    ComplexType,
    DenseIntOrFPElementsAttr,
    FileLineColLoc,
    IntAttr,
    NameLoc,
    StringAttr,
    TensorType,
    bf16,
    f16,
    f32,
    f64,
)
from xdsl.parser import Parser

from compiler.errors import CompileError
from compiler.ir_text import parse, to_text
from dialects.alias import Binding, Bindings, effects, results
from dialects.fx import CallOp, Constant, ConstantOp
from dialects.types import Geometry

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
    """When this fails, xDSL has been repaired and `dialects/ir_parser.py` can shrink."""
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


def test_repeated_types_are_read_where_they_end() -> None:
    """A type is recognised by its text: one that begins like it, or has a comment behind it, is another matter."""
    values = ", ".join(f"%{n}" for n in range(5))
    text = f"""func.func @main(%0: memref<2xf32>, %1: memref<2xf32> // memref<2xf32>
    , %2: memref<2xf32, strided<[3]>>, %3: memref<2xf32> // memref<2xf32>, x
    , %4 : memref<2xf32 >) -> (memref<2xf32>, memref<2xf32>, memref<2xf32, strided<[3]>>, memref<2xf32>, memref<2xf32>) {{
      func.return {values} : memref<2xf32>,memref<2xf32>,memref<2xf32, strided<[3]>>,memref<2xf32>, memref<2xf32>
    }}"""
    module = parse(text)
    (function,) = module.body.block.ops
    kinds = [str(argument.type) for argument in function.regions[0].block.args]
    assert kinds == ["memref<2xf32>"] * 2 + ["memref<2xf32, strided<[3]>>"] + ["memref<2xf32>"] * 2
    assert to_text(parse(to_text(module))) == to_text(module)


def test_unclosed_text_is_refused_at_once() -> None:
    """xDSL's own pattern would take longer than the age of the universe."""
    with pytest.raises(CompileError, match="before closing string literal"):
        parse('fx.symbol "' + "a" * 200 + " : index")


@pytest.mark.parametrize("text", ["ä", "日本", 'a"b', "a\nb", "\x01", "\\22", ""])
def test_text_round_trip(text: str) -> None:
    """In arguments, names of Python constants, attributes and locations."""
    op = CallOp.create(
        properties={
            "target": StringAttr("a.b.c"),
            "arguments": ArrayAttr([StringAttr(text), Constant(text)]),
            "effects": effects([], []),
            "aliases": results([]),
        },
        attributes={"b": Bindings((Binding(text, "input", -1, "f32", Geometry((), (), 0)),))},
    )
    op.location = NameLoc(StringAttr(text), FileLineColLoc(StringAttr(text), IntAttr(3), IntAttr(4)))
    [read] = parse(to_text(op, locations=True)).body.block.ops
    assert isinstance(read, CallOp)
    assert (read.arguments, read.attributes, read.location) == (op.arguments, op.attributes, op.location)
