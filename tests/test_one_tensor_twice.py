"""A trace names any of several arguments that are one tensor: a call has to give one tensor for them too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import compiler

PROGRAMS: dict[str, Callable[..., object]] = {
    "first_read": lambda a, b: a + 1,
    "last_read": lambda a, b: b + 1,
    "both_read": lambda a, b: a + b,
    "only_viewed": lambda a, b: (a[0], b[1:]),
    "returned": lambda a, b: a,
    "written": lambda a, b: a.add_(b),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_calls_that_give_two_tensors_are_refused(name: str, tmp_path: Path) -> None:
    program = PROGRAMS[name]
    x = torch.arange(3.0)
    exe = compiler.compile(program, (x, x))
    exe.save(tmp_path / "saved")
    for each in (exe, compiler.load(tmp_path / "saved")):
        y, z = torch.full((3,), 5.0), torch.full((3,), 5.0)
        torch.testing.assert_close(each(y, y), program(z, z))
        with pytest.raises(compiler.GuardError, match="'a' and 'b' shared memory at compile time"):
            each(torch.ones(3), torch.zeros(3))


def test_without_elements() -> None:
    x, y = torch.empty(0, 3), torch.empty(0, 3)
    exe = compiler.compile(lambda a, b: (a, b), (x, x))
    assert exe(y, y)[0] is y
    with pytest.raises(compiler.GuardError, match="they are two tensors"):
        exe(x, y)


def test_separate_views_of_one_window_are_read_by_themselves() -> None:
    x = torch.arange(3.0)
    exe = compiler.compile(lambda a, b: a - b, (x, x[:]))
    assert torch.equal(exe(torch.ones(3), torch.zeros(3)), torch.ones(3))


def test_a_graph_says_itself_which_it_means() -> None:
    graph = torch.fx.symbolic_trace(lambda a, b: (a + 1) * b)
    x = torch.ones(3)
    exe = compiler.compile(graph, (x, x))
    assert torch.equal(exe(x, x * 5), torch.full((3,), 10.0))


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.arange(3.0))
        self.plain = self.kept
        self.listed = [self.kept]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.plain + self.listed[0]


def _rebind_buffer(m: Tied) -> None:
    m.kept = torch.ones(3)


def _rebind_attribute(m: Tied) -> None:
    m.plain = torch.ones(3)


def _replace_item(m: Tied) -> None:
    m.listed[0] = torch.ones(3)


@pytest.mark.parametrize("change", [_rebind_buffer, _rebind_attribute, _replace_item])
def test_a_buffer_under_a_plain_name_is_guarded_there(change: Callable[[Tied], None]) -> None:
    module, x = Tied(), torch.ones(3)
    exe = compiler.compile(module, (x,))
    module.kept.add_(1)
    assert torch.equal(exe(x), module(x))
    change(module)
    with pytest.raises(compiler.GuardError, match="is another object than when the program was compiled"):
        exe(x)
