"""`torch.compile(backend=fx2hlo)`: every handed program, and what Dynamo does not guard."""

from __future__ import annotations

import pkgutil
import tomllib
from pathlib import Path

import custom_ops  # noqa: F401  (registers operators)
import numpy as np
import programs
import pytest
import torch
from dynamo_programs import disagreements, shares_memory

import compiler
from compiler.errors import GuardError, UnsupportedError
from compiler.integrations import dynamo
from compiler.integrations.dynamo import Dispatcher, fx2hlo


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def dispatchers(monkeypatch):
    """The dispatchers that a test makes."""
    made: list[Dispatcher] = []

    class Recorded(Dispatcher):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            made.append(self)

    monkeypatch.setattr(dynamo, "Dispatcher", Recorded)
    return made


@pytest.mark.parametrize("case", programs.CASES, ids=lambda c: c.id)
def test_program(case: programs.Case) -> None:
    """Twice in a row, after a call with arguments that share no memory where the program's own do."""
    assert disagreements(case) == []


def test_most_programs_have_arguments_of_their_own_and_some_share() -> None:
    assert len(programs.CASES) == 106
    assert 5 <= sum(shares_memory(case) for case in programs.CASES) < 106


def test_the_backend_is_an_entry_point() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    where = project["project"]["entry-points"]["torch_dynamo_backends"]["fx2hlo"]
    assert pkgutil.resolve_name(where) is fx2hlo


def test_arguments_that_come_to_overlap_get_an_executable_of_their_own(dispatchers) -> None:
    def step(x, y):
        x.add_(1)
        return y * 2

    run = torch.compile(step, backend=fx2hlo, dynamic=False)
    assert run(torch.zeros(3), torch.zeros(3)).tolist() == [0, 0, 0]
    base = torch.zeros(4)
    assert run(base[:3], base[1:]).tolist() == [2, 2, 0]
    assert base.tolist() == [1, 1, 1, 0]
    same = torch.zeros(3)
    assert run(same, same).tolist() == [2, 2, 2]
    assert sum(len(d.executables) for d in dispatchers) == 3


def test_a_graph_that_counts_in_a_storage_has_an_executable_for_each_place(dispatchers) -> None:
    def count(x, y):
        return x.as_strided((2,), (1,), 3) * y

    run = torch.compile(count, backend=fx2hlo, dynamic=False)
    for x, y in ((2, 1), (3, 1), (0, 1), (2, 5), (3, 5)):  # where y lies is all the same
        base = torch.arange(12.0)
        assert (
            run(base[x : x + 6], base[y : y + 2].clone()).tolist() == count(base[x : x + 6], base[y : y + 2]).tolist()
        )
    assert sum(len(d.executables) for d in dispatchers) == 3


def test_a_graph_with_a_gradient_that_counts_in_a_storage_keeps_its_place(dispatchers) -> None:
    run = torch.compile(lambda x: (x.as_strided((2,), (1,), 3) ** 2).sum(), backend=fx2hlo, dynamic=False)
    for _ in range(2):
        base = torch.arange(12.0, requires_grad=True)
        run(base[2:8]).backward()
        assert base.grad is not None and base.grad.tolist() == [0, 0, 0, 6, 8, 0, 0, 0, 0, 0, 0, 0]
    with pytest.raises(GuardError, match="begins at another element of its storage"):
        run(torch.arange(12.0, requires_grad=True)[3:9])


