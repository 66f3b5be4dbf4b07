"""Where the elements of an HLO value come from, for rules that must not let XLA fold what it would fold wrong."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from jaxlib.mlir import ir


def origin(value: ir.Value, through: Container[str]) -> Any | None:
    """The operation that made a value, looking through the first operand of those named; None for a parameter of a block."""
    while not isinstance(value.owner, ir.Block):
        if value.owner.name not in through:
            return value.owner
        value = value.owner.operands[0]
    return None


__all__ = ["origin"]
