"""Boxes of strided windows, against enumeration in numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.analysis.windows import (
    BROADCAST,
    Box,
    Piece,
    covers_all,
    find_box,
    is_identity,
    overlaps_itself,
    permutation,
)
from dialects.types import Geometry, row_major


def positions(window: Geometry) -> np.ndarray:
    """Flat position of every element of the window."""
    found = np.full(window.sizes, window.offset)
    for axis, (size, stride) in enumerate(zip(window.sizes, window.strides, strict=True)):
        found = found + (np.arange(size) * stride).reshape([-1 if i == axis else 1 for i in range(len(window.sizes))])
    return found


def apply(box: Box, numel: int) -> np.ndarray:
    """Flat positions that the box reads, by the steps its docstring promises."""
    flat = np.arange(numel)[box.shift : box.shift + box.extent]
    flat = np.concatenate([flat, np.full(box.extent - flat.size, -1)])
    block = flat.reshape(box.dims)
    for axis, (start, count, step) in enumerate(zip(box.starts, box.counts, box.steps, strict=True)):
        block = np.take(block, range(start, start + (count - 1) * step + 1, step), axis)
    run = [piece for pieces in box.pieces for piece in pieces]
    used = [piece.axis for piece in run if piece.axis != BROADCAST]
    spare = [axis for axis in range(len(box.dims)) if axis not in used]
    assert all(block.shape[axis] == 1 for axis in spare)
    block = block.transpose(used + spare).reshape([1 if p.axis == BROADCAST else p.size for p in run])
    block = np.broadcast_to(block, [p.size for p in run])
    return block.reshape([math.prod(p.size for p in pieces) for pieces in box.pieces])


@st.composite
def view_chains(draw: st.DrawFn) -> tuple[tuple[int, ...], Geometry]:
    """A shape, and the window that a chain of PyTorch views makes of it."""
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
    view = np.arange(math.prod(shape)).reshape(shape)
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(("slice", "transpose", "select", "unsqueeze", "expand", "diagonal", "view")))
        axis = draw(st.integers(0, max(view.ndim - 1, 0)))
        if view.ndim == 0:
            continue
        size = view.shape[axis]
        if kind == "slice":
            start = draw(st.integers(0, size - 1))
            stop, step = draw(st.integers(start + 1, size)), draw(st.integers(1, 3))
            view = view[(slice(None),) * axis + (slice(start, stop, step),)]
        elif kind == "transpose":
            view = view.transpose(draw(st.permutations(range(view.ndim))))
        elif kind == "select":
            view = view[(slice(None),) * axis + (draw(st.integers(0, size - 1)),)]
        elif kind == "unsqueeze":
            view = np.expand_dims(view, axis)
        elif kind == "expand" and size == 1:
            view = np.broadcast_to(view, view.shape[:axis] + (3,) + view.shape[axis + 1 :])
        elif kind == "diagonal" and view.ndim >= 2:
            view = np.diagonal(view)
        elif kind == "view" and view.flags.c_contiguous:
            view = view.reshape(-1)
    strides = tuple(s // 8 for s in view.strides)
    offset = int(view.reshape(-1)[0]) if view.size else 0
    return shape, Geometry(view.shape, strides, offset)


@st.composite
def any_window(draw: st.DrawFn) -> tuple[tuple[int, ...], Geometry]:
    """A shape, and any window that stays inside it."""
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=0, max_size=3)))
    room = math.prod(shape) - 1
    offset = draw(st.integers(0, room))
    room -= offset
    sizes: list[int] = []
    strides: list[int] = []
    for _ in range(draw(st.integers(0, 3))):
        stride = draw(st.integers(0, 8))
        size = draw(st.integers(1, 1 + (min(room // stride, 5) if stride else 3)))
        room -= (size - 1) * stride
        sizes.append(size)
        strides.append(stride)
    return shape, Geometry(tuple(sizes), tuple(strides), offset)


@settings(max_examples=400, deadline=None)
@given(st.one_of(view_chains(), any_window()), st.booleans(), st.booleans(), st.booleans())
def test_a_box_reads_the_window(case: tuple[tuple[int, ...], Geometry], unit: bool, own: bool, exact: bool) -> None:
    shape, window = case
    box = find_box(shape, window, unit=unit, own=own, exact=exact)
    if box is None:
        return
    assert np.array_equal(apply(box, math.prod(shape)), positions(window))
    assert not unit or box.unit
    assert not own or box.dims == shape
    assert not exact or (box.shift == 0 and box.extent == math.prod(shape))


@settings(max_examples=300, deadline=None)
@given(st.one_of(view_chains(), any_window()))
def test_predicates_agree_with_enumeration(case: tuple[tuple[int, ...], Geometry]) -> None:
    shape, window = case
    met = positions(window).reshape(-1)
    numel = math.prod(shape)
    assert overlaps_itself(window) == (len(set(met.tolist())) < met.size)
    assert covers_all(shape, window) == (sorted(met.tolist()) == list(range(numel)))
    assert is_identity(shape, window) == (met.tolist() == list(range(numel)))
    if covers_all(shape, window):
        inverse = np.transpose(positions(window), permutation(window)).reshape(-1)
        assert inverse.tolist() == list(range(numel))


@pytest.mark.parametrize(
    ("shape", "window", "dims"),
    [
        ((4, 6), Geometry((4, 3), (6, 2), 1), (4, 6)),
        ((4, 4), Geometry((4,), (5,), 0), (16,)),
        ((2, 3, 4, 5), Geometry((4, 5), (5, 1), 20), (2, 3, 4, 5)),
        ((2, 3, 4, 5), Geometry((12, 5), (5, 1), 60), (2, 3, 4, 5)),
        ((6, 4), Geometry((4, 6), (6, 1), 0), (4, 6)),
        ((1, 4, 1, 3), Geometry((3, 4), (1, 3), 0), (1, 4, 1, 3)),
        ((10,), Geometry((3, 2), (3, 1), 0), (3, 3)),
        ((10,), Geometry((3, 2), (3, 1), 2), (3, 3)),
    ],
)
def test_boxes_keep_the_shape_of_the_value(shape: tuple[int, ...], window: Geometry, dims: tuple[int, ...]) -> None:
    box = find_box(shape, window)
    assert box is not None and box.dims == dims


def test_a_box_may_be_asked_for_on_the_own_dimensions() -> None:
    window = Geometry((12, 5), row_major((12, 5)), 60)
    box = find_box((2, 3, 4, 5), window, own=True)
    assert box is not None and box.pieces == ((Piece(1, 3), Piece(2, 4)), (Piece(3, 5),))
    assert find_box((2, 30, 2), window, own=True) is None and find_box((2, 30, 2), window) is not None


def test_an_overlapping_unfold_is_no_box() -> None:
    assert find_box((10,), Geometry((4, 3), (2, 1), 0)) is None


def test_a_box_on_the_values_own_dimensions_has_no_shift() -> None:
    """Behind a shift a padded stretch can have the value's own shape, and is another place all the same."""
    window = Geometry((4, 2), (6, 1), 2)
    box = find_box((2, 4, 3), window, own=True)
    assert box is None or box.shift == 0
