"""Who reads, who writes, who shares memory: the attributes that every pass decides by.

Attributes on a call: `Effects` (reads and writes per operand), `Results` (how each result relates to an
operand). On arguments of a function: `Root`. On the purified function: `Bindings` (where each
argument's bytes are), `Table` (the must-alias entries) and `Plan` (how each original output is rebuilt).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, cast

from xdsl.ir import Data, Dialect
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from dialects.types import Geometry


class Access(NamedTuple):
    """One effect: `kind` on operand number `operand`."""

    kind: Literal["read", "write"]
    operand: int


@irdl_attr_definition
class Effects(Data[tuple[Access, ...] | None]):
    """Reads and writes of an op, in operand order. None: unknown, as if it read and wrote all it can reach."""

    name = "alias.effects"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Access, ...] | None:
        def access() -> Access | None:
            kind = parser.parse_keyword_in(("read", "write", "unknown"))
            if kind == "unknown":
                return None
            return Access(
                cast(Literal["read", "write"], kind), parser.parse_integer(allow_boolean=False, allow_negative=False)
            )

        accesses = parser.parse_comma_separated_list(parser.Delimiter.ANGLE, access)
        known = tuple(a for a in accesses if a is not None)
        if len(known) < len(accesses) and len(accesses) > 1:
            parser.raise_error("`unknown` stands alone")
        return known if len(known) == len(accesses) else None

    def print_parameter(self, printer: Printer) -> None:
        text = "unknown" if self.data is None else ", ".join(f"{a.kind} {a.operand}" for a in self.data)
        printer.print_string(f"<{text}>")

    def writes(self) -> tuple[int, ...] | None:
        """Operand numbers written, or None when unknown."""
        return None if self.data is None else tuple(a.operand for a in self.data if a.kind == "write")

    def reads(self) -> tuple[int, ...] | None:
        """Operand numbers whose elements are read, or None when unknown."""
        return None if self.data is None else tuple(a.operand for a in self.data if a.kind == "read")


class ResultAlias(NamedTuple):
    """How a result relates to memory: `same` operand, a `view` of it, `may` be one, or `fresh` memory.

    `operand` is -1 for `fresh`, and for a `may` that could be any operand.
    """

    kind: Literal["same", "view", "may", "fresh"]
    operand: int = -1


@irdl_attr_definition
class Results(Data[tuple[ResultAlias, ...]]):
    """One entry per result of a call."""

    name = "alias.results"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[ResultAlias, ...]:
        def entry() -> ResultAlias:
            kind = parser.parse_keyword_in(("same", "view", "may", "fresh"))
            operand = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
            return ResultAlias(cast(Literal["same", "view", "may", "fresh"], kind), -1 if operand is None else operand)

        return tuple(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, entry))

    def print_parameter(self, printer: Printer) -> None:
        text = ", ".join(r.kind if r.operand < 0 else f"{r.kind} {r.operand}" for r in self.data)
        printer.print_string(f"<{text}>")


class RootData(NamedTuple):
    """`id` numbers the storage, `bytes` is the size of the part the program was given."""

    id: int
    bytes: int


@irdl_attr_definition
class Root(Data[RootData]):
    """The storage an argument is a window on. The window itself is the argument's type."""

    name = "alias.root"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> RootData:
        with parser.in_angle_brackets():
            number = parser.parse_integer(allow_boolean=False, allow_negative=False)
            parser.parse_punctuation(",")
            size = parser.parse_integer(allow_boolean=False, allow_negative=False)
            parser.parse_keyword("bytes")
            return RootData(number, size)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data.id}, {self.data.bytes} bytes>")


class AliasEntry(NamedTuple):
    """HLO output number `output` must be written into HLO parameter number `parameter`."""

    output: int
    parameter: int


@irdl_attr_definition
class Table(Data[tuple[AliasEntry, ...]]):
    """The input/output alias table of a purified function; every entry is a must-alias."""

    name = "alias.table"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[AliasEntry, ...]:
        def entry() -> AliasEntry:
            output = parser.parse_integer(allow_boolean=False, allow_negative=False)
            parser.parse_punctuation("=")
            return AliasEntry(output, parser.parse_integer(allow_boolean=False, allow_negative=False))

        return tuple(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, entry))

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string("<" + ", ".join(f"{e.output} = {e.parameter}" for e in self.data) + ">")


class OutputSource(NamedTuple):
    """How one original output comes to be.

    kind "argument": it is argument `index`, the same object.
    kind "argument_view": `geometry` on argument `index`'s storage; the offset counts from the start of its root.
    kind "result": `geometry` on the memory of HLO output `index`.
    kind "output": it is original output `index`, the same object.
    `element` and `lazy` are those of the handle.
    """

    kind: Literal["argument", "argument_view", "result", "output"]
    index: int
    element: str = ""
    geometry: Geometry = Geometry((), (), 0)
    lazy: str = ""


OUTPUT_KINDS = ("argument", "argument_view", "result", "output")


