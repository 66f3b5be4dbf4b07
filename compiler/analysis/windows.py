"""A strided window on a row-major value, as a box: reshape, strided slice, transpose, broadcast, reshape.

    shape 4x6, window [4, 3] strides [6, 2] offset 1   ->   dims (4, 6), starts (0, 1), counts (4, 3), steps (1, 2)
    shape 16,  window [4] strides [5] (a diagonal)     ->   dims (16,),  starts (0,),   counts (4,),   steps (5,)

The search cuts the flat extent at *pitches* (element distances, each a multiple of the next): those of the
value's own dimensions first, then those of the window. Nothing here knows an IR.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from dialects.types import Geometry, row_major

BROADCAST = -1
"""Axis of a piece that repeats one element (stride 0)."""


class Piece(NamedTuple):
    """A run of `size` elements along one axis of the box."""

    axis: int
    size: int


@dataclass(frozen=True)
class Box:
    """How to read a window of a flat extent.

    Elements [shift, shift + prod(dims)) of the value, in row-major order, have shape `dims`; when that reaches
    past the end, the missing ones are padding that the box does not meet. The box takes, along axis d,
    `counts[d]` elements from `starts[d]` in steps of `steps[d]`. Dimension i of the window is the row-major
    merge of `pieces[i]` (none for size one); axes that no piece names have count one.
    """

    shift: int
    dims: tuple[int, ...]
    starts: tuple[int, ...]
    counts: tuple[int, ...]
    steps: tuple[int, ...]
    pieces: tuple[tuple[Piece, ...], ...]

    @property
    def extent(self) -> int:
        return math.prod(self.dims)

    @property
    def repeats(self) -> bool:
        """Whether some element is met several times (stride 0)."""
        return any(piece.axis == BROADCAST for run in self.pieces for piece in run)

    @property
    def unit(self) -> bool:
        """Whether the box is a plain block: every step is one."""
        return all(step == 1 for step, count in zip(self.steps, self.counts, strict=True) if count > 1)


@functools.lru_cache(maxsize=1 << 14)
def find_box(
    shape: tuple[int, ...], window: Geometry, *, unit: bool = False, own: bool = False, exact: bool = False
) -> Box | None:
    """The box of a window with at least one element, or None.

    Args:
        unit: only a box with unit steps.
        own: only a box over the value's own dimensions, so that no reshape is needed.
        exact: only a box over the whole extent (no shift, no remainder, no padding).
    """
    numel = math.prod(shape)
    if window.numel == 0 or numel == 0:
        return None
    stretches = [(0, numel)] if exact else [(0, numel), (window.offset, numel - window.offset)]
    found: Box | None = None
    for shift, length in dict.fromkeys(stretches):
        for pitches in _pitches(shape, window):
            if exact and length % pitches[0]:
                continue
            box = _fit(shift, length, pitches, window, shape)
            if box is None or (unit and not box.unit) or (own and (shift or box.dims != shape)):
                continue
            if shift + box.extent <= numel:
                return box
            found = found or box  # needs padding: take it when nothing else fits
    return found


def covers_all(shape: tuple[int, ...], window: Geometry) -> bool:
    """Whether the window meets every element of the value exactly once."""
    numel = math.prod(shape)
    if window.numel != numel:
        return False
    if numel == 0:
        return True
    return window.offset == 0 and _tight(window)


def coalesced(window: Geometry) -> Geometry:
    """The same elements in the same order with as few dimensions as possible.

    >>> coalesced(Geometry((2, 3, 4), (24, 4, 1), 5))
    Geometry(sizes=(2, 12), strides=(24, 1), offset=5)
    """
    runs: list[tuple[int, int]] = []
    for size, stride in zip(window.sizes, window.strides, strict=True):
        if size == 1:
            continue
        if runs and runs[-1][1] == size * stride:
            runs[-1] = (runs[-1][0] * size, stride)
        else:
            runs.append((size, stride))
    return Geometry(tuple(size for size, _ in runs), tuple(stride for _, stride in runs), window.offset)


def permutation(window: Geometry) -> tuple[int, ...]:
    """Window dimensions from the outermost in memory inwards (stable; size-one dimensions keep their place last)."""
    return tuple(sorted(range(len(window.sizes)), key=lambda i: (window.sizes[i] == 1, -window.strides[i])))


def is_identity(shape: tuple[int, ...], window: Geometry) -> bool:
    """Whether the window is the value itself, reshaped."""
    if window.offset or window.numel != math.prod(shape):
        return False
    natural = row_major(window.sizes)
    return all(
        size <= 1 or have == want for size, have, want in zip(window.sizes, window.strides, natural, strict=True)
    )


def overlaps_itself(window: Geometry) -> bool:
    """Whether the window meets some element twice. Exact up to a cap on the search, then True."""
    if window.numel <= 1:
        return False
    dims = sorted((stride, size) for size, stride in zip(window.sizes, window.strides, strict=True) if size > 1)
    reach = 0
    nested = True
    for stride, size in dims:
        if stride == 0:
            return True
        nested = nested and stride > reach
        reach += stride * (size - 1)
    if nested:
        return False
    if window.numel > reach + 1:
        return True
    if window.numel > 1 << 16:
        return True
    seen = {0}
    for stride, size in dims:
        moved = {place + stride * i for place in seen for i in range(size)}
        if len(moved) < len(seen) * size:
            return True
        seen = moved
    return False


def _tight(window: Geometry) -> bool:
    """Whether the window's elements, in memory order, follow each other without gap or repetition."""
    step = 1
    for stride, size in sorted((s, n) for n, s in zip(window.sizes, window.strides, strict=True) if n > 1):
        if stride != step:
            return False
        step *= size
    return True


