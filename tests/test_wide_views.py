"""Views of wider elements on arguments that begin inside one: the memory begins where every view begins at a whole element."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import compiler

Program = Callable[[torch.Tensor], torch.Tensor]


def write_through(x: torch.Tensor) -> torch.Tensor:
    x[1:].view(torch.int32).add_(1)
    return x[1:].view(torch.int32) > 5


def view_of_written(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x[1:].view(torch.int32)


@pytest.mark.parametrize("program", [write_through, view_of_written])
@pytest.mark.parametrize("dtype, first, count", [(torch.float16, 1, 9), (torch.int16, 5, 7), (torch.int8, 3, 9)])
def test_argument_begins_inside_a_wider_element(program: Program, dtype: torch.dtype, first: int, count: int) -> None:
    def argument(start: int = first) -> torch.Tensor:
        return torch.arange(40).to(dtype)[start : start + count]

    executable = compiler.compile(program, [argument()])
    for start in (first, first + 4):
        mine, theirs = argument(start), argument(start)
        got, right = executable(mine), program(theirs)
        assert torch.equal(got, right) and got.storage_offset() == right.storage_offset()
        assert torch.equal(mine._base, theirs._base)  # type: ignore[arg-type]


def test_arguments_overlap_inside_a_wider_element() -> None:
    def program(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        b.add_(2)
        return b.view(torch.int32) > 1

    def arguments() -> list[torch.Tensor]:
        storage = torch.arange(106).to(torch.float16)
        return [storage.as_strided((3, 4, 3), (36, 9, 1), 1), storage[102:106]]

    mine, theirs = arguments(), arguments()
    assert torch.equal(compiler.compile(program, arguments())(*mine), program(*theirs))
    assert torch.equal(mine[1], theirs[1])


def test_call_whose_storage_does_not_fit_is_refused() -> None:
    executable = compiler.compile(view_of_written, [torch.arange(40).to(torch.int16)[1:14]])
    with pytest.raises(compiler.CompileError, match="inside an element"):
        executable(torch.arange(40).to(torch.int16)[2:15])


@pytest.mark.parametrize(
    "elements", [(torch.int16, torch.float32, torch.uint8), (torch.int8, torch.int64, torch.int16)]
)
def test_put_together_and_taken_apart_again(elements: tuple[torch.dtype, ...]) -> None:
    narrow, wide, other = elements

    def program(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        b.add_(1)
        return a.view(wide).view(other).clone()

    def arguments() -> list[torch.Tensor]:
        storage = torch.arange(16).to(narrow)
        return [storage, storage[:1]]

    assert torch.equal(compiler.compile(program, arguments())(*arguments()), program(*arguments()))
