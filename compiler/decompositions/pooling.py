"""Pools whose windows differ in size, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from compiler.decompositions import decomposition


def _spans(size: int, out: int) -> tuple[Tensor, Tensor]:
    """Which of `size` elements each of `out` windows holds (out x size), and how many they are (out)."""
    number = torch.arange(out)
    start, stop = number * size // out, ((number + 1) * size + out - 1) // out
    place = torch.arange(size)
    return (place >= start[:, None]) & (place < stop[:, None]), stop - start


def wide(x: Tensor) -> Tensor:
    """The tensor in the type in which PyTorch adds up numbers of its type."""
    return x.to(torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x


def _adaptive_average(x: Tensor, sizes: Sequence[int]) -> Tensor:
    """One dimension after the other, exactly: what is outside a window does not enter it, be it infinite."""
    found = wide(x)
    for dim, out in zip(range(-len(sizes), 0), sizes):
        inside, count = _spans(x.shape[dim], out)
        moved = found.movedim(dim, -1).unsqueeze(-2)
        found = (torch.where(inside, moved, torch.zeros_like(moved)).sum(-1) / count).movedim(-1, dim)
    return found.to(x.dtype)


def _adaptive_average_backward(grad: Tensor, x: Tensor, spatial: int) -> Tensor:
    found = wide(grad)
    for dim in range(-spatial, 0):
        inside, count = _spans(x.shape[dim], grad.shape[dim])
        moved = (found.movedim(dim, -1) / count).unsqueeze(-1)
        found = torch.where(inside, moved, torch.zeros_like(moved)).sum(-2).movedim(-1, dim)
    return found.to(x.dtype)


@decomposition("_adaptive_avg_pool3d.default", "adaptive_avg_pool3d.default", "_adaptive_avg_pool2d.default")
def adaptive_avg_pool(x: Tensor, output_size: Sequence[int]) -> Tensor:
    return _adaptive_average(x, output_size)


@decomposition("_adaptive_avg_pool2d_backward.default")
def adaptive_avg_pool2d_backward(grad: Tensor, x: Tensor) -> Tensor:
    return _adaptive_average_backward(grad, x, 2)


@decomposition("_adaptive_avg_pool3d_backward.default")
def adaptive_avg_pool3d_backward(grad: Tensor, x: Tensor) -> Tensor:
    return _adaptive_average_backward(grad, x, 3)


@decomposition("adaptive_max_pool2d.default", "adaptive_max_pool3d.default")
def adaptive_max_pool(x: Tensor, output_size: Sequence[int]) -> tuple[Tensor, Tensor]:
    """The first greatest element (or NaN) of each window, with its place in the plane."""
    spatial = len(output_size)
    size = x.shape[-spatial:]
    inside = torch.ones((), dtype=torch.bool)
    for place, (n, out) in enumerate(zip(size, output_size)):
        span, _ = _spans(n, out)
        shape = [1] * (2 * spatial)
        shape[place], shape[spatial + place] = out, n
        inside = inside & span.reshape(shape)
    count = 1
    for n in size:
        count *= n
    lead = list(x.shape[:-spatial])
    flat = inside.reshape([*output_size, count])
    plane = x.reshape([*lead, *[1] * spatial, count])
    lowest = float("-inf") if x.dtype.is_floating_point else torch.iinfo(x.dtype).min
    values, places = torch.where(flat, plane, lowest).max(-1)
    first = flat.to(torch.int64).argmax(-1)  # where every element is the lowest there is
    return values, torch.where(values == lowest, first.expand(values.shape), places)
