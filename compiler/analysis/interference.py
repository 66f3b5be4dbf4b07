"""Interference of copies: the memory that they could join, and every access to it.

Removing `c = clone(o)` puts the memory of c where o is. All memory that such removals could join forms a *class*: a tree
of roots, each child a copy of a window of its parent. Every byte of a class has a place in its topmost root; the places
are cut into atoms at every boundary of an access, so that questions about overlap become arithmetic on atoms. Where a copy
is of a size that is only known at run time, all of its class is one atom: any access may meet any other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from compiler.analysis.alias import AliasAnalysis, Location, Root, is_handle, reachable
from compiler.analysis.layout import rebase, same_strides
from compiler.analysis.regions import RUN_CAP, Region, intervals, pieces, region, self_overlaps
from dialects.calls import HandleCall
from dialects.control import CondOp, WhileOp
from dialects.types import Geometry, element_bytes
from dialects.vllm_ir import ImplementedCallOp

Atoms = slice | np.ndarray
"""A set of atoms: a stretch, or ascending numbers."""


@dataclass(frozen=True, eq=False)
class Copy:
    """A copy that may go: `result` holds a copy of `source` from `op` on, and would then be `source` itself."""

    number: int
    op: HandleCall
    source: SSAValue
    result: SSAValue
    parent: Root
    child: Root
    bytes: int


class Touch(NamedTuple):
    """An op's access to a handle (None: anything in the root). A partial write may leave old values in place."""

    root: Root
    handle: SSAValue | None
    reads: bool
    writes: bool
    partial: bool


@dataclass
class Class:
    """One tree of roots that removals could join, with its accesses in program order.

    `steps` holds ("copy", number) and ("op", op, touches); `places` the atoms of each touch, `area` those of each root.
    `vague`: some copy is of unknown size, so that there is one atom, which no write is known to cover.
    `folded`: roots several elements of which lie in one place of the topmost root, where some such root is written: then
    a write to an atom leaves the other elements there as they were.
    """

    base: Root
    roots: list[Root] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
    steps: list[tuple[int, Operation, Copy | None, list[Touch]]] = field(default_factory=list)
    results: list[Touch] = field(default_factory=list)
    area: dict[Root, Atoms] = field(default_factory=dict)
    places: dict[tuple[Root, SSAValue | None], Atoms] = field(default_factory=dict)
    size: int = 0
    vague: bool = False
    folded: frozenset[Root] = frozenset()


def touches(op: Operation, analysis: AliasAnalysis) -> list[Touch]:
    """What an op does to memory. Operators of unknown behaviour read and may write all of what they can reach."""
    if isinstance(op, HandleCall | CondOp | WhileOp | ImplementedCallOp) and op.effects.data is not None:
        reads, writes = set(op.effects.reads() or ()), set(op.effects.writes() or ())
        return [
            touch
            for i in sorted(reads | writes)
            for touch in _touch(op.operands[i], analysis.location(op.operands[i]), i in reads, i in writes)
        ]
    if isinstance(op, HandleCall) or op.regions or any(is_handle(v) for v in op.operands):
        roots = dict.fromkeys(root for handle in reachable(op) for root in analysis.location(handle).roots)
        return [Touch(root, None, True, True, True) for root in roots]
    return []


def _touch(handle: SSAValue, where: Location, reads: bool, writes: bool) -> Iterator[Touch]:
    if where.region is not None and len(where.roots) == 1:
        yield Touch(where.roots[0], handle, reads, writes, writes and reads)
    else:
        for root in where.roots:
            yield Touch(root, None, reads, writes, writes)


