"""Recurrent modules of PyTorch against eager, their lists of weights left as they were."""

from __future__ import annotations

import pytest
import torch
from torch.utils import _pytree as pytree

import compiler


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
@pytest.mark.parametrize(
    "options", [{}, {"num_layers": 2, "bidirectional": True, "batch_first": True}, {"bias": False}]
)
def test_agrees_with_eager(kind: type[torch.nn.RNNBase], options: dict[str, object]) -> None:
    torch.manual_seed(0)
    module = kind(4, 6, **options).eval()  # type: ignore[arg-type]
    x = torch.rand(5, 3, 4)
    weights = list(module._flat_weights)
    executable = compiler.compile(module, (x,))
    assert all(a is b for a, b in zip(module._flat_weights, weights, strict=True))
    with torch.no_grad():
        for a, b in zip(pytree.tree_leaves(module(x + 1)), pytree.tree_leaves(executable(x + 1)), strict=True):
            torch.testing.assert_close(b, a)
        module.weight_hh_l0.mul_(0.5)  # state is read at each call
        torch.testing.assert_close(pytree.tree_leaves(executable(x)), pytree.tree_leaves(module(x)))
