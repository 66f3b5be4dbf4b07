"""Which copies of a function go: the largest choice in which every read, result and argument is as before.

Conflicts are found as they come up: choose the lightest set of copies to keep under the clauses known, look what is in
conflict then, add those clauses, and so on until nothing is. Every clause holds in any right answer, so the first
choice without conflict is a best one, within the bounds that `selection` states.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from xdsl.dialects.func import FuncOp

from compiler.analysis.alias import AliasAnalysis, Root, argument_attributes
from compiler.analysis.conflicts import Conflict, Judge, Unit
from compiler.analysis.copies import CLONE, Objection, find_copies
from compiler.analysis.interference import Copy, Interference
from compiler.analysis.layout_conflicts import LaidOut, LayoutJudge
from compiler.analysis.selection import EXACT_COPIES, Clause, Selection, satisfied
from compiler.remarks import Remark, site
from dialects.alias import DONATED
from dialects.alias import Root as RootAttr
from dialects.calls import HandleCall

Objective = Literal["bytes", "count"]

FEW_WRITERS = 1
"""Writers that the first look names for each value that a read would miss, beside those that leave no choice."""


@dataclass(frozen=True)
class ClonePlan:
    """The copies that go, and a remark for each that stays, both in program order.

    `standing` holds the conflicts that copies stay for, each with those copies; `cost` is what the objective makes least.
    """

    analysis: AliasAnalysis
    removed: tuple[Copy, ...]
    kept: tuple[tuple[HandleCall, Remark], ...]
    standing: tuple[tuple[Conflict, frozenset[HandleCall]], ...]
    cost: int


def plan_clones(
    function: FuncOp,
    objective: Objective = "bytes",
    objection: Objection = lambda op, source, result: "",
    laid_out: LaidOut = lambda op, windows: False,
    unit: Unit = lambda op: op,
) -> ClonePlan:
    """Decide on every copy of the function. `objective` counts bytes moved, or copying operators (then bytes decide, and
    fills of fresh memory by `copy_` count by their bytes only). `laid_out` is what the caller knows of strides of results, `unit` which ops
    are one call of the caller's."""
    analysis = AliasAnalysis(function)
    copies, refusals = find_copies(analysis, objection)
    reasons: dict[HandleCall, Remark] = {}
    for refusal in refusals:
        reasons[refusal.op] = Remark(site(refusal.op), refusal.bytes, refusal.reason)
    weights = _weights(copies, objective)
    standing: list[tuple[Conflict, frozenset[HandleCall]]] = []
    while True:
        kept, conflicts, refused = _settle(analysis, copies, weights, reasons, laid_out, unit)
        against: dict[int, Conflict] = {}
        for conflict in sorted(conflicts, key=lambda c: len(c.clause.keep)):
            for number in conflict.clause.keep & kept:
                against.setdefault(number, conflict)  # the one with the fewest other ways out
        for number, conflict in against.items():
            reasons.setdefault(copies[number].op, _remark(copies[number], conflict))
        standing += [
            (conflict, frozenset(copies[number].op for number in conflict.clause.keep & kept))
            for conflict in conflicts
            if not conflict.clause.keep.isdisjoint(kept)
        ]
        if not refused or not against:
            break
        # What was refused has no place in the memory of a source that might have gone, and now is known to stay.
    for number, reason in refused.items():
        reasons[copies[number].op] = Remark(site(copies[number].op), copies[number].bytes, reason)
    removed = tuple(copy for copy in copies if copy.op not in reasons)
    stays = tuple((op, reasons[op]) for op in function.body.block.ops if isinstance(op, HandleCall) and op in reasons)
    cost = sum(weight for copy, weight in zip(copies, weights, strict=True) if copy.op in reasons)
    return ClonePlan(analysis, removed, stays, tuple(standing), cost)


