"""Subscripts by 0-d tensors are those of eager PyTorch for every index, and refused where only a view would do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import compiler
from compiler.errors import UnsupportedError

Program = Callable[[torch.Tensor, torch.Tensor], Any]


def clear_row(x: torch.Tensor, i: torch.Tensor) -> None:
    x[i] = 0


def add_to_column(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    x[:, i] += 1
    return x.sum()


def one_element(x: torch.Tensor, i: torch.Tensor) -> None:
    x[i, i - 1] = 9


def store_at_position(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    x[1:3, i] = x[0, :2].float()
    return x


def move_row(x: torch.Tensor, i: torch.Tensor) -> None:
    x[i] = x[i - 1]


def last_dimension(x: torch.Tensor, i: torch.Tensor) -> None:
    x[..., None, i] = torch.arange(4).reshape(1, 4, 1)


def with_list(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    y = x.reshape(2, 2, 5)
    picked = torch.tensor([1, 0, 1])
    y[i.clamp(0, 1), :, picked] = torch.arange(6).reshape(2, 3)
    return y[:, i.clamp(0, 1), picked].clone()


def copies_with_an_index_of_rank(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    picked = torch.tensor([1, 0, 1])
    row = x[i, picked]
    row += 1
    x.zero_()
    return torch.stack([row, x.reshape(2, 2, 5)[picked, :, i.clamp(0, 1)].sum(1)])


def returns_a_copy(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x[:, i, None][torch.tensor([1, 3])] if i.dim() else x[torch.tensor([1, 3]), i]


def read_only(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x[i] * 2 + x[:, i].sum()


def index_moves_on(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    at = i.clone()
    x[at] += 1
    at -= 1
    x[at] *= 2
    return at


def read_before_the_index_moves(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    at = i.clone()
    row = x[at]
    at -= 1
    return row * 2 + x[at]


@pytest.mark.parametrize(
    "program",
    [clear_row, add_to_column, one_element, store_at_position, move_row, last_dimension, with_list, read_only,
     copies_with_an_index_of_rank, returns_a_copy, index_moves_on, read_before_the_index_moves],
)  # fmt: skip
def test_like_eager(program: Program) -> None:
    start = torch.arange(20).reshape(4, 5)
    executable = compiler.compile(program, (start.clone(), torch.tensor(2)))
    for index in (2, 0, 3, -1):
        ours, theirs, i = start.clone(), start.clone(), torch.tensor(index)
        have, want = executable(ours, i), program(theirs, i)
        assert torch.equal(ours, theirs), index
        assert have is want is None or torch.equal(have, want), index


def test_a_mask_without_dimensions() -> None:
    def keep(x: torch.Tensor, m: torch.Tensor) -> None:
        x[m] = 3

    executable = compiler.compile(keep, (torch.zeros(2, 3), torch.tensor(True)))
    for flag in (True, False):
        ours, theirs = torch.zeros(2, 3), torch.zeros(2, 3)
        executable(ours, torch.tensor(flag))
        keep(theirs, torch.tensor(flag))
        assert torch.equal(ours, theirs)


def returned(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x[i]


def written(x: torch.Tensor, i: torch.Tensor) -> None:
    x[i].add_(1)


def read_after_write(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    row = x[i]
    x.zero_()
    return row * 2


def index_moved(x: torch.Tensor, i: torch.Tensor) -> None:
    x[i] += i.sub_(1)


def seen_before_it_is_back(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    row = x[i]
    row += 1
    total = x.sum()
    x[i] = row
    return total


@pytest.mark.parametrize("program", [returned, written, read_after_write, index_moved, seen_before_it_is_back])
def test_only_a_view_would_do(program: Program) -> None:
    with pytest.raises(UnsupportedError, match="known only at run time") as caught:
        compiler.compile(program, (torch.arange(20).reshape(4, 5), torch.tensor(2)))
    assert "test_subscripts.py" in caught.value.location


@pytest.mark.parametrize("amount", [1, torch.arange(3)])
def test_shifts_in_place(amount: int | torch.Tensor) -> None:
    def shift(a: torch.Tensor, b: torch.Tensor) -> None:
        a <<= amount
        b >>= amount

    start = torch.tensor([5, -7, 1000])
    ours, theirs = [start.clone(), start.clone()], [start.clone(), start.clone()]
    compiler.compile(shift, tuple(ours))(*ours)
    shift(*theirs)
    assert torch.equal(ours[0], theirs[0]) and torch.equal(ours[1], theirs[1])


def test_python_functions_on_elements_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="apply_ runs a Python function"):
        compiler.compile(lambda x: x.apply_(lambda e: e + 1), (torch.ones(3),))