class Interference:
    """The classes of a function under a set of copies that may go.

    Attributes:
        classes: the trees of roots, each with at least one copy.
        above: a root that is a copy -> that copy. made: the op of a copy -> that copy.
        refused: copies that cannot be judged at all, by number, with the reason.
    """

    def __init__(self, analysis: AliasAnalysis, copies: Sequence[Copy]):
        self.analysis = analysis
        self.copies = copies
        self.refused: dict[int, str] = {}
        self.above: dict[Root, Copy] = {}
        self.made: dict[Operation, Copy] = {}
        self._depth: dict[Root, int] = {}
        self._class_of: dict[Root, Class] = {}
        self._shift: dict[Root, int | None] = {}
        self._window: dict[Root, Geometry] = {}
        self._refuse_mixed()
        self.classes = self._trees()
        self._walk()
        for one in self.classes:
            self._divide(one)

    # -- trees of roots ------------------------------------------------------------------------

    def _refuse_mixed(self) -> None:
        """Copies of known and of unknown size do not share a class: the latter would blur what is known of the former."""
        base: dict[Root, Root] = {}
        for copy in self.copies:
            base[copy.child] = base.setdefault(copy.parent, copy.parent)
        exact = {base[copy.parent] for copy in self.copies if not self._vague(copy)}
        for copy in self.copies:
            if self._vague(copy) and base[copy.parent] in exact:
                self.refused[copy.number] = "its size is not known, and its memory is shared by copies whose size is"

    def _vague(self, copy: Copy) -> bool:
        return any(self.analysis.location(handle).region is None for handle in (copy.source, copy.result))

    def _trees(self) -> list[Class]:
        classes: list[Class] = []
        for copy in self.copies:
            if copy.number in self.refused or not self._placed(copy):
                continue
            if copy.parent not in self._class_of:
                one = self._class_of[copy.parent] = Class(copy.parent, [copy.parent])
                self._depth[copy.parent] = 0
                classes.append(one)
            one = self._class_of[copy.child] = self._class_of[copy.parent]
            one.roots.append(copy.child)
            one.copies.append(copy)
            one.vague = one.vague or self._vague(copy)
            self.above[copy.child] = copy
            self._depth[copy.child] = self._depth[copy.parent] + 1
        return classes

    def _placed(self, copy: Copy) -> bool:
        """Find the bytes of the copy among those of the topmost root."""
        if self._vague(copy):
            return True
        size = element_size(copy.source)
        source = self.above_all(copy.parent, self.analysis.location(copy.source).window, size)
        if source is None:
            self.refused[copy.number] = "its source would be a view that no strides can express"
            return False
        covered = region(source, size)
        assert covered is not None
        if pieces(covered) > RUN_CAP:
            self.refused[copy.number] = f"its source lies in more than {RUN_CAP} pieces of memory"
            return False
        own = self.analysis.location(copy.result).window
        self._window[copy.child] = source
        self._shift[copy.child] = (source.offset - own.offset) * size if same_strides(own, source) else None
        return True

    def above_all(self, root: Root, window: Geometry, size: int) -> Geometry | None:
        """A window on `root` as one on the topmost root of its class."""
        copy = self.above.get(root)
        if copy is None:
            return window
        if root not in self._shift:
            return None  # the copy is of unknown size
        shift = self._shift[root]
        if shift is not None:
            offset, rest = divmod(window.offset * size + shift, size)
            return None if rest else Geometry(window.sizes, window.strides, offset)
        if size != element_size(copy.source):
            return None
        return rebase(window, self.analysis.location(copy.result).window, self._window[root])

    def placed(self, touch: Touch) -> Region | None:
        """The bytes of a touch in the topmost root; None: all bytes of its root."""
        if touch.handle is None:
            return None
        window = self.above_all(touch.root, self.analysis.location(touch.handle).window, element_size(touch.handle))
        covered = None if window is None else region(window, element_size(touch.handle))
        return covered if covered is not None and pieces(covered) <= RUN_CAP else None

    def path(self, a: Root, b: Root) -> frozenset[int]:
        """The copies between two roots of a class."""
        path = self.path_beside(a, b, ())
        assert path is not None
        return path

    def path_beside(self, a: Root, b: Root, forced: Collection[int]) -> frozenset[int] | None:
        """The copies between two roots of a class; None if there are several, and one of them is of `forced`."""
        found: list[int] = []
        met = False
        height, other = self._depth[a], self._depth[b]
        while height != other or a != b:
            if height < other:
                a, b, height, other = b, a, other, height
            copy = self.above[a]
            a, height = copy.parent, height - 1
            found.append(copy.number)
            met = met or copy.number in forced
            if met and len(found) > 1:
                return None
        return frozenset(found)

    def link(self, a: Root, b: Root) -> int | None:
        """The copy that makes one of two roots from the other."""
        for child, parent in ((a, b), (b, a)):
            if child in self.above and self.above[child].parent == parent:
                return self.above[child].number
        return None

    def folding(self, root: Root) -> frozenset[int]:
        """The copies that, all removed, put several elements of the root into one place; empty if none does."""
        if root not in self._window or not _overlaps_itself(self._window[root], element_size(self.above[root].source)):
            return frozenset()
        copy = self.above[root]
        window, size, found = self.analysis.location(copy.source).window, element_size(copy.source), {copy.number}
        while not _overlaps_itself(window, size) and copy.parent in self.above:
            copy = self.above[copy.parent]
            found.add(copy.number)
            lifted = self._lifted(window, size, copy)
            if lifted is None:
                break  # each copy on the way could be the one
            window = lifted
        return frozenset(found)

    def _lifted(self, window: Geometry, size: int, copy: Copy) -> Geometry | None:
        """A window on the memory of a copy as one on the memory of its source."""
        own, source = self.analysis.location(copy.result).window, self.analysis.location(copy.source).window
        if size == element_size(copy.source):
            return rebase(window, own, source)
        offset, rest = divmod(window.offset * size + (source.offset - own.offset) * element_size(copy.source), size)
        return None if rest or not same_strides(own, source) else Geometry(window.sizes, window.strides, offset)

    # -- accesses ------------------------------------------------------------------------------

    def _walk(self) -> None:
        if not self.classes:
            return
        self.made = {copy.op: copy for one in self.classes for copy in one.copies}
        for time, op in enumerate(self.analysis.function.body.block.ops):
            copy = self.made.get(op)
            if copy is not None:
                self._class_of[copy.child].steps.append((time, op, copy, []))
                continue
            if isinstance(op, ReturnOp):
                for handle in op.operands:
                    if is_handle(handle):
                        for touch in _touch(handle, self.analysis.location(handle), True, False):
                            if touch.root in self._class_of:
                                self._class_of[touch.root].results.append(touch)
                continue
            mine: dict[int, tuple[Class, list[Touch]]] = {}
            for touch in touches(op, self.analysis):
                one = self._class_of.get(touch.root)
                if one is not None:
                    mine.setdefault(id(one), (one, []))[1].append(touch)
            for one, list_ in mine.values():
                one.steps.append((time, op, None, list_))

    def _divide(self, one: Class) -> None:
        """Cut the topmost root into atoms, and find those of each root and touch."""
        regions: dict[tuple[Root, SSAValue | None], Region] = {}
        everything = [*one.results, *(t for _, _, _, touched in one.steps for t in touched)]
        if one.vague:
            one.size = 1
            one.area = dict.fromkeys(one.roots, slice(0, 1))
            one.places = dict.fromkeys(((touch.root, touch.handle) for touch in everything), slice(0, 1))
            return
        for touch in everything:
            if (touch.root, touch.handle) not in regions:
                placed = self.placed(touch)
                if placed is not None:
                    regions[touch.root, touch.handle] = placed
        for copy in one.copies:
            covered = region(self._window[copy.child], element_size(copy.source))
            assert covered is not None
            regions[copy.child, copy.result] = covered
        keys, cut = list(regions), Cut(list(regions.values()))
        one.size = cut.size
        found = dict(zip(keys, cut.atoms, strict=True))
        one.area[one.base] = slice(0, one.size)
        for copy in one.copies:
            one.area[copy.child] = found[copy.child, copy.result]
        for touch in everything:
            key = (touch.root, touch.handle)
            one.places[key] = found.get(key, one.area[touch.root])
        folded = frozenset(copy.child for copy in one.copies if self.folding(copy.child))
        if any(touch.writes and touch.root in folded for touch in everything):
            one.folded = folded

    def expressible(self, handle: SSAValue, root: Root) -> bool:
        """Whether the handle would be a strided window on the topmost root too."""
        return self.above_all(root, self.analysis.location(handle).window, element_size(handle)) is not None

    def class_of(self, root: Root) -> Class | None:
        return self._class_of.get(root)


