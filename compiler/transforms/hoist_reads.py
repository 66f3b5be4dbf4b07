"""Moves reads above writes where that frees a copy; no read passes a write that it depends on.

Before and after, every op computes what it computed: only ops that write nothing and return fresh memory move, together with
the views that they read through, and only past ops whose results they do not use and whose writes they cannot see.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from compiler.analysis.alias import AliasAnalysis, relate
from compiler.analysis.clone_plan import ClonePlan, Objective, plan_clones
from compiler.analysis.conflicts import Unit
from compiler.analysis.copies import Objection
from compiler.analysis.interference import touches
from compiler.analysis.layout_conflicts import LaidOut
from compiler.analysis.regions import Relation
from dialects.calls import HandleCall

ROUNDS = 8
"""A read may have to pass several writes, and a copy may be freed by several reads: one of each per round."""


@dataclass(frozen=True, eq=False)
class Move:
    """`ops`, a read and the views it needs, go above `before`, for the sake of the copies `frees`."""

    ops: tuple[HandleCall, ...]
    before: Operation
    frees: frozenset[HandleCall]


def plan_with_hoisting(
    function: FuncOp,
    objective: Objective = "bytes",
    objection: Objection = lambda op, source, result: "",
    movable: Callable[[Operation], bool] = lambda op: True,
    laid_out: LaidOut = lambda op, windows: False,
    unit: Unit = lambda op: op,
) -> tuple[ClonePlan, tuple[Move, ...]]:
    """Plan with reads moved where that lowers the cost; the moves are made in the function.

    `movable` says which ops the caller can move, and move others above.
    """
    first = best = plan_clones(function, objective, objection, laid_out, unit)
    original = tuple(function.body.block.ops)
    moves: list[Move] = []
    useful = 0
    plan = first
    for _ in range(ROUNDS):
        found = _moves(plan, movable)
        if not found:
            break
        moves += found
        plan = plan_clones(function, objective, objection, laid_out, unit)
        if plan.cost < best.cost:
            best, useful = plan, len(moves)
    still = {op for op, _ in best.kept}
    chosen = [move for move in moves[:useful] if not move.frees <= still]
    _reorder(function, original)
    for move in chosen:
        _apply(move)
    return (plan_clones(function, objective, objection, laid_out, unit) if moves else first), tuple(chosen)


def _moves(plan: ClonePlan, movable: Callable[[Operation], bool]) -> list[Move]:
    """Make one move for each read that keeps a copy, where one is possible."""
    block = plan.analysis.function.body.block
    order = {op: time for time, op in enumerate(block.ops)}
    ops = list(order)
    found: list[Move] = []
    moved: set[Operation] = set()
    for conflict, frees in plan.standing:
        reader, writer = conflict.reader, conflict.writer
        if conflict.kind != "read" or not isinstance(reader, HandleCall) or writer is None or reader in moved:
            continue
        if order[writer] >= order[reader] or not movable(writer):
            continue
        group = _with_views(reader, ops[order[writer] : order[reader]], plan.analysis)
        if group is None or not all(movable(op) and op not in moved for op in group):
            continue
        move = Move(group, writer, frees)
        _apply(move)
        moved.update(group)
        found.append(move)
    return found


def _with_views(reader: HandleCall, between: list[Operation], analysis: AliasAnalysis) -> tuple[HandleCall, ...] | None:
    """The reader and the views made in between that it needs; None if it cannot pass the ops in between."""
    if not reader.target.data.startswith("aten.") or reader.effects.writes() != ():
        return None
    if any(alias.kind != "fresh" for alias in reader.aliases.data):
        return None
    group, needed = [reader], set(reader.operands)
    reads = [analysis.locations[reader.args[i]] for i in reader.effects.reads() or ()]
    for op in reversed(between):
        if not needed.isdisjoint(op.results):
            if (
                not isinstance(op, HandleCall)
                or op.effects.data != ()
                or any(a.kind != "view" for a in op.aliases.data)
            ):
                return None
            group.append(op)
            needed.update(op.operands)
            continue
        for touch in touches(op, analysis):
            if touch.writes and any(
                touch.root in where.roots
                and (touch.handle is None or relate(analysis.locations[touch.handle], where) is not Relation.DISJOINT)
                for where in reads
            ):
                return None
    return tuple(reversed(group))


def _apply(move: Move) -> None:
    block = move.before.parent
    assert block is not None
    for op in move.ops:
        op.detach()
        block.insert_op_before(op, move.before)


def _reorder(function: FuncOp, order: tuple[Operation, ...]) -> None:
    block = function.body.block
    if tuple(block.ops) == order:
        return
    for op in order:
        op.detach()
    block.add_ops(order)