@irdl_attr_definition
class Plan(Data[tuple[OutputSource, ...]]):
    """One entry per tensor output of the original program, in order."""

    name = "alias.plan"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[OutputSource, ...]:
        def entry() -> OutputSource:
            kind = cast(Literal["argument", "argument_view", "result", "output"], parser.parse_keyword_in(OUTPUT_KINDS))
            index = parser.parse_integer(allow_boolean=False, allow_negative=False)
            if kind in ("argument", "output"):
                return OutputSource(kind, index)
            element = parser.parse_str_literal()
            lazy = parser.parse_str_literal() if parser.parse_optional_keyword("lazy") else ""
            return OutputSource(kind, index, element, parse_geometry(parser), lazy)

        return tuple(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, entry))

    def print_parameter(self, printer: Printer) -> None:
        parts: list[str] = []
        for source in self.data:
            text = f"{source.kind} {source.index}"
            if source.kind in ("argument_view", "result"):
                lazy = f' lazy "{source.lazy}"' if source.lazy else ""
                text += f' "{source.element}"{lazy} {geometry_text(source.geometry)}'
            parts.append(text)
        printer.print_string("<" + ", ".join(parts) + ">")


class Binding(NamedTuple):
    """How one argument of the original program reaches the purified function.

    `parameter` is the HLO parameter that holds its bytes (-1: nothing reads or writes it), `geometry` the
    argument's own window, in elements of `element`, counted from the first byte of that parameter; `lazy` are its
    conj/neg bits. `around`: the program also writes bytes of that parameter that are no elements of its arguments.
    """

    name: str
    kind: str
    parameter: int
    element: str
    geometry: Geometry
    written: bool = False
    lazy: str = ""
    around: bool = False


ARGUMENT_KINDS = ("input", "parameter", "buffer", "constant", "generator")


@irdl_attr_definition
class Bindings(Data[tuple[Binding, ...]]):
    """One entry per argument of the original program, in order."""

    name = "alias.bindings"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Binding, ...]:
        def entry() -> Binding:
            name = parser.parse_str_literal()
            kind = parser.parse_keyword_in(ARGUMENT_KINDS)
            parameter = -1
            if parser.parse_keyword_in(("in", "unused")) == "in":
                parameter = parser.parse_integer(allow_boolean=False, allow_negative=False)
            element = parser.parse_str_literal()
            lazy = parser.parse_str_literal() if parser.parse_optional_keyword("lazy") else ""
            window = parse_geometry(parser)
            written = bool(parser.parse_optional_keyword("written"))
            around = written and bool(parser.parse_optional_keyword("around"))
            return Binding(name, kind, parameter, element, window, written, lazy, around)

        return tuple(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, entry))

    def print_parameter(self, printer: Printer) -> None:
        def text(b: Binding) -> str:
            place = f"in {b.parameter}" if b.parameter >= 0 else "unused"
            lazy = f' lazy "{b.lazy}"' if b.lazy else ""
            written = (" written around" if b.around else " written") if b.written else ""
            return f'{b.kind} {place} "{b.element}"{lazy} {geometry_text(b.geometry)}{written}'

        printer.print_string("<")
        for index, binding in enumerate(self.data):
            printer.print_string(", " if index else "")
            printer.print_string_literal(binding.name)
            printer.print_string(f" {text(binding)}")
        printer.print_string(">")


@irdl_attr_definition
class Window(Data[Geometry]):
    """A strided window on the elements of a value in row-major order."""

    name = "alias.window"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Geometry:
        with parser.in_angle_brackets():
            return parse_geometry(parser)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{geometry_text(self.data)}>")


def geometry_text(window: Geometry) -> str:
    """`[2, 3] strides [3, 1] offset 6`; a zero offset is left out."""
    offset = f" offset {window.offset}" if window.offset else ""
    return f"{list(window.sizes)} strides {list(window.strides)}{offset}"


def parse_geometry(parser: AttrParser) -> Geometry:
    """The inverse of `geometry_text`."""
    sizes = _integers(parser)
    parser.parse_keyword("strides")
    strides = _integers(parser)
    if len(sizes) != len(strides):
        parser.raise_error(f"{len(sizes)} sizes but {len(strides)} strides")
    offset = parser.parse_integer(allow_boolean=False) if parser.parse_optional_keyword("offset") else 0
    return Geometry(sizes, strides, offset)


def _integers(parser: AttrParser) -> tuple[int, ...]:
    return tuple(
        parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_boolean=False))
    )


DONATED = "alias.donated"
"""Unit attribute of an argument whose memory the caller gives up."""

TENSOR = "alias.tensor"
"""Number on an argument: those with the same one are the same tensor, and the program may name any of them for another."""


def effects(reads: Iterable[int], writes: Iterable[int]) -> Effects:
    """Effects in operand order, a read before a write of the same operand."""
    accesses = [Access("read", i) for i in reads] + [Access("write", i) for i in writes]
    return Effects(tuple(sorted(accesses, key=lambda a: (a.operand, a.kind))))


def results(entries: Sequence[ResultAlias]) -> Results:
    return Results(tuple(entries))


Alias = Dialect("alias", [], [Effects, Results, Root, Table, Plan, Bindings, Window])

__all__ = [
    "Access", "Alias", "AliasEntry", "Binding", "Bindings", "DONATED", "Effects",
    "OutputSource", "Plan", "ResultAlias", "Results", "Root", "RootData", "Table", "Window", "effects",
    "geometry_text", "parse_geometry", "results",
]  # fmt: skip
