"""PyTorch's type promotion, and pointwise rules built on it: operands meet in one type and one shape.

Operands convert to the common type of `torch.result_type`; the arithmetic of 16- and 8-bit floats happens in f32
and is rounded once, as PyTorch's kernels do; the result converts to the type the call states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from compiler.lowering.builder import Builder
from compiler.lowering.registry import Call, Rule, lowering

_BITS = {
    "f64": 64,
    "f32": 32,
    "f16": 16,
    "bf16": 16,
    "f8E4M3FN": 8,
    "f8E5M2": 8,
    "complex<f32>": 32,
    "complex<f64>": 64,
}
_SIGNED = ("i8", "i16", "i32", "i64")

_DIGITS = {"bf16": (8, 7), "f16": (5, 10)}
"""Bits of exponent and mantissa."""

Operand = ir.Value | int | float | bool | complex


def category(element: str) -> int:
    """0 bool, 1 integer, 2 floating point, 3 complex."""
    if element == "i1":
        return 0
    return 3 if element.startswith("complex") else 2 if element in _BITS else 1


def promote(left: str, right: str) -> str:
    """The smallest type that PyTorch takes both types to."""
    if left == right:
        return left
    low, high = sorted((left, right), key=category)
    if category(low) < category(high):
        if category(high) == 3 and low == "f64":
            return "complex<f64>"
        return high
    if category(high) == 3:
        return "complex<f64>"
    if category(high) == 2:
        return left if _BITS[left] > _BITS[right] else right if _BITS[right] > _BITS[left] else "f32"
    width = {name: int(name.lstrip("ui")) for name in (left, right)}
    if left[0] == right[0]:
        return max((left, right), key=lambda name: width[name])
    unsigned, signed = (left, right) if left[0] == "u" else (right, left)
    return next((name for name in _SIGNED if int(name[1:]) > width[unsigned] and int(name[1:]) >= width[signed]), "f32")


def _number_type(number: Operand, beside: str) -> str:
    """Type of a Python number that stands beside operands of type `beside`: it raises the category, not the width."""
    kind = 0 if isinstance(number, bool) else 1 if isinstance(number, int) else 2 if isinstance(number, float) else 3
    if beside and kind <= category(beside):
        return beside
    return ("i1", "i64", "f32", "complex<f64>" if beside == "f64" else "complex<f32>")[kind]


def common_type(b: Builder, arguments: Sequence[Any]) -> str:
    """`torch.result_type`: dimensioned operands decide, then 0-d ones, then Python numbers, by category."""
    ranked, scalars = "", ""
    for argument in arguments:
        if isinstance(argument, ir.Value):
            element = b.element(argument)
            if b.shape(argument):
                ranked = promote(ranked, element) if ranked else element
            else:
                scalars = promote(scalars, element) if scalars else element
    element = ranked or scalars
    if ranked and scalars and category(scalars) > category(ranked):
        element = promote(ranked, scalars)
    for argument in arguments:
        if not isinstance(argument, ir.Value):
            element = _number_type(argument, element)
    return element


def wide(element: str) -> str:
    """The type in which PyTorch computes with this one."""
    return "f32" if category(element) == 2 and _BITS[element] < 32 else element


def operands(b: Builder, arguments: Sequence[Any], element: str, shape: tuple[int, ...]) -> list[ir.Value]:
    """Every argument, value or number, in one type and one shape."""
    return [
        b.broadcast(b.convert(a, element), shape) if isinstance(a, ir.Value) else b.splat(a, element, shape)
        for a in arguments
    ]


def computed(
    b: Builder, call: Call, arguments: Sequence[Any], *, exact: bool = False, unrounded: Sequence[int] = ()
) -> list[ir.Value]:
    """`arguments` in the type the call computes in, and in its result's shape.

    `exact` keeps 16-bit floats, for operations that only choose or compare. Otherwise every argument is rounded to such a
    type before it is widened, as PyTorch does; not so a number or a 0-d operand in one of the places `unrounded`.
    """
    element, shape = call.types[0]
    common = common_type(b, arguments)
    if element != "i1":
        common = promote(common, element)
    if not exact and wide(common) != common:
        scalar = [not isinstance(a, ir.Value) or not b.shape(a) for a in arguments]
        arguments = [a if scalar[i] and i in unrounded else rounded(b, a, common) for i, a in enumerate(arguments)]
    return operands(b, arguments, common if exact else wide(common), shape)


def rounded(b: Builder, value: Operand, element: str) -> ir.Value:
    """The value rounded to a narrow float type, in a type that holds it: XLA drops conversions to and fro between floats."""
    if not isinstance(value, ir.Value):
        return b.splat(value, element)
    if category(b.element(value)) != 2:
        return b.convert(value, element)
    if element in _DIGITS and b.element(value) != element:
        return hlo.reduce_precision(value, *_DIGITS[element])
    return value


def finish(b: Builder, call: Call, value: ir.Value, result: int = 0) -> ir.Value:
    """`value` as the call's result number `result`."""
    element, shape = call.types[result]
    return b.broadcast(b.convert(value, element), shape)


def register_pointwise(
    function: Callable[..., ir.Value], *overloads: str, exact: bool = False, unrounded: Sequence[int] = ()
) -> None:
    """`function(b, *operands)` as the rule of overloads all of whose arguments are operands."""

    def rule(b: Builder, call: Call) -> ir.Value:
        return finish(b, call, function(b, *computed(b, call, call.args, exact=exact, unrounded=unrounded)))

    lowering(*overloads)(rule)


def pointwise(*overloads: str, exact: bool = False) -> Callable[[Callable[..., ir.Value]], Callable[..., ir.Value]]:
    """Decorator form of `register_pointwise`; the function stays callable by other rules."""

    def register(function: Callable[..., ir.Value]) -> Callable[..., ir.Value]:
        register_pointwise(function, *overloads, exact=exact)
        return function

    return register


def on_first(*overloads: str, exact: bool = False) -> Callable[[Callable[..., ir.Value]], Rule]:
    """Rule `function(b, call, x)` of an overload whose only operand is its first argument; the others are numbers."""

    def register(function: Callable[..., ir.Value]) -> Rule:
        def rule(b: Builder, call: Call) -> ir.Value:
            return finish(b, call, function(b, call, *computed(b, call, call.args[:1], exact=exact)))

        return lowering(*overloads)(rule)

    return register
