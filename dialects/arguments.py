"""Arguments of a call, in the order of an operator's schema: how they are spelled, and which operands they name.

Operands are `%name`; the rest are Python numbers, text, `none`, lists in brackets, element types, other Python constants as
`@"kind:name"`; keyword-only ones follow as `name = argument`. Operand numbers count operands from the left.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    NoneType,
    StringAttr,
    f64,
    i1,
    i64,
)
from xdsl.ir import Attribute, Data, SSAValue
from xdsl.irdl import IRDLOperation, irdl_attr_definition
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    VariadicOperandVariable,
    irdl_custom_directive,
)
from xdsl.parser import AttrParser, Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from dialects.types import ELEMENTS


@irdl_attr_definition
class Operand(Data[int]):
    """Stands for operand number `data` among the arguments of a call."""

    name = "fx.operand"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> int:
        with parser.in_angle_brackets():
            return parser.parse_integer(allow_boolean=False, allow_negative=False)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


@irdl_attr_definition
class Constant(Data[str]):
    """A Python constant that has no MLIR spelling: `memory_format:channels_last`, `device:cpu`, `layout:strided`."""

    name = "fx.python"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        with parser.in_angle_brackets():
            return parser.parse_str_literal()

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string("<")
        printer.print_string_literal(self.data)
        printer.print_string(">")


@irdl_attr_definition
class Numbers(Data[tuple[int, ...]]):
    """A list of integers among the properties of a call."""

    name = "fx.numbers"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[int, ...]:
        def number() -> int:
            return parser.parse_integer(allow_boolean=False)

        return tuple(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, number))

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string("<" + ", ".join(map(str, self.data)) + ">")


NONE = NoneType()


@functools.lru_cache(maxsize=1 << 12)
def integer(value: int) -> IntegerAttr:
    """A Python int among the arguments of a call."""
    return IntegerAttr(value, i64)


def boolean(value: bool) -> IntegerAttr:
    return IntegerAttr(int(value), i1)


def real(value: float) -> FloatAttr:
    return FloatAttr(value, f64)


def _print_argument(printer: Printer, argument: Attribute, operands: Sequence[SSAValue]) -> None:
    match argument:
        case Operand():
            printer.print_ssa_value(operands[argument.data])
        case NoneType():
            printer.print_string("none")
        case IntegerAttr() if argument.type == i1:
            printer.print_string("true" if argument.value.data else "false")
        case IntegerAttr():
            printer.print_string(str(argument.value.data))
        case FloatAttr():
            printer.print_string(_real_text(argument.value.data))
        case StringAttr():
            printer.print_string_literal(argument.data)
        case Constant():
            printer.print_string("@")
            printer.print_string_literal(argument.data)
        case ArrayAttr():
            with printer.in_square_brackets():
                printer.print_list(argument.data, lambda a: _print_argument(printer, a, operands))
        case DictionaryAttr():
            # A complex number: the only mapping Python arguments contain.
            parts = argument.data
            printer.print_string("complex(")
            _print_argument(printer, parts["real"], operands)
            printer.print_string(", ")
            _print_argument(printer, parts["imag"], operands)
            printer.print_string(")")
        case _:
            printer.print_attribute(argument)


def _real_text(value: float) -> str:
    """Shortest text that reads back as the same double."""
    if value - value != 0:
        return "nan" if value != value else "inf" if value > 0 else "ninf"
    text = repr(value)
    return text.replace("e", ".0e") if "e" in text and "." not in text else text


_SPECIAL = {"nan": float("nan"), "inf": float("inf"), "ninf": float("-inf")}


class _ArgumentReader:
    """Reads the arguments of one call and collects its operands."""

    def __init__(self, parser: Parser):
        self.parser = parser
        self.operands: list[UnresolvedOperand] = []

    def argument(self) -> Attribute:
        parser = self.parser
        operand = parser.parse_optional_unresolved_operand()
        if operand is not None:
            self.operands.append(operand)
            return Operand(len(self.operands) - 1)
        items = parser.parse_optional_comma_separated_list(parser.Delimiter.SQUARE, self.argument)
        if items is not None:
            return ArrayAttr(items)
        text = parser.parse_optional_str_literal()
        if text is not None:
            return StringAttr(text)
        symbol = parser.parse_optional_symbol_name()
        if symbol is not None:
            return Constant(symbol.data)
        truth = parser.parse_optional_boolean()
        if truth is not None:
            return boolean(truth)
        word = parser.parse_optional_keyword_in(("none", "nan", "inf", "ninf", "complex"))
        if word == "none":
            return NONE
        if word == "complex" and parser.parse_optional_punctuation("<") is not None:
            component = parser.parse_type()
            parser.parse_punctuation(">")
            return ELEMENTS[f"complex<{component}>"][0]
        if word == "complex":
            with parser.in_parens():
                first = self.argument()
                parser.parse_punctuation(",")
                return DictionaryAttr({"real": first, "imag": self.argument()})
        if word is not None:
            return real(_SPECIAL[word])
        element = parser.parse_optional_type()
        if element is not None:
            return element
        number = parser.parse_optional_number()
        if number is None:
            parser.raise_error('Expected an argument: %value, number, text, list, type, @"constant" or none')
        return real(number) if isinstance(number, float) else integer(number)

    def keyword(self) -> tuple[str, Attribute]:
        name = self.parser.parse_identifier()
        self.parser.parse_punctuation("=")
        return name, self.argument()


@irdl_custom_directive
class CallArguments(CustomDirective):
    """`(%x, 0, [none, %i], alpha = 2)`: positional arguments first, then keyword-only ones."""

    operands: VariadicOperandVariable
    arguments: AttributeVariable
    keywords: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        reader = _ArgumentReader(parser)
        positional: list[Attribute] = []
        named: dict[str, Attribute] = {}

        def entry() -> None:
            # `name =` starts a keyword; a bare word is none, true, nan and so on.
            position = parser.pos
            word = parser.parse_optional_identifier()
            if word is not None and parser.parse_optional_punctuation("="):
                named[word] = reader.argument()
                return
            if word is not None:
                parser._resume_from(position)
            if named:
                parser.raise_error("Positional argument after a keyword argument")
            positional.append(reader.argument())

        parser.parse_comma_separated_list(parser.Delimiter.PAREN, entry)
        self.operands.set(state, reader.operands)
        self.arguments.set(state, ArrayAttr(positional))
        if named:
            self.keywords.set(state, DictionaryAttr(named))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        operands = self.operands.get(op)
        arguments = cast(ArrayAttr[Attribute], op.properties["arguments"])
        keywords = cast(DictionaryAttr | None, op.properties.get("keywords"))
        with printer.in_parens():
            printer.print_list(arguments.data, lambda a: _print_argument(printer, a, operands))
            for index, (name, value) in enumerate(keywords.data.items() if keywords else ()):
                printer.print_string(", " if index or arguments.data else "")
                printer.print_string(f"{name} = ")
                _print_argument(printer, value, operands)
        state.last_was_punctuation = False
        state.should_emit_space = True


def operand_numbers(argument: Attribute) -> Iterator[int]:
    """Operand numbers in one argument, left to right."""
    if isinstance(argument, Operand):
        yield argument.data
    elif isinstance(argument, ArrayAttr):
        for item in argument.data:
            yield from operand_numbers(item)


def verify_arguments(op: IRDLOperation, arguments: ArrayAttr[Attribute], keywords: DictionaryAttr | None) -> None:
    """Every operand is named exactly once, from the left."""
    everything = [*arguments.data, *(keywords.data.values() if keywords else ())]
    named = [number for argument in everything for number in operand_numbers(argument)]
    if named != list(range(len(op.operands))):
        raise VerifyException(f"arguments name operands {named}, expected each of 0..{len(op.operands) - 1} once")


__all__ = [
    "CallArguments",
    "Constant",
    "NONE",
    "Numbers",
    "Operand",
    "boolean",
    "integer",
    "operand_numbers",
    "real",
    "verify_arguments",
]
