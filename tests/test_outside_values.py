"""Values that leave the program while it is traced, and state whose assumptions a loaded artifact no longer knows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import compiler

HELD = torch.ones(3)


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x + torch.from_numpy(HELD.numpy()),
        lambda x: x + torch.from_numpy(np.asarray(x) * 2),
        lambda x: x * torch.from_dlpack(HELD),
        lambda x: x * torch.arange(3).numpy().sum().item(),
    ],
)
def test_elements_do_not_leave_the_program(program: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """They would be constants, or the memory of a fake."""
    with pytest.raises(compiler.UnsupportedError, match=r"takes the elements of a tensor out of the program"):
        compiler.compile(program, (torch.ones(3),))


def test_addresses_are_not_known() -> None:
    with pytest.raises(compiler.UnsupportedError, match="data_ptr looks at addresses"):
        compiler.compile(lambda x, y: x if x.data_ptr() == y.data_ptr() else y, (torch.ones(3), torch.ones(3)))


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = torch.nn.Embedding(5, 3), torch.nn.Linear(3, 5, bias=False)
        self.head.weight = self.words.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.words(x))


def test_a_loaded_program_refuses_a_module_that_is_not_tied(tmp_path: Path) -> None:
    module, x = Tied().requires_grad_(False), torch.tensor([1, 2])
    compiler.compile(module, (x,)).save(tmp_path, weights="omit")
    torch.testing.assert_close(compiler.load(tmp_path).bind(module)(x), module(x))
    torch.testing.assert_close(compiler.load(tmp_path).bind(module.state_dict())(x), module(x))
    apart = Tied().requires_grad_(False)
    apart.head.weight = torch.nn.Parameter(torch.randn(5, 3), requires_grad=False)
    for state in (apart, apart.state_dict()):
        with pytest.raises(compiler.CompileError, match=r"no state 'head\.weight'"):
            compiler.load(tmp_path).bind(state)
