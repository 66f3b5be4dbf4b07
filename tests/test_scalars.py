"""Numbers taken from the data of a tensor are 0-d tensors: with Python's types, a snapshot, and never a size or a branch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import compiler
from compiler.errors import UnsupportedError


def _same(program: Any, *arguments: torch.Tensor, again: tuple[torch.Tensor, ...] = ()) -> None:
    """Eager's results and arguments, at the example and at other values."""
    executable = compiler.compile(program, tuple(a.clone() for a in arguments))
    for given in (arguments, again or arguments):
        mine, theirs = [a.clone() for a in given], [a.clone() for a in given]
        want, got = (program(*mine), mine), (executable(*theirs), theirs)
        for a, b in zip(pytree.tree_leaves(want), pytree.tree_leaves(got), strict=True):
            assert type(a) is type(b)
            if isinstance(a, torch.Tensor):
                assert (a.dtype, a.shape) == (b.dtype, b.shape)
                torch.testing.assert_close(b, a)
            else:
                assert b == pytest.approx(a, rel=1e-12)


X, Y, N = torch.tensor([0.5, -1.25, 3.0]), torch.tensor([0.7]), torch.tensor(3)
OTHER = (torch.tensor([2.0, 0.0, -7.5]), torch.tensor([-1.5]), torch.tensor(-4))


def test_arithmetic_with_a_number_has_the_types_of_a_number() -> None:
    def program(x: torch.Tensor, y: torch.Tensor, n: torch.Tensor) -> list[torch.Tensor]:
        s, k = y.item(), n.item()
        i, h = x.to(torch.int32), x.to(torch.bfloat16)
        return [
            x * s + k,
            i * k,
            i * s,
            h * s,
            h + k,
            n * s,
            n * k,
            x.sum() * s,
            i // k,
            x / (k / 3),
            i % k,
            x > s,
            i == k,
            s - x,
        ]

    _same(program, X, Y, N, again=OTHER)


def test_fills_clamps_and_masks() -> None:
    def program(x: torch.Tensor, y: torch.Tensor, n: torch.Tensor) -> list[torch.Tensor]:
        s, k = y.item(), n.item()
        return [
            torch.full((2, 3), s), torch.full_like(x, k), x.new_full((2,), s), x.clamp(max=s), x.masked_fill(x > 0, s),
            torch.where(x > s, s, x), x.add(x, alpha=s), torch.full((2,), k), torch.tensor([1, 2]) + torch.scalar_tensor(k),
        ]  # fmt: skip

    _same(program, X, Y, N, again=OTHER)


def test_a_number_is_a_snapshot() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        s = y.item()
        y.add_(1)
        x.fill_(s)
        return x + y.item()

    _same(program, X, Y, again=OTHER[:2])


def test_numbers_are_returned_and_saved(tmp_path: Any) -> None:
    def program(x: torch.Tensor, n: torch.Tensor) -> dict[str, Any]:
        return {"sum": x.sum().item(), "count": n.item() * 2 + 1, "any": (x > 2).any().item(), "x": x + 1}

    _same(program, X, N, again=(OTHER[0], OTHER[2]))
    compiler.compile(program, (X, N)).save(tmp_path / "artifact")
    assert compiler.load(tmp_path / "artifact")(X, N)["count"] == 7


def test_equal_and_allclose_are_numbers() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> list[Any]:
        return [torch.equal(x, y), x.equal(y[:2]), torch.allclose(x, y, rtol=0.1), x.allclose(y), x + torch.equal(x, x)]

    _same(program, X, X * 1.01, again=(X, X))


def test_an_exported_program() -> None:
    class Scale(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x * y.item(), torch.full((2,), y.item())

    exported = torch.export.export(Scale(), (X, Y))
    before = str(exported.graph)
    got = compiler.compile(exported)(OTHER[0], OTHER[1])
    assert str(exported.graph) == before
    for a, b in zip(Scale()(OTHER[0], OTHER[1]), got, strict=True):
        torch.testing.assert_close(b, a)


@pytest.mark.parametrize(
    "program",
    [
        lambda x, n: x[: n.item()],
        lambda x, n: x[n.item()],
        lambda x, n: torch.zeros(n.item()),
        lambda x, n: x if n.item() > 0 else -x,
        lambda x, n: x * float(n.item()),
    ],
)
def test_shapes_addresses_and_branches_do_not_depend_on_data(program: Any) -> None:
    with pytest.raises(UnsupportedError) as caught:
        compiler.compile(program, (X, torch.tensor(2)))
    assert "data" in caught.value.message
    assert caught.value.hint


def test_a_number_that_scales_an_operand() -> None:
    def program(x: torch.Tensor, y: torch.Tensor, n: torch.Tensor) -> list[torch.Tensor]:
        s, k = y.item(), n.item()
        whole = x.to(torch.int32)
        return [
            torch.addcmul(x, x, x, value=k),
            torch.addcmul(whole, whole, whole, value=k),
            torch.addcdiv(x, x, x * x + 1, value=s),
            *torch._foreach_addcmul([x, x + 1], [x, x], [x, x], value=s),
            *torch._foreach_mul([x, whole], s),
            *torch._foreach_pow(s * s, [x, x + 1]),
        ]

    _same(program, X, Y, N, again=OTHER)
