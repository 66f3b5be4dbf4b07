"""Where the removal of copies would show in strides, or in the position in memory, of what took their place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from compiler.analysis.alias import Root
from compiler.analysis.conflicts import Conflict
from compiler.analysis.interference import Copy, Interference, Touch, element_size
from compiler.analysis.layout import rebase, same_strides
from compiler.analysis.regions import self_overlaps
from compiler.analysis.selection import Clause
from dialects.calls import HandleCall
from dialects.control import CondOp, WhileOp
from dialects.fx import Constant
from dialects.types import DYNAMIC, Geometry

POSITIONED = frozenset(
    {"aten.as_strided.default", "aten.as_strided_.default", "aten._reshape_alias.default", "auto_functionalized_v2"}
)
"""What makes views whose strides or position are arguments, not counted from the operand's."""

ANY_LAYOUT = "fx.flexible_layout"
"""Attribute of a call of an operator, not one of ATen's, that computes the same whatever strides its operands have."""

LaidOut = Callable[[HandleCall, Sequence[Geometry]], bool]
"""Whether the results of a call lie in fresh memory as they do in the program when its operands (in order, only those that
are memory) have these windows. It must be known for sure: "no" is always right."""

_MOST_LAYOUTS = 64
"""Ways in which the operands of one call may lie that are asked for."""

ANYWHERE = 1 << 62
"""As a modulus for distances: divides none but 0."""


