"""Regions against enumeration, byte by byte."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.analysis import regions
from compiler.analysis.regions import Region, Relation, coincide, extent, relation, self_overlaps
from dialects.types import Geometry


def indices(sizes):
    return itertools.product(*map(range, sizes))


def starts(sizes, strides, offset):
    return [offset + sum(i * s for i, s in zip(index, strides, strict=True)) for index in indices(sizes)]


def byte_set(a: Region) -> set[int]:
    return {p + k for p in starts(a.sizes, a.strides, a.offset) for k in range(a.element)}


def by_enumeration(a: Region, b: Region) -> Relation:
    left, right = byte_set(a), byte_set(b)
    if not left & right:
        return Relation.DISJOINT
    if left == right:
        return Relation.EQUAL
    if left >= right:
        return Relation.CONTAINS
    return Relation.CONTAINED if left <= right else Relation.OVERLAPS


@st.composite
def any_region(draw, negative=True):
    rank = draw(st.integers(0, 3))
    sizes = tuple(draw(st.integers(0 if draw(st.integers(0, 9)) == 0 else 1, 5)) for _ in range(rank))
    element = draw(st.sampled_from([1, 2, 4]))
    low = -12 if negative and draw(st.integers(0, 5)) == 0 else 0
    strides = tuple(draw(st.integers(low, 24)) * draw(st.sampled_from([1, element])) for _ in range(rank))
    return Region(draw(st.integers(0, 40)), sizes, strides, element)


@st.composite
def boxes_of_one_tensor(draw):
    """Two slices of one row-major tensor, as programs make them."""
    shape = tuple(draw(st.integers(1, 6)) for _ in range(draw(st.integers(1, 4))))
    steps = regions_row_major(shape)

    def box():
        offset, sizes, strides = 0, [], []
        for size, step in zip(shape, steps, strict=True):
            first = draw(st.integers(0, size - 1))
            jump = draw(st.integers(1, 3))
            count = draw(st.integers(1, (size - 1 - first) // jump + 1))
            offset += first * step
            sizes.append(count)
            strides.append(jump * step)
        order = draw(st.permutations(range(len(shape))))
        return Region(offset * 4, tuple(sizes[i] for i in order), tuple(strides[i] * 4 for i in order), 4)

    return box(), box()


def regions_row_major(shape):
    steps, step = [], 1
    for size in reversed(shape):
        steps.append(step)
        step *= size
    return tuple(reversed(steps))


@settings(max_examples=1500, deadline=None)
@given(any_region(), any_region())
def test_relation_of_any_regions(a, b):
    assert relation(a, b) is by_enumeration(a, b)


@settings(max_examples=1500, deadline=None)
@given(boxes_of_one_tensor())
def test_relation_of_slices(pair):
    a, b = pair
    assert relation(a, b) is by_enumeration(a, b)


@settings(max_examples=800, deadline=None)
@given(st.one_of(boxes_of_one_tensor(), st.tuples(any_region(), any_region())))
def test_without_counting_the_answer_is_right_or_may(pair):
    a, b = pair
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(regions, "RUN_CAP", 0)
        regions._relation.cache_clear()
        answer = relation(a, b)
        regions._relation.cache_clear()
    assert answer in (Relation.MAY, by_enumeration(a, b))


@settings(max_examples=500, deadline=None)
@given(any_region())
def test_extent_and_self_overlap(a):
    touched = byte_set(a)
    assert extent(a) == ((min(touched), max(touched) + 1) if touched else (a.offset, a.offset))
    every = [p + k for p in starts(a.sizes, a.strides, a.offset) for k in range(a.element)]
    assert self_overlaps(a) is (len(every) != len(touched))
    assert regions.contiguous(a) is (bool(touched) and len(touched) == max(touched) - min(touched) + 1)


@st.composite
def windows(draw):
    sizes = tuple(draw(st.integers(1, 4)) for _ in range(draw(st.integers(0, 3))))

    def window():
        return Geometry(sizes, tuple(draw(st.integers(0, 6)) for _ in sizes), draw(st.integers(0, 8)))

    return window(), window()


@settings(max_examples=1500, deadline=None)
@given(windows())
def test_coincide(pair):
    a, b = pair
    left, right = starts(*a), starts(*b)
    if a.numel > 1:
        expected = all(i == j for i, p in enumerate(left) for j, q in enumerate(right) if p == q)
        assert coincide(a, b, 4) is expected


def test_row_and_column_that_cross_on_the_diagonal_coincide():
    assert coincide(Geometry((8,), (1,), 3 * 8), Geometry((8,), (8,), 3), 4) is True
    assert coincide(Geometry((8,), (1,), 3 * 8), Geometry((8,), (8,), 4), 4) is False
    assert coincide(Geometry((8, 8), (8, 1), 0), Geometry((8, 8), (1, 8), 0), 4) is False


def test_big_regions_are_exact_without_enumeration():
    """Parts of a joint projection, planes of a pool, rows and columns of a large matrix."""
    joint = [Region(third * 4096 * 2, (65536, 4096), (3 * 4096 * 2, 2), 2) for third in range(3)]
    assert relation(joint[0], joint[1]) is Relation.DISJOINT
    assert relation(joint[0], Region(0, (65536, 3 * 4096), (3 * 4096 * 2, 2), 2)) is Relation.CONTAINED
    heads = Region(64 * 4, (1 << 16, 8, 64), (4096, 4 * 128, 4), 4)  # every second head
    assert relation(heads, Region(0, (1 << 16, 64), (4096, 4), 4)) is Relation.DISJOINT
    assert relation(heads, Region(0, (1 << 16, 65), (4096, 4), 4)) is Relation.OVERLAPS
    assert relation(heads, Region(4096 * 4000, (1024,), (4,), 4)) is Relation.OVERLAPS
    assert relation(heads, Region(4096 * 4000, (64,), (4,), 4)) is Relation.DISJOINT
    row = Region(4096 * 7, (1024,), (4,), 4)
    assert relation(row, Region(8, (1 << 20,), (4096,), 4)) is Relation.OVERLAPS


def test_beyond_the_cap_the_answer_is_may():
    a = Region(0, (1 << 10, 1 << 10), (98_303, 60), 1)
    b = Region(7, (1 << 10, 1 << 10), (163_841, 77), 1)
    assert relation(a, b) is Relation.MAY
