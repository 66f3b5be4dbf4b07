"""A call that may consume its activations becomes functional, and nothing notices: nobody uses an activation afterwards.

Before: calls marked `maybe_inplace`. After: functional calls. An argument whose whole memory such a call was given is
`alias.donated`, on the argument itself, so that a later pass may give the memory away again. A read of an activation, or of
any view that shares bytes with it, after the call is an error; memory that is overwritten in full is alive again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, UnitAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass

from compiler.analysis.alias import (
    AliasAnalysis,
    AliasKind,
    Location,
    Root,
    argument_attributes,
    compare,
    is_handle,
    main_function,
    relate,
)
from compiler.analysis.interference import Touch, touches
from compiler.analysis.regions import Relation
from compiler.errors import CompileError, UnsupportedError
from compiler.locations import source_of
from compiler.remarks import site
from dialects.alias import DONATED
from dialects.vllm_ir import ImplementedCallOp


@dataclass(frozen=True)
class Donation:
    """An activation that `call` may have consumed."""

    call: ImplementedCallOp
    handle: SSAValue
    where: Location


@dataclass(frozen=True)
class DonateActivations(ModulePass):
    """See the module's text."""

    name: ClassVar[str] = "donate-activations"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        donate_activations(main_function(op))


def donate_activations(function: FuncOp) -> None:
    """Rewrite one function.

    Raises:
        CompileError: an activation is used after the call that may have consumed it.
        UnsupportedError: such a call stands inside control flow.
    """
    calls = [op for op in function.walk() if isinstance(op, ImplementedCallOp) and op.maybe_inplace is not None]
    for call in calls:
        if call.parent_op() is not function:
            location, node = source_of(call)
            raise UnsupportedError(
                f"{site(call)} may consume its activations inside control flow", location=location, node=node,
                hint="call the functional overload there",
            )  # fmt: skip
        call.properties.pop("maybe_inplace")
    if calls:
        analysis = AliasAnalysis(function)
        _mark(analysis, _checked(analysis, frozenset(calls)))


def _checked(analysis: AliasAnalysis, calls: frozenset[ImplementedCallOp]) -> list[Donation]:
    """All donations, none of which anybody notices."""
    given: list[Donation] = []
    dead: dict[Root, list[Donation]] = {}
    for op in analysis.function.body.block.ops:
        for touch in _touches(op, analysis):
            dead[touch.root] = [d for d in dead.get(touch.root, ()) if not _revives(op, touch, d, analysis)]
        if isinstance(op, ImplementedCallOp) and op in calls:
            for number in op.activations.data:
                donation = Donation(op, op.args[number], analysis.location(op.args[number]))
                given.append(donation)
                for root in donation.where.roots:
                    dead.setdefault(root, []).append(donation)
    return given


def _touches(op: Operation, analysis: AliasAnalysis) -> Iterator[Touch]:
    """What an op does to memory; the program's results are read by its caller."""
    if not isinstance(op, ReturnOp):
        yield from touches(op, analysis)
        return
    for handle in op.operands:
        if is_handle(handle):
            for root in analysis.location(handle).roots:
                yield Touch(root, handle, True, False, False)


def _revives(op: Operation, touch: Touch, donation: Donation, analysis: AliasAnalysis) -> bool:
    """Whether the touch overwrites all of a donated window; CompileError if it may look at some of it."""
    relation = Relation.MAY if touch.handle is None else relate(analysis.location(touch.handle), donation.where)
    if not touch.reads:
        return relation in (Relation.EQUAL, Relation.CONTAINS)
    if relation is Relation.DISJOINT:
        return False
    location, node = source_of(op)
    what = _described(donation.handle, analysis)
    how = "may read" if relation is Relation.MAY else "reads"
    exactly = touch.handle is donation.handle or touch.handle is None
    memory = "it" if exactly else f"its memory through {_described(touch.handle, analysis)}"  # type: ignore[arg-type]
    reader = f"the program returns {memory}" if isinstance(op, ReturnOp) else f"{site(op)} {how} {memory}"
    if isinstance(op, ReturnOp):
        location, node = source_of(donation.call)
    raise CompileError(
        f"{site(donation.call)} may overwrite its activation {what}, but {reader} afterwards", location=location, node=node,
        hint="give the call a .clone() of the activation, or call the functional overload",
    )  # fmt: skip


def _described(handle: SSAValue, analysis: AliasAnalysis) -> str:
    if isinstance(handle, BlockArgument):
        name = argument_attributes(analysis.function)[handle.index].get("fx.name")
        return f"argument {name.data}" if isinstance(name, StringAttr) else f"argument {handle.index}"
    return f"the result of {site(handle.owner)}" if isinstance(handle.owner, Operation) else "a block argument"


def _mark(analysis: AliasAnalysis, given: list[Donation]) -> None:
    """Mark the inputs that are given away whole. State belongs to its module, and shared memory to several arguments."""
    function = analysis.function
    attributes = argument_attributes(function)
    owners: dict[Root, list[BlockArgument]] = {}
    for argument in function.body.block.args:
        for root in analysis.locations[argument].roots if is_handle(argument) else ():
            owners.setdefault(root, []).append(argument)
    for donation in given:
        arguments = owners.get(donation.where.roots[0], [])
        if len(donation.where.roots) != 1 or len(arguments) != 1:
            continue
        kind = attributes[arguments[0].index].get("fx.kind")
        own = not isinstance(kind, StringAttr) or kind.data == "input"
        if own and compare(donation.where, analysis.location(arguments[0])).kind is AliasKind.MUST:
            attributes[arguments[0].index][DONATED] = UnitAttr()
    function.arg_attrs = ArrayAttr([DictionaryAttr(a) for a in attributes])


__all__ = ["DonateActivations", "donate_activations"]
