"""Histograms over one or several dimensions: each number is in the last bin that starts at it or before it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from compiler.decompositions import decomposition


def _edges(points: Tensor, bins: Sequence[int], limits: Sequence[float] | None) -> list[Tensor]:
    """Evenly spaced edges for each column, from the range that is given or from that of the data."""
    found: list[Tensor] = []
    for column, count in enumerate(bins):
        if limits is not None:
            low, high = (torch.full((), float(v), dtype=points.dtype) for v in limits[2 * column : 2 * column + 2])
        elif len(points):
            low, high = points[:, column].amin(), points[:, column].amax()
        else:
            low, high = torch.zeros((), dtype=points.dtype), torch.ones((), dtype=points.dtype)
        same = low == high
        low, high = torch.where(same, low - 0.5, low), torch.where(same, high + 0.5, high)
        step, place = (high - low) / count, torch.arange(count + 1)
        found.append(torch.where(place < (count + 1) // 2, low + step * place, high - step * (count - place)))
    return found


def _histogram(points: Tensor, edges: Sequence[Tensor], weight: Tensor | None, density: bool) -> Tensor:
    counts = [len(edge) - 1 for edge in edges]
    inside = torch.ones(points.shape[:1], dtype=torch.bool)
    place = torch.zeros(points.shape[:1], dtype=torch.int64)
    for column, (edge, count) in enumerate(zip(edges, counts)):
        x = points[:, column].contiguous()
        inside = inside & (x >= edge[0]) & (x <= edge[-1])
        bin_ = torch.searchsorted(edge.contiguous(), x, right=True) - 1
        place = place * count + torch.where(x == edge[-1], count - 1, bin_).clamp(0, count - 1)
    weights = torch.ones_like(points[:, 0]) if weight is None else weight.reshape(-1).to(points.dtype)
    hits = (place == torch.arange(math.prod(counts))[:, None]) & inside
    total = torch.where(hits, weights, torch.zeros_like(weights)).sum(1).reshape(counts)
    if density:
        total = total / total.sum()
        for column, edge in enumerate(edges):
            shape = [-1 if d == column else 1 for d in range(len(edges))]
            total = total / edge.diff().reshape(shape)
    return total


@decomposition("histogram.bin_ct")
def histogram(
    x: Tensor,
    bins: int = 100,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> tuple[Tensor, Tensor]:
    points = x.reshape(-1, 1)
    edges = _edges(points, [bins], range)
    return _histogram(points, edges, weight, density), edges[0]


@decomposition("histogram.bins_tensor")
def histogram_of_edges(
    x: Tensor, bins: Tensor, *, weight: Tensor | None = None, density: bool = False
) -> tuple[Tensor, Tensor]:
    return _histogram(x.reshape(-1, 1), [bins], weight, density), bins.clone()


@decomposition("_histogramdd_bin_edges.default")
def histogramdd_bin_edges(
    x: Tensor, bins: Sequence[int], *, range: Sequence[float] | None = None, weight: Tensor | None = None,
    density: bool = False,
) -> list[Tensor]:  # fmt: skip
    return _edges(_points(x), bins, range)


@decomposition("_histogramdd_from_bin_cts.default")
def histogramdd(
    x: Tensor, bins: Sequence[int], *, range: Sequence[float] | None = None, weight: Tensor | None = None,
    density: bool = False,
) -> Tensor:  # fmt: skip
    points = _points(x)
    return _histogram(points, _edges(points, bins, range), weight, density)


@decomposition("_histogramdd_from_bin_tensors.default")
def histogramdd_of_edges(
    x: Tensor, bins: Sequence[Tensor], *, weight: Tensor | None = None, density: bool = False
) -> Tensor:
    return _histogram(_points(x), bins, weight, density)


def _points(x: Tensor) -> Tensor:
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
