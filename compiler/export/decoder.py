"""HLO module bytes are well formed: ids, references, shapes, layouts and the alias table are those of a sound module.

The bytes are read by `compiler.export.hlo_reader`, which knows protobuf's wire format and XLA's public field numbers and
shares nothing with the writer, so that a fault in the writer's schema is not shared by its check.
"""

from __future__ import annotations

from typing import NamedTuple

from compiler.export.hlo_reader import Computation, DecodeError, HloModule, Instruction, Shape, read_module
from compiler.export.hlo_rules import check_types

_ELEMENTS = {
    "pred": "i1", "s8": "i8", "s16": "i16", "s32": "i32", "s64": "i64", "u8": "ui8", "u16": "ui16", "u32": "ui32",
    "u64": "ui64", "f16": "f16", "f32": "f32", "f64": "f64", "bf16": "bf16", "c64": "complex<f32>", "c128": "complex<f64>",
    "f8e5m2": "f8E5M2", "f8e4m3fn": "f8E4M3FN",
}  # fmt: skip
"""Element types of tensors, as the index of an artifact spells them."""

_MUST = 2
_LIMIT = 1 << 31


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
    """Raise DecodeError unless the bytes are those of a sound module."""
    module = read_module(data)
    _require(not module.has_schedule, "it has a schedule, which speaks of ids that nobody checks")
    _require(not module.has_buffer_donors, "it has buffer donors, which name no output")
    seen: set[int] = set()
    instructions: set[int] = set()
    for computation in module.computations:
        _check_computation(computation, seen, instructions)
    _require(module.entry_id in seen, "the entry computation is not there")
    said = f"the entry computation is called {module.entry.name}, not {module.entry_name}"
    _require(module.entry.name == module.entry_name, said)
    names = [computation.name for computation in module.computations]
    _require(len(set(names)) == len(names), "two computations have one name")
    parameters = [_tensor(s, f"parameter {n}") for n, s in enumerate(module.parameters)]
    results = [_tensor(s, f"result {n}") for n, s in enumerate(module.results)]
    _check_entry(module, parameters, results)
    return Interface(parameters, results, _aliases(module, parameters, results))


def _check_computation(computation: Computation, seen: set[int], instructions: set[int]) -> None:
    name = computation.name
    _require(
        0 < computation.id < _LIMIT and computation.id not in seen, f"computation {name} has the id {computation.id}"
    )
    local: dict[int, Shape] = {}
    names = [instruction.name for instruction in computation.instructions]
    _require(len(set(names)) == len(names), f"two instructions of computation {name} have one name")
    for instruction in computation.instructions:
        _check_instruction(instruction, local, seen, instructions)
        local[instruction.id] = instruction.shape
        instructions.add(instruction.id)
    _require(computation.root in local, f"the root of computation {name} is not in it")
    seen.add(computation.id)


def _check_instruction(
    instruction: Instruction, local: dict[int, Shape], seen: set[int], instructions: set[int]
) -> None:
    label, number = f"instruction {instruction.name}", instruction.id
    _require(0 < number < _LIMIT and number not in instructions, f"{label} has the id {number}")
    _require(bool(instruction.opcode), f"{label} has no opcode")
    for operand in instruction.operands + instruction.predecessors:
        _require(operand in local, f"{label} uses {operand}, which is not defined before it")
    for called in instruction.called:
        _require(called in seen, f"{label} calls computation {called}, which is not defined before it")
    for what in instruction.newer_fields:
        _require(False, f"{label} has {what}, which older readers skip")
    for array in instruction.shape.arrays():
        _check_layout(array, label)
    check_types(instruction, [local[operand] for operand in instruction.operands])


def _check_entry(module: HloModule, parameters: list[Tensor], results: list[Tensor]) -> None:
    numbers: dict[int, Tensor] = {}
    for instruction in module.entry.instructions:
        if instruction.opcode == "parameter":
            number = instruction.parameter
            _require(number not in numbers, f"two parameters have the number {number}")
            numbers[number] = _tensor(instruction.shape, f"parameter {number}")
    _require(
        [numbers.get(n) for n in range(len(parameters))] == parameters and len(numbers) == len(parameters),
        "the parameters of the entry computation are not those of the program shape",
    )
    shape = module.entry.by_id[module.entry.root].shape
    tupled = shape.element == "tuple"
    found = [_tensor(s, "root") for s in (shape.parts if tupled else (shape,))]
    same = tupled == (module.result.element == "tuple") and found == results
    _require(same, "the root is not what the program shape says")


def _aliases(module: HloModule, parameters: list[Tensor], results: list[Tensor]) -> list[tuple[int, int]]:
    tupled = module.result.element == "tuple"
    pairs: list[tuple[int, int]] = []
    for alias in module.aliases:
        index, parameter = alias.output, alias.parameter
        _require(len(index) == int(tupled), f"alias entry: output index {list(index)}")
        _require(not alias.parameter_index, "alias entry: a part of a parameter")
        _require(alias.kind == _MUST, f"alias entry of parameter {parameter} is no must-alias")
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


def _tensor(shape: Shape, what: str) -> Tensor:
    _require(shape.element in _ELEMENTS, f"{what} has element type {shape.element}")
    _check_layout(shape, what)
    return Tensor(_ELEMENTS[shape.element], shape.dimensions)


def _check_layout(array: Shape, what: str) -> None:
    """The array is static and row-major, and says so."""
    rank = len(array.dimensions)
    _require(min(array.dimensions, default=0) >= 0, f"{what} has a negative size")
    _require(not any(array.dynamic), f"{what} has a dynamic dimension")
    natural = tuple(range(rank - 1, -1, -1))
    _require((array.minor_to_major or ()) == natural, f"{what} has a layout that is not row-major")
    _require(not array.placed, f"{what} has a layout with a memory space, tiles or padding")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise DecodeError(message)


__all__ = ["DecodeError", "Interface", "Tensor", "check_module"]