def test_symbolic_sizes_are_numbers_at_each_call(dispatchers) -> None:
    def step(x, n):
        x[: x.shape[0] // 2].mul_(2)
        return x.reshape(2, -1).sum(1) + n

    run = torch.compile(step, backend=fx2hlo, dynamic=True)
    for size in (4, 6, 8, 6):
        x, y = torch.arange(float(size)), torch.arange(float(size))
        torch.testing.assert_close(run(x, size), step(y, size))
        torch.testing.assert_close(x, y)
    assert len(dispatchers) <= 2
    assert sum(len(d.executables) for d in dispatchers) == 3


def test_writes_are_in_place() -> None:
    cache, row = torch.zeros(64, 16), torch.ones(1, 16)

    def step(cache, row, position):
        cache.index_copy_(0, position, row)
        return cache

    run = torch.compile(step, backend=fx2hlo)
    assert run(cache, row, torch.tensor([3])) is cache
    assert cache.sum() == 16


def test_graph_breaks(dispatchers) -> None:
    def step(x):
        x.add_(1)
        torch._dynamo.graph_break()
        y = x.view(-1)
        y[0] = 9
        return x.sum()

    x = torch.zeros(2, 2)
    assert torch.compile(step, backend=fx2hlo)(x).item() == 12
    assert len(dispatchers) == 2


def test_modules_and_their_buffers() -> None:
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x):
            self.count += 1
            return self.linear(x) * self.count

    module, reference = Counter(), Counter()
    reference.load_state_dict(module.state_dict())
    run = torch.compile(module, backend=fx2hlo)
    x = torch.arange(6.0).view(2, 3)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(run(x), reference(x))
    assert module.count.item() == 2


def test_gradients_go_through_a_partitioned_graph(dispatchers) -> None:
    def loss(w, x):
        return torch.tanh(x @ w).square().sum()

    w, x = torch.randn(3, 2), torch.randn(4, 3)
    mine, theirs = w.clone().requires_grad_(), w.clone().requires_grad_()
    out = torch.compile(loss, backend=fx2hlo)(mine, x)
    out.backward()
    want = loss(theirs, x)
    want.backward()
    torch.testing.assert_close(out, want)
    torch.testing.assert_close(mine.grad, theirs.grad)
    assert len(dispatchers) == 2


def test_what_cannot_be_compiled_is_said_with_its_line() -> None:
    def step(x):
        torch.ops.aliascases.inc_(x)
        return x

    with pytest.raises(Exception, match=r"(?s)aliascases\.inc_.*test_dynamo\.py:\d+"):
        torch.compile(step, backend=fx2hlo)(torch.zeros(3))


def test_old_executables_make_room(dispatchers) -> None:
    dispatcher = Dispatcher(torch.fx.symbolic_trace(lambda x: x * 2), limit=2)
    for size in range(1, 5):
        assert dispatcher(torch.ones(size)).sum() == 2 * size
    assert len(dispatcher.executables) == 2


def test_separate_storages_over_one_memory(dispatchers) -> None:
    """Read, they are served; written, refused when compiling, whatever was compiled before for tensors apart."""

    def overlapping() -> tuple[torch.Tensor, torch.Tensor]:
        memory = np.arange(6.0, dtype=np.float32)
        return torch.from_numpy(memory[:4]), torch.from_numpy(memory[2:])

    def write(x, y):
        x.add_(1)
        return y * 2

    run = torch.compile(write, backend=fx2hlo)
    with pytest.raises(
        Exception, match="UnsupportedError: arguments .* tensors of separate storages, and .* is written"
    ):
        run(*overlapping())
    with pytest.raises(UnsupportedError, match="'x' and 'y' overlap in memory but are tensors of separate storages"):
        compiler.compile(write, overlapping())
    torch._dynamo.reset()
    run = torch.compile(write, backend=fx2hlo)
    for _ in range(2):
        assert run(torch.ones(4), torch.ones(4)).tolist() == [2, 2, 2, 2]
        with pytest.raises(UnsupportedError, match="tensors of separate storages"):
            run(*overlapping())
    read = torch.compile(lambda x, y: x + y, backend=fx2hlo)
    assert read(*overlapping()).tolist() == [2, 4, 6, 8]
    assert compiler.compile(lambda x, y: x + y, overlapping())(*overlapping()).tolist() == [2, 4, 6, 8]
