"""Resampling with a filter that widens as the image shrinks (`antialias=True`), one dimension after the other, and its gradient.

The windows and weights follow from sizes and scales alone. An element outside a window does not enter it, be it infinite.
Eager's CPU kernel gives every element of a column that is alone in its image its first one's value; that is a fault, and not
repeated here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from compiler.decompositions import decomposition


def _triangle(x: Tensor) -> Tensor:
    return (1 - x.abs()).clamp(min=0)


def _cubic(x: Tensor) -> Tensor:
    """Keys' kernel with a = -0.5, as image libraries have it; without antialiasing PyTorch takes -0.75."""
    x = x.abs()
    near, far = (1.5 * x - 2.5) * x * x + 1, ((-0.5 * x + 2.5) * x - 4) * x + 2
    return torch.where(x < 1, near, torch.where(x < 2, far, torch.zeros_like(x)))


def _lanczos(x: Tensor) -> Tensor:
    return torch.where(x.abs() < 3, torch.sinc(x) * torch.sinc(x / 3), torch.zeros_like(x))


_FILTERS: dict[str, tuple[Callable[[Tensor], Tensor], int]] = {
    "bilinear": (_triangle, 1), "bicubic": (_cubic, 2), "lanczos": (_lanczos, 3),
}  # fmt: skip
"""The filter and its reach on either side."""


@dataclass(frozen=True)
class _Axis:
    """How one dimension of `size` elements becomes `out`: `scale` elements a step, and the filter."""

    size: int
    out: int
    scale: float
    filter: str

    @staticmethod
    def of(size: int, out: int, align: bool, factor: float | None, filter: str) -> _Axis:
        if align:
            scale = (size - 1) / (out - 1) if out > 1 else 0.0
        else:
            scale = 1 / factor if factor is not None and factor > 0 else size / out
        return _Axis(size, out, scale, filter)

    def windows(self) -> tuple[Tensor, Tensor, Tensor]:
        """For each result the elements it looks at, which of them count, and their weights (out x widest window)."""
        kernel, reach = _FILTERS[self.filter]
        support = reach * max(self.scale, 1.0)
        widest = min(math.ceil(support) * 2 + 1, self.size)
        centre = (torch.arange(self.out, dtype=torch.float64)[:, None] + 0.5) * self.scale
        start = (centre - support + 0.5).to(torch.int64).clamp(min=0)
        stop = (centre + support + 0.5).to(torch.int64).clamp(max=self.size)
        places = start + torch.arange(widest)
        inside = places < stop
        weights = kernel((places - centre + 0.5) / max(self.scale, 1.0))
        weights = torch.where(inside, weights, torch.zeros_like(weights))
        total = weights.sum(1, keepdim=True)
        return places.clamp(max=self.size - 1), inside, weights / torch.where(total == 0, torch.ones_like(total), total)

    def resampled(self, x: Tensor, dim: int) -> Tensor:
        """Weighted sums of the windows; of bytes with weights of 16 bits, rounded half up."""
        places, inside, weights = self.windows()
        terms = x.movedim(dim, -1).index_select(-1, places.flatten()).unflatten(-1, tuple(places.shape))
        terms = torch.where(inside, terms, torch.zeros_like(terms))
        if x.dtype is not torch.uint8:
            return (terms * weights.to(x.dtype)).sum(-1).movedim(-1, dim)
        digits = self.digits()
        whole = weights * 2.0**digits
        whole = torch.where(whole < 0, whole - 0.5, whole + 0.5).to(torch.int64)
        sums = (terms.to(torch.int64) * whole).sum(-1) + 2 ** (digits - 1)
        return torch.bitwise_right_shift(sums, digits).clamp(0, 255).to(torch.uint8).movedim(-1, dim)

    def spread(self, grad: Tensor, dim: int) -> Tensor:
        """The transpose of `resampled`."""
        places, _, weights = self.windows()
        shares = (grad.movedim(dim, -1).unsqueeze(-1) * weights.to(grad.dtype)).flatten(-2)
        found = shares.new_zeros((*shares.shape[:-1], self.size)).index_add(-1, places.flatten(), shares)
        return found.movedim(-1, dim)

    def digits(self) -> int:
        """How many binary digits behind the point a weight of 16 bits has, so that the largest fits."""
        with _disable_current_modes():  # a number of the shapes alone, wanted now
            largest = float(self.windows()[2].max())
        return next((d for d in range(22) if int(0.5 + largest * 2 ** (d + 1)) >= 2**15), 22)


def _axes(
    size: Sequence[int], out: Sequence[int], align: bool, factors: Sequence[float | None], filter: str
) -> list[tuple[int, _Axis]]:
    """The dimensions with their axes, the last one first."""
    return [(d, _Axis.of(size[d], out[d], align, factors[d], filter)) for d in (-1, -2)]


def _resampling(filter: str) -> None:
    def forward(
        x: Tensor, output_size: Sequence[int], align: bool, scale_h: float | None = None, scale_w: float | None = None
    ) -> Tensor:
        for dim, axis in _axes(x.shape, output_size, align, (scale_h, scale_w), filter):
            if axis.size != axis.out:  # whatever the scale
                x = axis.resampled(x, dim)
        return x.clone()

    def backward(
        grad: Tensor, output_size: Sequence[int], input_size: Sequence[int], align: bool,
        scale_h: float | None = None, scale_w: float | None = None,
    ) -> Tensor:  # fmt: skip
        for dim, axis in _axes(input_size, output_size, align, (scale_h, scale_w), filter):
            grad = axis.spread(grad, dim)
        return grad

    decomposition(f"_upsample_{filter}2d_aa.default")(forward)
    decomposition(f"_upsample_{filter}2d_aa_backward.default")(backward)


for _name in _FILTERS:
    _resampling(_name)
