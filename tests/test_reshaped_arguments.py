"""A program that changes the metadata of a tensor it is given leaves its caller's tensor as eager PyTorch does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves

import compiler
from compiler.errors import CompileError, UnsupportedError
from compiler.integrations.dynamo import fx2hlo
from tools.replay_artifact import Replay


def transposed(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.t_()
    return x + 1


def returned(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    flat = x.view(-1)
    x.unsqueeze_(0).add_(1)
    return x, flat, x[0], flat.sum()


def there_and_back(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.t_().t_()


def two(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    y.squeeze_()
    x.transpose_(0, 1)
    x[0] = y[:3]
    return y * 2


def a_part(x: torch.Tensor, y: torch.Tensor) -> None:
    x.as_strided_((2, 2), (1, 3), 5)
    x.mul_(2)


def shrunk(x: torch.Tensor, y: torch.Tensor) -> None:
    x.resize_(2, 3)


def by_out(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    y.unsqueeze_(0)
    return torch.add(y, 1, out=y)


PROGRAMS: list[Callable[..., Any]] = [transposed, returned, there_and_back, two, a_part, shrunk, by_out]


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(20.0)[4:16].reshape(3, 4), torch.ones(1, 5, 1)


def seen(results: Any, arguments: tuple[torch.Tensor, ...]) -> list[Any]:
    """Geometry, values, and which results are an argument itself."""
    tensors = [t for t in tree_leaves(results) if isinstance(t, torch.Tensor)]
    same = [[t is a for a in arguments] for t in tensors]
    everything = (*arguments, *tensors)
    return [same, *((t.shape, t.stride(), t.tolist()) for t in everything), [a.storage_offset() for a in arguments]]


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_caller_sees_what_eager_does(program: Callable[..., Any], tmp_path: Path) -> None:
    right = inputs()
    expected = seen(program(*right), right)
    executable = compiler.compile(program, inputs(), validate=True)
    executable.save(tmp_path / "artifact")
    ways = (executable, compiler.load(tmp_path / "artifact"), Replay(tmp_path / "artifact"),
            torch.compile(program, backend=fx2hlo, dynamic=False))  # fmt: skip
    for run in ways:
        given = inputs()
        assert seen(run(*given), given) == expected


def test_beside_a_gradient() -> None:
    def program(weight: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        x.t_()
        return (weight * x).sum()

    found: list[Any] = []
    for function in (program, torch.compile(program, backend=fx2hlo)):
        weight, x = torch.ones(4, 3, requires_grad=True), inputs()[0]
        function(weight, x).backward()
        found.append((x.shape, x.stride(), weight.grad.tolist()))  # type: ignore[union-attr]
    assert found[0] == found[1]


def test_a_tensor_elsewhere_in_its_storage_and_lazy() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x.t_() * 2

    executable = compiler.compile(program, (torch.ones(2, 3, dtype=torch.complex64).conj(),))
    ours, theirs = (torch.arange(20).to(torch.complex64)[8:14].view(2, 3).mul(1j).conj() for _ in range(2))
    assert torch.equal(executable(ours), program(theirs)) and torch.equal(ours, theirs)
    assert (ours.stride(), ours.storage_offset(), ours.is_conj()) == (theirs.stride(), theirs.storage_offset(), True)


class Turned(torch.nn.Module):
    table: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.ones(2, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.table.t_() + x


def test_what_cannot_be_carried_out_is_refused() -> None:
    x = torch.ones(2, 3)
    cases: list[tuple[Any, tuple[torch.Tensor, ...], str]] = [
        (Turned(), (torch.ones(()),), "metadata of an argument changes"),
        (lambda a, b: a.t_() + b, (x, x), "metadata of an argument changes"),
        (lambda a: a.as_strided_((2,), (1,), 0), (torch.ones(40)[20:],), "begins before the memory"),
        (lambda a: a.as_strided_((2,), (1,), 0), (torch.ones(40)[2:],), "begin before its first element"),
        (lambda a, b: a.set_(b).add_(1), (x, x + 1), "other memory than the caller's"),
        (lambda a: a.set_(a.clone()).add_(1), (x,), "other memory than the caller's"),
        (lambda a: a.resize_(7), (x,), "makes a tensor with contents larger"),
        (lambda a: a.resize_(7), (torch.ones(0),), "makes a tensor with contents larger"),
    ]
    for program, given, message in cases:
        with pytest.raises(UnsupportedError, match=message):
            compiler.compile(program, given)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"size": [3, 9]}, "reaches"), ({"stride": [1]}, "strides for"), ({"element": "i32"}, "another element type")],
)
def test_a_damaged_entry_is_found(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    compiler.compile(transposed, inputs()).save(tmp_path / "artifact")
    path = tmp_path / "artifact" / "aliases.json"
    index = json.loads(path.read_text())
    entry = next(a for a in index["arguments"] if "reshaped" in a)
    entry["reshaped"] |= change
    path.write_text(json.dumps(index))
    with pytest.raises(CompileError, match=message):
        compiler.load(tmp_path / "artifact")
