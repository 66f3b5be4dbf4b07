"""HLO module bytes are well formed: read from the wire by nothing but these lines, and checked field by field.

The writer has a schema; this reader has none. It knows protobuf's wire format and the field numbers of XLA's public
hlo.proto, so that a fault in the writer's schema is not shared by its check.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

Message = dict[int, list[Any]]
"""Field number -> what the wire holds, in order: integers, or bytes."""

_ELEMENTS = {
    1: "i1", 2: "i8", 3: "i16", 4: "i32", 5: "i64", 6: "ui8", 7: "ui16", 8: "ui32", 9: "ui64", 10: "f16", 11: "f32",
    12: "f64", 15: "complex<f32>", 16: "bf16", 18: "complex<f64>", 19: "f8E5M2", 20: "f8E4M3FN",
}  # fmt: skip
_TUPLE, _TOKEN, _MUST = 13, 17, 2
_NEWER = {87: "collective_device_list", 92: "iota replica groups", 93: "mesh replica groups"}
"""Fields of an instruction that older readers skip without a word."""


class DecodeError(ValueError):
    """The bytes are no well-formed HLO module."""


class Tensor(NamedTuple):
    element: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.element}{list(self.shape)}"


class Interface(NamedTuple):
    """What a module takes and gives; `aliases` are (output, parameter), sorted."""

    parameters: list[Tensor]
    results: list[Tensor]
    aliases: list[tuple[int, int]]


def check_module(data: bytes) -> Interface:
    """Raise DecodeError unless ids, references, shapes, layouts and the alias table are those of a sound module."""
    module = _message(data, "module")
    computations = [_message(c, "computation") for c in module.get(3, [])]
    _require(bool(computations), "it has no computation")
    _require(7 not in module, "it has a schedule, which speaks of ids that nobody checks")
    _require(18 not in module, "it has buffer donors, which name no output")
    seen: dict[int, Message] = {}
    instructions: set[int] = set()
    for computation in computations:
        _check_computation(computation, seen, instructions)
    entry = seen.get(_one(module, 6, "entry computation"))
    _require(entry is not None, "the entry computation is not there")
    assert entry is not None
    program = _message(_field(module, 4, "program shape"), "program shape")
    parameters = [_tensor(s, f"parameter {n}") for n, s in enumerate(program.get(1, []))]
    result = _message(_field(program, 2, "result shape"), "shape")
    tupled = result.get(2, [0])[-1] == _TUPLE
    results = [_tensor(s, f"result {n}") for n, s in enumerate(result.get(4, []))] if tupled else [_tensor_of(result, "result")]
    _check_entry(entry, parameters, results, tupled)
    return Interface(parameters, results, _aliases(module, parameters, results, tupled))


# -- computations --------------------------------------------------------------------------------


def _check_computation(computation: Message, seen: dict[int, Message], instructions: set[int]) -> None:
    name = _text(computation, 1)
    identity = _one(computation, 5, f"id of computation {name}")
    _require(0 < identity < 1 << 31 and identity not in seen, f"computation {name} has the id {identity}")
    local: dict[int, Message] = {}
    for raw in computation.get(2, []):
        instruction = _message(raw, "instruction")
        label = f"instruction {_text(instruction, 1)}"
        number = _one(instruction, 35, f"id of {label}")
        _require(0 < number < 1 << 31 and number not in instructions, f"{label} has the id {number}")
        for operand in _integers(instruction, 36) + _integers(instruction, 37):
            _require(operand in local, f"{label} uses {operand}, which is not defined before it")
        for called in _integers(instruction, 38):
            _require(called in seen, f"{label} calls computation {called}, which is not defined before it")
        for field, what in _NEWER.items():
            _require(field not in instruction, f"{label} has {what}, which older readers skip")
        _check_layout(_message(_field(instruction, 3, f"shape of {label}"), "shape"), label)
        local[number] = instruction
        instructions.add(number)
    root = _one(computation, 6, f"root of computation {name}")
    _require(root in local, f"the root of computation {name} is not in it")
    computation[-1] = [local]
    seen[identity] = computation


def _check_entry(entry: Message, parameters: list[Tensor], results: list[Tensor], tupled: bool) -> None:
    local: dict[int, Message] = entry[-1][0]
    numbers: dict[int, Tensor] = {}
    for instruction in local.values():
        if _text(instruction, 2) == "parameter":
            number = instruction.get(9, [0])[-1]
            _require(number not in numbers, f"two parameters have the number {number}")
            numbers[number] = _tensor(_field(instruction, 3, "shape"), f"parameter {number}")
    _require(
        [numbers.get(n) for n in range(len(parameters))] == parameters and len(numbers) == len(parameters),
        "the parameters of the entry computation are not those of the program shape",
    )
    shape = _message(_field(local[_one(entry, 6, "root")], 3, "shape"), "shape")
    found = [_tensor(s, "root") for s in shape.get(4, [])] if shape.get(2, [0])[-1] == _TUPLE else [_tensor_of(shape, "root")]
    _require((shape.get(2, [0])[-1] == _TUPLE) == tupled and found == results, "the root is not what the program shape says")


def _aliases(module: Message, parameters: list[Tensor], results: list[Tensor], tupled: bool) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    for table in module.get(8, []):
        for raw in _message(table, "alias table").get(1, []):
            entry = _message(raw, "alias entry")
            index, parameter = _integers(entry, 1), entry.get(2, [0])[-1]
            _require(len(index) == int(tupled), f"alias entry: output index {index}")
            _require(not _integers(entry, 3), "alias entry: a part of a parameter")
            _require(entry.get(4, [0])[-1] == _MUST, f"alias entry of parameter {parameter} is no must-alias")
            output = index[0] if tupled else 0
            _require(0 <= output < len(results), f"alias entry: output {output} of {len(results)}")
            _require(0 <= parameter < len(parameters), f"alias entry: parameter {parameter} of {len(parameters)}")
            _require(
                results[output] == parameters[parameter],
                f"alias entry: output {output} is {results[output]}, parameter {parameter} is {parameters[parameter]}",
            )
            pairs.append((output, parameter))
    for side in (0, 1):
        numbers = [pair[side] for pair in pairs]
        _require(len(set(numbers)) == len(numbers), "alias entry: an output or a parameter stands in two entries")
    return sorted(pairs)


# -- shapes --------------------------------------------------------------------------------------


def _tensor(data: bytes, what: str) -> Tensor:
    return _tensor_of(_message(data, "shape"), what)


def _tensor_of(shape: Message, what: str) -> Tensor:
    _check_layout(shape, what)
    element = shape.get(2, [0])[-1]
    _require(element in _ELEMENTS, f"{what} has element type {element}")
    _require(not any(_integers(shape, 6)), f"{what} has a dynamic dimension")
    return Tensor(_ELEMENTS[element], tuple(_integers(shape, 3)))


def _check_layout(shape: Message, what: str) -> None:
    """Every array is row-major, and says so."""
    element = shape.get(2, [0])[-1]
    if element == _TUPLE:
        for part in shape.get(4, []):
            _check_layout(_message(part, "shape"), what)
    elif element != _TOKEN:
        sizes = _integers(shape, 3)
        _require(min(sizes, default=0) >= 0, f"{what} has a negative size")
        layout = _message(shape[5][-1], "layout") if 5 in shape else {}
        _require(_integers(layout, 1) == list(range(len(sizes) - 1, -1, -1)), f"{what} has a layout that is not row-major")


# -- the wire ------------------------------------------------------------------------------------


def _message(data: Any, what: str) -> Message:
    if not isinstance(data, bytes):
        raise DecodeError(f"{what} is a number")
    fields: Message = {}
    for number, value in _fields(data, what):
        fields.setdefault(number, []).append(value)
    return fields


def _fields(data: bytes, what: str) -> Iterator[tuple[int, Any]]:
    position = 0
    while position < len(data):
        key, position = _varint(data, position, what)
        number, kind = key >> 3, key & 7
        _require(number > 0, f"{what} has a field 0")
        if kind == 0:
            value, position = _varint(data, position, what)
            yield number, value - (1 << 64) if value >> 63 else value
        elif kind == 2:
            size, position = _varint(data, position, what)
            _require(position + size <= len(data), f"{what} is cut short")
            yield number, data[position : position + size]
            position += size
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            _require(position + size <= len(data), f"{what} is cut short")
            yield number, struct.unpack("<q" if kind == 1 else "<i", data[position : position + size])[0]
            position += size
        else:
            raise DecodeError(f"{what} has a field of wire type {kind}")


def _varint(data: bytes, position: int, what: str) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        _require(position < len(data), f"{what} is cut short")
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & ((1 << 64) - 1), position
    raise DecodeError(f"{what} has a number of more than ten bytes")


def _integers(message: Message, number: int) -> list[int]:
    """A repeated integer, packed or not."""
    found: list[int] = []
    for value in message.get(number, []):
        if isinstance(value, int):
            found.append(value)
            continue
        position = 0
        while position < len(value):
            item, position = _varint(value, position, f"field {number}")
            found.append(item - (1 << 64) if item >> 63 else item)
    return found


def _field(message: Message, number: int, what: str) -> Any:
    _require(number in message, f"there is no {what}")
    return message[number][-1]


def _one(message: Message, number: int, what: str) -> int:
    value = _field(message, number, what)
    _require(isinstance(value, int), f"the {what} is no number")
    return value


def _text(message: Message, number: int) -> str:
    value = message.get(number, [b""])[-1]
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise DecodeError(message)


__all__ = ["DecodeError", "Interface", "Tensor", "check_module"]
