"""Medians, modes, counts in bins and places in sorted rows, from sorting and comparing."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from compiler.decompositions import decomposition


@decomposition("nanmedian.dim")
def nanmedian_dim(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The lower median of what is not NaN, which sorts last; NaN where there is nothing else."""
    if not x.dim():
        return x.clone(), torch.zeros((), dtype=torch.int64)
    values, places = x.sort(stable=True, dim=dim)
    count = (x == x).to(torch.int64).sum(dim, keepdim=True)
    middle = ((count - 1) // 2).clamp(min=0)
    value, place = values.gather(dim, middle), places.gather(dim, middle)
    return (value, place) if keepdim else (value.squeeze(dim), place.squeeze(dim))


@decomposition("nanmedian.default")
def nanmedian(x: Tensor) -> Tensor:
    return nanmedian_dim(x.reshape(-1), 0)[0] if x.numel() else torch.median(x)


@decomposition("mode.default")
def mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The smallest of the most frequent values, and the last place where it is."""
    if not x.dim():
        return x.clone(), torch.zeros((), dtype=torch.int64)
    moved = x.movedim(dim, -1)
    values, _ = moved.sort(stable=True, dim=-1)
    counts = (values.unsqueeze(-1) == values.unsqueeze(-2)).to(torch.int64).sum(-1)
    first = counts.argmax(-1, keepdim=True)
    value = values.gather(-1, first)
    size = x.shape[dim]
    place = torch.where(moved == value, torch.arange(size), -1).amax(-1, keepdim=True)
    value, place = value.movedim(-1, dim), place.movedim(-1, dim)
    return (value, place) if keepdim else (value.squeeze(dim), place.squeeze(dim))


@decomposition("histc.default")
def histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """Counts in bins of equal width; equal bounds stand for the extremes of the data."""
    flat = x.reshape(-1)
    low = torch.as_tensor(float(min), dtype=x.dtype)
    high = torch.as_tensor(float(max), dtype=x.dtype)
    if min == max and len(flat):
        low, high = flat.amin(), flat.amax()
    same = low == high
    low, high = torch.where(same, low - 1, low), torch.where(same, high + 1, high)
    inside = (flat >= low) & (flat <= high)
    place = ((flat - low) / (high - low) * bins).to(torch.int64).clamp(0, bins - 1)
    hits = (place[:, None] == torch.arange(bins)) & inside[:, None]
    return hits.to(torch.float32).sum(0).to(x.dtype)


@decomposition("nonzero_static.default")
def nonzero_static(x: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """The coordinates of the first `size` elements that are not zero, in order, and filling behind them."""
    flat = x.reshape(-1) != 0
    number = flat.to(torch.int64).cumsum(0) - 1
    count = torch.arange(size)
    hit = flat & (number == count[:, None])
    place = torch.where(hit, torch.arange(len(flat)), 0).sum(-1)
    found = hit.any(-1)
    columns: list[Tensor] = []
    stride = len(flat)
    for n in x.shape:
        stride = stride // n if n else 0
        columns.append(torch.where(found, place // stride % n if stride else place, fill_value))
    return torch.stack(columns, -1) if columns else x.new_empty((size, 0), dtype=torch.int64)


@decomposition("searchsorted.Scalar")
def searchsorted_scalar(
    ordered: Tensor, value: float, *, out_int32: bool = False, right: bool = False, side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:  # fmt: skip
    wanted = torch.full((1,), value, dtype=ordered.dtype)
    place = torch.searchsorted(ordered, wanted, out_int32=out_int32, right=right, side=side, sorter=sorter)
    return place.reshape(())


def segments(data: Tensor, lengths: Tensor | None, offsets: Tensor | None, axis: int) -> Tensor:
    """Which elements of `axis` each segment holds: (batch..., segments, size), and ones for the dimensions behind."""
    if offsets is not None:
        start, stop = offsets[..., :-1], offsets[..., 1:]
    else:
        assert lengths is not None
        stop = lengths.cumsum(-1)
        start = stop - lengths
    place = torch.arange(data.shape[axis])
    inside = (place >= start.unsqueeze(-1)) & (place < stop.unsqueeze(-1))
    return inside.reshape([*inside.shape, *[1] * (data.dim() - axis - 1)])


@decomposition("segment_reduce.default")
def segment_reduce(
    data: Tensor, reduce: str, *, lengths: Tensor | None = None, indices: Tensor | None = None,
    offsets: Tensor | None = None, axis: int = 0, unsafe: bool = False, initial: float | None = None,
) -> Tensor:  # fmt: skip
    """A reduction of each run of `axis`; an empty run gives `initial`, or the reduction's neutral element."""
    inside = segments(data, lengths, offsets, axis)
    spread = data.unsqueeze(axis)
    neutral = {"max": -math.inf, "min": math.inf, "prod": 1.0}.get(reduce, 0.0)
    masked = torch.where(inside, spread, neutral)
    reduced = axis + 1
    count = inside.to(data.dtype).sum(reduced)
    if reduce == "max":
        found = masked.amax(reduced)
        return found if initial is None else torch.maximum(found, torch.full_like(found, initial))
    if reduce == "min":
        found = masked.amin(reduced)
        return found if initial is None else torch.minimum(found, torch.full_like(found, initial))
    if reduce == "prod":
        found = masked.prod(reduced)
        return found if initial is None else found * initial
    found = masked.sum(reduced)
    found = found if initial is None else found + initial
    if reduce == "mean":
        return torch.where(count > 0, found / count.clamp(min=1), math.nan if initial is None else found)
    return found


@decomposition("lcm.default")
def lcm(x: Tensor, y: Tensor) -> Tensor:
    divisor = torch.gcd(x, y)
    zero = divisor == 0
    quotient = torch.div(x, torch.where(zero, torch.ones_like(divisor), divisor), rounding_mode="trunc")
    # Like C++, the kernel of a narrow type computes in 32 bits.
    wide = torch.int32 if divisor.dtype.itemsize < 4 else divisor.dtype
    multiple = (quotient.to(wide) * y.to(wide)).abs().to(divisor.dtype)
    return torch.where(zero, torch.zeros_like(divisor), multiple)


@decomposition("repeat_interleave.Tensor")
def repeat_interleave(repeats: Tensor, *, output_size: int | None = None) -> Tensor:
    """Position i as often as it says; how many there are in all must be given, as a shape is static."""
    assert output_size is not None
    stop = repeats.cumsum(0)
    return (torch.arange(output_size)[:, None] >= stop).to(repeats.dtype).sum(-1)
