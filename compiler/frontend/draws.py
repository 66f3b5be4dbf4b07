"""Uniform and normal numbers and integers from random bits: what all other distributions are made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

DIGITS = {torch.float64: 53, torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}
"""Random bits of a uniform number: as many as the type's significand has."""

Draw = Callable[[Sequence[int]], torch.Tensor]
"""64 random bits, as i64, for each element of a tensor of this size."""


def uniform(draw: Draw, size: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """Multiples of 2^-digits in [0, 1)."""
    digits = DIGITS[dtype]
    words = torch.bitwise_and(torch.bitwise_right_shift(draw(size), 64 - digits), (1 << digits) - 1)
    return words.to(dtype) * 2.0**-digits


def normal(draw: Draw, size: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """Box and Muller's method: the angle and the radius of a point that is normal in the plane."""
    if dtype.is_complex:
        real = torch.float64 if dtype is torch.complex128 else torch.float32
        return torch.view_as_complex(normal(draw, (*size, 2), real) * math.sqrt(0.5))
    if dtype is torch.float64:
        radius = 1 - uniform(draw, size, dtype)
        angle = uniform(draw, size, dtype)
    else:
        words = draw(size)
        radius = (torch.bitwise_and(words, 0xFFFFFFFF).to(torch.float32) + 0.5) * 2.0**-32
        angle = torch.bitwise_and(torch.bitwise_right_shift(words, 40), 0xFFFFFF).to(torch.float32) * 2.0**-24
    return (torch.sqrt(-2 * torch.log(radius)) * torch.cos(2 * math.pi * angle)).to(dtype)


def integers(draw: Draw, size: Sequence[int], low: int, high: int) -> torch.Tensor:
    """Integers in [low, high): 63 random bits modulo the number of values."""
    words = torch.bitwise_and(torch.bitwise_right_shift(draw(size), 1), (1 << 63) - 1)
    return words % min(high - low, (1 << 63) - 1) + low


__all__ = ["DIGITS", "Draw", "integers", "normal", "uniform"]
