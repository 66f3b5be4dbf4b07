"""The bytes of an HLO module as plain data, read from the wire format alone.

Shares no code with the writer: neither its schema tables nor the protobuf package, so that a mistake there is seen
here. Field numbers are those of XLA's public hlo.proto and xla_data.proto.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

ELEMENT_TYPES = {
    1: "pred", 2: "s8", 3: "s16", 4: "s32", 5: "s64", 6: "u8", 7: "u16", 8: "u32", 9: "u64", 10: "f16", 11: "f32",
    12: "f64", 13: "tuple", 15: "c64", 16: "bf16", 17: "token", 18: "c128", 19: "f8e5m2", 20: "f8e4m3fn", 23: "f8e4m3b11fnuz",
    24: "f8e5m2fnuz", 25: "f8e4m3fnuz", 28: "f8e4m3",
}  # fmt: skip
BYTES = {
    "pred": 1, "s8": 1, "u8": 1, "s16": 2, "u16": 2, "f16": 2, "bf16": 2, "s32": 4, "u32": 4, "f32": 4, "s64": 8, "u64": 8,
    "f64": 8, "c64": 8, "c128": 16, "f8e5m2": 1, "f8e4m3fn": 1, "f8e4m3": 1,
}  # fmt: skip

NEWER_FIELDS = {87: "collective_device_list", 92: "iota replica groups", 93: "mesh replica groups"}
"""Fields of an instruction that older readers skip without a word."""


class DecodeError(ValueError):
    """The bytes are no well-formed HLO module."""


@dataclass(frozen=True)
class Shape:
    """`placed`: its layout says more than an order: a memory space, tiles, or another size of elements."""

    element: str
    dimensions: tuple[int, ...] = ()
    parts: tuple[Shape, ...] = ()
    minor_to_major: tuple[int, ...] | None = None
    placed: bool = False
    dynamic: tuple[bool, ...] = ()

    def arrays(self) -> Iterator[Shape]:
        """The array shapes inside."""
        if self.element == "tuple":
            for part in self.parts:
                yield from part.arrays()
        elif self.element != "token":
            yield self

    @property
    def type(self) -> tuple[str, tuple[int, ...]]:
        return self.element, self.dimensions

    def __str__(self) -> str:
        if self.element == "tuple":
            return f"({', '.join(map(str, self.parts))})"
        return f"{self.element}[{','.join(map(str, self.dimensions))}]"


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    Attributes:
        source: the user's `file:line`.
        newer_fields: what stands in fields that older readers skip without a word.
        u64: the largest unsigned 64-bit constant in it.
    """

    id: int
    name: str
    opcode: str
    shape: Shape
    operands: tuple[int, ...]
    predecessors: tuple[int, ...]
    called: tuple[int, ...]
    parameter: int
    tuple_index: int
    source: str
    custom_call_target: str
    backend_config: str
    replica_groups: tuple[tuple[int, ...], ...]
    newer_fields: tuple[str, ...]
    channel_id: int
    frontend: dict[str, str]
    aliases: tuple[tuple[tuple[int, ...], int], ...]
    u64: int


@dataclass(frozen=True)
class Computation:
    id: int
    name: str
    root: int
    instructions: tuple[Instruction, ...]

    @functools.cached_property
    def by_id(self) -> dict[int, Instruction]:
        return {i.id: i for i in self.instructions}


@dataclass(frozen=True)
class Alias:
    """`kind` is 2 for must-alias."""

    output: tuple[int, ...]
    parameter: int
    parameter_index: tuple[int, ...]
    kind: int


@dataclass(frozen=True)
class HloModule:
    name: str
    entry_name: str
    computations: tuple[Computation, ...]
    entry_id: int
    parameters: tuple[Shape, ...]
    result: Shape
    aliases: tuple[Alias, ...]
    has_buffer_donors: bool
    has_schedule: bool

    @property
    def results(self) -> tuple[Shape, ...]:
        return self.result.parts if self.result.element == "tuple" else (self.result,)

    @functools.cached_property
    def by_id(self) -> dict[int, Computation]:
        return {c.id: c for c in self.computations}

    @property
    def entry(self) -> Computation:
        if self.entry_id not in self.by_id:
            raise DecodeError(f"no computation has the entry's id {self.entry_id}")
        return self.by_id[self.entry_id]


# -- the wire format -----------------------------------------------------------------------------

