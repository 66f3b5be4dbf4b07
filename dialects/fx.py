"""Calls of any operator overload, on handles (`fx.call`) and on values (`fx.value_call`), and windows on values.

    %1 = fx.call "aten.index_copy_.default"(%kv, 0, %pos, %x) effects<read 0, write 0, read 1, read 2>
           results<same 0> value<"aten.index_copy.default" [write 0]> : (memref<128x64xf32>, ...) -> memref<128x64xf32>

A call's arguments stand in the order of the operator's schema: operands as `%name`, Python numbers,
text, `none`, lists in brackets, element types, other Python constants as `@"kind:name"`;
keyword-only ones follow as `name = argument`. Operand numbers in attributes count operands from the left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    NoneType,
    StringAttr,
    TensorType,
    UnitAttr,
    f64,
    i1,
    i64,
)
from xdsl.ir import Attribute, Data, Dialect, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
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
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from dialects.alias import Effects, Results, Window
from dialects.types import ELEMENTS, element_bytes, element_name, geometry, lazy_bits

# -- arguments ---------------------------------------------------------------------------------


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


NONE = NoneType()


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
            parser.raise_error("Expected an argument: %value, number, text, list, type, @\"constant\" or none")
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


# -- the value form ----------------------------------------------------------------------------


class ValueOutput(NamedTuple):
    """What a result of the out-of-place twin stands for: `result` number of the call, or the new value of
    the operand that was written (`write`)."""

    kind: Literal["result", "write"]
    index: int


class ValueFormData(NamedTuple):
    target: str
    outputs: tuple[ValueOutput, ...]
    drop: tuple[str, ...] = ()
    """Keyword arguments the twin does not take (`out`)."""


@irdl_attr_definition
class ValueForm(Data[ValueFormData]):
    """The out-of-place twin of a writing op: its overload, and what each of its results stands for."""

    name = "fx.value"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> ValueFormData:
        def output() -> ValueOutput:
            kind = parser.parse_keyword_in(("result", "write"))
            return ValueOutput(
                cast(Literal["result", "write"], kind), parser.parse_integer(allow_boolean=False, allow_negative=False)
            )

        with parser.in_angle_brackets():
            target = parser.parse_str_literal()
            outputs = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, output)
            drop: list[str] = []
            if parser.parse_optional_keyword("drop"):
                drop = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_identifier)
            return ValueFormData(target, tuple(outputs), tuple(drop))

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string("<")
        printer.print_string_literal(self.data.target)
        printer.print_string(" [" + ", ".join(f"{o.kind} {o.index}" for o in self.data.outputs) + "]")
        if self.data.drop:
            printer.print_string(" drop [" + ", ".join(self.data.drop) + "]")
        printer.print_string(">")


# -- operations --------------------------------------------------------------------------------


@irdl_op_definition
class CallOp(IRDLOperation):
    """A call of an operator overload on handles, as the program made it.

    Args:
        target: overload, `namespace.name.overload`.
        effects: which operands are read and written.
        aliases: how each result relates to an operand's memory.
        value: the out-of-place twin, for a writing op that has one.
        pointwise: element i of what is written depends on element i of the operands only, so that source and
            destination may be one window.
    """

    name = "fx.call"

    args = var_operand_def()
    outs = var_result_def()
    target = prop_def(StringAttr)
    arguments = prop_def(ArrayAttr)
    keywords = opt_prop_def(DictionaryAttr)
    effects = prop_def(Effects)
    aliases = prop_def(Results)
    value = opt_prop_def(ValueForm)
    pointwise = opt_prop_def(UnitAttr)

    custom_directives = (CallArguments,)
    assembly_format = (
        "$target custom<CallArguments>($args, $arguments, $keywords) `effects` `` $effects `results` `` $aliases "
        "(`value` `` $value^)? (`pointwise` $pointwise^)? attr-dict `:` functional-type($args, $outs)"
    )

    def verify_(self) -> None:
        verify_arguments(self, self.arguments, self.keywords)
        for value in (*self.args, *self.outs):
            if isinstance(value.type, TensorType):
                raise VerifyException(f"a call takes and gives memory, not a value of type {value.type}")
        accesses = self.effects.data or ()
        if len(set(accesses)) < len(accesses):
            raise VerifyException("an effect is listed twice")
        for access in accesses:
            if access.operand >= len(self.args):
                raise VerifyException(f"effect on operand {access.operand}, but there are {len(self.args)}")
            if not isinstance(self.args[access.operand].type, MemRefType):
                raise VerifyException(
                    f"{access.kind} effect on operand {access.operand}, a value of type {self.args[access.operand].type}: "
                    "only memory can be read or written"
                )
        if len(self.aliases.data) != len(self.outs):
            raise VerifyException(f"{len(self.aliases.data)} result aliases for {len(self.outs)} results")
        for number, (alias, result) in enumerate(zip(self.aliases.data, self.outs, strict=True)):
            self._verify_alias(number, alias.kind, alias.operand, result.type)
        if self.value is not None:
            self._verify_value(self.value.data)

    def _verify_alias(self, number: int, kind: str, operand: int, result: Attribute) -> None:
        if operand < 0:
            if kind in ("same", "view"):
                raise VerifyException(f"result {number}: `{kind}` needs an operand number")
            return
        if kind == "fresh":
            raise VerifyException(f"result {number}: `fresh` memory is no operand's")
        if operand >= len(self.args):
            raise VerifyException(f"result {number} aliases operand {operand}, but there are {len(self.args)}")
        source = self.args[operand].type
        if not isinstance(source, MemRefType) or not isinstance(result, MemRefType):
            raise VerifyException(f"result {number}: only memory can alias memory")
        if kind == "same" and source != result:
            raise VerifyException(
                f"result {number} must alias operand {operand}, but their types differ: {result} and {source}; "
                "another geometry needs `view`"
            )

    def _verify_value(self, value: ValueFormData) -> None:
        writes = self.effects.writes() or ()
        for output in value.outputs:
            if output.kind == "write" and output.index not in writes:
                raise VerifyException(f"value form gives operand {output.index}, which is not written")
            if output.kind == "result" and output.index >= len(self.outs):
                raise VerifyException(f"value form gives result {output.index}, but there are {len(self.outs)}")
        if len(set(value.outputs)) < len(value.outputs):
            raise VerifyException("value form gives the same thing twice")
        given = {output.index for output in value.outputs if output.kind == "write"}
        for operand in writes:
            if operand not in given:
                raise VerifyException(f"value form does not give the new value of operand {operand}, which is written")


@irdl_op_definition
class ValueCallOp(IRDLOperation):
    """A call of an operator overload on values: a pure function of its operands.

    With `writes`, the overload is a mutating one without a twin: it runs on copies of the operands it
    writes, and their new values follow the op's own results.
    """

    name = "fx.value_call"

    args = var_operand_def()
    outs = var_result_def()
    target = prop_def(StringAttr)
    arguments = prop_def(ArrayAttr)
    keywords = opt_prop_def(DictionaryAttr)
    writes = opt_prop_def(Effects)

    traits = traits_def(Pure())
    custom_directives = (CallArguments,)
    assembly_format = (
        "$target custom<CallArguments>($args, $arguments, $keywords) (`writes` `` $writes^)? attr-dict "
        "`:` functional-type($args, $outs)"
    )

    def verify_(self) -> None:
        verify_arguments(self, self.arguments, self.keywords)
        for value in (*self.args, *self.outs):
            if isinstance(value.type, MemRefType):
                raise VerifyException(f"a value call takes and gives values, not memory of type {value.type}")
        if self.writes is not None:
            self._verify_writes(self.writes)

    def _verify_writes(self, effects: Effects) -> None:
        """The new values of the written operands are the last results, in operand order."""
        written = effects.writes()
        if not written or effects.reads():
            raise VerifyException("`writes` names the written operands: writes<write 0>")
        if len(self.outs) < len(written):
            raise VerifyException(f"{len(written)} operands are written, but there are {len(self.outs)} results")
        for operand, result in zip(written, self.outs[len(self.outs) - len(written) :], strict=True):
            if operand >= len(self.args):
                raise VerifyException(f"a write of operand {operand}, but there are {len(self.args)}")
            if self.args[operand].type != result.type:
                raise VerifyException(
                    f"the new value of operand {operand} has type {result.type}, the operand {self.args[operand].type}"
                )


@irdl_op_definition
class ExtractOp(IRDLOperation):
    """The window of a value: element (i, j, ...) is element `offset + i * stride_0 + ...` in row-major order."""

    name = "fx.extract"

    base = operand_def(TensorType)
    window = prop_def(Window)
    value = result_def(TensorType)

    traits = traits_def(Pure())
    assembly_format = "$base $window attr-dict `:` type($base) `->` type($value)"

    def verify_(self) -> None:
        _verify_window(self.window, cast(TensorType[Attribute], self.base.type), cast(TensorType[Attribute], self.value.type))


@irdl_op_definition
class InsertOp(IRDLOperation):
    """`base` with the window replaced by `value`; without `base` the window covers every element.

    A window that meets one element twice is right only if it puts the same value there each time.
    """

    name = "fx.insert"

    value = operand_def(TensorType)
    base = opt_operand_def(TensorType)
    window = prop_def(Window)
    result = result_def(TensorType)

    traits = traits_def(Pure())
    assembly_format = (
        "$value (`into` $base^)? $window attr-dict `:` type($value) (`into` type($base)^)? `->` type($result)"
    )

    def verify_(self) -> None:
        result = cast(TensorType[Attribute], self.result.type)
        _verify_window(self.window, result, cast(TensorType[Attribute], self.value.type))
        if self.base is not None and self.base.type != result:
            raise VerifyException(f"the result has type {result}, the base {self.base.type}")


@irdl_op_definition
class ReinterpretOp(IRDLOperation):
    """The same bytes with another element type; the last dimension scales with the element size."""

    name = "fx.reinterpret"

    value = operand_def(TensorType)
    result = result_def(TensorType)

    traits = traits_def(Pure())
    assembly_format = "$value attr-dict `:` type($value) `->` type($result)"

    def verify_(self) -> None:
        source, result = cast(TensorType[Attribute], self.value.type), cast(TensorType[Attribute], self.result.type)
        before, after = element_bytes(source.element_type), element_bytes(result.element_type)
        if before == after:
            same = source.get_shape() == result.get_shape()
        else:
            same = (
                len(source.get_shape()) > 0
                and source.get_shape()[:-1] == result.get_shape()[:-1]
                and source.get_shape()[-1] * before == result.get_shape()[-1] * after
            )
        if not same:
            raise VerifyException(f"{source} and {result} do not hold the same bytes")


@irdl_op_definition
class EmptyOp(IRDLOperation):
    """A value nobody has written yet; it reads as zeros."""

    name = "fx.empty"

    value = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($value)"


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """A small constant tensor, as fresh memory (memref) or as a value (tensor). Large data is an argument."""

    name = "fx.constant"

    data = prop_def(DenseIntOrFPElementsAttr)
    value = result_def()
    assembly_format = "$data attr-dict `:` type($value)"

    def verify_(self) -> None:
        kind = self.value.type
        if not isinstance(kind, MemRefType | TensorType):
            raise VerifyException(f"a constant is a memref or a tensor, not {kind}")
        data = self.data.type
        if data.element_type != kind.element_type or data.get_shape() != kind.get_shape():
            raise VerifyException(f"the data has type {data}, the constant {kind}")


@irdl_op_definition
class SymbolOp(IRDLOperation):
    """A number known only at run time: the size, stride or offset that `expression` names."""

    name = "fx.symbol"

    expression = prop_def(StringAttr)
    value = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "$expression attr-dict `:` type($value)"


def _verify_window(window: Window, base: TensorType[Attribute], value: TensorType[Attribute]) -> None:
    sizes, strides, offset = window.data
    if base.element_type != value.element_type:
        raise VerifyException(f"a window does not change the element type: {base} and {value}")
    if value.get_shape() != sizes:
        raise VerifyException(f"the window has sizes {list(sizes)}, the value {list(value.get_shape())}")
    numel = 1
    for size in base.get_shape():
        numel *= size
    if 0 in sizes:
        return
    last = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    if offset < 0 or min(strides, default=0) < 0 or last >= numel:
        raise VerifyException(f"the window reaches element {last} of a value with {numel}")


Fx = Dialect(
    "fx",
    [CallOp, ValueCallOp, ExtractOp, InsertOp, ReinterpretOp, EmptyOp, ConstantOp, SymbolOp],
    [Operand, Constant, ValueForm],
)

__all__ = ["CallOp", "Callable", "Constant", "ConstantOp", "ELEMENTS", "EmptyOp", "ExtractOp", "Fx", "InsertOp", "NONE",
           "Operand", "ReinterpretOp", "SymbolOp", "ValueCallOp", "ValueForm", "ValueFormData", "ValueOutput", "boolean",
           "element_name", "geometry", "integer", "lazy_bits", "operand_numbers", "real", "verify_arguments"]
