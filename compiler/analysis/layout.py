"""How a view of a copy looks on the copy's source: the same index walks other strides, if it can be walked at all."""

from __future__ import annotations

from collections.abc import Sequence

from dialects.types import Geometry


def same_strides(a: Geometry, b: Geometry) -> bool:
    """Whether two windows of equal sizes step alike; dimensions of size 1 and empty windows never step."""
    if a.numel == 0:
        return True
    return all(s == t for s, t, size in zip(a.strides, b.strides, a.sizes, strict=True) if size != 1)


def rebase(view: Geometry, copy: Geometry, source: Geometry) -> Geometry | None:
    """`view`, a window on the memory of `copy`, as a window on the memory of `source`.

    `copy` is dense, and `source` has its sizes. None when no strided window on the source meets the same elements
    in the same order (a flattened transpose).
    """
    if same_strides(copy, source):
        return Geometry(view.sizes, view.strides, view.offset - copy.offset + source.offset)
    if view.numel == 0:
        return Geometry(view.sizes, view.strides, source.offset)
    dims = sorted(
        ((s, size, t) for s, size, t in zip(copy.strides, copy.sizes, source.strides, strict=True) if size > 1),
        reverse=True,
    )
    first = _index(view.offset - copy.offset, dims)
    if first is None:
        return None
    last, strides = list(first), list[int]()
    for size, stride in zip(view.sizes, view.strides, strict=True):
        step = _index(stride, dims) if size > 1 else [0] * len(dims)
        if step is None:
            return None
        last = [a + (size - 1) * b for a, b in zip(last, step, strict=True)]
        strides.append(sum(a * t for a, (_, _, t) in zip(step, dims, strict=True)) if size > 1 else stride)
    if any(a >= size for a, (_, size, _) in zip(last, dims, strict=True)):
        return None  # stepping carries from one dimension into the next
    offset = source.offset + sum(a * t for a, (_, _, t) in zip(first, dims, strict=True))
    return Geometry(view.sizes, tuple(strides), offset)


def _index(position: int, dims: Sequence[tuple[int, int, int]]) -> list[int] | None:
    """The index of an element of a dense tensor whose dimensions (stride, size, _) descend, or None outside it."""
    if position < 0:
        return None
    index: list[int] = []
    for stride, size, _ in dims:
        digit, position = divmod(position, stride)
        if digit >= size:
            return None
        index.append(digit)
    return index if position == 0 else None
