"""Copies that stand for memory known only at run time: none can be told from what eager PyTorch has in its place.

For `x[i]` with i a 0-d tensor that is a view at the number that the index holds; a graph node that reads so is imported as a
gather. That is the same as long as nobody writes either memory while the copy is in use, and the copy is not returned.
`x[i] += v`, which writes the copy and then assigns it back, is allowed. What a conditional gives may be memory that one of its
branches took from outside: it may be returned, but where either memory is written, nobody may see the other one afterwards.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from torch.utils import _pytree as pytree

from compiler.errors import UnsupportedError
from compiler.frontend.forms import Handle, Root


@dataclass
class _Read:
    """A copy: what it was read from, the access it was made by, and the accesses of the assignment that writes it back."""

    copy: Root
    base: Handle
    key: Any
    node: str
    source: str
    made: int
    back: tuple[int, int] | None = None


@dataclass
class _Choice:
    """A result of a conditional, and the memories that a branch gives instead of a copy."""

    copy: Root
    sources: set[Root]
    node: str
    source: str
    made: int


class _Times:
    """When a storage is accessed, in ascending order; `nested` is the last time that is in a branch or in a loop's body."""

    def __init__(self) -> None:
        self.times: list[int] = []
        self.nested = -1

    def add(self, time: int, nested: bool) -> None:
        self.times.append(time)
        self.nested = time if nested else self.nested

    def since(self, first: int) -> list[int]:
        return self.times[bisect_left(self.times, first) :]

    def between(self, first: int, end: int) -> bool:
        """Whether one lies in first <= time < end."""
        return bisect_left(self.times, first) < bisect_left(self.times, end)


class StandIns:
    """The copies of one program, and what happens to memory after the first of them."""

    def __init__(self) -> None:
        self._reads: dict[Root, _Read] = {}
        self._choices: dict[Root, _Choice] = {}
        self._uses: defaultdict[Root, _Times] = defaultdict(_Times)
        self._writes: defaultdict[Root, _Times] = defaultdict(_Times)
        self.now = 0
        """The number of accesses so far."""

    def __bool__(self) -> bool:
        return bool(self._reads or self._choices)

    def access(self, uses: Iterable[Root], writes: Iterable[Root], nested: bool) -> None:
        """One operation, in program order. `nested`: in a branch or in the body of a loop."""
        for root in set(uses):
            self._uses[root].add(self.now, nested)
        for root in set(writes):
            self._writes[root].add(self.now, nested)
        self.now += 1

    def read(self, copy: Handle, base: Handle, key: Any, node: str, source: str) -> None:
        self._reads[copy.root] = _Read(copy.root, base, key, node, source, self.now)

    def chosen(self, copy: Handle, given: Iterable[Root], outside: Iterable[Root], node: str, source: str) -> None:
        """A result of a conditional, whose branches give memories of which some are from outside."""
        sources = set(outside)
        for root in given:
            sources |= self._choices[root].sources if root in self._choices else set()
            sources |= {self._reads[root].base.root} if root in self._reads else set()
        if sources:
            self._choices[copy.root] = _Choice(copy.root, sources, node, source, self.now)

    def assigned(self, base: Handle, key: Any, value: Any, first: int) -> None:
        """`base[key] = value` has been done, by the accesses from number `first` on."""
        read = self._reads.get(value.root) if isinstance(value, Handle) else None
        if read and base.root is read.base.root and base.form is read.base.form and _same(key, read.key):
            read.back = (first, self.now)

    def check(self, results: Sequence[Handle], kept: Iterable[Root]) -> None:
        """Raise UnsupportedError where the program could tell a copy from what eager PyTorch has; memory in `kept` is seen
        when the program has ended."""
        returned = {handle.root for handle in results}
        for read in self._reads.values():
            if reason := self._difference(read, returned):
                raise UnsupportedError(
                    f"a subscript or `narrow` by a 0-d tensor is a view at a place known only at run time, and the program {reason}",
                    location=read.source, node=read.node,
                    hint="clone it where it is read; assign by subscript, as in x[i] = v, where it is written",
                )  # fmt: skip
        seen = returned.union(kept)
        for choice in self._choices.values():
            if any(self._is_told(choice, source, seen) for source in choice.sources):
                raise UnsupportedError(
                    "a branch of a conditional gives memory from outside of it, and the program writes that or the result while "
                    "the other one is in use",
                    location=choice.source, node=choice.node, hint="clone in the branch what it gives",
                )  # fmt: skip

    def _is_told(self, choice: _Choice, source: Root, seen: set[Root]) -> bool:
        first, last = self._writes[source].since(choice.made), self._uses[choice.copy].since(choice.made)
        own, later = self._writes[choice.copy].since(choice.made), self._uses[source].since(choice.made)
        places = (self._uses[source], self._uses[choice.copy])
        return (
            bool(first and (choice.copy in seen or (last and last[-1] > first[0])))
            or bool(own and (source in seen or (later and later[-1] > own[0])))
            or bool((first or own) and all(times.nested >= choice.made for times in places))
        )

    def _difference(self, read: _Read, returned: set[Root]) -> str:
        start, end = read.back or (self.now, self.now)
        uses, own = self._uses[read.copy].since(read.made), self._writes[read.copy].since(read.made)
        last = uses[-1] if uses else -1
        keys = pytree.tree_leaves(read.key if read.back else (), is_leaf=_is_handle)
        base, places = self._writes[read.base.root], [self._writes[key.root] for key in keys if _is_handle(key)]
        moved = base.between(read.made, min(start, last)) or base.between(end, last)
        moved |= any(times.between(read.made, start) for times in places)  # assigned at another place
        seen = own and self._uses[read.base.root].between(own[0] + 1, start)
        if read.copy in returned:
            return "returns it"
        if any(times.nested >= read.made for times in (self._uses[read.copy], base, *places)):
            return "uses it in a branch or a loop"
        if moved or seen or (own and (own[-1] >= start or not read.back)):
            return "writes through it, or writes its memory while it is in use"
        return ""


def _is_handle(value: Any) -> bool:
    return isinstance(value, Handle)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        return all(map(_same, one, other))
    if _is_handle(one) or _is_handle(other):
        return one is other
    return bool(one == other)


__all__ = ["StandIns"]
