"""The copies of a program that could go: operators that return their operand in fresh memory, and fills of fresh memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerAttr, NoneType
from xdsl.ir import Operation, SSAValue

from compiler.analysis.alias import AliasAnalysis, Location, is_handle
from compiler.analysis.interference import Copy
from compiler.analysis.regions import contiguous
from dialects.calls import HandleCall
from dialects.types import DYNAMIC, ELEMENTS

CLONE = "aten.clone.default"

COPIES = frozenset({CLONE, "aten._to_copy.default", "aten.lift_fresh_copy.default"})
"""Operators whose result has the elements of the operand, converted to the result's element type."""

_KEEPS_VALUE = frozenset({"memory_format", "dtype", "non_blocking", "layout"})
"""Keywords of these operators that have no say in where the result lives."""


Objection = Callable[[HandleCall, SSAValue, SSAValue], str]
"""Why a copy, given with its source and its result, must stay as far as the caller is concerned, or ""."""


@dataclass(frozen=True, eq=False)
class Refusal:
    """A copy that cannot be judged, and why."""

    op: HandleCall
    bytes: int
    reason: str


def find_copies(
    analysis: AliasAnalysis, objection: Objection = lambda op, source, result: ""
) -> tuple[list[Copy], list[Refusal]]:
    """Copies in program order that may go if nothing interferes, and those that cannot be judged."""
    copies: list[Copy] = []
    refusals: list[Refusal] = []
    order = {op: time for time, op in enumerate(analysis.function.body.block.ops)}
    for op in order:
        pair = (_copied(op) or _filled(op, analysis, order)) if isinstance(op, HandleCall) else None
        if pair is None or not isinstance(op, HandleCall):
            continue
        source, result = (analysis.location(value) for value in pair)
        if source.element != result.element:
            continue
        size = moved_bytes(result)
        reason = objection(op, *pair) or _unknown(source, result)
        if reason:
            refusals.append(Refusal(op, size, reason))
            continue
        copies.append(Copy(len(copies), op, *pair, source.roots[0], result.roots[0], size))
    return copies, refusals


def _copied(op: HandleCall) -> tuple[SSAValue, SSAValue] | None:
    """Operand and result of `clone` and its kin."""
    if op.target.data not in COPIES or len(op.args) != 1 or [a.kind for a in op.aliases.data] != ["fresh"]:
        return None
    keywords = dict(op.keywords.data) if op.keywords is not None else {}
    moves = [name for name, value in keywords.items() if name not in _KEEPS_VALUE and not _absent(value)]
    return None if moves else (op.args[0], op.outs[0])


def _absent(value: object) -> bool:
    return isinstance(value, NoneType) or (isinstance(value, IntegerAttr) and value.value.data == 0)


def _filled(op: HandleCall, analysis: AliasAnalysis, order: dict[Operation, int]) -> tuple[SSAValue, SSAValue] | None:
    """Source and destination of a `copy_` into fresh memory that nobody has used before."""
    if op.target.data != "aten.copy_.default" or len(op.args) < 2 or not all(is_handle(v) for v in op.args[:2]):
        return None
    target, source = op.args[0], op.args[1]
    maker = target.owner
    if not isinstance(maker, HandleCall) or len(maker.outs) != 1 or maker.aliases.data[0].kind != "fresh":
        return None
    if maker.effects.writes() != () or source is target or _copied(maker) is not None:
        return None
    where, given = analysis.location(target), analysis.location(source)
    if where.window.sizes != given.window.sizes or where.region is None or not contiguous(where.region):
        return None
    first = min(order.get(use.operation, -1) for use in target.uses)
    return (source, target) if first == order[op] else None


def _unknown(source: Location, result: Location) -> str:
    """Why nothing can be said about this copy, or ""."""
    if len(source.roots) != 1 or source.roots[0].kind == "unknown":
        return "the memory of its source is not known"
    if source.lazy != result.lazy:
        return f"it resolves the lazy {source.lazy or result.lazy} bit of its source"
    if source.region is None or result.region is None:
        # Of another size in each call: a copy of the same strides has its source's layout whatever the size.
        if DYNAMIC in source.window.strides:
            return "neither its size nor the strides of its source are known"
        return (
            ""
            if source.window.strides == result.window.strides
            else "its size is not known, and its source has other strides"
        )
    if not result.region.empty and not contiguous(result.region):
        return "its result has gaps"
    return ""


def moved_bytes(result: Location) -> int:
    """The bytes that a copy moves, at least: a dimension of unknown size counts as one."""
    return math.prod(1 if size == DYNAMIC else size for size in result.window.sizes) * ELEMENTS[result.element][1]
