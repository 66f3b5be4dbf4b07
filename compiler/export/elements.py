"""Element types and lazy bits at the border to PyTorch: our spelling on one side, what PyTorch has on the other."""

from __future__ import annotations

import torch

DTYPES: dict[str, torch.dtype] = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f8E4M3FN": torch.float8_e4m3fn,
    "f8E5M2": torch.float8_e5m2,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "ui64": torch.uint64,
    "ui32": torch.uint32,
    "ui16": torch.uint16,
    "ui8": torch.uint8,
    "i1": torch.bool,
    "complex<f32>": torch.complex64,
    "complex<f64>": torch.complex128,
}
"""MLIR spelling of an element type -> the dtype whose bytes in memory are the same."""

ELEMENTS: dict[torch.dtype, str] = {dtype: element for element, dtype in DTYPES.items()}


def element_size(element: str) -> int:
    """Bytes of one element in memory (bool: one)."""
    return DTYPES[element].itemsize


def with_lazy(tensor: torch.Tensor, bits: str) -> torch.Tensor:
    """A view of a tensor without lazy bits that has these: "", "conj", "neg" or "conj,neg"."""
    if "conj" in bits:
        tensor = tensor.conj()
    return torch._neg_view(tensor) if "neg" in bits else tensor


def without_lazy(tensor: torch.Tensor) -> torch.Tensor:
    """A view of a tensor that shows its memory as it is."""
    if tensor.is_conj():
        tensor = tensor.conj()
    return torch._neg_view(tensor) if tensor.is_neg() else tensor
