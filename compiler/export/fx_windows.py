"""Windows on the values of an FX graph, in plain out-of-place ATen operators.

A window that is a box is read by slices, a permutation and reshapes, and replaced by slice scatters. What is no box
goes by flat positions: indexing for a read, `index_put` for a replacement. Nothing depends on strides, so the graph
means the same wherever it runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import fx

from compiler.analysis.windows import BROADCAST, Box, covers_all, find_box, is_identity, overlaps_itself, permutation
from dialects.types import Geometry

A = torch.ops.aten
Emit = Callable[..., fx.Node]
"""`emit(target, args, kwargs, dtype, sizes)`: a new node that gives a tensor of this type."""


class Windows:
    """Reads and replaces windows by nodes that `emit` makes."""

    def __init__(self, emit: Emit, device: torch.device | None) -> None:
        self._emit = emit
        self._device = {"device": device} if device is not None else {}

    def extract(self, base: fx.Node, dtype: torch.dtype, shape: tuple[int, ...], window: Geometry) -> fx.Node:
        """Element (i, j, ...) is element `offset + i * stride_0 + ...` of the base in row-major order."""
        if window.numel == 0:
            return self.zeros(dtype, window.sizes)
        if is_identity(shape, window):
            return self.reshape(base, dtype, shape, window.sizes)
        box = find_box(shape, window, exact=True) or find_box(shape, window)
        if box is None:
            flat = self.reshape(base, dtype, shape, (math.prod(shape),))
            return self._emit(A.index.Tensor, (flat, [self._positions(window)]), {}, dtype, window.sizes)
        block = self.reshape(self._stretch(base, dtype, shape, box), dtype, self._stretched(shape, box), box.dims)
        have = list(box.dims)
        for axis, (start, count, step) in enumerate(zip(box.starts, box.counts, box.steps, strict=True)):
            if count != box.dims[axis]:
                have[axis] = count
                end = start + (count - 1) * step + 1
                block = self._emit(A.slice.Tensor, (block, axis, start, end, *((step,) if step > 1 and count > 1 else ())),
                                   {}, dtype, tuple(have))  # fmt: skip
        run = [piece for pieces in box.pieces for piece in pieces]
        used = [piece.axis for piece in run if piece.axis != BROADCAST]
        ascending = sorted(used)
        block = self.reshape(block, dtype, tuple(have), tuple(have[axis] for axis in ascending))
        block = self._permute(block, dtype, tuple(have[axis] for axis in ascending), [ascending.index(a) for a in used])
        if len(used) < len(run):
            thin = tuple(1 if piece.axis == BROADCAST else piece.size for piece in run)
            full = tuple(piece.size for piece in run)
            block = self.reshape(block, dtype, tuple(have[axis] for axis in used), thin)
            block = self._emit(A.expand.default, (block, list(full)), {}, dtype, full)
        return self.reshape(block, dtype, tuple(piece.size for piece in run), window.sizes)

    def insert(
        self, value: fx.Node, base: fx.Node | None, dtype: torch.dtype, shape: tuple[int, ...], window: Geometry
    ) -> fx.Node:
        """The base, of this type, with the window replaced; without a base the window covers every element."""
        if covers_all(shape, window):
            order = list(permutation(window))
            ordered = self._permute(value, dtype, window.sizes, order)
            return self.reshape(ordered, dtype, tuple(window.sizes[i] for i in order), shape)
        if base is None:
            base = self.zeros(dtype, shape)
        if window.numel == 0:
            return base
        value, window = self._once(value, dtype, window)
        box = None if overlaps_itself(window) else _best_box(shape, window)
        if box is None:
            flat = self.reshape(base, dtype, shape, (math.prod(shape),))
            put = self._emit(
                A.index_put.default, (flat, [self._positions(window)], value), {}, dtype, (math.prod(shape),)
            )
            return self.reshape(put, dtype, (math.prod(shape),), shape)
        block = self._block(value, dtype, window, box)
        return self.reshape(
            self._scatter(self.reshape(base, dtype, shape, box.dims), block, dtype, box), dtype, box.dims, shape
        )

    def reshape(self, value: fx.Node, dtype: torch.dtype, have: tuple[int, ...], want: tuple[int, ...]) -> fx.Node:
        """The elements in row-major order under another shape; nothing when it is the same."""
        return value if have == want else self._emit(A.reshape.default, (value, list(want)), {}, dtype, want)

    def zeros(self, dtype: torch.dtype, shape: tuple[int, ...]) -> fx.Node:
        return self._emit(A.zeros.default, (list(shape),), {"dtype": dtype, **self._device}, dtype, shape)

    # -- parts ---------------------------------------------------------------------------------

    def _permute(self, value: fx.Node, dtype: torch.dtype, have: tuple[int, ...], order: list[int]) -> fx.Node:
        if order == list(range(len(order))):
            return value
        return self._emit(A.permute.default, (value, order), {}, dtype, tuple(have[i] for i in order))

    def _stretch(self, base: fx.Node, dtype: torch.dtype, shape: tuple[int, ...], box: Box) -> fx.Node:
        """The flat elements that the box cuts; zeros stand where it reaches past the end."""
        numel = math.prod(shape)
        if box.shift == 0 and box.extent == numel:
            return base
        flat = self.reshape(base, dtype, shape, (numel,))
        end = min(box.shift + box.extent, numel)
        if box.shift or end < numel:
            flat = self._emit(A.slice.Tensor, (flat, 0, box.shift, end), {}, dtype, (end - box.shift,))
        missing = box.extent - (end - box.shift)
        if missing:
            flat = self._emit(A.constant_pad_nd.default, (flat, [0, missing]), {}, dtype, (box.extent,))
        return flat

    @staticmethod
    def _stretched(shape: tuple[int, ...], box: Box) -> tuple[int, ...]:
        return shape if box.shift == 0 and box.extent == math.prod(shape) else (box.extent,)

    def _once(self, value: fx.Node, dtype: torch.dtype, window: Geometry) -> tuple[fx.Node, Geometry]:
        """Where stride 0 repeats an element, the value is the same each time: keep the first."""
        sizes = list(window.sizes)
        for axis, (size, stride) in enumerate(zip(window.sizes, window.strides, strict=True)):
            if stride == 0 and size > 1:
                sizes[axis] = 1
                value = self._emit(A.slice.Tensor, (value, axis, 0, 1), {}, dtype, tuple(sizes))
        return value, Geometry(tuple(sizes), window.strides, window.offset)

    def _block(self, value: fx.Node, dtype: torch.dtype, window: Geometry, box: Box) -> fx.Node:
        """A value of the window's sizes, laid out as the box it fills."""
        run = [piece for pieces in box.pieces for piece in pieces]
        sizes = tuple(piece.size for piece in run)
        order = sorted(range(len(run)), key=lambda i: run[i].axis)
        value = self._permute(self.reshape(value, dtype, window.sizes, sizes), dtype, sizes, order)
        return self.reshape(value, dtype, tuple(sizes[i] for i in order), box.counts)

    def _scatter(self, base: fx.Node, block: fx.Node, dtype: torch.dtype, box: Box) -> fx.Node:
        """Replace a box, one axis inside the other."""
        cuts = [axis for axis, (count, size) in enumerate(zip(box.counts, box.dims, strict=True)) if count != size]
        if not cuts:
            return block
        shapes, outer = [box.dims], [base]
        for axis in cuts[:-1]:
            shape = tuple(box.counts[i] if i == axis else n for i, n in enumerate(shapes[-1]))
            outer.append(self._emit(A.slice.Tensor, (outer[-1], axis, *_bounds(box, axis)), {}, dtype, shape))
            shapes.append(shape)
        for axis, whole, shape in zip(reversed(cuts), reversed(outer), reversed(shapes), strict=True):
            block = self._emit(A.slice_scatter.default, (whole, block, axis, *_bounds(box, axis)), {}, dtype, shape)
        return block

    def _positions(self, window: Geometry) -> fx.Node:
        """Position in row-major order of every element of a window."""
        i64 = torch.int64
        have = (1,) * len(window.sizes)
        total = self._emit(A.full.default, (list(have), window.offset), {"dtype": i64, **self._device}, i64, have)
        for axis, (size, stride) in enumerate(zip(window.sizes, window.strides, strict=True)):
            if size == 1:
                continue
            along = tuple(size if i == axis else 1 for i in range(len(have)))
            part = self._emit(A.arange.default, (size,), {"dtype": i64, **self._device}, i64, (size,))
            part = self.reshape(self._emit(A.mul.Tensor, (part, stride), {}, i64, (size,)), i64, (size,), along)
            have = tuple(map(max, have, along))
            total = self._emit(A.add.Tensor, (total, part), {}, i64, have)
        return total


def _bounds(box: Box, axis: int) -> tuple[int, ...]:
    start, count, step = box.starts[axis], box.counts[axis], box.steps[axis]
    end = start + (count - 1) * step + 1
    return (start, end, step) if step > 1 and count > 1 else (start, end)


def _best_box(shape: tuple[int, ...], window: Geometry) -> Box | None:
    return (
        find_box(shape, window, own=True, unit=True)
        or find_box(shape, window, own=True)
        or find_box(shape, window, exact=True, unit=True)
        or find_box(shape, window, exact=True)
    )


__all__ = ["Windows"]
