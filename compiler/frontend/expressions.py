"""Symbolic expressions from a file are arithmetic on sizes, and small: evaluating one runs no code and takes no time.

`torch.export.load` gives the text to SymPy, which evaluates it as Python. Numbers, symbols, and known functions of them are
let through, as long as no value has many digits and no product has many terms when it is multiplied out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import NamedTuple

_NUMBERS = frozenset({"Integer", "Float", "Rational"})
_PRODUCTS = frozenset({"Mul", "IntTrueDiv", "FloatTrueDiv", "FloorDiv", "CeilDiv", "CleanDiv"})
_POWERS = frozenset({"Pow", "FloatPow", "PowByNatural"})
_OTHERS = frozenset({
    "Add", "Mod", "Max", "Min", "Abs", "max", "min", "Eq", "Ne", "Gt", "Ge", "Lt", "Le", "Equality", "Unequality",
    "StrictGreaterThan", "GreaterThan", "StrictLessThan", "LessThan", "And", "Or", "Not", "PythonMod", "ModularIndexing",
    "ToFloat", "TruncToInt", "CeilToInt", "FloorToInt", "RoundToInt", "Where",
})  # fmt: skip
_EXTREMES = frozenset({"Max", "Min", "max", "min"})
_METHODS = frozenset({"size", "stride", "storage_offset"})
_SYMBOL = re.compile(r"[A-Za-z]{1,5}[0-9]+|true|false|True|False|L")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?(e[+-]?[0-9]{1,3})?(/[0-9]+)?")
_LONG = re.compile(r"[0-9_]{21}|[0-9.][eE][+-]?[0-9_]{4}")
"""A number too long for any size. It is looked for in the text, since SymPy reads that and not the value Python gives it."""

_CHARACTERS, _BITS, _TERMS, _CANDIDATES = 20_000, 4096, 4096, 24
"""Limits; SymPy compares each candidate for a maximum with each other one, nested ones as well, which takes milliseconds."""

_PRECISION = 1000
"""The largest number of digits a `Float` may ask for."""


class _Size(NamedTuple):
    """Bounds of an expression: bits of its value, and terms of the sum it is when multiplied out."""

    bits: int
    terms: int


class _Refused(Exception):
    """The expression is something else, or too large."""


def is_arithmetic(text: str) -> bool:
    """Whether an expression is arithmetic on sizes: numbers, symbols and known functions, nothing that could do harm."""
    if len(text) > _CHARACTERS or _LONG.search(text):
        return False
    try:
        _size(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError, _Refused):
        return False
    return True


def _size(node: ast.expr) -> _Size:
    match node:
        case ast.Constant(value=bool() | int() | float() as value):
            return _Size(value.bit_length() if isinstance(value, int) else 1024, 1)
        case ast.Name(id=name) if _SYMBOL.fullmatch(name):
            return _Size(64, 1)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _power(left, right)
        case ast.BinOp(left=left, op=ast.Mult() | ast.Div() | ast.FloorDiv(), right=right):
            return _product([_size(left), _size(right)])
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mod(), right=right):
            return _sum([_size(left), _size(right)])
        case ast.UnaryOp(op=ast.UAdd() | ast.USub() | ast.Not(), operand=operand):
            return _size(operand)
        case ast.BoolOp(values=values):
            return _sum([_size(v) for v in values])
        case ast.Compare(left=left, comparators=others):
            return _sum([_size(left), *(_size(v) for v in others)])
        case ast.Subscript(value=ast.Name() | ast.Subscript() | ast.Call() as value, slice=index):
            if not (isinstance(index, ast.Constant) and isinstance(index.value, str) and _is_word(index.value)):
                _size(index)
            return _size(value)
        case ast.Call(
            func=ast.Attribute(value=ast.Name() | ast.Subscript() as value, attr=method), args=[], keywords=[]
        ):
            if method in _METHODS:
                return _size(value)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=keywords):
            return _call(name, arguments, keywords)
    raise _Refused


def _call(name: str, arguments: Sequence[ast.expr], keywords: Sequence[ast.keyword]) -> _Size:
    """A function's keywords are assumptions on a symbol, the digits of a number, or `evaluate`: small literals."""
    for keyword in keywords:
        _literal(keyword.value)
    if name == "Symbol":
        match arguments:
            case [ast.Constant(value=str() as text)] if _is_word(text):
                return _Size(64, 1)
        raise _Refused
    if name in _NUMBERS:
        return _number(name, arguments)
    if name in _POWERS and len(arguments) == 2:
        return _power(*arguments)
    if name in _PRODUCTS:
        return _product([_size(a) for a in arguments])
    if name in _EXTREMES and len(arguments) + sum(map(_candidates, arguments)) > _CANDIDATES:
        raise _Refused
    if name in _OTHERS:
        return _sum([_size(a) for a in arguments])
    raise _Refused


def _candidates(node: ast.expr) -> int:
    """How many operands the maxima and minima in an expression have."""
    calls = (c for c in ast.walk(node) if isinstance(c, ast.Call) and isinstance(c.func, ast.Name))
    return sum(len(call.args) for call in calls if call.func.id in _EXTREMES)  # pyright: ignore


def _number(name: str, arguments: Sequence[ast.expr]) -> _Size:
    match arguments:
        case [ast.Constant(value=str() as text), *more] if _NUMBER.fullmatch(text):
            first = _Size(_BITS // 2, 1)
        case [first, *more]:
            first = _size(first)
        case _:
            raise _Refused
    if name == "Rational":
        return _product([first, *(_size(a) for a in more)])
    for argument in more:
        _literal(argument)
    return first


def _literal(node: ast.expr, limit: int = _PRECISION) -> int:
    """The value of a whole number that is written out and at most `limit` in size."""
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_literal(operand, limit)
        case ast.Call(func=ast.Name(id="Integer"), args=[operand], keywords=[]):
            return _literal(operand, limit)
        case ast.Constant(value=int() as value) if abs(value) <= limit:
            return value
    raise _Refused


def _power(base: ast.expr, exponent: ast.expr) -> _Size:
    size, times = _size(base), abs(_literal(exponent, 64))
    return _product([size] * max(times, 1))


def _product(factors: Sequence[_Size]) -> _Size:
    bits = terms = 0
    for n, factor in enumerate(factors):
        bits, terms = bits + factor.bits, factor.terms * terms if n else factor.terms
        _require(bits, terms)
    return _Size(bits, terms)


def _sum(parts: Sequence[_Size]) -> _Size:
    bits, terms = max((p.bits for p in parts), default=0) + 1, sum(p.terms for p in parts)
    _require(bits, terms)
    return _Size(bits, terms)


def _require(bits: int, terms: int) -> None:
    if bits > _BITS or terms > _TERMS:
        raise _Refused


def _is_word(text: str) -> bool:
    return re.fullmatch(r"\w{1,200}", text) is not None
