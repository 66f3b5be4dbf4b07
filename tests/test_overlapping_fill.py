"""Masked fills through windows that meet elements more than once: any hit fills the element, whatever the order."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import compiler

MASK = torch.tensor([[True, False, False], [False, False, True], [False, False, False], [True, True, False]])


def unfolded(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    x.as_strided((4, 3), (1, 1)).masked_fill_(mask, -7)
    return x * 2


def expanded(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    x[:3].expand(4, 3).masked_fill_(mask, x[5:].sum())
    return x + 0


def of_a_fresh_tensor(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    y = x.neg()
    y.unfold(0, 3, 1).masked_fill_(mask, 4)
    return y


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
@pytest.mark.parametrize("program", [unfolded, expanded, of_a_fresh_tensor])
def test_any_hit_fills(program: Callable[..., torch.Tensor], dtype: torch.dtype) -> None:
    if dtype is torch.bool and program is of_a_fresh_tensor:
        dtype = torch.int8  # bool has no negation
    want_x, got_x = torch.arange(6).to(dtype), torch.arange(6).to(dtype)
    with torch.no_grad():
        exe = compiler.compile(program, (got_x, MASK))
        want, got = program(want_x, MASK), exe(got_x, MASK)
    assert torch.equal(want, got) and torch.equal(want_x, got_x)


def test_a_mask_that_is_the_memory_itself_is_refused() -> None:
    def program(x: torch.Tensor) -> None:
        x.as_strided((2, 2), (1, 1)).masked_fill_(x.as_strided((2, 2), (1, 1)), False)

    with pytest.raises(compiler.UnsupportedError, match="meets one element more than once"):
        compiler.compile(program, (torch.tensor([True, False, True]),))
