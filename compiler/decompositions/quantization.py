"""Quantization that stays in floating point: rounded to steps of a scale, and cut off at the ends of the integer type."""

from __future__ import annotations

import torch
from torch import Tensor

from compiler.decompositions import decomposition


@decomposition("fake_quantize_per_tensor_affine_cachemask.default")
def fake_quantize(x: Tensor, scale: float, zero_point: int, quant_min: int, quant_max: int) -> tuple[Tensor, Tensor]:
    return _quantized(x, torch.full((), scale), zero_point, quant_min, quant_max, torch.float32)


@decomposition("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default")
def fake_quantize_by_tensors(
    x: Tensor, scale: Tensor, zero_point: Tensor, fake_quant_enabled: Tensor, quant_min: int, quant_max: int
) -> tuple[Tensor, Tensor]:
    cut, inside = _quantized(x, scale.reshape(()), zero_point.reshape(()), quant_min, quant_max, torch.float32)
    enabled = fake_quant_enabled.reshape(()) != 0
    return torch.where(enabled, cut, x), torch.where(enabled, inside, True)


@decomposition("fake_quantize_per_channel_affine_cachemask.default")
def fake_quantize_channels(
    x: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> tuple[Tensor, Tensor]:
    shape = [-1 if dim == axis % x.dim() else 1 for dim in range(x.dim())]
    return _quantized(x, scale.reshape(shape), zero_point.reshape(shape), quant_min, quant_max, x.dtype, counted=True)


def _quantized(
    x: Tensor, scale: Tensor, zero: Tensor | int, low: int, high: int, back: torch.dtype, counted: bool = False
) -> tuple[Tensor, Tensor]:
    """The values cut off, and where none had to be. The scale is of f32, whatever the values are, and so is its inverse; what
    is cut off is scaled `back` in one of the types, f32 at least. `counted`: the steps are integers before they are cut off."""
    wide = torch.promote_types(x.dtype, torch.float32)
    scaled = x.to(wide) * scale.to(torch.float32).reciprocal()
    whole = isinstance(zero, int) or not zero.is_floating_point()
    steps = torch.round(scaled) + zero if whole else torch.round(scaled + zero)
    if counted:  # what does not fit, infinity too, is the least integer
        steps = steps.to(torch.int64).to(steps.dtype)
    back = torch.promote_types(back, torch.float32)
    level = torch.where(steps.isnan(), low, steps.clamp(low, high))  # the kernels take maxima that pass over NaN
    cut = (level - zero).to(back) * scale.to(back)
    return cut.to(x.dtype), (steps >= low) & (steps <= high)
