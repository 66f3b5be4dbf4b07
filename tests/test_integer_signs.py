"""Products and absolute values of integers may be negative after an overflow, whatever XLA concludes from their form."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import compiler

PROGRAMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "square": lambda x: torch.square(x).sign(),
    "compared": lambda x: (x * x) < 0,
    "absolute_square": lambda x: abs(x * x),
    "product_of_a_stack": lambda x: torch.stack([x, x]).prod(0, dtype=x.dtype).sign(),
    "running_product": lambda x: torch.stack([x, x]).cumprod(0, dtype=x.dtype).sign(),
    "same_after_folding": lambda x: ((x + 0) * x).sign(),
    "twice_negated": lambda x: (x.neg().neg() * x).sign(),
    "chosen": lambda x: (torch.where(x > 5, x, x) * x).sign(),
    "batched_product": lambda x: torch.bmm(x.view(-1, 1, 1), x.view(-1, 1, 1)).sign(),
    "dot": lambda x: torch.dot(x[:1], x[:1]).sign(),
    "added_product": lambda x: torch.addcmul(torch.zeros_like(x), x, x).sign(),
    "scattered_product": lambda x: x[:1].scatter_reduce(0, torch.zeros(1, dtype=torch.int64), x[:1], "prod").sign(),
    "convolution": lambda x: torch.conv1d(x.view(1, 1, -1)[..., :1], x[:1].view(1, 1, 1)).sign(),
    "power": lambda x: (x**2).sign(),
    "absolute": lambda x: x.abs() < 0,
    "absolute_twice": lambda x: x.abs().abs() // 2,
    "relu_of_absolute": lambda x: torch.relu(x.abs()),
}


def in_place(x: torch.Tensor) -> torch.Tensor:
    torch.mul(x, x, out=x)
    return x.sign_()


@pytest.mark.parametrize("name", [*PROGRAMS, "in_place"])
@pytest.mark.parametrize("dtype", [torch.int16, torch.int64])
def test_an_overflow_keeps_its_sign(name: str, dtype: torch.dtype) -> None:
    program = PROGRAMS.get(name, in_place)
    lowest, root = torch.iinfo(dtype).min, int((2 * torch.iinfo(dtype).max) ** 0.5) - 9
    for values in ([root, -182, lowest, 0], [lowest, 5, root, 7]):
        x = torch.tensor(values, dtype=dtype)
        exe = compiler.compile(program, (x.clone(),))
        assert torch.equal(exe(x.clone()), program(x.clone()))


@pytest.mark.parametrize("narrow", [torch.uint8, torch.int8, torch.int16, torch.int32])
@pytest.mark.parametrize("combine", [torch.bitwise_or, torch.bitwise_and, torch.bitwise_xor, torch.maximum])
def test_what_a_conversion_cuts_off_is_gone(narrow: torch.dtype, combine: Callable[..., torch.Tensor]) -> None:
    """XLA moved bitwise operators through conversions to and fro, gave -1 for 255, or crashed."""
    x = torch.tensor([-2, 255, 70000, 1 << 40, -(1 << 33), 5])
    y = x.flip(0)

    def program(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        long = [v.to(narrow).long() for v in (x, y)]
        return [combine(*long), combine(*(v + 0 for v in long)), combine(long[0][1:], long[1][1:])]

    for found, expected in zip(compiler.compile(program, (x, y))(x, y), program(x, y), strict=True):
        assert torch.equal(found, expected)
