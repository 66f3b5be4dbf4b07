"""What memory and values are made of: one symbol for each byte, kept as runs of consecutive symbols.

Equal sequences of symbols have equal forms, so that they are compared, and named, without being written out. A form is
either one regular pattern (a strided window on consecutive symbols, however large) or the list of the longest runs. The
cost of every operation follows the number of runs, not the number of bytes.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]

MOST_RUNS = 1 << 22
"""More runs than this are not followed: it takes memory written element by element in millions of places."""

_FLAG = 1 << 61
"""The lowest bit of a symbol that is no number but says what is applied to the byte; see `flagged`."""


class TooManyRuns(Exception):
    """Memory is in more pieces than are followed."""


class Steps(NamedTuple):
    """A strided window on bytes: the first byte, counts and strides of its dimensions, and the bytes of an element."""

    first: int
    counts: tuple[int, ...]
    strides: tuple[int, ...]
    width: int

    @property
    def bytes(self) -> int:
        return math.prod(self.counts) * self.width

    @property
    def end(self) -> int:
        """One past the last byte; 0 for an empty window, wherever it is."""
        if 0 in self.counts:
            return 0
        return self.first + sum((n - 1) * s for n, s in zip(self.counts, self.strides, strict=True)) + self.width

    def meets_twice(self) -> bool:
        """Whether a byte belongs to two elements."""
        if 0 in self.counts:
            return False
        reach, nested = self.width, True
        dims = [(n, s) for n, s in zip(self.counts, self.strides, strict=True) if n > 1]
        for count, stride in sorted(dims, key=lambda d: d[1]):
            nested &= stride >= reach
            reach += (count - 1) * stride
        if nested:
            return False
        if any(stride < self.width for _, stride in dims):
            return True
        places = np.sort(_places(self.first, dims))
        return bool((np.diff(places) < self.width).any())


def stretch(first: int, count: int) -> Steps:
    """The window of `count` bytes side by side."""
    return Steps(first, (), (), count)


class _Runs(NamedTuple):
    """Where runs start, in ascending order from 0, and their first symbols."""

    starts: Numbers
    symbols: Numbers


_Dims = tuple[tuple[int, int], ...]


class Bytes:
    """A sequence of symbols. Immutable; two are equal when every symbol is.

    A pattern is `dims`, pairs (count, step) from the outermost inwards, of runs of `run` consecutive symbols, the first of
    which starts with `symbol`. What is no pattern has `runs`.
    """

    __slots__ = ("_runs", "dims", "run", "size", "symbol")

    def __init__(self, size: int, symbol: int, dims: _Dims, run: int, runs: _Runs | None = None):
        self.size, self.symbol, self.dims, self.run, self._runs = size, symbol, dims, run, runs

    # -- making -------------------------------------------------------------------------------

    @staticmethod
    def consecutive(symbol: int, size: int) -> Bytes:
        return Bytes(size, symbol if size else 0, (), size)

    @staticmethod
    def repeated(symbol: int, width: int, count: int) -> Bytes:
        """The same symbols for each of `count` elements."""
        return _pattern(symbol, ((count, 0),), width)

    # -- comparing ----------------------------------------------------------------------------

    @property
    def name(self) -> Any:
        """A key that equal sequences, and no others, have."""
        if self._runs is None:
            return self.size, self.symbol, self.dims, self.run
        both = hashlib.blake2b(self._runs.starts.tobytes(), digest_size=20)
        both.update(self._runs.symbols.tobytes())
        return self.size, both.digest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Bytes) or self.size != other.size or (self._runs is None) != (other._runs is None):
            return False
        if self._runs is None or other._runs is None:
            return (self.symbol, self.dims, self.run) == (other.symbol, other.dims, other.run)
        return np.array_equal(self._runs.starts, other._runs.starts) and np.array_equal(
            self._runs.symbols, other._runs.symbols
        )

    __hash__ = None  # type: ignore[assignment]

    def differences(self, other: Bytes) -> list[tuple[int, int]]:
        """The stretches (first byte, one past the last) in which two sequences of one size have other symbols."""
        if self == other:
            return []
        starts, lengths, one, two = common_runs(self, other)
        wrong = one != two
        return merged(zip(starts[wrong].tolist(), (starts + lengths)[wrong].tolist(), strict=True))

    # -- taking and putting -------------------------------------------------------------------

    def window(self, window: Steps) -> Bytes:
        """The bytes of a window, element by element in row-major order."""
        if not window.bytes:
            return EMPTY
        _require_inside(window, self.size)
        dims = _normal([*zip(window.counts, window.strides, strict=True), (window.width, 1)])
        if self._runs is None:
            found = self._through_pattern(window.first, dims)
            if found is not None:
                return found
        else:
            number = int(np.searchsorted(self._runs.starts, window.first, "right")) - 1
            ends = self._runs.starts[number + 1] if number + 1 < len(self._runs.starts) else self.size
            if window.end <= ends:
                symbol = int(self._runs.symbols[number]) + window.first - int(self._runs.starts[number])
                return _pattern(symbol, dims[:-1], dims[-1][0]) if dims[-1][1] == 1 else _pattern(symbol, dims, 1)
        length = dims[-1][0] if dims[-1][1] == 1 else 1
        rows = _places(window.first, dims[:-1] if dims[-1][1] == 1 else dims)
        row, within, lengths, symbols = _cut(self.runs(), self.size, rows, np.full(len(rows), length))
        return _from_runs(row * length + within, symbols, window.bytes)

    def replaced(self, window: Steps, value: Bytes) -> Bytes:
        """The sequence with the elements of a window replaced. Of elements in one place the first one stays."""
        if not window.bytes:
            return self
        _require_inside(window, self.size)
        if window.bytes == self.size == window.end - window.first and not window.meets_twice():
            return value.window(_inverse(window))
        dims = _normal([*zip(window.counts, window.strides, strict=True), (window.width, 1)])
        length = dims[-1][0] if dims[-1][1] == 1 else 1
        if twice := window.meets_twice():
            length, dims = window.width, (*_normal(list(zip(window.counts, window.strides, strict=True))), (1, 1))
        rows = _places(window.first, dims[:-1] if dims[-1][1] == 1 else dims)
        sources = np.arange(len(rows), dtype=np.int64) * length
        if twice:
            rows, chosen = np.unique(rows, return_index=True)
            sources = sources[chosen]
        row, within, lengths, symbols = _cut(value.runs(), value.size, sources, np.full(len(rows), length))
        places = rows[row] + within
        order = np.argsort(places, kind="stable")
        places, lengths, symbols = places[order], lengths[order], symbols[order]
        # What lies between the pieces stays.
        ends = np.concatenate(([0], places + lengths))
        gaps = np.concatenate((places, [self.size])) - ends
        kept = gaps > 0
        ends, gaps = ends[kept], gaps[kept]
        row, within, _, old = _cut(self.runs(), self.size, ends, gaps)
        starts = np.concatenate((places, ends[row] + within))
        order = np.argsort(starts, kind="stable")
        return _from_runs(starts[order], np.concatenate((symbols, old))[order], self.size)

    def mixed(self, places: Sequence[tuple[int, int]], other: Bytes) -> Bytes:
        """The symbols of `other`, of the same size, at places (first byte, one past the last) in order."""
        if not places:
            return self
        edges = np.array(places, dtype=np.int64)
        begins = np.concatenate(([0], edges[:, 1]))
        lengths = np.concatenate((edges[:, 0], [self.size])) - begins
        begins, lengths = begins[lengths > 0], lengths[lengths > 0]
        row, within, _, new = _cut(other.runs(), self.size, edges[:, 0], edges[:, 1] - edges[:, 0])
        kept, beside, _, old = _cut(self.runs(), self.size, begins, lengths)
        starts = np.concatenate((edges[row, 0] + within, begins[kept] + beside))
        order = np.argsort(starts, kind="stable")
        return _from_runs(starts[order], np.concatenate((new, old))[order], self.size)

    def flagged(self, flag: int) -> Bytes:
        """With bits of the symbols above all numbers turned over."""
        if not flag or not self.size:
            return self
        if self._runs is None and all(abs(step) < _FLAG >> 1 for _, step in self.dims):
            return Bytes(self.size, self.symbol ^ flag, self.dims, self.run)
        starts, symbols = self.runs()
        return _from_runs(starts, symbols ^ flag, self.size)

    def runs(self) -> _Runs:
        """Written out as the longest runs, or, of a pattern, as its runs."""
        if self._runs is not None:
            return self._runs
        return _Runs(
            np.arange(self.size // self.run, dtype=np.int64) * self.run if self.size else np.zeros(0, dtype=np.int64),
            _places(self.symbol, self.dims) if self.size else np.zeros(0, dtype=np.int64),
        )

    def _through_pattern(self, first: int, dims: _Dims) -> Bytes | None:
        """The window as a pattern, where its dimensions go along those of this one without a carry."""
        axes = [*self.dims, (self.run, 1)]
        sizes = [1]  # bytes of one step along each axis, the innermost first
        for count, _ in reversed(axes):
            sizes.append(sizes[-1] * count)
        radix = sizes[-2::-1]
        reach, symbol, rest = [0] * len(axes), self.symbol, first
        for axis, size in enumerate(radix):
            reach[axis], rest = divmod(rest, size)
            symbol += reach[axis] * axes[axis][1]
        found: list[tuple[int, int]] = []
        waiting = list(reversed(dims))
        while waiting:
            count, stride = waiting.pop()
            if stride == 0 or count == 1:
                found.append((count, 0))
                continue
            axis = next(k for k, size in enumerate(radix) if stride % size == 0)
            step, limit = stride // radix[axis], axes[axis][0]
            if reach[axis] + (count - 1) * step >= limit and axis > 0:
                turn = radix[axis - 1] // stride  # steps until the axis outside moves by one
                if turn * stride != radix[axis - 1] or count % turn or count == turn:
                    return None
                waiting += [(turn, stride), (count // turn, radix[axis - 1])]
                continue
            reach[axis] += (count - 1) * step
            found.append((count, step * axes[axis][1]))
        if any(r >= count for r, (count, _) in zip(reach, axes, strict=True)):
            return None
        return _pattern(symbol, tuple(found), 1)

    def __repr__(self) -> str:
        return f"Bytes({self.name})"


EMPTY = Bytes(0, 0, (), 0)


def common_runs(one: Bytes, two: Bytes) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Two sequences of one size in runs of both: where each starts, its length, and the first symbols of either."""
    first, second = one.runs(), two.runs()
    starts: Numbers = np.union1d(first.starts, second.starts)
    ends = np.append(starts[1:], one.size)
    return starts, ends - starts, _symbols_at(first, starts), _symbols_at(second, starts)


