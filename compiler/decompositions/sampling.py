"""Images read at places between their pixels, and pools over windows that a sample chooses."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor
from torch._decomp import decomposition_table

from compiler.decompositions import decomposition


def _unnormalised(x: Tensor, size: int, align: bool) -> Tensor:
    return (x + 1) / 2 * (size - 1) if align else ((x + 1) * size - 1) / 2


def _reflected(x: Tensor, twice_low: int, twice_high: int) -> Tensor:
    if twice_low == twice_high:
        return torch.zeros_like(x)
    low, span = twice_low / 2, (twice_high - twice_low) / 2
    away = (x - low).abs()
    rest, turns = torch.fmod(away, span), torch.floor(away / span)
    return torch.where(turns % 2 == 0, rest + low, span - rest + low)


def _source(x: Tensor, size: int, padding: int, align: bool) -> Tensor:
    """The pixel coordinate of a grid value, by the padding mode: 0 zeros, 1 border, 2 reflection. What is no number lies outside,
    or at the last pixel."""
    x = _unnormalised(x, size, align)
    if padding == 2:
        x = _reflected(x, 0, 2 * (size - 1)) if align else _reflected(x, -1, 2 * size - 1)
    return torch.where(x.isnan(), size - 1.0, x.clamp(0, size - 1)) if padding else torch.where(x.isfinite(), x, -2.0)


@decomposition("grid_sampler_2d.default")
def grid_sampler_2d(image: Tensor, grid: Tensor, interpolation: int, padding: int, align: bool) -> Tensor:
    """PyTorch's own, and what it leaves open: NaN, and infinity where it is reflected, count as -1. Outside of the image, mode 0
    weighs zeros, by NaN there."""
    if interpolation != 2 and padding:
        odd = grid.isnan() if padding == 1 else ~grid.isfinite()
        grid = torch.where(odd, -1.0, grid)
    sampled = decomposition_table[torch.ops.aten.grid_sampler_2d.default](image, grid, interpolation, padding, align)
    if interpolation or padding:
        return sampled
    return torch.where(grid.isfinite().all(-1).unsqueeze(1), sampled, torch.nan)


@decomposition("grid_sampler_3d.default")
def grid_sampler_3d(image: Tensor, grid: Tensor, interpolation: int, padding: int, align: bool) -> Tensor:
    """Mode 0 weighs the eight pixels around a place, mode 1 takes the nearest; what is outside counts as zero."""
    sizes = image.shape[2:]
    batch, channels = image.shape[:2]
    flat = image.reshape(batch, channels, -1)
    places = [_source(grid[..., 2 - d], sizes[d], padding, align) for d in range(3)]

    def at(corner: Sequence[Tensor]) -> Tensor:
        inside = torch.ones_like(corner[0], dtype=torch.bool)
        index = torch.zeros_like(corner[0], dtype=torch.int64)
        for c, size in zip(corner, sizes):
            inside = inside & (c >= 0) & (c < size)
            index = index * size + c.clamp(0, size - 1).to(torch.int64)
        spread = index.reshape(batch, 1, -1).expand(batch, channels, -1)
        found = flat.gather(2, spread).reshape(batch, channels, *index.shape[1:])
        return torch.where(inside.unsqueeze(1), found, torch.zeros_like(found))

    if interpolation == 1:
        return at([torch.round(p) for p in places])
    low = [torch.floor(p) for p in places]
    total = torch.zeros_like(at(low))
    for corner in itertools.product((0, 1), repeat=3):
        weight = torch.ones_like(places[0])
        for side, p, floor in zip(corner, places, low):
            weight = weight * (p - floor if side else floor + 1 - p)
        total = total + at([floor + side for floor, side in zip(low, corner)]) * weight.unsqueeze(1)
    return total


@decomposition("fractional_max_pool2d.default", "fractional_max_pool3d.default")
def fractional_max_pool(
    x: Tensor, kernel_size: Sequence[int], output_size: Sequence[int], random_samples: Tensor
) -> tuple[Tensor, Tensor]:
    """Windows of one size that begin where the sample says; the first greatest element, or the last NaN."""
    spatial = len(output_size)
    batched = x if x.dim() == spatial + 2 else x.unsqueeze(0)
    sizes, lead = batched.shape[-spatial:], batched.shape[:2]
    starts: list[Tensor] = []
    for d, (n, out, kernel) in enumerate(zip(sizes, output_size, kernel_size)):
        # The samples come in the order x, y(, t): the last spatial dimension first for planes, the first for volumes.
        sample = random_samples[..., spatial - 1 - d if spatial == 2 else d].to(batched.dtype)[..., None]
        if out == 1:
            starts.append(torch.zeros_like(sample, dtype=torch.int64) + (n - kernel))
            continue
        alpha = (n - kernel) / (out - 1)
        number = torch.arange(out - 1)
        begin = ((number + sample) * alpha).to(torch.int64) - (sample * alpha).to(torch.int64)
        starts.append(torch.cat([begin, torch.full_like(begin[..., :1], n - kernel)], -1))
    best = place = None
    flat = batched.reshape(*lead, -1)
    for offset in itertools.product(*(range(k) for k in kernel_size)):
        index = torch.zeros((*lead, *[1] * spatial), dtype=torch.int64)
        for d, (start, o) in enumerate(zip(starts, offset)):
            shape = [*lead, *[1] * spatial]
            shape[2 + d] = output_size[d]
            index = index * sizes[d] + (start + o).expand(*lead, output_size[d]).reshape(shape)
        value = flat.gather(2, index.reshape(*lead, -1)).reshape(index.shape)
        if best is None or place is None:
            best, place = value, index
            continue
        better = (value > best) | (value != value)
        best, place = torch.where(better, value, best), torch.where(better, index, place)
    assert best is not None and place is not None
    return (best, place) if x.dim() == spatial + 2 else (best.squeeze(0), place.squeeze(0))
