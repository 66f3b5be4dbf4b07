"""Indexed reads and updates of a window go straight to the value that the window is part of.

`pool[l, 0][block, slot] = k` is one scatter on the pool: the window's dimensions are axes of a reshaped base,
index columns get the window's start added, and the other axes are addressed by constant starts. An update of
one row at a run-time position is a `dynamic_update_slice` for XLA and a scatter for Neuron.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from compiler.analysis.windows import Piece, find_box
from compiler.lowering.builder import Builder
from compiler.lowering.windows import Part, bitcast, carrier, read, scatter
from compiler.lowering.wrapping import wrapping

Operand = ir.Value | Part
Combination = Literal["assign", "add", "multiply", "maximum", "minimum"]
_COMBINE = {"multiply": hlo.multiply, "maximum": hlo.maximum, "minimum": hlo.minimum}


def shape(b: Builder, operand: Operand) -> tuple[int, ...]:
    return operand.window.sizes if isinstance(operand, Part) else b.shape(operand)


def element(b: Builder, operand: Operand) -> str:
    return operand.element if isinstance(operand, Part) else b.element(operand)


def value(b: Builder, operand: Operand) -> ir.Value:
    """The operand as a value of its own."""
    return read(b, operand) if isinstance(operand, Part) else operand


@dataclass(frozen=True)
class _Place:
    """Dimension d of the operand is the row-major merge of `pieces[d]`, axes of `base` reshaped to `dims`."""

    base: ir.Value
    dims: tuple[int, ...]
    pieces: tuple[tuple[Piece, ...], ...]
    starts: tuple[int, ...]
    counts: tuple[int, ...]
    steps: tuple[int, ...]


def _place(b: Builder, operand: Part, indexed: Mapping[int, ir.Value]) -> _Place | None:
    """Where a window lies, if it is a block of its base in the dimensions that are not indexed."""
    base = b.shape(operand.base)
    if not base:
        return None  # a number has no dimension to index
    for options in ({"own": True}, {"exact": True, "unit": True}, {"exact": True}):
        box = find_box(base, operand.window, **options)
        if box is None or box.repeats:
            continue
        if all(d in indexed or all(box.steps[p.axis] == 1 for p in run) for d, run in enumerate(box.pieces)):
            return _Place(operand.base, box.dims, box.pieces, box.starts, box.counts, box.steps)
    return None


def _resolve(b: Builder, operand: Operand, indexed: Mapping[int, ir.Value]) -> tuple[Operand, _Place]:
    """The operand and its place; a window that is no block is read first."""
    if isinstance(operand, Part):
        place = _place(b, operand, indexed)
        if place is not None and place.dims:
            return operand, place
        operand = read(b, operand)
    sizes = b.shape(operand)
    dims = sizes or (1,)
    pieces = tuple((Piece(axis, size),) for axis, size in enumerate(sizes))
    return operand, _Place(operand, dims, pieces, (0,) * len(dims), dims, (1,) * len(dims))


def _coordinates(
    b: Builder, place: _Place, columns: Mapping[int, ir.Value], batch: tuple[int, ...]
) -> tuple[list[ir.Value], list[int]]:
    """Index columns of shape batch + (1,) in coordinates of the base, and the axes they are for."""
    kinds = {b.element(column) for column in columns.values()}
    kind = kinds.pop() if kinds in ({"i32"}, {"i64"}) else "i64"
    wide = (*batch, 1)
    found: list[ir.Value] = []
    axes: list[int] = []
    for dimension, column in columns.items():
        rest = b.reshape(b.convert(column, kind), wide)
        for number, (axis, size) in reversed(list(enumerate(place.pieces[dimension]))):
            column = rest
            if number:
                extent = b.splat(size, kind, wide)
                column, rest = hlo.remainder(rest, extent), hlo.divide(rest, extent)
            if place.steps[axis] != 1:
                column = hlo.multiply(column, b.splat(place.steps[axis], kind, wide))
            if place.starts[axis]:
                column = hlo.add(column, b.splat(place.starts[axis], kind, wide))
            found.append(column)
            axes.append(axis)
    for axis, start in enumerate(place.starts):
        if start and axis not in axes:
            found.append(b.splat(start, kind, wide))
            axes.append(axis)
    if not axes:
        found.append(b.splat(0, kind, wide))
        axes.append(0)
    return found, axes


def take(b: Builder, operand: Operand, columns: Mapping[int, ir.Value], at: int) -> ir.Value:
    """Elements of the operand at indexed places.

    `columns` gives a coordinate for some dimensions, all of one shape, the batch. The result has the other
    dimensions in order, with the batch's before number `at` of them.
    """
    sizes, kind = shape(b, operand), element(b, operand)
    batch = b.shape(next(iter(columns.values())))
    rest = [d for d in range(len(sizes)) if d not in columns]
    result = (*(sizes[d] for d in rest[:at]), *batch, *(sizes[d] for d in rest[at:]))
    if 0 in result:
        return b.splat(0, kind, result)
    operand, place = _resolve(b, operand, columns)
    moved = carrier(b.element(place.base))
    base = b.reshape(bitcast(b, place.base, moved), place.dims)
    found, axes = _coordinates(b, place, columns, batch)
    kept = [piece.axis for d in rest for piece in place.pieces[d]]
    lead = sum(len(place.pieces[d]) for d in rest[:at])
    front = lead if kept == sorted(kept) else 0
    offsets = [i if i < front else i + len(batch) for i in range(len(kept))]
    collapsed = [axis for axis in range(len(place.dims)) if axis not in kept]
    indices = found[0] if len(found) == 1 else hlo.concatenate(found, len(batch))
    taken = hlo.gather(
        base,
        indices,
        hlo.GatherDimensionNumbers.get(offsets, collapsed, [], [], axes, len(batch)),
        [place.counts[axis] if axis in kept else 1 for axis in range(len(place.dims))],
    )
    if kept != sorted(kept):  # the batch is in front, the others follow in the base's order
        order = [len(batch) + sorted(kept).index(axis) for axis in kept]
        taken = b.transpose(taken, order[:lead] + list(range(len(batch))) + order[lead:])
    return bitcast(b, b.reshape(taken, result), kind)


def put(
    b: Builder,
    operand: Operand,
    columns: Mapping[int, ir.Value],
    updates: ir.Value,
    at: int,
    combination: Combination = "assign",
) -> Operand:
    """The operand with updates at indexed places; updates are laid out as the result of `take`."""
    sizes, kind = shape(b, operand), element(b, operand)
    batch = b.shape(next(iter(columns.values())))
    rest = [d for d in range(len(sizes)) if d not in columns]
    if 0 in b.shape(updates):
        return operand
    operand, place = _resolve(b, operand, columns)
    front = [piece.size for d in rest[:at] for piece in place.pieces[d]]
    back = [piece.size for d in rest[at:] for piece in place.pieces[d]]
    kept = [piece.axis for d in rest for piece in place.pieces[d]]
    updates = b.reshape(updates, (*front, *batch, *back))
    # Updates keep their layout, except that their window dimensions must follow the base's axes.
    places = [*range(len(front)), *range(len(front) + len(batch), len(front) + len(batch) + len(back))]
    order = sorted(range(len(kept)), key=lambda i: kept[i])
    if order != sorted(order):
        arranged = list(range(len(front) + len(batch) + len(back)))
        for position, source in zip(places, order, strict=True):
            arranged[position] = places[source]
        updates = b.transpose(updates, arranged)
    stored = b.element(place.base)
    moved = carrier(stored) if combination == "assign" or stored != kind else stored
    base = b.reshape(bitcast(b, place.base, moved), place.dims)
    updates = bitcast(b, updates, moved)
    found, axes = _coordinates(b, place, columns, batch)
    # A base that is reshaped is copied for a dynamic_update_slice, but not for a scatter.
    in_place = place.dims == b.shape(place.base)
    if combination == "assign" and math.prod(batch) == 1 and b.target == "xla" and in_place:
        new = _update_slice(b, base, place, found, axes, updates, kept)
    else:
        inserted = [axis for axis in range(len(place.dims)) if axis not in kept]
        new = scatter(b, base, found, axes, inserted, places, updates, _region(b, combination, kind, moved))
        new = wrapping(b, new) if combination == "multiply" else new
    new = bitcast(b, b.reshape(new, b.shape(place.base)), stored)
    return Part(new, operand.window, operand.element, operand.origin) if isinstance(operand, Part) else new


def _region(b: Builder, combination: Combination, kind: str, stored: str):  # noqa: ANN202 - a scatter's combine
    if combination == "assign":
        return None
    combine = b.plus if combination == "add" else _COMBINE[combination]
    if kind == stored:
        return combine

    def through(old: ir.Value, new: ir.Value) -> ir.Value:
        """Elements travel as `stored` and count as `kind`."""
        return bitcast(b, combine(bitcast(b, old, kind), bitcast(b, new, kind)), stored)

    return through


def _update_slice(
    b: Builder,
    base: ir.Value,
    place: _Place,
    columns: Sequence[ir.Value],
    axes: Sequence[int],
    updates: ir.Value,
    kept: Sequence[int],
) -> ir.Value:
    """One block at one run-time position."""
    kind = b.element(columns[0])
    starts = [b.splat(0, kind)] * len(place.dims)
    for axis, column in zip(axes, columns, strict=True):
        starts[axis] = b.reshape(column, ())
    extents = tuple(place.counts[axis] if axis in kept else 1 for axis in range(len(place.dims)))
    return hlo.dynamic_update_slice(base, b.reshape(updates, extents), starts)
