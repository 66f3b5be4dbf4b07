"""Control flow with explicit captures, on handles (`fx.cond`, `fx.while`) and on values (`fx.value_cond`, `fx.value_while`).

    %r = fx.cond %p captures(%kv, %x) effects<read 0, read 1, write 1, read 2> then {
    ^bb0(%kv: memref<4x3xf32>, %x: memref<2x3xf32>):
      ...
      fx.yield %y : memref<2x3xf32>
    } else {...} : (memref<i1>, memref<4x3xf32>, memref<2x3xf32>) -> memref<2x3xf32>

A region sees nothing but its block arguments: one for each capture, after those of the carried values of a loop. On
handles a captured argument is the captured handle, so that what a region writes through it is seen after the op; effects
sum up what the regions do, by number of the op's operands. Results are fresh memory with the values that the yielded
handles have when the region ends. A carried value starts as a copy of its initial one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from xdsl.dialects.builtin import I64, IntegerAttr, MemRefType, TensorType, i1
from xdsl.ir import Attribute, Block, Dialect, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsolatedFromAbove, IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from dialects.alias import Access, Effects
from dialects.calls import HandleCall
from dialects.types import element_bytes, geometry


@irdl_op_definition
class YieldOp(IRDLOperation):
    """What a region gives: the results of a conditional, whether a loop goes on, or its next carried values."""

    name = "fx.yield"

    values = var_operand_def()
    traits = traits_def(IsTerminator())
    assembly_format = "($values^ `:` type($values))? attr-dict"


@irdl_op_definition
class CondOp(IRDLOperation):
    """Runs one of two regions on captured memory."""

    name = "fx.cond"

    predicate = operand_def()
    captures = var_operand_def()
    outs = var_result_def()
    effects = prop_def(Effects)
    then = region_def("single_block")
    otherwise = region_def("single_block")

    traits = traits_def(IsolatedFromAbove())
    assembly_format = (
        "$predicate `captures` `(` $captures `)` `effects` `` $effects `then` $then `else` $otherwise attr-dict "
        "`:` functional-type(operands, results)"
    )

    def verify_(self) -> None:
        _verify_predicate(self.predicate.type, MemRefType)
        for region in self.regions:
            _verify_block("a branch", region.block, [c.type for c in self.captures], len(self.outs), MemRefType)
            _verify_fresh("a branch", region.block, self.outs)
        _verify_effects(self)


@irdl_op_definition
class WhileOp(IRDLOperation):
    """Runs a region on carried values and captured memory while another one yields true."""

    name = "fx.while"

    carried = var_operand_def()
    captures = var_operand_def()
    outs = var_result_def()
    effects = prop_def(Effects)
    condition = region_def("single_block")
    body = region_def("single_block")

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(IsolatedFromAbove())
    assembly_format = (
        "`(` $carried `)` `captures` `(` $captures `)` `effects` `` $effects `while` $condition `do` $body attr-dict "
        "`:` `(` type($carried) `)` `,` `(` type($captures) `)` `->` `(` type($outs) `)`"
    )

    def verify_(self) -> None:
        captures = [c.type for c in self.captures]
        for what, region, count in (("the condition", self.condition, 1), ("the body", self.body, len(self.carried))):
            arguments = [a.type for a in region.block.args[: len(self.carried)]]
            _verify_block(what, region.block, [*arguments, *captures], count, MemRefType)
            _verify_fresh(what, region.block, region.block.args[: len(self.carried)], values=self.carried)
        _verify_predicate(_yielded(self.condition.block)[0].type, MemRefType)
        _verify_fresh("the body", self.body.block, self.outs)
        written = block_effects(self.condition.block)[1] | block_effects(self.body.block)[1]
        if any(index < len(self.carried) for index in written):
            raise VerifyException("a carried value is written: its next value is what the body yields")
        _verify_effects(self)


@irdl_op_definition
class ValueCondOp(IRDLOperation):
    """One of two pure functions of the captures. The last `updates` results are new values of as many first captures."""

    name = "fx.value_cond"

    predicate = operand_def(TensorType)
    captures = var_operand_def(TensorType)
    outs = var_result_def(TensorType)
    updates = opt_prop_def(IntegerAttr[I64])
    then = region_def("single_block")
    otherwise = region_def("single_block")

    traits = traits_def(IsolatedFromAbove(), Pure())
    assembly_format = (
        "$predicate `captures` `(` $captures `)` (`updates` $updates^)? `then` $then `else` $otherwise attr-dict "
        "`:` functional-type(operands, results)"
    )

    @property
    def count(self) -> int:
        """How many captures have new values among the results."""
        return self.updates.value.data if self.updates is not None else 0

    def verify_(self) -> None:
        _verify_predicate(self.predicate.type, TensorType)
        if not 0 <= self.count <= min(len(self.captures), len(self.outs)):
            raise VerifyException(f"{self.count} updates of {len(self.captures)} captures in {len(self.outs)} results")
        updated = self.outs[len(self.outs) - self.count :]
        _verify_types("what is updated", updated, [c.type for c in self.captures[: self.count]])
        for region in self.regions:
            _verify_block("a branch", region.block, [c.type for c in self.captures], len(self.outs), TensorType)
            _verify_types("a branch", _yielded(region.block), [o.type for o in self.outs])


@irdl_op_definition
class ValueWhileOp(IRDLOperation):
    """The fixed types of the carried values are those of the results; captures stay as they are."""

    name = "fx.value_while"

    carried = var_operand_def(TensorType)
    captures = var_operand_def(TensorType)
    outs = var_result_def(TensorType)
    condition = region_def("single_block")
    body = region_def("single_block")

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(IsolatedFromAbove(), Pure())
    assembly_format = (
        "`(` $carried `)` `captures` `(` $captures `)` `while` $condition `do` $body attr-dict "
        "`:` `(` type($carried) `)` `,` `(` type($captures) `)` `->` `(` type($outs) `)`"
    )

    def verify_(self) -> None:
        types = [c.type for c in self.carried]
        captures = [c.type for c in self.captures]
        _verify_block("the condition", self.condition.block, [*types, *captures], 1, TensorType)
        _verify_predicate(_yielded(self.condition.block)[0].type, TensorType)
        _verify_block("the body", self.body.block, [*types, *captures], len(types), TensorType)
        _verify_types("the body", _yielded(self.body.block), types)
        if [o.type for o in self.outs] != types:
            raise VerifyException("the results have the types of the carried values")


ControlOp = CondOp | WhileOp


# -- effects -----------------------------------------------------------------------------------


def arguments_of(op: ControlOp) -> Iterator[tuple[Block, int, int]]:
    """For each region: its block, how many of its arguments are carried, and the operand of its first capture."""
    for region in op.regions:
        yield (region.block, 0, 1) if isinstance(op, CondOp) else (region.block, len(op.carried), len(op.carried))


def summarize(op: ControlOp) -> Effects:
    """What the op reads and writes, by operand: the union of its regions' effects on what they capture.

    The predicate and the initial values are read. A region that calls an operator of unknown effects has unknown effects.
    """
    reads = {0} if isinstance(op, CondOp) else set(range(len(op.carried)))
    writes: set[int] = set()
    for block, carried, first in arguments_of(op):
        touched = block_effects(block)
        if touched[2]:
            return Effects(None)
        reads.update(first + index - carried for index in touched[0] if index >= carried)
        writes.update(first + index - carried for index in touched[1] if index >= carried)
    reads |= writes  # a region may write less than all, or not at all
    accesses: list[Access] = []
    for number in sorted(reads):
        accesses.append(Access("read", number))
        if number in writes:
            accesses.append(Access("write", number))
    return Effects(tuple(accesses))


def block_effects(block: Block) -> tuple[set[int], set[int], bool]:
    """Numbers of the block's arguments that are read and written, also through views; whether that is all known."""
    source: dict[SSAValue, int] = {argument: number for number, argument in enumerate(block.args)}
    reads: set[int] = set()
    writes: set[int] = set()
    unknown = False
    for op in block.ops:
        if isinstance(op, HandleCall | CondOp | WhileOp):
            accesses = op.effects.data
            unknown |= accesses is None
            for access in accesses or ():
                if (origin := source.get(op.operands[access.operand])) is not None:
                    (reads if access.kind == "read" else writes).add(origin)
        if isinstance(op, HandleCall):
            for alias, result in zip(op.aliases.data, op.outs, strict=True):
                if alias.kind in ("same", "view") and (origin := source.get(op.args[alias.operand])) is not None:
                    source[result] = origin
                unknown |= alias.kind == "may"
        elif isinstance(op, YieldOp):
            reads.update(source[value] for value in op.values if value in source)
    return reads, writes, unknown