class LayoutJudge:
    """Finds the conflicts of layout of one function.

    Args:
        interference: its classes.
        laid_out: what is known of the strides of results.
    """

    def __init__(self, interference: Interference, laid_out: LaidOut):
        self.interference, self.laid_out, self.analysis = interference, laid_out, interference.analysis
        self._paths: tuple[dict[Root, frozenset[int]], ...] = ({}, {})

    def conflicts(self) -> Iterator[Conflict]:
        """Where other strides, or another position in memory, would show."""
        for op in self.analysis.function.body.block.ops:
            writes = frozenset(op.effects.writes() or ()) if isinstance(op, HandleCall) else frozenset[int]()
            for number, handle in enumerate(op.operands):
                where = self.analysis.locations.get(handle)
                if where is None:
                    continue
                for root in where.roots:
                    if root in self.interference.above:
                        yield from self._seen(op, number, handle, root, number in writes)

    def _seen(self, op: Operation, number: int, handle: SSAValue, root: Root, written: bool) -> Iterator[Conflict]:
        if self.interference.made.get(op) is self.interference.above[root]:
            return  # the copy itself goes with its memory
        exact = isinstance(op, ReturnOp)
        if isinstance(op, CondOp | WhileOp):
            for path in (self._strided(root, True), self._moved(root, ANYWHERE)):
                if path:
                    yield Conflict(
                        "layout", Clause(path), op, None, "a region is made for the copy's place and strides"
                    )
            return
        path = self._strided(root, exact)
        if path:
            remove = frozenset[int]()
            reason = "the strides of a result" if exact else self._reads_layout(op, number, handle, root)
            if reason and not exact and (copy := self.interference.made.get(op)) is not None:
                remove = frozenset({copy.number})
            if reason:
                yield Conflict("layout", Clause(path, remove), op, None, reason)
        elif isinstance(op, HandleCall) and op.target.data in POSITIONED and (path := self._moved(root, 0)):
            yield Conflict("layout", Clause(path), op, None, "it counts positions from the start of the storage")
        if isinstance(op, HandleCall):
            if written and (path := self._folding(root, handle)):
                yield Conflict("layout", Clause(path), op, None, "it would write an element that others share")
            for alias, result in zip(op.aliases.data, op.outs, strict=True):
                if alias.kind == "view" and alias.operand == number:
                    size = element_size(result)
                    if size > element_size(handle) and (path := self._moved(root, size)):
                        yield Conflict("layout", Clause(path), op, None, f"it needs memory aligned to {size} bytes")

    def _folding(self, root: Root, handle: SSAValue) -> frozenset[int]:
        """The copies that, all removed, let a write of the handle change other elements of its root too."""
        if 0 in self.analysis.location(handle).window.sizes:
            return frozenset()
        return self.interference.folding(root)

    def _reads_layout(self, op: Operation, number: int, handle: SSAValue, root: Root) -> str:
        """How the op can see the strides of its operand, or "" when it cannot."""
        if not isinstance(op, HandleCall) or op.effects.data is None:
            return "it may look at strides"
        if not op.target.data.startswith("aten.") and ANY_LAYOUT not in op.attributes:
            return "it may look at raw memory"
        reads, writes = op.effects.reads() or (), op.effects.writes() or ()
        viewed, follow = False, ""
        for alias, result in zip(op.aliases.data, op.outs, strict=True):
            if alias.kind in ("same", "view") and alias.operand == number:
                viewed = True
                if op.target.data in POSITIONED or not self.interference.expressible(result, root):
                    return "its view needs the strides of the copy"
            elif alias.kind == "may" and alias.operand in (number, -1):
                return "it may return its operand"
            elif alias.kind == "fresh" and not _is_row_major(op) and self._layout_shows(result, 8):
                follow = "the strides of its result follow"
        if number not in (*reads, *writes) and not viewed:
            return "it asks for sizes or strides"
        if number in writes:
            covered = self.interference.placed(Touch(root, handle, False, True, False))
            if covered is None or self_overlaps(covered) is not False:
                return "it would write one element twice"
        return "" if follow and self._laid_out_the_same(op) else follow

    def _laid_out_the_same(self, op: HandleCall) -> bool:
        """Whether the results of a call have their strides wherever copies that go would put its operands."""
        ways: list[list[Geometry]] = []
        for handle in op.args:
            where = self.analysis.locations.get(handle)
            if where is None:
                continue
            if len(where.roots) != 1 or (found := self._ways(where.window, where.roots[0], handle)) is None:
                return False
            ways.append(found)
        return prod(map(len, ways)) <= _MOST_LAYOUTS and all(self.laid_out(op, chosen) for chosen in product(*ways))

    def _ways(self, window: Geometry, root: Root, handle: SSAValue) -> list[Geometry] | None:
        """The window on its root, and on the source of each copy above that may go; None where one is no strided window."""
        found = [window]
        while (copy := self.interference.above.get(root)) is not None:
            own, source = self._windows(copy)
            root = copy.parent
            if same_strides(own, source):
                continue
            placed = rebase(window, own, source) if element_size(handle) == element_size(copy.source) else None
            if placed is None:
                return None
            window = placed
            found.append(window)
        return found

    def _layout_shows(self, result: SSAValue, depth: int) -> bool:
        """Whether anything may depend on how fresh memory is laid out."""
        where = self.analysis.locations.get(result)
        if where is None or sum(size > 1 for size in where.window.sizes) <= 1:
            return False
        for use in result.uses:
            op = use.operation
            if depth == 0 or not isinstance(op, HandleCall) or op.effects.data is None:
                return True
            if not op.target.data.startswith("aten.") or use.index not in (op.effects.reads() or ()):
                return True
            if any(alias.kind != "fresh" and alias.operand in (use.index, -1) for alias in op.aliases.data):
                return True
            if any(self._layout_shows(out, depth - 1) for out in op.outs):
                return True
        return False

    def _strided(self, root: Root, exactly: bool) -> frozenset[int]:
        """The copies that, all removed, give handles of this root other strides; empty if none does.

        `exactly` counts the strides of dimensions of size 1 too.
        """
        known, climbed = self._paths[exactly], list[Copy]()
        while root not in known and (copy := self.interference.above.get(root)) is not None:
            climbed.append(copy)
            root = copy.parent
        path = known.get(root, frozenset())
        for copy in reversed(climbed):
            own, source = self._windows(copy)
            changes = own.strides != source.strides if exactly else not same_strides(own, source)
            path = frozenset({copy.number}) if changes else path | {copy.number} if path else path
            known[copy.child] = path
        return path

    def _moved(self, root: Root, modulus: int) -> frozenset[int]:
        """The copies that, all removed, move the root by bytes that `modulus` does not divide (0: that are not none)."""
        found: list[int] = []
        copy = self.interference.above.get(root)
        while copy is not None:
            found.append(copy.number)
            own, source = self._windows(copy)
            if DYNAMIC in (own.offset, source.offset):
                return frozenset(found)
            distance = (source.offset - own.offset) * element_size(copy.source)
            if distance % modulus if modulus else distance or copy.parent.kind != "fresh":
                return frozenset(found)
            copy = self.interference.above.get(copy.parent)
        return frozenset()

    def _windows(self, copy: Copy) -> tuple[Geometry, Geometry]:
        return self.analysis.location(copy.result).window, self.analysis.location(copy.source).window


def _is_row_major(op: HandleCall) -> bool:
    """Whether the call asks for a row-major result, whatever its operands are."""
    format_ = op.keywords.data.get("memory_format") if op.keywords is not None else None
    return isinstance(format_, Constant) and format_.data == "memory_format:contiguous_format"
