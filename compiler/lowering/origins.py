"""Where the elements of an HLO value come from, for rules that must not let XLA fold what it would fold wrong."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from jaxlib.mlir import ir

_OPAQUE = frozenset({"stablehlo.case", "stablehlo.custom_call", "stablehlo.optimization_barrier", "stablehlo.while"})
"""Operations through which XLA's folding does not look."""


def origin(value: ir.Value, through: Container[str]) -> Any | None:
    """The operation that made a value, looking through the first operand of those named; None for a parameter of a block."""
    while not isinstance(value.owner, ir.Block):
        if value.owner.name not in through:
            return value.owner
        value = value.owner.operands[0]
    return None


def computed_from_constants(value: ir.Value, known: dict[ir.Value, bool]) -> bool:
    """Whether XLA's folding can work a value out. `known` has the answers so far, and is told this one."""
    pending, seen, found = [value], set[ir.Value](), True
    while pending and found:
        current = pending.pop()
        if current in seen:
            continue
        seen.add(current)
        if current in known:
            found = known[current]
        elif isinstance(current.owner, ir.Block) or current.owner.name in _OPAQUE:
            found = False
        else:
            pending.extend(current.owner.operands)
    known[value] = found
    return found


__all__ = ["computed_from_constants", "origin"]