def leaves_capture(block: Block) -> Operation | None:
    """An op whose result is a view on a block argument's memory outside the bytes of that argument, if there is one:
    effects speak of the argument."""
    source: dict[SSAValue, SSAValue] = {argument: argument for argument in block.args}
    for op in block.ops:
        if isinstance(op, HandleCall):
            for alias, result in zip(op.aliases.data, op.outs, strict=True):
                if alias.kind in ("same", "view") and (origin := source.get(op.args[alias.operand])) is not None:
                    source[result] = origin
                    (low, high), (first, last) = _span(result), _span(origin)
                    if low < high and not first <= low <= high <= last:
                        return op
    return None


def _span(handle: SSAValue) -> tuple[int, int]:
    """First byte, and one past the last."""
    kind = handle.type
    assert isinstance(kind, MemRefType)
    window, size = geometry(kind), element_bytes(kind.element_type)
    if 0 in window.sizes:
        return 0, 0
    last = window.offset + sum((n - 1) * s for n, s in zip(window.sizes, window.strides, strict=True))
    return window.offset * size, (last + 1) * size


# -- verification ------------------------------------------------------------------------------


def _yielded(block: Block) -> Sequence[SSAValue]:
    last = block.last_op
    if not isinstance(last, YieldOp):
        raise VerifyException("a region ends in fx.yield")
    return last.values


