"""The copies of a program that could go: operators that return their operand in fresh memory, and fills of fresh memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerAttr, NoneType
from xdsl.ir import Operation, SSAValue

from compiler.analysis.alias import AliasAnalysis, Location, is_handle
from compiler.analysis.interference import Copy
from compiler.analysis.regions import Region, contiguous, extent
from dialects.calls import HandleCall

COPIES = frozenset({"aten.clone.default", "aten._to_copy.default", "aten.lift_fresh_copy.default"})
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
        reason = objection(op, *pair) or _unknown(source, result)
        if reason:
            refusals.append(Refusal(op, 0 if result.region is None else _bytes(result.region), reason))
            continue
        parent, child = source.roots[0], result.roots[0]
        copies.append(Copy(len(copies), op, *pair, parent, child, _bytes(result.region)))
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
    if source.region is None or len(source.roots) != 1:
        return "the memory of its source is not known" if source.window.static else "the size of its source is not known"
    if result.region is None:
        return "its size is not known"
    if source.lazy != result.lazy:
        return f"it resolves the lazy {source.lazy or result.lazy} bit of its source"
    if not result.region.empty and not contiguous(result.region):
        return "its result has gaps"
    return ""


def _bytes(region: Region | None) -> int:
    assert region is not None, "a copy of unknown size has been refused"
    first, last = extent(region)
    return last - first