def _weights(copies: list[Copy], objective: Objective) -> list[int]:
    """What keeping each copy costs. Where all else is equal, what the program calls a clone goes before a conversion."""
    total, scale = sum(copy.bytes for copy in copies) + 1, len(copies) + 1
    if objective == "bytes":
        costs = [copy.bytes * scale + 1 for copy in copies]
    else:
        costs = [copy.bytes + total * (copy.result.owner is copy.op) for copy in copies]
    return [cost * scale + (copy.op.target.data == CLONE) for cost, copy in zip(costs, copies, strict=True)]


def _settle(
    analysis: AliasAnalysis,
    copies: list[Copy],
    weights: list[int],
    reasons: dict[HandleCall, Remark],
    laid_out: LaidOut,
    unit: Unit,
) -> tuple[frozenset[int], list[Conflict], dict[int, str]]:
    """The copies to keep, the conflicts that say why, and the copies that cannot be judged beside these.

    Copies that layout alone decides get their reason at once.
    """
    given, donated = _argument_roots(analysis)
    while True:
        interference = Interference(analysis, [copy for copy in copies if copy.op not in reasons])
        conflicts = list(LayoutJudge(interference, laid_out).conflicts())
        alone = [c for c in conflicts if len(c.clause.keep) == 1 and not c.clause.remove]
        for conflict in alone:
            copy = copies[next(iter(conflict.clause.keep))]
            reasons.setdefault(copy.op, _remark(copy, conflict))
        if not alone:
            break
    judge = Judge(interference, given, donated, unit)
    clauses: dict[Clause, Conflict] = {c.clause: c for c in conflicts}
    selection = Selection(weights)
    selection.add(clauses)
    looked: dict[int, frozenset[int]] = {}
    writers, asked, trimmed = FEW_WRITERS, frozenset[int](), False
    while True:
        stale = [one for one in interference.classes if looked.get(id(one)) != _of(one.copies, selection.kept)]
        if not stale and trimmed:
            break
        if not stale:
            selection.trim()
            writers, trimmed = FEW_WRITERS, True
            continue
        # A look shows conflicts between copies that go. Those that an exact answer is wanted for are all let go once.
        together = selection.searched - asked
        asked |= together
        assumed = selection.kept - together
        fresh: list[Clause] = []
        for one in stale:
            for conflict in judge.conflicts(one, assumed, max(writers, EXACT_COPIES if together else 0)):
                if not satisfied(conflict.clause, assumed):
                    fresh.append(conflict.clause)
                    clauses.setdefault(conflict.clause, conflict)
            looked[id(one)] = _of(one.copies, assumed)
        selection.add(fresh)
        writers *= 4  # a value with many writers must not take as many rounds
    return selection.kept, list(clauses.values()), interference.refused


def _of(copies: list[Copy], kept: frozenset[int]) -> frozenset[int]:
    return frozenset(copy.number for copy in copies if copy.number in kept)


def _argument_roots(analysis: AliasAnalysis) -> tuple[frozenset[Root], frozenset[Root]]:
    """Roots the caller knows, and those of them that are donated: by every argument that shares them."""
    attributes = argument_attributes(analysis.function)
    owned: dict[int, list[bool]] = {}
    for attribute in attributes:
        root = attribute.get("alias.root")
        if isinstance(root, RootAttr):
            owned.setdefault(root.data.id, []).append(DONATED in attribute)
    donated = frozenset(Root("root", number) for number, given_up in owned.items() if all(given_up))
    return frozenset(root for root in analysis.origins if root.kind != "fresh"), donated


def _remark(copy: Copy, conflict: Conflict) -> Remark:
    """The remark for a copy that stays because of a conflict."""
    reader = None if conflict.reader is None else site(conflict.reader)
    writer = None if conflict.writer is None else site(conflict.writer)
    match conflict.kind:
        case "read":
            reason = f"{reader} would read what {writer} wrote"
        case "value":
            reason = f"a result would hold what {writer} wrote"
        case "argument":
            reason = f"{conflict.detail} would end up with what {writer} wrote"
        case "operands":
            reason = f"{writer} would write memory that is another operand of it"
        case "layout":
            reason = f"{reader}: {conflict.detail}" if conflict.reader is not None else conflict.detail
        case _:
            reason = conflict.detail
    return Remark(site(copy.op), copy.bytes, reason, reader, writer)