def _verify_predicate(kind: Attribute, family: type[Attribute]) -> None:
    if not isinstance(kind, MemRefType | TensorType) or not isinstance(kind, family):
        raise VerifyException(f"the predicate has type {kind}")
    if kind.element_type != i1 or kind.element_count() != 1:
        raise VerifyException(f"the predicate is one bool, not {kind}")


def _verify_block(what: str, block: Block, arguments: Sequence[Attribute], count: int, family: type[Attribute]) -> None:
    _verify_types(what + " as argument", block.args, arguments)
    values = _yielded(block)
    if len(values) != count:
        raise VerifyException(f"{what} yields {len(values)} values, {count} are needed")
    for value in (*block.args, *values):
        if not isinstance(value.type, family):
            raise VerifyException(f"{what} has a value of type {value.type}")


def _verify_types(what: str, values: Sequence[SSAValue], types: Sequence[Attribute]) -> None:
    if (found := [v.type for v in values]) != list(types):
        raise VerifyException(f"{what} has types {', '.join(map(str, found))}, not {', '.join(map(str, types))}")


def _verify_fresh(
    what: str, block: Block, results: Sequence[SSAValue], values: Sequence[SSAValue] | None = None
) -> None:
    """Element type and sizes agree; a copy may have another layout."""
    for value, result in zip(_yielded(block) if values is None else values, results, strict=True):
        source, target = value.type, result.type
        if not isinstance(source, MemRefType) or not isinstance(target, MemRefType):
            raise VerifyException(f"{what} takes and gives memory")
        if source.element_type != target.element_type or source.get_shape() != target.get_shape():
            raise VerifyException(f"{what} gives {source} for {target}")
        if geometry(target).offset not in (0,):
            raise VerifyException(f"fresh memory starts at its first element, not as {target}")


def _verify_effects(op: ControlOp) -> None:
    for block, *_ in arguments_of(op):
        if leaves_capture(block) is not None:
            raise VerifyException("a view in a region reaches outside the captured handle")
    stated, found = op.effects.data, summarize(op).data
    if stated is not None and (found is None or not set(found) <= set(stated)):
        raise VerifyException("the effects do not cover what the regions do")
    if any(access.operand >= len(op.operands) for access in stated or ()):
        raise VerifyException(f"an effect on an operand, but there are {len(op.operands)}")


def nested_blocks(op: Operation) -> Iterator[Block]:
    """The blocks inside an op, outer ones first."""
    for block in chain.from_iterable(region.blocks for region in op.regions):
        yield block
        for inner in block.ops:
            yield from nested_blocks(inner)


Control = Dialect("fx_control", [CondOp, WhileOp, ValueCondOp, ValueWhileOp, YieldOp], [])