Fields = dict[int, list[int | bytes]]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise DecodeError("a number is cut off")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def fields(data: bytes) -> Fields:
    """Field number -> values in order: numbers, or the bytes of strings and messages."""
    found: Fields = {}
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        value: int | bytes
        if wire == 0:
            value, at = _varint(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            value, at = int.from_bytes(data[at : at + size], "little"), at + size
        elif wire == 2:
            size, at = _varint(data, at)
            value, at = data[at : at + size], at + size
        else:
            raise DecodeError(f"field {number} has the unknown wire type {wire}")
        if at > len(data) or number == 0:
            raise DecodeError(f"field {number} is cut off")
        found.setdefault(number, []).append(value)
    return found


def _message(found: Fields, number: int) -> Fields:
    """A message field; repeated occurrences would be merged, the writer never makes them."""
    return fields(_bytes(found, number))


def _bytes(found: Fields, number: int) -> bytes:
    value = found.get(number, [b""])[-1]
    if not isinstance(value, bytes):
        raise DecodeError(f"field {number} is a number")
    return value


def _messages(found: Fields, number: int) -> Iterator[Fields]:
    for value in found.get(number, ()):
        if not isinstance(value, bytes):
            raise DecodeError(f"field {number} is a number")
        yield fields(value)


def _text(found: Fields, number: int) -> str:
    return _bytes(found, number).decode("utf-8", "replace")


def _number(found: Fields, number: int) -> int:
    value = found.get(number, [0])[-1]
    if not isinstance(value, int):
        raise DecodeError(f"field {number} is no number")
    return value - (1 << 64) if value >> 63 else value


def _numbers(found: Fields, number: int) -> tuple[int, ...]:
    """Repeated numbers, packed or not."""
    result: list[int] = []
    for value in found.get(number, ()):
        if isinstance(value, int):
            result.append(value)
            continue
        at = 0
        while at < len(value):
            item, at = _varint(value, at)
            result.append(item)
    return tuple(item - (1 << 64) if item >> 63 else item for item in result)


# -- the module ----------------------------------------------------------------------------------


def read_module(data: bytes) -> HloModule:
    """Decode a serialised HloModuleProto.

    Raises:
        DecodeError: the bytes are no HLO module.
    """
    found = fields(data)
    program = _message(found, 4)
    if 3 not in found:
        raise DecodeError("no computation in it")
    return HloModule(
        name=_text(found, 1),
        entry_name=_text(found, 2),
        computations=tuple(_computation(c) for c in _messages(found, 3)),
        entry_id=_number(found, 6),
        parameters=tuple(_shape(s) for s in _messages(program, 1)),
        result=_shape(_message(program, 2)),
        aliases=tuple(
            Alias(_numbers(e, 1), _number(e, 2), _numbers(e, 3), _number(e, 4))
            for e in _messages(_message(found, 8), 1)
        ),
        has_buffer_donors=bool(found.get(18)) and bool(_bytes(found, 18)),
        has_schedule=7 in found,
    )


def _shape(found: Fields) -> Shape:
    number = _number(found, 2)
    layout = _message(found, 5)
    placed = any(field not in (1, 16) for field in layout) or _number(layout, 16) > 1
    order = _numbers(layout, 1) if 5 in found else None
    return Shape(
        ELEMENT_TYPES.get(number, f"type {number}"), _numbers(found, 3), tuple(_shape(s) for s in _messages(found, 4)),
        order, placed, tuple(bool(d) for d in _numbers(found, 6)),
    )  # fmt: skip


def _computation(found: Fields) -> Computation:
    return Computation(
        _number(found, 5), _text(found, 1), _number(found, 6), tuple(_instruction(i) for i in _messages(found, 2))
    )


def _instruction(found: Fields) -> Instruction:
    metadata = _message(found, 7)
    file, line = _text(metadata, 3), _number(metadata, 4)
    return Instruction(
        id=_number(found, 35),
        name=_text(found, 1),
        opcode=_text(found, 2),
        shape=_shape(_message(found, 3)),
        operands=_numbers(found, 36),
        predecessors=_numbers(found, 37),
        called=_numbers(found, 38),
        parameter=_number(found, 9),
        tuple_index=_number(found, 13),
        source=f"{file}:{line}" if file else "",
        custom_call_target=_text(found, 28),
        backend_config=_text(found, 43),
        replica_groups=tuple(_numbers(g, 1) for g in _messages(found, 49)),
        newer_fields=tuple(what for field, what in NEWER_FIELDS.items() if any(found.get(field, ()))),
        channel_id=_number(found, 26),
        frontend={_text(e, 1): _text(e, 2) for e in _messages(_message(found, 68), 1)},
        aliases=tuple((_numbers(a, 1), _number(a, 2)) for a in _messages(found, 74)),
        u64=max((n % (1 << 64) for n in _numbers(_message(found, 8), 7)), default=0),
    )
