"""Names for bytes that nobody knows: equal questions have equal answers, and different ones different answers.

A symbol is a number. An operator is an unknown function, so each byte of its results is named after the operator and the
symbols of its operands; which of two values a condition chooses is named after all three.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from compiler.analysis.symbolic_bytes import Bytes, common_runs, from_runs

CONJ, NEG = 1 << 61, 1 << 62
"""Flags of a symbol: lazy bits come and go in pairs."""

_NUMBER = CONJ - 1


class Symbols:
    """Blocks of symbols by what they stand for.

    Attributes:
        uniform: the origins of which all elements are equal.
    """

    def __init__(self, uniform: frozenset[Any] = frozenset()):
        self.uniform = set(uniform)
        self._named: dict[Any, int] = {}
        self._firsts: list[int] = []
        self._sizes: list[int] = []
        self._next = 1

    def fresh(self, count: int) -> Bytes:
        """Bytes that are like no others."""
        return Bytes.consecutive(self._block(count), count)

    def block(self, key: Any, count: int) -> int:
        """The first of `count` consecutive symbols with this origin; those of two origins never follow each other."""
        first = self._named.get(key)
        if first is None:
            first = self._named[key] = self._block(count)
        return first

    def knows(self, key: Any) -> bool:
        return key in self._named

    def of(self, key: Any, elements: int, width: int) -> Bytes:
        """The bytes of a value with this origin, in row-major order."""
        first = self.block(key, elements * width)
        if key in self.uniform:
            return Bytes.repeated(first, width, elements)
        return Bytes.consecutive(first, elements * width)

    def choice(self, condition: Any, one: Bytes, two: Bytes) -> Bytes:
        """Byte by byte `one` where the condition holds and `two` where not; where they are the same, that."""
        if one == two:
            return one
        starts, _, first, second = common_runs(one, two)
        chosen = [
            a if a == b else self._pair(condition, a, b) for a, b in zip(first.tolist(), second.tolist(), strict=True)
        ]
        return from_runs(starts.tolist(), chosen, one.size)

    def _pair(self, condition: Any, one: int, two: int) -> int:
        """One symbol for each pair: of the bytes of a block, each paired with the byte at one distance."""
        number = one & _NUMBER
        flags = one - number
        block = bisect_right(self._firsts, number) - 1
        key = ("choice", condition, block, (two ^ flags) - number)
        return self.block(key, self._sizes[block]) + number - self._firsts[block] ^ flags

    def _block(self, count: int) -> int:
        first, self._next = self._next, self._next + count + 1
        self._firsts.append(first)
        self._sizes.append(count)
        return first


__all__ = ["CONJ", "NEG", "Symbols"]