# -- the search --------------------------------------------------------------------------------


def _pitches(shape: tuple[int, ...], window: Geometry) -> Iterator[tuple[int, ...]]:
    """Candidate ways to cut the extent, each a descending chain of divisors that ends in 1."""
    base = {pitch for pitch, size in zip(row_major(shape), shape, strict=True) if size > 1} | {1}
    spans = [(s, s * n) for n, s in zip(window.sizes, window.strides, strict=True) if n > 1 and s > 0]
    strides = {low for low, _ in spans}
    outside = {pitch for pitch in base if not any(low < pitch < high for low, high in spans)}
    candidates: list[set[int]] = [base, base | strides, outside | strides | {1}]
    candidates += [strides | {high for _, high in spans} | {1}, strides | {1}]
    ordered = sorted(strides, reverse=True)[:6]
    for count in range(len(ordered) - 1, -1, -1):
        candidates += [set(chosen) | {1} for chosen in itertools.combinations(ordered, count)]
    seen: set[tuple[int, ...]] = set()
    for candidate in candidates:
        chain = tuple(sorted(candidate, reverse=True))
        if chain not in seen and all(big % small == 0 for big, small in zip(chain, chain[1:], strict=False)):
            seen.add(chain)
            yield chain


def _fit(shift: int, length: int, pitches: tuple[int, ...], window: Geometry, shape: tuple[int, ...]) -> Box | None:
    """The box of the window over `length` elements from `shift`, cut at `pitches`, if it is one."""
    offset = window.offset - shift
    last = offset + sum((n - 1) * s for n, s in zip(window.sizes, window.strides, strict=True))
    outer = length // pitches[0]
    if last >= outer * pitches[0]:
        outer += 1
    dims = [outer] + [big // small for big, small in zip(pitches, pitches[1:], strict=False)]
    starts: list[int] = []
    rest = offset
    for pitch in pitches:
        starts.append(rest // pitch)
        rest %= pitch
    counts, steps = [1] * len(dims), [1] * len(dims)
    pieces: list[tuple[Piece, ...]] = []
    for size, stride in zip(window.sizes, window.strides, strict=True):
        if size == 1:
            pieces.append(())
        elif stride == 0:
            pieces.append((Piece(BROADCAST, size),))
        else:
            run = _place(size, stride, pitches, dims, starts, counts, steps)
            if run is None:
                return None
            pieces.append(run)
    box = Box(shift, tuple(dims), tuple(starts), tuple(counts), tuple(steps), tuple(pieces))
    return _in_shape(box, shape) if shift == 0 and math.prod(shape) == box.extent else box


def _place(
    size: int,
    stride: int,
    pitches: tuple[int, ...],
    dims: list[int],
    starts: list[int],
    counts: list[int],
    steps: list[int],
) -> tuple[Piece, ...] | None:
    """Lay `size` elements with `stride` on the free axes; several axes when they carry over exactly."""
    pieces: list[Piece] = []
    while True:
        axis = next(i for i, pitch in enumerate(pitches) if pitch <= stride)
        if stride % pitches[axis] or counts[axis] > 1:
            return None
        step = stride // pitches[axis]
        if starts[axis] + (size - 1) * step < dims[axis]:
            counts[axis], steps[axis] = size, step
            pieces.append(Piece(axis, size))
            return tuple(reversed(pieces))
        # The run carries into the next axis: it must fill this one at the same places each time round.
        inner = dims[axis] // step
        if axis == 0 or dims[axis] % step or starts[axis] >= step or size % inner or inner == 1:
            return None
        counts[axis], steps[axis] = inner, step
        pieces.append(Piece(axis, inner))
        size, stride = size // inner, pitches[axis - 1]


def _in_shape(box: Box, shape: tuple[int, ...]) -> Box:
    """The same box over dims with the value's own size-one dimensions, when that makes dims the value's shape."""
    if tuple(n for n in box.dims if n != 1) != tuple(n for n in shape if n != 1) or box.dims == shape:
        return box
    source = [i for i, n in enumerate(box.dims) if n != 1]
    target = [i for i, n in enumerate(shape) if n != 1]
    moved = dict(zip(source, target, strict=True))
    if any(piece.axis not in moved for p in box.pieces for piece in p if piece.axis != BROADCAST):
        return box
    starts, counts, steps = [0] * len(shape), [1] * len(shape), [1] * len(shape)
    for old, new in moved.items():
        starts[new], counts[new], steps[new] = box.starts[old], box.counts[old], box.steps[old]
    pieces = tuple(tuple(p if p.axis == BROADCAST else Piece(moved[p.axis], p.size) for p in run) for run in box.pieces)
    return Box(box.shift, shape, tuple(starts), tuple(counts), tuple(steps), pieces)
