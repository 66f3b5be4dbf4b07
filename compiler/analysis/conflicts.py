"""What stands against removing copies: reads of wrong values, memory shared by results. `layout_conflicts` has the rest.

Two states run through the program for each atom of a class: the value a root holds as the program is written (`own`: the
number of the write that it comes from), and the one that joined memory holds (`joined`). A read where they differ
is a conflict between the reader and the last writer, and it stays one in any choice of copies that joins the two.
So conflicts are clauses over copies that hold whatever else is decided.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import BlockArgument, Operation

from compiler.analysis.alias import Root, argument_attributes
from compiler.analysis.interference import Atoms, Class, Copy, Interference, Touch, count, element_size, listed, within
from compiler.analysis.selection import Clause
from dialects.calls import HandleCall

Unit = Callable[[Operation], object]
"""What an op is a part of, together with others, for whoever runs the program."""

OVERWRITING = frozenset({"aten.copy_.default"})
"""Operators whose written operand ends up with the elements of the other operand, index by index."""


@dataclass(frozen=True, eq=False)
class Conflict:
    """Why copies cannot all go: `clause`, and what it protects.

    kind "read": `reader` would see what `writer` wrote. "value": so would a result. "argument": the caller would find it in
    the memory of an argument. "operands": `writer` writes memory that it also gets as another operand. "result": results,
    or a result and an argument, would share memory. "layout": `reader` can see strides, which would change.
    """

    kind: str
    clause: Clause
    reader: Operation | None
    writer: Operation | None
    detail: str


class Judge:
    """Finds the conflicts of the classes of one function.

    Args:
        interference: the classes.
        given: roots of arguments and constants: the caller sees their final contents, and no result may come to share
            memory with them.
        donated: those of them that the caller gives up. Their contents count only where the program changes them; where
            it does not, one result may live there.
        unit: ops of one unit are one call, with the operands of all of them.
    """

    def __init__(
        self,
        interference: Interference,
        given: frozenset[Root],
        donated: frozenset[Root],
        unit: Unit = lambda op: op,
    ):
        self.interference, self.unit = interference, unit
        self.given, self.donated = given, donated
        self.analysis = interference.analysis
        self.argument_attributes = argument_attributes(self.analysis.function)

    def conflicts(self, one: Class, kept: frozenset[int], writers: int = 1) -> list[Conflict]:
        """The conflicts that are left in a class when exactly the copies of `kept` stay.

        Of each value that a read would miss, all writes that leave no choice are named, and up to `writers` others. A read
        may go unnamed only where a copy that must stay, and is named, settles it too.
        """
        return _Run(self, one, kept, writers).conflicts()


class _Run:
    """One run through a class: what its roots hold, and what the joined memory holds."""

    def __init__(self, judge: Judge, one: Class, kept: frozenset[int], writers: int):
        self.judge, self.one, self.kept, self.limit = judge, one, kept, writers
        self.tree = judge.interference
        self.top: dict[Root, Root] = {one.base: one.base}
        for copy in one.copies:
            self.top[copy.child] = copy.child if copy.number in kept else self.top[copy.parent]
        self.joint = {top for top, roots in Counter(self.top.values()).items() if roots > 1}
        self.own: dict[Root, np.ndarray] = {one.base: np.zeros(one.size, np.int64)}
        self.joined: dict[Root, np.ndarray] = {}
        self.writer: dict[Root, np.ndarray] = {}
        self.writes: list[tuple[Operation, Root]] = []
        self.places: list[Atoms] = []  # of each write, in its joined memory
        self.first: dict[Root, np.ndarray] = {}  # per joined memory: the first write to each atom
        self.forced: set[int] = set()  # copies that must stay whatever else does
        self.passed: dict[tuple[Root, int, int, frozenset[int]], int] = {}  # per value expected: the last write named
        self.next: dict[int, np.ndarray] = {}  # per write: the write that came next to each of its atoms
        self.moves = False
        self.found: dict[tuple[str, Clause], Conflict] = {}
        self._open(one.base)

    def _open(self, root: Root) -> None:
        if self.top[root] is root and root in self.joint:
            self.joined[root] = self.own[root].copy()
            self.writer[root] = np.full(len(self.own[root]), -1, np.int64)
            self.first[root] = self.writer[root].copy()

    def conflicts(self) -> list[Conflict]:
        unit: object = None
        before: list[Touch] = []  # of earlier ops of the unit
        for _, op, copy, touched in self.one.steps:
            if copy is not None:
                self._copy(copy)
                continue
            if unit is not self.judge.unit(op):
                unit, before = self.judge.unit(op), []
            if before:
                self._operands(op, before, touched)
            before += touched
            for touch in touched:
                if touch.reads or touch.partial or self.one.vague or touch.root in self.one.folded:
                    self._read(touch.root, self._atoms(touch), op)
            if len(touched) > 1:
                self._operands(op, touched, touched)
            for touch in touched:
                if touch.writes:
                    self._write(op, touch, touched)
        base = self.one.base
        if self._protected():
            self._read(base, slice(0, self.one.size), None, "argument", detail=self._name(base))
        self._results()
        return list(self.found.values())

    def _protected(self) -> bool:
        """Whether the caller looks at what the topmost root holds in the end. Asked when all steps are made."""
        base = self.one.base
        return base in self.judge.given and (base not in self.judge.donated or bool(self.own[base].any()))

    def _atoms(self, touch: Touch) -> Atoms:
        return self.one.places[touch.root, touch.handle]

    def _add(
        self, kind: str, clause: Clause, reader: Operation | None, writer: Operation | None, detail: str = ""
    ) -> None:
        self.found.setdefault((kind, clause), Conflict(kind, clause, reader, writer, detail))

    def _name(self, root: Root) -> str:
        """The argument or constant as the user knows it."""
        value = self.judge.analysis.origins[root]
        if isinstance(value, BlockArgument):
            name = self.judge.argument_attributes[value.index].get("fx.name")
            return f"argument {name.data if isinstance(name, StringAttr) else value.name_hint or value.index}"
        return "a constant"

    def _copy(self, copy: Copy) -> None:
        atoms = self.one.area[copy.child]
        if copy.number in self.kept:
            self._read(copy.parent, atoms, copy.op, remove=frozenset({copy.number}))
        values = self.own[copy.parent][within(self.one.area[copy.parent], atoms)]
        self.own[copy.child] = values.copy() if isinstance(atoms, slice) else values
        self._open(copy.child)

    def _read(
        self,
        root: Root,
        atoms: Atoms,
        reader: Operation | None,
        kind: str = "read",
        remove: frozenset[int] = frozenset(),
        detail: str = "",
    ) -> None:
        top = self.top[root]
        if top not in self.joint:
            return
        place = within(self.one.area[top], atoms)
        own = self.own[root][within(self.one.area[root], atoms)]
        wrong = np.flatnonzero(own != self.joined[top][place])
        if len(wrong) == 0:
            return
        numbers, samples = np.unique(self.writer[top][place][wrong], return_index=True)
        for number, sample in zip(numbers, wrong[samples], strict=True):
            atom = place.start + sample if isinstance(place, slice) else place[sample]
            for clause, writer in self._between(root, int(atom), int(own[sample]) - 1, int(number), remove):
                self._add(kind, clause, reader, writer, detail)

    def _between(
        self, root: Root, atom: int, after: int, last: int, remove: frozenset[int]
    ) -> list[tuple[Clause, Operation]]:
        """Writes to an atom of joined memory since the one numbered `after`, the earliest ones first, and what they demand.

        Each of them alone is in conflict with whoever expects the value from `after`, unless some later write puts that
        value back; with such moves of values in play, only the last write is sure to be. All are named that leave no
        choice, but only so many others; for the next that expects the same value, those that come after these.
        """
        nearest = self.tree.link(root, self.writes[last][1])
        if nearest is not None and not remove:
            self.forced.add(nearest)
        found = self._walk(root, atom, after, remove) if not self.moves else []
        if nearest is not None or not found:
            found.append(self._demand(root, last, remove))
        return [demand for demand in found if demand is not None]

    def _walk(self, root: Root, atom: int, after: int, remove: frozenset[int]) -> list[tuple[Clause, Operation] | None]:
        """What a reader of the root demands because of the writes to an atom since the one numbered `after`."""
        here = root, atom, after, remove
        if here in self.passed:
            number = self._following(self.passed[here], atom)
        elif after >= 0 and self.top[self.writes[after][1]] is self.top[root]:
            number = self._following(after, atom)
        else:
            number = int(self.first[self.top[root]][atom])
        found: list[tuple[Clause, Operation] | None] = []
        others = 0
        while number >= 0 and others < self.limit:
            demand = self._demand(root, number, remove)
            found.append(demand)
            others += demand is None or len(demand[0].keep) > 1 or bool(remove)
            self.passed[here] = number
            number = self._following(number, atom)
        return found

    def _demand(self, root: Root, number: int, remove: frozenset[int]) -> tuple[Clause, Operation] | None:
        """What a reader of the root demands because of a write; None if it follows from other demands."""
        writer, other = self.writes[number]
        path = self.tree.path_beside(root, other, self.forced)
        if path is None:
            return None
        if len(path) == 1 and not remove:
            self.forced |= path
        return Clause(path, remove), writer

    def _following(self, number: int, atom: int) -> int:
        """The write that came next to an atom, or -1."""
        if number not in self.next:
            return -1
        place = self.places[number]
        return int(self.next[number][atom - place.start if isinstance(place, slice) else np.searchsorted(place, atom)])

    def _write(self, op: Operation, touch: Touch, touched: list[Touch]) -> None:
        number = len(self.writes)
        self.writes.append((op, touch.root))
        self.places.append(slice(0, 0))
        atoms = self._atoms(touch)
        values = self._moved_values(op, touch, touched)
        self.moves = self.moves or values is not None
        self.own[touch.root][within(self.one.area[touch.root], atoms)] = number + 1 if values is None else values
        top = self.top[touch.root]
        if top not in self.joint:
            return
        place = self.places[number] = within(self.one.area[top], atoms)
        before = self.writer[top][place]
        for earlier in np.unique(before):
            mine = np.flatnonzero(before == earlier) + (place.start if isinstance(place, slice) else 0)
            mine = mine if isinstance(place, slice) else place[mine]
            if earlier < 0:
                self.first[top][mine] = number
            else:
                if earlier not in self.next:
                    self.next[int(earlier)] = np.full(count(self.places[earlier]), -1, np.int64)
                self.next[int(earlier)][within(self.places[earlier], mine)] = number
        self.joined[top][place] = number + 1 if values is None else values
        self.writer[top][place] = number

    def _moved_values(self, op: Operation, touch: Touch, touched: list[Touch]) -> np.ndarray | None:
        """The values that a `copy_` moves to the same bytes of joined memory: those of its source, not new ones."""
        if not isinstance(op, HandleCall) or op.target.data not in OVERWRITING or len(op.args) < 2:
            return None
        source = next((t for t in touched if t.handle is op.args[1]), None)
        if source is None or touch.handle is not op.args[0]:
            return None
        window = self._window(touch)
        if window is None or window != self._window(source):
            return None
        return self.own[source.root][within(self.one.area[source.root], self._atoms(source))]

    def _window(self, touch: Touch) -> tuple[object, ...] | None:
        """Where and how the touched handle would walk the topmost root."""
        if touch.handle is None or touch.root in self.one.folded:
            return None
        where = self.judge.analysis.location(touch.handle)
        window = self.tree.above_all(touch.root, where.window, element_size(touch.handle))
        if window is None:
            return None
        walked = tuple(0 if n == 1 else s for n, s in zip(window.sizes, window.strides, strict=True))
        return where.element, where.lazy, window.sizes, walked, window.offset

    def _operands(self, op: Operation, ones: list[Touch], others: list[Touch]) -> None:
        """A call that writes memory must not get it as another operand, unless it goes element by element."""
        by_top: dict[Root, list[Touch]] = {}
        for touch in others:
            by_top.setdefault(self.top[touch.root], []).append(touch)
        written = {self.top[touch.root] for touch in (*ones, *others) if touch.writes}
        for first in ones:
            top, named = self.top[first.root], 0
            if top not in self.joint or top not in written:
                continue
            beside = by_top.get(top, ())
            for second in beside[beside.index(first) + 1 :] if ones is others else beside:
                if named >= self.limit:
                    break
                if self._clash(op, first, second, alone=ones is others):
                    self._add("operands", Clause(self.tree.path(first.root, second.root)), op, op)
                    named += 1

    def _clash(self, op: Operation, first: Touch, second: Touch, alone: bool) -> bool:
        if not (first.writes or second.writes) or first.root == second.root or not self._meet(first, second):
            return False
        pointwise = alone and isinstance(op, HandleCall) and op.pointwise is not None
        if pointwise and not (first.writes and second.writes):
            window = self._window(first)
            return window is None or window != self._window(second)
        return True

    def _meet(self, first: Touch, second: Touch) -> bool:
        a, b = self._atoms(first), self._atoms(second)
        if isinstance(a, slice) and isinstance(b, slice):
            return a.start < b.stop and b.start < a.stop and count(a) > 0 and count(b) > 0
        return len(np.intersect1d(listed(a), listed(b), assume_unique=True)) > 0

    def _results(self) -> None:
        base = self.one.base
        owner: dict[Root, np.ndarray] = {}
        under: dict[int, list[int]] = {}  # per result: those that the caller would find at its bytes
        results = self.one.results
        backed: Root | None = None
        taken = self._protected() or any(touch.root == base for touch in self.one.results)
        for number, touch in enumerate(results):
            atoms, root, top = self._atoms(touch), touch.root, self.top[touch.root]
            if top not in self.joint or count(atoms) == 0:
                continue  # no bytes to share
            self._read(root, atoms, None, "value")
            if top is base and root != base and base in self.judge.given:
                path = self.tree.path(root, base)
                if base not in self.judge.donated or taken:
                    self._add(
                        "result", Clause(path), None, None, f"a result would share memory with {self._name(base)}"
                    )
                elif backed is not None:
                    both = path | self.tree.path(backed, base)
                    self._add("result", Clause(both), None, None, f"two results would live in {self._name(base)}")
                backed = backed or root
            owners = owner.setdefault(top, np.full(count(self.one.area[top]), -1, np.int64))
            place = within(self.one.area[top], atoms)
            under[number] = [int(other) for other in np.unique(owners[place]) if other >= 0]
            for other in self._below(number, under):
                path = self.tree.path_beside(root, results[other].root, self.forced)
                if path is not None:
                    self._add("result", Clause(path), None, None, "two results would share memory")
                if path is not None and len(path) == 1:
                    self.forced |= path
            owners[place] = number

    def _below(self, number: int, under: dict[int, list[int]]) -> Iterator[int]:
        """Earlier results of other memories that share bytes with one: all the nearest, and so many further ones."""
        results = self.one.results
        seen, pending, further = {number}, deque(under[number]), self.limit
        while pending:
            other = pending.popleft()
            if other in seen:
                continue
            seen.add(other)
            if results[other].root != results[number].root and self._meet(results[number], results[other]):
                yield other
            if further > 0:
                further -= 1
                pending.extend(under[other])
