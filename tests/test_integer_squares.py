"""The square of an integer may be negative after an overflow, whatever XLA thinks of squares."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import compiler


def in_place(x: torch.Tensor) -> torch.Tensor:
    torch.mul(x, x, out=x)
    return x.sign_()


@pytest.mark.parametrize(
    "program", [in_place, lambda x: torch.square(x).sign(), lambda x: (x * x) < 0, lambda x: abs(x * x)]
)
def test_an_overflowing_square_keeps_its_sign(program: Callable[[torch.Tensor], torch.Tensor]) -> None:
    values = torch.tensor([300, -182, 5, 0], dtype=torch.int16)
    exe = compiler.compile(program, (values.clone(),))
    assert torch.equal(exe(values.clone()), program(values.clone()))
