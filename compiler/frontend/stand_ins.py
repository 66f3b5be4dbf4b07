"""Copies that stand for views at places known only at run time (`x[i]` with i a 0-d tensor): none can be told from the view.

Eager PyTorch gives a view at the number that the index holds; a graph node that reads so is imported as a gather. That is
the same as long as nobody writes either memory while the copy is in use, and the copy is not returned. `x[i] += v`, which
writes the copy and then assigns it back, is allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

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


class _Access(NamedTuple):
    uses: frozenset[Root]
    writes: frozenset[Root]
    nested: bool


class StandIns:
    """The copies of one program, and what happens to memory after the first of them."""

    def __init__(self) -> None:
        self._reads: list[_Read] = []
        self._log: list[_Access] = []

    def __bool__(self) -> bool:
        return bool(self._reads)

    def access(self, uses: Iterable[Root], writes: Iterable[Root], nested: bool) -> None:
        """One operation, in program order. `nested`: in a branch or in the body of a loop."""
        self._log.append(_Access(frozenset(uses), frozenset(writes), nested))

    def read(self, copy: Handle, base: Handle, key: Any, node: str, source: str) -> None:
        self._reads.append(_Read(copy.root, base, key, node, source, len(self._log)))

    def assigned(self, base: Handle, key: Any, value: Any, first: int) -> None:
        """`base[key] = value` has been done, by the accesses from number `first` on."""
        for read in reversed(self._reads):
            if isinstance(value, Handle) and value.root is read.copy:
                if base.root is read.base.root and base.form is read.base.form and _same(key, read.key):
                    read.back = (first, len(self._log))
                return

    @property
    def now(self) -> int:
        return len(self._log)

    def check(self, results: Sequence[Handle]) -> None:
        """Raise UnsupportedError where the program could tell a copy from the view that eager PyTorch has."""
        returned = {handle.root for handle in results}
        for read in self._reads:
            if reason := self._difference(read, returned):
                raise UnsupportedError(
                    f"a subscript or `narrow` by a 0-d tensor is a view at a place known only at run time, and the program {reason}",
                    location=read.source, node=read.node,
                    hint="clone it where it is read; assign by subscript, as in x[i] = v, where it is written",
                )  # fmt: skip

    def _difference(self, read: _Read, returned: set[Root]) -> str:
        later = list(enumerate(self._log))[read.made :]
        start, end = read.back or (len(self._log), len(self._log))
        last = max((n for n, access in later if read.copy in access.uses), default=-1)
        sources = {read.base.root, *(h.root for h in pytree.tree_leaves(read.key, is_leaf=_is_handle) if _is_handle(h))}
        own = [n for n, access in later if read.copy in access.writes]
        moved = any(access.writes & sources and n < last and not start <= n < end for n, access in later)
        seen = own and any(read.base.root in access.uses and min(own) < n < start for n, access in later)
        if read.copy in returned:
            return "returns it"
        if any(access.nested and (read.copy in access.uses or access.writes & sources) for _, access in later):
            return "uses it in a branch or a loop"
        if moved or seen or any(n >= start for n in own) or (own and not read.back):
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
