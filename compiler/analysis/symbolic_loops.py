"""What a loop does to memory, as a name: the same for a loop over handles and for the loop over values it became.

A loop is an unknown function of its first state and of what one turn makes of any state. A state is a byte of a carried value
or of a captured memory that a turn changes; at the start of a turn it is a symbol that says which one it is. On values
the memories are carried too, and nobody says whose memory a value is: it is one that held the same before the loop.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from compiler.analysis.symbolic_bytes import Bytes, stretch
from compiler.analysis.symbols import Symbols

_PADDING = 16
"""Most bytes by which a parameter is more than the memory it holds: less than the largest element."""

MOST_ORDERS = 64
"""Ways to pair equal memories of a loop that are tried."""

Key = tuple[Any, ...]
Starts = Mapping[int, Collection[int]]
"""Bytes of each root at which a parameter begins."""


class LoopMemory(NamedTuple):
    """A root that the regions of a loop capture, and its symbols before the loop."""

    root: int
    before: Bytes


@dataclass(frozen=True)
class Loop:
    """A loop as handles have run it: first carried values by name, and the memories it captures, in order."""

    depth: int
    carried: tuple[Any, ...]
    memories: tuple[LoopMemory, ...]


class Piece(NamedTuple):
    """A stretch of a loop's memory `number`, which has `size` bytes, from byte `first` on: before the loop, at the start
    of a turn, and at its end. What is more than the memory has is padding."""

    number: int
    first: int
    size: int
    before: Bytes
    begin: Bytes
    end: Bytes

    def changed(self) -> list[tuple[int, int]]:
        last = self.size - self.first
        return [(a, min(z, last)) for a, z in self.begin.differences(self.end) if a < last]


class Turns:
    """Loops are named alike on both sides: what a turn starts with by depth and place, the loop by what a turn does."""

    def __init__(self, symbols: Symbols):
        self.symbols, self.depth = symbols, 0
        self.loops: dict[Key, list[Loop]] = {}

    def carried(self, number: int, size: int) -> Bytes:
        """Any value of a carried one."""
        return Bytes.consecutive(self.symbols.block(("turn", self.depth, "carried", number, size), size), size)

    def memory(self, number: int, size: int, first: int, count: int) -> Bytes:
        """Any contents of a stretch of a memory with `size` bytes."""
        begin = self.symbols.block(("turn", self.depth, "memory", number, size), size + _PADDING)
        return Bytes.consecutive(begin + first, count)

    def key(self, goes_on: Bytes, before: Sequence[Bytes], after: Sequence[Bytes], pieces: Sequence[Piece]) -> Key:
        """The name of a loop: all that it depends on."""
        changes = sorted(
            (p.number, p.first + a, p.first + z, p.before.window(stretch(a, z - a)).name,
             p.end.window(stretch(a, z - a)).name)
            for p in pieces
            for a, z in p.changed()
        )  # fmt: skip
        names = tuple(b.name for b in before), tuple(b.name for b in after)
        return "loop", self.depth, goes_on.name, *names, tuple(changes)

    def result(self, key: Key, number: int, size: int) -> Bytes:
        return Bytes.consecutive(self.symbols.block((key, "carried", number), size), size)

    def afterwards(self, key: Key, piece: Piece) -> Bytes:
        """A stretch of memory after the loop."""
        begin = self.symbols.block((key, "memory", piece.number), piece.size + _PADDING)
        return piece.before.mixed(piece.changed(), Bytes.consecutive(begin + piece.first, piece.before.size))

    def pairings(self, carried: Sequence[Bytes], starts: Starts) -> Iterator[tuple[int, list[tuple[int, int]], Loop]]:
        """Which loop of the program this can be: how many values it carries, and whose memory the others are, from
        which byte on."""
        names = tuple(v.name for v in carried)
        for own in range(len(names), -1, -1):
            for loop in self.loops.get((self.depth, names[:own]), ()):
                for places in _places(carried[own:], loop.memories, starts, ()):
                    yield own, places, loop


def _places(
    values: Sequence[Bytes], memories: Sequence[LoopMemory], starts: Starts, taken: tuple[tuple[int, int], ...]
) -> Iterator[list[tuple[int, int]]]:
    """Memories, by number, and first bytes in them that hold the values, in order; each place at most once."""
    if not values:
        yield list(taken)
        return
    for number, memory in enumerate(memories):
        for first in sorted({0, *starts.get(memory.root, ())}):
            if (number, first) not in taken and _holds(memory.before, first, values[0]):
                yield from _places(values[1:], memories, starts, (*taken, (number, first)))


def _holds(memory: Bytes, first: int, value: Bytes) -> bool:
    known = min(value.size, memory.size - first)
    if known < 0 or value.size - known >= _PADDING:
        return False
    return memory.window(stretch(first, known)) == value.window(stretch(0, known))


__all__ = ["Loop", "LoopMemory", "MOST_ORDERS", "Piece", "Starts", "Turns"]
