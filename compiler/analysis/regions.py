"""Exact relations between strided byte sets: disjoint, equal, contained, overlapping, or not known within a step cap.

A region is the set of bytes that a strided window touches. It is first brought into a normal form (a run of
adjacent bytes, repeated along dimensions that are all longer than the run), where most questions are answered by
intervals, residues and recursion on equal outer strides; the rest is counted run by run, up to a cap.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from dialects.types import Geometry

RUN_CAP = 1 << 14
"""Most runs of one region that are laid out to compare two regions byte by byte."""

ELEMENT_CAP = 1 << 20
"""Most elements that are laid out to compare windows index by index."""


class Relation(Enum):
    """How region `a` relates to region `b`. The empty region is disjoint from everything."""

    DISJOINT = "disjoint"
    EQUAL = "equal"
    CONTAINS = "contains"
    CONTAINED = "contained"
    OVERLAPS = "overlaps"
    MAY = "may"


_MIRRORED = {Relation.CONTAINS: Relation.CONTAINED, Relation.CONTAINED: Relation.CONTAINS}


@dataclass(frozen=True, slots=True)
class Region:
    """Bytes `offset + sum(i_k * strides_k) + [0, element)` for all indices; everything in bytes."""

    offset: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    element: int

    @property
    def empty(self) -> bool:
        return 0 in self.sizes


@dataclass(frozen=True, slots=True)
class _Runs:
    """Normal form: `run` adjacent bytes, repeated along `dims` of (stride, count), ascending, every stride > run."""

    start: int
    run: int
    dims: tuple[tuple[int, int], ...]

    @property
    def length(self) -> int:
        """Bytes from the first to the last, gaps included."""
        return self.run + sum(stride * (count - 1) for stride, count in self.dims)

    @property
    def count(self) -> int:
        return math.prod(count for _, count in self.dims)

    @property
    def nested(self) -> bool:
        """Whether each dimension steps over everything inside it, so that no two runs touch."""
        inside = self.run
        for stride, count in self.dims:
            if stride <= inside:
                return False
            inside += stride * (count - 1)
        return True


def region(window: Geometry, element: int) -> Region | None:
    """The bytes of a window given in elements of `element` bytes, or None when it is not static."""
    if not window.static:
        return None
    return Region(window.offset * element, window.sizes, tuple(s * element for s in window.strides), element)


def extent(a: Region) -> tuple[int, int]:
    """First byte and one past the last byte; an empty region gives (offset, offset)."""
    if a.empty:
        return a.offset, a.offset
    spans = [stride * (size - 1) for size, stride in zip(a.sizes, a.strides, strict=True)]
    return a.offset + sum(min(s, 0) for s in spans), a.offset + sum(max(s, 0) for s in spans) + a.element


def contiguous(a: Region) -> bool:
    """Whether the region is one interval of bytes, in whatever order the window walks it."""
    return not a.empty and not _runs(a).dims


def relation(a: Region, b: Region) -> Relation:
    """How the bytes of `a` relate to the bytes of `b`."""
    if a.empty or b.empty:
        return Relation.DISJOINT
    (first, last), (start, end) = extent(a), extent(b)
    if last <= start or end <= first:
        return Relation.DISJOINT
    base = min(first, start)
    return _relation(_moved(_runs(a), -base), _moved(_runs(b), -base))


def overlaps(a: Region, b: Region) -> bool:
    """Whether the regions may share a byte."""
    return relation(a, b) is not Relation.DISJOINT


def pieces(a: Region) -> int:
    """How many runs of adjacent bytes the region is made of, at most."""
    return 0 if a.empty else _runs(a).count


def intervals(a: Region) -> tuple[np.ndarray, np.ndarray]:
    """Starts and ends of the maximal stretches of bytes, ascending."""
    if a.empty:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return _intervals(_runs(a))


def self_overlaps(a: Region) -> bool | None:
    """Whether two indices of the window touch one byte; None when that is not known within the cap."""
    if a.empty:
        return False
    dims = sorted((abs(stride), size) for size, stride in zip(a.sizes, a.strides, strict=True) if size > 1)
    inside, fits = a.element, True
    for stride, size in dims:
        fits = fits and stride >= inside
        inside += stride * (size - 1)
    if fits:
        return False
    if math.prod(a.sizes) * a.element > inside or dims[0][0] < a.element:
        return True
    if math.prod(a.sizes) > ELEMENT_CAP:
        return None
    starts = np.sort(_positions([(s, n) for n, s in zip(a.sizes, a.strides, strict=True)]))
    return bool(np.any(np.diff(starts) < a.element))


def coincide(a: Geometry, b: Geometry, element: int) -> bool | None:
    """Whether every byte that both windows touch is touched by both at the same index only.

    Then an element-wise operation may write `a` while it reads `b`, in any order. The windows have the same sizes.
    None when it is not known within the cap.
    """
    if a.sizes != b.sizes:
        raise ValueError(f"windows of sizes {a.sizes} and {b.sizes} have no common index")
    first, second = region(a, element), region(b, element)
    if first is None or second is None:
        return None
    if a.numel <= 1:
        return True
    if relation(first, second) is Relation.DISJOINT:
        return True
    steps = [(s, t) for s, t, n in zip(a.strides, b.strides, a.sizes, strict=True) if n > 1]
    if all(s == t for s, t in steps):
        if a.offset == b.offset:
            return None if (folded := self_overlaps(first)) is None else not folded
        return None if relation(first, second) is Relation.MAY else False
    if a.numel > ELEMENT_CAP:
        return None
    left, right = (_positions(list(zip(g.strides, g.sizes, strict=True))) + g.offset for g in (a, b))
    shared = np.intersect1d(left, right)
    ours, theirs = np.isin(left, shared), np.isin(right, shared)
    # Each shared position at one index in either window, and that index the same.
    return bool(np.array_equal(ours, theirs) and ours.sum() == len(shared) and np.array_equal(left[ours], right[ours]))


# -- normal form -------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1 << 14)
def _runs(a: Region) -> _Runs:
    dims: dict[int, int] = {}
    for size, stride in sorted(zip(a.sizes, a.strides, strict=True), key=lambda d: abs(d[1])):
        if size > 1 and stride != 0:
            # Two dimensions of one stride reach as far as one of the summed length.
            dims[abs(stride)] = dims.get(abs(stride), 1) + size - 1
    run, merged = a.element, list[tuple[int, int]]()
    for stride, count in dims.items():
        if stride <= run:  # only while `merged` is empty: strides ascend
            run += stride * (count - 1)
        elif merged and stride % merged[-1][0] == 0 and stride // merged[-1][0] <= merged[-1][1]:
            inner, length = merged[-1]
            merged[-1] = (inner, length + stride // inner * (count - 1))
        else:
            merged.append((stride, count))
    return _Runs(extent(a)[0], run, tuple(merged))


def _moved(a: _Runs, by: int) -> _Runs:
    return _Runs(a.start + by, a.run, a.dims)


def _positions(dims: Sequence[tuple[int, int]]) -> np.ndarray:
    """`sum(i_k * stride_k)` for all indices in row-major order."""
    out = np.zeros(1, np.int64)
    for stride, count in dims:
        out = (out[:, None] + np.arange(count, dtype=np.int64) * stride).reshape(-1)
    return out


# -- relations of normal forms -----------------------------------------------------------------


@functools.lru_cache(maxsize=1 << 14)
def _relation(a: _Runs, b: _Runs) -> Relation:
    if a == b:
        return Relation.EQUAL
    if a.start + a.length <= b.start or b.start + b.length <= a.start:
        return Relation.DISJOINT
    if not a.dims and a.start <= b.start and b.start + b.length <= a.start + a.length:
        return Relation.CONTAINS
    if not b.dims and b.start <= a.start and a.start + a.length <= b.start + b.length:
        return Relation.CONTAINED
    if not a.dims and not b.dims:
        return Relation.OVERLAPS
    if _residues_disjoint(a, b):
        return Relation.DISJOINT
    left, right = _split(a, b), _split(b, a)
    if left.dims and right.dims and left.dims[-1][0] == right.dims[-1][0]:
        answer = _same_outer_stride(left, right)
        if answer is not None:
            return answer
    if not a.dims or not b.dims:
        answer = _interval(a, b) if not a.dims else _mirror(_interval(b, a))
        if answer is not None:
            return answer
    if a.count <= RUN_CAP and b.count <= RUN_CAP:
        return _counted(a, b)
    return Relation.MAY


def _mirror(answer: Relation | None) -> Relation | None:
    return None if answer is None else _MIRRORED.get(answer, answer)


def _residues_disjoint(a: _Runs, b: _Runs) -> bool:
    """Modulo the common divisor of all strides each region is one interval: do those miss each other?"""
    modulus = math.gcd(*(stride for stride, _ in (*a.dims, *b.dims)))
    shift = (b.start - a.start) % modulus
    return a.run <= shift and shift + b.run <= modulus


def _split(a: _Runs, b: _Runs) -> _Runs:
    """`a` with its outer dimension cut into blocks of b's outer stride, where that goes without a rest."""
    if not a.dims or not b.dims:
        return a
    (stride, count), (outer, _) = a.dims[-1], b.dims[-1]
    blocks, rest = divmod(outer, stride)
    if rest or blocks < 2 or count % blocks or count == blocks:
        return a
    return _Runs(a.start, a.run, (*a.dims[:-1], (stride, blocks), (outer, count // blocks)))


def _same_outer_stride(a: _Runs, b: _Runs) -> Relation | None:
    """Both repeat along one stride, and a block fits in it: compare the blocks at their two possible alignments."""
    stride, count, other = a.dims[-1][0], a.dims[-1][1], b.dims[-1][1]
    block, against = _Runs(0, a.run, a.dims[:-1]), _Runs(0, b.run, b.dims[:-1])
    if block.length > stride or against.length > stride:
        return None
    steps, shift = divmod(b.start - a.start, stride)
    met: list[tuple[Relation, int]] = []
    for first, move in ((steps, shift), (steps + 1, shift - stride)):
        # Block j of b lies over block first + j of a, moved by `move`.
        if max(0, first) < min(count, first + other):
            low = min(move, 0)
            answer = _relation(_moved(block, -low), _moved(against, move - low))
            if answer is Relation.MAY:
                return Relation.MAY
            if answer is not Relation.DISJOINT:
                met.append((answer, first))
    if not met:
        return Relation.DISJOINT
    if len(met) == 2:
        return None if block.length == stride or against.length == stride else Relation.OVERLAPS
    answer, first = met[0]
    inside, around = first >= 0 and first + other <= count, first <= 0 and first + other >= count
    if answer is Relation.EQUAL:
        if inside and around:
            return Relation.EQUAL
        return Relation.CONTAINS if inside else Relation.CONTAINED if around else Relation.OVERLAPS
    if answer is Relation.CONTAINS and inside or answer is Relation.CONTAINED and around:
        return answer
    return Relation.OVERLAPS


def _interval(a: _Runs, b: _Runs) -> Relation | None:
    """`a` is an interval that does not hold all of `b`; `b` is nested, so at each level at most two blocks stick out."""
    if not b.nested:
        return None
    low, high, start, dims = a.start, a.start + a.length, b.start, list(b.dims)
    pending = [(start, len(dims))]
    while pending:
        start, depth = pending.pop()
        if depth == 0:
            if start < high and low < start + b.run:
                return Relation.CONTAINED if start <= low and high <= start + b.run else Relation.OVERLAPS
            continue
        stride, count = dims[depth - 1]
        inside = b.run + sum(s * (n - 1) for s, n in dims[: depth - 1])
        first = max(0, -((start + inside - 1 - low) // stride)) if start + inside <= low else 0
        last = min(count - 1, (high - 1 - start) // stride)
        if last - first >= 2:
            return Relation.OVERLAPS  # the blocks between the outer two lie in the interval
        pending += [(start + i * stride, depth - 1) for i in range(first, last + 1)]
    return Relation.DISJOINT


def _counted(a: _Runs, b: _Runs) -> Relation:
    """Lay both out as maximal intervals and count the bytes they share."""
    (starts, ends), (others, stops) = _intervals(a), _intervals(b)
    lengths = stops - others
    before = np.concatenate(([0], np.cumsum(lengths)))

    def covered(points: np.ndarray) -> np.ndarray:
        """Bytes of b below each point."""
        index = np.searchsorted(others, points, side="right") - 1
        inside = np.minimum(points - others[index], lengths[index])
        return np.where(index < 0, 0, before[index] + inside)

    shared = int((covered(ends) - covered(starts)).sum())
    ours, theirs = int((ends - starts).sum()), int(lengths.sum())
    if shared == 0:
        return Relation.DISJOINT
    if shared == ours and shared == theirs:
        return Relation.EQUAL
    return Relation.CONTAINS if shared == theirs else Relation.CONTAINED if shared == ours else Relation.OVERLAPS


def _intervals(a: _Runs) -> tuple[np.ndarray, np.ndarray]:
    """Starts and ends of the maximal intervals, ascending."""
    starts = np.unique(_positions(a.dims)) + a.start
    breaks = np.concatenate(([True], starts[1:] - starts[:-1] > a.run))
    last = np.concatenate((breaks[1:], [True]))
    return starts[breaks], starts[last] + a.run
