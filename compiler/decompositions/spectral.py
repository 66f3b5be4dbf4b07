"""The frequencies that the elements of a discrete Fourier transform stand for."""

from __future__ import annotations

import torch
from torch import Tensor

from compiler.decompositions import decomposition


@decomposition("fft_fftfreq.default")
def fftfreq(n: int, d: float = 1.0, *, dtype: torch.dtype | None = None, **_: object) -> Tensor:
    """The negative frequencies follow the others."""
    dtype = dtype or torch.get_default_dtype()
    return torch.cat([torch.arange((n + 1) // 2, dtype=dtype), torch.arange(-(n // 2), 0, dtype=dtype)]) * (1 / (n * d))


@decomposition("fft_rfftfreq.default")
def rfftfreq(n: int, d: float = 1.0, *, dtype: torch.dtype | None = None, **_: object) -> Tensor:
    return torch.arange(n // 2 + 1, dtype=dtype or torch.get_default_dtype()) * (1 / (n * d))