def from_runs(starts: Sequence[int], symbols: Sequence[int], size: int) -> Bytes:
    """A sequence of runs that begin at `starts`, the first at 0."""
    return _from_runs(np.array(starts, dtype=np.int64), np.array(symbols, dtype=np.int64), size)


def merged(stretches: Any) -> list[tuple[int, int]]:
    """Stretches in order, those that touch made one."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(stretches):
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return found


# -- forms ---------------------------------------------------------------------------------------


def _normal(dims: Sequence[tuple[int, int]]) -> _Dims:
    """No dimension of one element, and none that goes on where the next one ends."""
    found: list[tuple[int, int]] = []
    for count, step in dims:
        if count == 1:
            continue
        if found and found[-1][1] == count * step:
            found[-1] = found[-1][0] * count, step
        else:
            found.append((count, step))
    return tuple(found) or ((1, 1),)


def _pattern(symbol: int, dims: _Dims, run: int) -> Bytes:
    """The form of a pattern: of those that give one sequence always the same one."""
    size = math.prod(n for n, _ in dims) * run
    if not size:
        return EMPTY
    normal = _normal([*dims, (run, 1)])
    if normal[-1][1] == 1:
        normal, run = normal[:-1], normal[-1][0]
    else:
        run = 1
    inside = run
    for count, step in reversed(normal):
        if step == inside:
            # The last run of one row and the first of the next are one.
            starts = np.arange(size // run, dtype=np.int64) * run
            return _from_runs(starts, _places(symbol, normal), size)
        inside += (count - 1) * step
    return Bytes(size, symbol, normal, run)


def _from_runs(starts: Numbers, symbols: Numbers, size: int) -> Bytes:
    if not size:
        return EMPTY
    lengths = np.diff(starts, append=size)
    goes_on = symbols[1:] == symbols[:-1] + lengths[:-1]
    if goes_on.any():
        kept = np.concatenate(([True], ~goes_on))
        starts, symbols = starts[kept], symbols[kept]
        lengths = np.diff(starts, append=size)
    run = int(lengths[0])
    if (lengths == run).all():
        dims = _regular(symbols)
        if dims is not None:
            return Bytes(size, int(symbols[0]), dims, run)
    return Bytes(size, 0, (), 0, _Runs(starts, symbols))


def _regular(symbols: Numbers) -> _Dims | None:
    """Counts and steps of symbols that are those of a pattern."""
    dims: list[tuple[int, int]] = []
    while len(symbols) > 1:
        step = int(symbols[1] - symbols[0])
        other = np.flatnonzero(np.diff(symbols) != step)
        count = int(other[0]) + 1 if other.size else len(symbols)
        if len(symbols) % count:
            return None
        rows = symbols.reshape(-1, count)
        if not (rows == rows[:, :1] + np.arange(count) * step).all():
            return None
        dims.append((count, step))
        symbols = rows[:, 0]
    return tuple(reversed(dims))


def _places(first: int, dims: Sequence[tuple[int, int]]) -> Numbers:
    """Where the elements of dimensions (count, step) are, in row-major order."""
    if math.prod(n for n, _ in dims) > MOST_RUNS:
        raise TooManyRuns
    places = np.array([first], dtype=np.int64)
    for count, step in dims:
        places = (places[:, None] + np.arange(count, dtype=np.int64) * step).reshape(-1)
    return places


def _cut(runs: _Runs, size: int, firsts: Numbers, lengths: Numbers) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Stretches of a sequence in pieces of its runs: number of the stretch, place in it, length, first symbol."""
    if not len(firsts):
        none = np.zeros(0, dtype=np.int64)
        return none, none, none, none
    if len(runs.starts) == 1:
        row = np.arange(len(firsts), dtype=np.int64)
        return row, np.zeros(len(firsts), dtype=np.int64), lengths, firsts + runs.symbols[0]
    low = np.searchsorted(runs.starts, firsts, "right") - 1
    counts = np.searchsorted(runs.starts, firsts + lengths, "left") - low
    total = int(counts.sum())
    if total > MOST_RUNS:
        raise TooManyRuns
    row = np.repeat(np.arange(len(firsts), dtype=np.int64), counts)
    number = low[row] + np.arange(total, dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    ends = np.append(runs.starts[1:], size)[number]
    starts = np.maximum(runs.starts[number], firsts[row])
    ends = np.minimum(ends, (firsts + lengths)[row])
    return row, starts - firsts[row], ends - starts, runs.symbols[number] + starts - runs.starts[number]


def _symbols_at(runs: _Runs, places: Numbers) -> Numbers:
    number = np.searchsorted(runs.starts, places, "right") - 1
    return runs.symbols[number] + places - runs.starts[number]


def _inverse(window: Steps) -> Steps:
    """For a window that is all of a memory: the window on its elements that gives the memory."""
    rows = [window.width]
    for count in reversed(window.counts):
        rows.append(rows[-1] * count)
    steps = list(zip(window.counts, window.strides, rows[-2::-1], strict=True))
    outwards = sorted((s for s in steps if s[0] > 1), key=lambda s: -s[1])
    return Steps(0, tuple(s[0] for s in outwards), tuple(s[2] for s in outwards), window.width)


def _require_inside(window: Steps, size: int) -> None:
    if window.first < 0 or min(window.strides, default=0) < 0 or window.end > size:
        raise IndexError(f"a window reaches byte {window.end} of memory with {size}")


__all__ = [
    "EMPTY", "MOST_RUNS", "Bytes", "Steps", "TooManyRuns", "common_runs", "from_runs", "merged", "stretch",
]  # fmt: skip
