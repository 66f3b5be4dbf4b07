"""Floats become integers as eager PyTorch makes them on x86 CPUs: also negative ones unsigned, and those that do not fit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from compiler import compile as compile_program

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (
    torch.int8, torch.uint8, torch.int16, torch.uint16, torch.int32, torch.uint32, torch.int64, torch.uint64,
)  # fmt: skip
EDGES = torch.tensor(
    [0.5, -0.5, -1.0, -1.5, 127.9, 128, 158, 255, 256, 300.7, -129, -300, 32767, 32768, 70000, -70000, 2147483000, 2.0**31,
     -(2.0**31), -(2.0**31) - 1, 3e9, -3e9, 2.0**32, 3000000001, 5e9, 1e18, 2.0**63, -(2.0**63), 9.3e18, -1e19, 2.0**64, 1e30,
     float("inf"), -float("inf"), float("nan"), -0.0],
    dtype=torch.float64,
)  # fmt: skip


@pytest.mark.parametrize("integer", INTEGERS, ids=str)
@pytest.mark.parametrize("floating", FLOATS, ids=str)
def test_each_type(floating: torch.dtype, integer: torch.dtype) -> None:
    scales = [2.0**n for n in (1, 9, 17, 31.5, 33, 40, 63.5, 66)]
    generator = torch.Generator().manual_seed(0)
    random = [(torch.rand(64, generator=generator, dtype=torch.float64) * 2 - 1) * scale for scale in scales]
    x = torch.cat([EDGES, *random]).to(floating)
    # One by one: eager's vector code has other answers for 32 bits unsigned, beyond those.
    right = torch.stack([value.to(integer) for value in x])
    assert torch.equal(compile_program(lambda x: x.to(integer), (x,))(x).view(torch.uint8), right.view(torch.uint8))


PROGRAMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "bits of a byte": lambda x: x.to(torch.uint8) & 15,
    "a byte and back": lambda x: x.to(torch.uint8).float(),
    "through a wider type": lambda x: x.to(torch.int32).to(torch.int8),
    "a sign after an absolute value": lambda x: x.abs().to(torch.int8) >= 0,
    "a sign after a square": lambda x: (x * x).to(torch.int16) >= 0,
    "a constant": lambda x: torch.full((3,), -1.0).to(torch.uint8) + x[:3].to(torch.uint8),
    "a write": lambda x: torch.zeros(x.numel(), dtype=torch.int8).copy_(x),
    "an assignment": lambda x: torch.zeros(4, x.numel(), dtype=torch.uint8).index_fill_(0, torch.tensor([1]), 7) + x.to(torch.uint8),
    "a sum": lambda x: x.view(4, 9).sum(0, dtype=torch.int16),
    "a sum without NaN": lambda x: x.view(4, 9).nansum(0, dtype=torch.int32),
    "a running sum": lambda x: x.cumsum(0, dtype=torch.int64),
    "steps of a scale for each channel": lambda x: torch.fake_quantize_per_channel_affine(
        x.view(4, 9), torch.tensor([0.1, 0.2, 0.3, 1.0]), torch.arange(4, dtype=torch.int32), 0, 0, 255
    ),
    "of complex numbers": lambda x: torch.complex(x, x).to(torch.int32),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore:Casting complex values")
def test_programs(name: str) -> None:
    x = EDGES.float()
    torch.testing.assert_close(compile_program(PROGRAMS[name], (x,))(x), PROGRAMS[name](x), rtol=0, atol=0)
