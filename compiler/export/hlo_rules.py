"""Which opcodes HLO has, how many operands each takes, and which type it gives for them.

Types are checked where they follow from the operands alone: pointwise instructions, tuples and their elements, and moves
that keep the number of elements. For others only the element type or the number of operands is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from compiler.export.hlo_reader import DecodeError, Instruction, Shape


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


UNARY = _words(
    """acos acosh asin asinh atanh cbrt ceil copy cosh cosine count-leading-zeros erf exponential exponential-minus-one floor
    log log-plus-one logistic negate not popcnt reduce-precision round-nearest-afz round-nearest-even rsqrt sign sine sinh
    sqrt tan tanh"""
)
BINARY = _words(
    """add and atan2 divide maximum minimum multiply or power remainder shift-left shift-right-arithmetic shift-right-logical
    subtract xor"""
)
CHANGES = _words("abs complex convert imag is-finite real")
"""Pointwise instructions with a rule for the element type."""

_ANY = 1 << 30
OPERANDS: dict[str, tuple[int, int]] = {
    **dict.fromkeys(UNARY | CHANGES - {"complex"}, (1, 1)),
    **dict.fromkeys(BINARY | {"complex", "compare"}, (2, 2)),
    **dict.fromkeys(_words("select clamp"), (3, 3)),
    **dict.fromkeys(_words("constant iota parameter partition-id replica-id rng-get-and-update-state"), (0, 0)),
    **dict.fromkeys(
        _words(
            """all-gather-done all-reduce-done async-done async-update bitcast bitcast-convert broadcast cholesky
            collective-permute-done copy-done copy-start domain fft get-dimension-size get-tuple-element infeed
            opt-barrier recv recv-done reshape reverse rng-bit-generator send-done slice stochastic-convert topk
            transpose while"""
        ),
        (1, 1),
    ),
    **dict.fromkeys(_words("convolution dot gather outfeed pad send set-dimension-size triangular-solve"), (2, 2)),
    **dict.fromkeys(_words("batch-norm-inference"), (5, 5)),
    **dict.fromkeys(_words("batch-norm-training select-and-scatter"), (3, 3)),
    **dict.fromkeys(_words("batch-norm-grad"), (5, 5)),
    **dict.fromkeys(
        _words(
            """all-gather all-gather-start all-reduce all-reduce-start all-to-all collective-broadcast collective-permute
            collective-permute-start concatenate dynamic-slice map ragged-all-to-all ragged-dot reduce-scatter sort"""
        ),
        (1, _ANY),
    ),
    **dict.fromkeys(_words("conditional dynamic-update-slice reduce reduce-window rng scatter"), (2, _ANY)),
    **dict.fromkeys(
        _words("add-dependency after-all async-start call custom-call dynamic-reshape fusion scaled-dot tuple"),
        (0, _ANY),
    ),
}
"""Known opcodes, with the least and the greatest number of operands."""

_PARTS = {"c64": "f32", "c128": "f64"}
_SAME_ELEMENT = _words("broadcast concatenate pad reshape reverse slice transpose")
_SAME_COUNT = _words("reshape reverse transpose")


def check_types(instruction: Instruction, operands: Sequence[Shape]) -> None:
    """Raise DecodeError unless the instruction is one of HLO and its type can be that of these operands."""
    opcode, result = instruction.opcode, instruction.shape
    label = f"instruction {instruction.name}"
    if opcode not in OPERANDS:
        raise DecodeError(f"{label} has the unknown opcode {opcode}")
    least, most = OPERANDS[opcode]
    if not least <= len(operands) <= most:
        wanted = str(least) if least == most else f"at least {least}"
        raise DecodeError(f"{label}, of opcode {opcode}, has {len(operands)} operands, not {wanted}")
    if not _agrees(instruction, operands):
        given = ", ".join(map(str, operands))
        raise DecodeError(f"{label} gives {result}, which {opcode} of ({given}) does not")


def _agrees(instruction: Instruction, operands: Sequence[Shape]) -> bool:
    opcode, result = instruction.opcode, instruction.shape
    first = operands[0] if operands else result
    if opcode in UNARY | BINARY:
        return all(_same(operand, result) for operand in operands)
    if opcode in CHANGES:
        return all(o.dimensions == result.dimensions and o.element == first.element for o in operands) and _changes(
            opcode, first.element, result.element
        )
    if opcode == "compare":
        return _same(*operands) and result.type == ("pred", first.dimensions)
    if opcode == "select":
        scalar_or_same = first.dimensions in ((), result.dimensions)
        return first.element == "pred" and scalar_or_same and all(_same(o, result) for o in operands[1:])
    if opcode == "clamp":
        low, value, high = operands
        bounds = all(b.element == result.element and b.dimensions in ((), result.dimensions) for b in (low, high))
        return bounds and _same(value, result)
    if opcode == "tuple":
        return result.element == "tuple" and _equal(result.parts, operands)
    if opcode == "get-tuple-element":
        return instruction.tuple_index in range(len(first.parts)) and _same(
            first.parts[instruction.tuple_index], result
        )
    if opcode in _SAME_ELEMENT and result.element != first.element:
        return False
    if opcode == "transpose":
        return sorted(result.dimensions) == sorted(first.dimensions)
    return opcode not in _SAME_COUNT or math.prod(result.dimensions) == math.prod(first.dimensions)


def _changes(opcode: str, source: str, result: str) -> bool:
    """Whether the instruction makes elements of one type out of those of another."""
    match opcode:
        case "abs" | "real" | "imag":
            return result == _PARTS.get(source, source)
        case "complex":
            return _PARTS.get(result) == source
        case "is-finite":
            return result == "pred"
        case _:
            return True


def _same(one: Shape, two: Shape) -> bool:
    return one.type == two.type and _equal(one.parts, two.parts)


def _equal(ones: Sequence[Shape], twos: Sequence[Shape]) -> bool:
    return len(ones) == len(twos) and all(map(_same, ones, twos))


__all__ = ["check_types"]
