"""Windows on values: reading, replacing and reinterpreting them moves elements and never changes their bits.

A window that is a box becomes reshape, slice and transpose; replacing a plain block is one
`dynamic_update_slice` at constant places on the base. What is no box goes by flat positions from iota arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr

from compiler.analysis.windows import (
    BROADCAST,
    Box,
    coalesced,
    covers_all,
    find_box,
    is_identity,
    overlaps_itself,
    permutation,
)
from compiler.lowering.builder import Builder
from compiler.lowering.origins import origin
from dialects.types import ELEMENTS, Geometry

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

_CARRIERS = {"bf16": "ui16", "f16": "ui16", "f8E4M3FN": "ui8", "f8E5M2": "ui8"}
_COMPONENT = {"complex<f32>": "f32", "complex<f64>": "f64"}


@dataclass(frozen=True)
class Part:
    """A window of a value that has not been read yet.

    `element` is the type its elements are seen at, of the same width as those of `base`. `origin` is the value
    of the program that the window was made on; `base` differs from it at most inside the window.
    """

    base: ir.Value
    window: Geometry
    element: str
    origin: SSAValue

    def whole(self, b: Builder) -> bool:
        """Whether the window is the base itself."""
        return b.shape(self.base) == self.window.sizes and is_identity(self.window.sizes, self.window)


# -- element types -----------------------------------------------------------------------------


def carrier(element: str) -> str:
    """The type that elements are moved as. XLA's CPU backend widens moves of small floats and changes their NaNs."""
    return _CARRIERS.get(element, element)


def bitcast(b: Builder, value: ir.Value, element: str) -> ir.Value:
    """The same bits as another element type of the same width; what they were before, where that is it."""
    if b.element(value) == element:
        return value
    if not isinstance(value.owner, ir.Block) and value.owner.name == "stablehlo.bitcast_convert":
        source = value.owner.operands[0]
        if b.element(source) == element and b.shape(source) == b.shape(value):
            return source
    if b.target == "xla" and _constant(value):
        # XLA folds a bitcast of constants wrong where another layout was chosen for them (jaxlib 0.10.2): what comes after
        # this one must not be known to be constant. The barrier is dropped before fusion.
        value = b.opaque(value)
    return hlo.bitcast_convert(b.tensor(element, b.shape(value)), value)


def _constant(value: ir.Value) -> bool:
    made = origin(value, ("stablehlo.broadcast_in_dim", "stablehlo.reshape"))
    return made is not None and made.name == "stablehlo.constant"


def same_bits(source: str, element: str) -> bool:
    """Whether two element types differ by a plain bit cast, element for element."""
    odd = ("i1", *_COMPONENT)
    return source == element or (
        ELEMENTS[source][1] == ELEMENTS[element][1] and source not in odd and element not in odd
    )


def choose(b: Builder, mask: ir.Value, yes: ir.Value, no: ir.Value) -> ir.Value:
    """`select` that keeps the bits of what it picks."""
    kind = b.element(no)
    moved = carrier(kind)
    return bitcast(b, hlo.select(mask, bitcast(b, yes, moved), bitcast(b, no, moved)), kind)


