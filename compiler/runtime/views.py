"""Tensors on given bytes: raw windows on a storage, and views that PyTorch knows as views."""

from __future__ import annotations

import torch

from compiler.errors import CompileError
from compiler.export.elements import DTYPES, with_lazy, without_lazy
from compiler.export.signature import Window


def raw(storage: torch.UntypedStorage, dtype: torch.dtype, byte_offset: int, window: Window) -> torch.Tensor:
    """A window on a storage, counted from `byte_offset`; no autograd, no lazy bits, its own version counter."""
    start = byte_offset // dtype.itemsize + window.offset
    return torch.empty(0, dtype=dtype).set_(storage, start, window.sizes, window.strides)


def copy_into(target: torch.Tensor, value: torch.Tensor) -> None:
    """Copy bits into a window that may overlap itself; elements at one place have one value."""
    sizes = [1 if step == 0 and n else n for n, step in zip(target.shape, target.stride(), strict=True)]
    target, value = (t.as_strided(sizes, t.stride(), t.storage_offset()) for t in (target, value))
    for dimension, (n, step) in enumerate(zip(target.shape, target.stride(), strict=True)):
        span = sum((m - 1) * s for m, s in zip(target.shape[dimension + 1 :], target.stride()[dimension + 1 :]))
        if n > 1 and step <= span and _overlaps_itself(target):
            for index in range(n):
                copy_into(target.select(dimension, index), value.select(dimension, index))
            return
    target.copy_(value)


def _overlaps_itself(tensor: torch.Tensor) -> bool:
    """Whether the dimensions, from the smallest stride up, do not nest; true for some windows that are disjoint."""
    reach = 0
    for step, n in sorted((s, n) for n, s in zip(tensor.shape, tensor.stride(), strict=True) if n > 1):
        if step <= reach:
            return True
        reach += step * (n - 1)
    return False


def view(base: torch.Tensor, element: str, byte_offset: int, window: Window, lazy: str) -> torch.Tensor:
    """A view of `base` on a window of its storage that begins to count at `byte_offset`, with these lazy bits."""
    dtype = DTYPES[element]
    base = without_lazy(base)
    if byte_offset % dtype.itemsize:
        raise CompileError(f"a view as {dtype} would begin at byte {byte_offset} of its storage, inside an element")
    if base.dtype is not dtype:
        base = _whole(base, dtype)
    result = base.as_strided(window.sizes, window.strides, byte_offset // dtype.itemsize + window.offset)
    return with_lazy(result, lazy)


def _whole(base: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The storage of `base` as a view of it with another dtype, less the last bytes that fill no element."""
    width = max(base.dtype.itemsize, dtype.itemsize)
    count = base.untyped_storage().nbytes() // width * width // base.dtype.itemsize
    return base.as_strided((count,), (1,), 0).view(dtype)