def _overlaps_itself(window: Geometry, size: int) -> bool:
    """Whether two elements of the window may share a byte."""
    covered = region(window, size)
    return covered is None or self_overlaps(covered) is not False


class Cut:
    """A line of bytes cut at the boundaries of all regions; `atoms[i]` are the atoms of region i."""

    def __init__(self, regions: Sequence[Region]):
        bounds = [intervals(r) for r in regions]
        points = np.unique(np.concatenate([np.zeros(0, np.int64), *(b for pair in bounds for b in pair)]))
        self.size = max(len(points) - 1, 0)
        counts = [len(starts) for starts, _ in bounds]
        if bounds:
            first = np.searchsorted(points, np.concatenate([s for s, _ in bounds]))
            last = np.searchsorted(points, np.concatenate([e for _, e in bounds]))
        else:
            first = last = np.zeros(0, np.int64)
        self.atoms: list[Atoms] = []
        position = 0
        for count in counts:
            self.atoms.append(_joined(first[position : position + count], last[position : position + count]))
            position += count


def _joined(first: np.ndarray, last: np.ndarray) -> Atoms:
    """The atoms of ascending stretches [first, last)."""
    if len(first) == 0:
        return slice(0, 0)
    if len(first) == 1 or bool(np.all(first[1:] == last[:-1])):
        return slice(int(first[0]), int(last[-1]))
    lengths = last - first
    ends = np.cumsum(lengths)
    return np.arange(ends[-1]) + np.repeat(first - ends + lengths, lengths)


def within(area: Atoms, atoms: Atoms) -> Atoms:
    """Positions of `atoms` in the listing of `area`, which holds them."""
    if isinstance(area, slice):
        if isinstance(atoms, slice):
            return slice(atoms.start - area.start, atoms.stop - area.start)
        return atoms - area.start
    return np.searchsorted(area, listed(atoms))


def listed(atoms: Atoms) -> np.ndarray:
    return np.arange(atoms.start, atoms.stop) if isinstance(atoms, slice) else atoms


def count(atoms: Atoms) -> int:
    return atoms.stop - atoms.start if isinstance(atoms, slice) else len(atoms)


def element_size(handle: SSAValue) -> int:
    return element_bytes(handle.type.element_type)  # type: ignore[attr-defined]
