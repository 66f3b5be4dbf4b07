"""Control flow: each region is lowered through the same rules as a function, and captured values are used where they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo
from xdsl.ir import Attribute, Block, SSAValue

from compiler.lowering.builder import Builder
from compiler.lowering.registry import type_name
from dialects.control import ValueCondOp, ValueWhileOp
from dialects.types import ELEMENTS

SMALL_STATE = 1 << 10
"""Bytes of state that a conditional may copy."""


class Scope(Protocol):
    """What a function that is being lowered offers to its control flow."""

    b: Builder

    def value(self, ssa: SSAValue) -> ir.Value: ...

    def type(self, attribute: Attribute) -> type_name: ...

    def block(self, source: Block, arguments: Sequence[ir.Value]) -> list[ir.Value] | None: ...


def lower(scope: Scope, op: ValueCondOp | ValueWhileOp) -> Sequence[ir.Value] | None:
    """The results, or None when something in a region cannot be lowered, which the scope has noted."""
    if isinstance(op, ValueWhileOp):
        return _loop(scope, op)
    state = sum(_bytes(scope.type(capture.type)) for capture in op.captures[: op.count])
    in_place = state > SMALL_STATE and scope.b.target == "xla"
    return _conditional_in_place(scope, op) if in_place else _conditional(scope, op)


def _conditional(scope: Scope, op: ValueCondOp) -> Sequence[ir.Value] | None:
    types = [scope.b.tensor(*scope.type(result.type)) for result in op.outs]
    captures = [scope.value(capture) for capture in op.captures]
    new = hlo.IfOp(types, scope.b.reshape(scope.value(op.predicate), ()))
    for source, target in zip(op.regions, new.regions, strict=True):
        with ir.InsertionPoint(target.blocks.append()):
            yielded = scope.block(source.block, captures)
            if yielded is None:
                return None
            hlo.return_(yielded)
    return list(new.results)


def _conditional_in_place(scope: Scope, op: ValueCondOp) -> Sequence[ir.Value] | None:
    """A loop of at most one turn for each branch: XLA's loops update in place what they carry, where its conditionals
    copy all that a branch gives back."""
    predicate = scope.b.reshape(scope.value(op.predicate), ())
    captures = [scope.value(capture) for capture in op.captures]
    states, others = captures[: op.count], captures[op.count :]
    own = op.outs[: len(op.outs) - op.count]
    results = [scope.b.splat(0, *scope.type(result.type)) for result in own]
    stop = scope.b.splat(False, "i1")
    for source, go in zip(op.regions, (predicate, hlo.not_(predicate)), strict=True):
        new = hlo.WhileOp([v.type for v in (go, *results, *states)], [go, *results, *states])
        test, turn = (region.blocks.append(*(v.type for v in new.results)) for region in new.regions)
        with ir.InsertionPoint(test):
            hlo.return_([test.arguments[0]])
        with ir.InsertionPoint(turn):
            yielded = scope.block(source.block, [*list(turn.arguments)[1 + len(own) :], *others])
            if yielded is None:
                return None
            hlo.return_([stop, *yielded])
        _, *after = new.results
        results, states = after[: len(own)], after[len(own) :]
    return [*results, *states]


def _loop(scope: Scope, op: ValueWhileOp) -> Sequence[ir.Value] | None:
    initial = [scope.value(value) for value in op.carried]
    captures = [scope.value(capture) for capture in op.captures]
    types = [value.type for value in initial]
    new = hlo.WhileOp(types, initial)
    for source, target in zip(op.regions, new.regions, strict=True):
        block = target.blocks.append(*types)
        with ir.InsertionPoint(block):
            yielded = scope.block(source.block, [*block.arguments, *captures])
            if yielded is None:
                return None
            hlo.return_([scope.b.reshape(yielded[0], ())] if source is op.condition else yielded)
    return list(new.results)


def _bytes(kind: type_name) -> int:
    element, shape = kind
    return math.prod(shape) * ELEMENTS[element][1]