def reinterpret(b: Builder, value: ir.Value, element: str) -> ir.Value:
    """The same bytes with another element type; the last dimension scales with the element size."""
    source, shape = b.element(value), b.shape(value)
    if source == element:
        return value
    if source in _COMPONENT:
        component = _COMPONENT[source]
        pair = (*shape, 1)
        parts = [b.reshape(hlo.real(value), pair), b.reshape(hlo.imag(value), pair)]
        merged = (*shape[:-1], shape[-1] * 2) if shape else (2,)
        whole = b.reshape(hlo.concatenate(parts, len(shape)), merged)
        if component == element or shape:
            return reinterpret(b, whole, element)
        return b.reshape(reinterpret(b, whole, element), ())
    if element in _COMPONENT:
        flat = reinterpret(b, value if shape else b.reshape(value, (1,)), _COMPONENT[element])
        *outer, last = b.shape(flat)
        paired = b.reshape(flat, (*outer, last // 2, 2))
        rank = len(outer) + 1
        halves = [
            b.reshape(
                hlo.slice(paired, [0] * rank + [i], [*outer, last // 2, i + 1], [1] * (rank + 1)), (*outer, last // 2)
            )
            for i in (0, 1)
        ]
        return b.reshape(hlo.complex(*halves), shape) if not shape else hlo.complex(*halves)
    if source == "i1":
        return reinterpret(b, hlo.convert(b.tensor("ui8", shape), value), element)
    if element == "i1":
        return b.convert(reinterpret(b, value, "ui8"), "i1")
    before, after = ELEMENTS[source][1], ELEMENTS[element][1]
    if before == after:
        return bitcast(b, value, element)
    if before > after:
        narrow = _unwidened(b, value)
        if narrow is not value:
            return reinterpret(b, narrow, element)
        ratio = before // after
        split = hlo.bitcast_convert(b.tensor(element, (*shape, ratio)), value)
        return b.reshape(split, (*shape[:-1], shape[-1] * ratio))
    ratio = after // before
    grouped = (*shape[:-1], shape[-1] // ratio)
    return hlo.bitcast_convert(b.tensor(element, grouped), b.reshape(value, (*grouped, ratio)))


def _unwidened(b: Builder, value: ir.Value) -> ir.Value:
    """What a value was put together from, where its elements are several smaller ones; else the value.

    XLA folds a bitcast of a bitcast into one, and gives that the wrong shape when all three widths differ (jaxlib 0.10.2).
    """
    part, shape = value, b.shape(value)
    while not isinstance(part.owner, ir.Block) and part.owner.name == "stablehlo.bitcast_convert":
        part = part.owner.operands[0]
        if len(b.shape(part)) != len(shape):
            break
    ratio = math.prod(b.shape(part)) // max(math.prod(shape), 1)
    return b.reshape(part, (*shape[:-1], shape[-1] * ratio)) if ratio > 1 and shape else value


def constant(b: Builder, data: DenseIntOrFPElementsAttr, element: str, shape: tuple[int, ...]) -> ir.Value:
    """A constant with the given bytes; one that repeats a value is stored once."""
    width = ELEMENTS[element][1]
    raw = data.data.data
    numel = math.prod(shape)
    if numel and not np.frombuffer(raw, np.uint8).any():
        return b.splat(0, element, shape)
    if element in _COMPONENT:
        array = np.frombuffer(raw, np.complex64 if element == "complex<f32>" else np.complex128)
    elif element == "i1":
        array = np.frombuffer(raw, np.uint8).astype(bool)
    elif element in ("f64", "f32", "f16"):
        array = np.frombuffer(raw, f"f{width}")
    elif element[0] == "i":
        array = np.frombuffer(raw, f"i{width}")
    else:
        array = np.frombuffer(raw, f"u{width}")
    if array.size == 1 and numel != 1:
        array = np.broadcast_to(array, (numel,))
    if numel > 1 and element not in _CARRIERS and (array.view(np.ndarray) == array[0]).all() and array[0] != 0:
        return b.splat(array[0].item(), element, shape)
    return b.literal(array.reshape(shape), element)


# -- reading -----------------------------------------------------------------------------------


def read(b: Builder, part: Part) -> ir.Value:
    """The elements of a window, as a value of the window's sizes."""
    return bitcast(b, extract(b, part.base, part.window), part.element)


def extract(b: Builder, base: ir.Value, window: Geometry) -> ir.Value:
    """Element (i, j, ...) is element `offset + i * stride_0 + ...` of the base in row-major order."""
    shape, element = b.shape(base), b.element(base)
    if window.numel == 0:
        return b.splat(0, element, window.sizes)
    if is_identity(shape, window):
        return b.reshape(base, window.sizes)
    box = find_box(shape, window)
    if box is not None:
        return _read_box(b, base, window, box)
    flat = b.reshape(bitcast(b, base, carrier(element)), (math.prod(shape),))
    numbers = hlo.GatherDimensionNumbers.get([], [0], [], [], [0], len(window.sizes))
    return bitcast(b, hlo.gather(flat, flat_positions(b, window), numbers, [1]), element)


def _read_box(b: Builder, base: ir.Value, window: Geometry, box: Box) -> ir.Value:
    block = _cut(b, base, box)
    # Axes that stay together and in order become one before the transpose, so that nothing is reshaped after it.
    ascending = sorted(piece.axis for pieces in box.pieces for piece in pieces if piece.axis != BROADCAST)
    rank = {axis: place for place, axis in enumerate(ascending)}
    runs: list[tuple[int, int]] = []  # place of the first axis (BROADCAST: none) and size
    for pieces in box.pieces:
        last = None
        for piece in pieces:
            place = rank.get(piece.axis, BROADCAST)
            if last is not None and place == last + 1 and last != BROADCAST:
                runs[-1] = (runs[-1][0], runs[-1][1] * piece.size)
            else:
                runs.append((place, piece.size))
            last = place
    kept = sorted(run for run in runs if run[0] != BROADCAST)
    block = b.reshape(block, tuple(size for _, size in kept))
    block = b.transpose(block, [kept.index(run) for run in runs if run[0] != BROADCAST])
    if len(kept) < len(runs):
        places = [i for i, (place, _) in enumerate(runs) if place != BROADCAST]
        block = hlo.broadcast_in_dim(b.tensor(b.element(base), tuple(size for _, size in runs)), block, places)
    return b.reshape(block, window.sizes)


def _cut(b: Builder, base: ir.Value, box: Box) -> ir.Value:
    """The elements that the box counts, in its own order. XLA widens slices and padding of small floats."""
    numel = math.prod(b.shape(base))
    padded, whole = box.shift + box.extent > numel, box.shift == 0 and box.extent == numel and box.counts == box.dims
    moved = padded or (b.target == "xla" and not whole)
    block = b.reshape(_stretch(b, bitcast(b, base, carrier(b.element(base))) if moved else base, box), box.dims)
    if box.counts != box.dims:
        ends = [s + (c - 1) * k + 1 for s, c, k in zip(box.starts, box.counts, box.steps, strict=True)]
        block = hlo.slice(block, list(box.starts), ends, list(box.steps))
    return bitcast(b, block, b.element(base))


def _stretch(b: Builder, base: ir.Value, box: Box) -> ir.Value:
    """The flat elements that the box cuts; padding stands where it reaches past the end."""
    numel = math.prod(b.shape(base))
    if box.shift == 0 and box.extent == numel:
        return base
    flat = b.reshape(base, (numel,))
    end = min(box.shift + box.extent, numel)
    if box.shift or end < numel:
        flat = hlo.slice(flat, [box.shift], [end], [1])
    missing = box.extent - (end - box.shift)
    return hlo.pad(flat, b.splat(0, b.element(base)), [0], [missing], [0]) if missing else flat


def flat_positions(b: Builder, window: Geometry, trailing: tuple[int, ...] = (1,)) -> ir.Value:
    """Position in row-major order of every element of a window, as i64 of shape sizes + `trailing`."""
    shape = (*window.sizes, *trailing)
    total = b.splat(window.offset, "i64", shape)
    for dimension, (size, stride) in enumerate(zip(window.sizes, window.strides, strict=True)):
        if size > 1 and stride:
            step = b.iota("i64", shape, dimension)
            total = hlo.add(total, hlo.multiply(step, b.splat(stride, "i64", shape)) if stride != 1 else step)
    return total


# -- replacing ---------------------------------------------------------------------------------


def insert(
    b: Builder, value: ir.Value, window: Geometry, base: ir.Value | None, element: str, shape: tuple[int, ...]
) -> ir.Value:
    """`base` (of this element type and shape) with the window replaced; without a base the window covers everything."""
    if covers_all(shape, window):
        return b.reshape(b.transpose(value, permutation(window)), shape)
    if base is None:
        base = b.splat(0, element, shape)
    if window.numel == 0:
        return base
    value, window = _once(b, value, window)
    moved = carrier(element)
    base, value = bitcast(b, base, moved), bitcast(b, value, moved)
    if find_box(shape, window, own=True) is None and (merged := coalesced(window)) != window:
        value, window = b.reshape(value, merged.sizes), merged
    box = None if overlaps_itself(window) else _best_box(shape, window)
    if box is None:
        placed = _scatter_flat(b, base, value, window)
    elif box.unit and (
        _computed_from(value, base) if box.dims != shape or _reshaped(base) else _rearranged_from(value, base, box)
    ):
        placed = _select_box(b, b.reshape(base, box.dims), block(b, value, box), box)
    elif box.unit:
        starts = [b.splat(start, "i64") for start in box.starts]
        placed = hlo.dynamic_update_slice(b.reshape(base, box.dims), block(b, value, box), starts)
    else:
        placed = _scatter_box(b, base, value, box)
    return bitcast(b, b.reshape(placed, shape), element)


def _best_box(shape: tuple[int, ...], window: Geometry) -> Box | None:
    """The box to write: on the own dimensions before all, since XLA copies a base that is reshaped for an update."""
    return (
        find_box(shape, window, own=True, unit=True)
        or find_box(shape, window, own=True)
        or find_box(shape, window, exact=True, unit=True)
        or find_box(shape, window, exact=True)
    )


_MATERIALIZED = frozenset(
    f"stablehlo.{name}"
    for name in ("dot_general", "convolution", "sort", "scatter", "while", "case", "constant", "iota")
)
"""Operations that XLA does not fuse into an update: their result is a buffer of its own."""


def _computed_from(value: ir.Value, base: ir.Value, most: int = 64) -> bool:
    """Whether XLA may fuse reads of `base` into the update `value`; True also when that is long to find out.

    The CPU backend then updates a base that is reshaped in place while it still reads it through the other shape, and
    reads what it has just written (seen in jaxlib 0.10.2: x[1:3] = x[0:2] on four rows of a flat buffer, and on three rows
    of a buffer that was put together in another shape).
    """
    root = _unshaped(base)
    pending, seen = [value], set[ir.Value]()
    while pending:
        current = pending.pop()
        if current == root:
            return True
        if current in seen or isinstance(current.owner, ir.Block):
            continue
        seen.add(current)
        if len(seen) > most:
            return True
        if current.owner.name not in _MATERIALIZED:
            pending.extend(current.owner.operands)
    return False


_MOVES = frozenset(
    f"stablehlo.{name}"
    for name in (
        *(
            "broadcast_in_dim",
            "concatenate",
            "dynamic_gather",
            "dynamic_slice",
            "dynamic_update_slice",
            "gather",
            "pad",
        ),
        *("reduce", "reduce_window", "reverse", "slice", "transpose", "fft", "cholesky", "triangular_solve"),
        *("custom_call", "if"),
    )
)
"""Operations whose result has elements of the operands at other places, or many of them in one."""


def _rearranged_from(value: ir.Value, base: ir.Value, box: Box, most: int = 64) -> bool:
    """Whether the update `value` needs elements of the box at other places than it puts them; True also when that is long to
    find out.

    Where the result is reshaped later, XLA's CPU backend updates the base in place although the update still reads it there
    (seen in jaxlib 0.10.2: a column that is rolled, in a buffer that is seen as complex numbers afterwards).
    """
    root = _unshaped(base)
    pending, seen = [(value, False)], set[tuple[ir.Value, bool]]()
    while pending:
        current, moved = pending.pop()
        if current == root:
            return True
        if (current, moved) in seen or isinstance(current.owner, ir.Block) or current.owner.name in _MATERIALIZED:
            continue
        seen.add((current, moved))
        if len(seen) > most:
            return True
        owner = current.owner
        if owner.name == "stablehlo.slice" and owner.operands[0] == root:
            starts, stops = (
                list(ir.DenseI64ArrayAttr(owner.attributes[f"{name}_indices"])) for name in ("start", "limit")
            )
            ends = [start + count for start, count in zip(box.starts, box.counts, strict=True)]
            if any(
                stop <= low or start >= high
                for start, stop, low, high in zip(starts, stops, box.starts, ends, strict=True)
            ):
                continue  # it reads what the update leaves alone
            if moved or (starts, stops) != (list(box.starts), ends):
                return True
            continue
        pending.extend((operand, moved or owner.name in _MOVES) for operand in owner.operands)
    return False


def _select_box(b: Builder, base: ir.Value, block: ir.Value, box: Box) -> ir.Value:
    """Replace a plain block element by element, which is never done in place."""
    element = b.element(base)
    before = list(box.starts)
    after = [d - s - c for d, s, c in zip(box.dims, box.starts, box.counts, strict=True)]
    inside = hlo.pad(b.splat(1, "i1", box.counts), b.splat(0, "i1"), before, after, [0] * len(before))
    return hlo.select(inside, hlo.pad(block, b.splat(0, element), before, after, [0] * len(before)), base)


def _reshaped(value: ir.Value) -> bool:
    """Whether a reshape made the value: XLA reads windows of it through the shape it had before."""
    while not isinstance(value.owner, ir.Block) and value.owner.name == "stablehlo.bitcast_convert":
        value = value.owner.operands[0]
    return not isinstance(value.owner, ir.Block) and value.owner.name == "stablehlo.reshape"


def _unshaped(value: ir.Value) -> ir.Value:
    """The value behind reshapes and bitcasts."""
    while not isinstance(value.owner, ir.Block) and value.owner.name in (
        "stablehlo.reshape",
        "stablehlo.bitcast_convert",
    ):
        value = value.owner.operands[0]
    return value


def block(b: Builder, value: ir.Value, box: Box) -> ir.Value:
    """A value of the window's sizes, laid out as the box it fills."""
    run = [piece for pieces in box.pieces for piece in pieces]
    value = b.reshape(value, tuple(piece.size for piece in run))
    return b.reshape(b.transpose(value, sorted(range(len(run)), key=lambda i: run[i].axis)), box.counts)


def _once(b: Builder, value: ir.Value, window: Geometry) -> tuple[ir.Value, Geometry]:
    """Where stride 0 repeats an element, the value is the same each time: keep the first."""
    repeated = [stride == 0 and size > 1 for size, stride in zip(window.sizes, window.strides, strict=True)]
    if not any(repeated):
        return value, window
    sizes = tuple(1 if again else size for size, again in zip(window.sizes, repeated, strict=True))
    value = hlo.slice(value, [0] * len(sizes), list(sizes), [1] * len(sizes))
    return value, Geometry(sizes, window.strides, window.offset)


def _scatter_box(b: Builder, base: ir.Value, value: ir.Value, box: Box) -> ir.Value:
    """Replace a box with gaps: stepped axes are indexed, the others are block-wise."""
    rank = len(box.dims)
    stepped = [i for i in range(rank) if box.counts[i] > 1 and box.steps[i] > 1]
    others = [i for i in range(rank) if i not in stepped]
    batch = tuple(box.counts[i] for i in stepped)
    axes = stepped + [i for i in others if box.starts[i]]
    columns: list[ir.Value] = []
    for axis in axes:
        column = b.splat(box.starts[axis], "i64", (*batch, 1))
        if axis in stepped:
            step = hlo.multiply(
                b.iota("i64", (*batch, 1), stepped.index(axis)), b.splat(box.steps[axis], "i64", (*batch, 1))
            )
            column = hlo.add(step, column)
        columns.append(column)
    updates = block(b, value, box)
    return scatter(b, b.reshape(base, box.dims), columns, axes, stepped, others, updates)


def _scatter_flat(b: Builder, base: ir.Value, value: ir.Value, window: Geometry) -> ir.Value:
    numel = math.prod(b.shape(base))
    return scatter(b, b.reshape(base, (numel,)), [flat_positions(b, window)], [0], [0], [], value)


def scatter(
    b: Builder,
    base: ir.Value,
    columns: Sequence[ir.Value],
    axes: Sequence[int],
    inserted: Sequence[int],
    window_at: Sequence[int],
    updates: ir.Value,
    combine: Callable[[ir.Value, ir.Value], ir.Value] | None = None,
) -> ir.Value:
    """`base` with updates at indexed places; without `combine(old, new)` they replace what is there.

    Each of `columns` holds the coordinate along one of `axes` and has a last dimension of one. `inserted` are
    the axes that updates do not have, `window_at` the dimensions of updates that are axes of the base.
    """
    rank = len(b.shape(columns[0])) - 1
    indices = columns[0] if len(columns) == 1 else hlo.concatenate(list(columns), rank)
    numbers = hlo.ScatterDimensionNumbers.get(list(window_at), sorted(inserted), [], [], list(axes), rank)
    op = hlo.ScatterOp([base.type], [base], indices, [updates], numbers, indices_are_sorted=False, unique_indices=False)
    scalar = b.tensor(b.element(base), ())
    b.region(op, [scalar, scalar], combine or (lambda old, new: new))
    return op.results[0]
