"""Training steps through `torch.compile(backend="fx2hlo")` agree with eager PyTorch, and update everything in place.

In f64, where what is left is rounding, at 1e-9; one program each in f32 as well. `benchmarks/training.py` has all combinations.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import training
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import compiler
from compiler.integrations.dynamo import fx2hlo


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()
    torch.set_num_threads(threads)
    torch.set_default_dtype(torch.float32)


def check(outcome: training.Outcome, dtype: torch.dtype) -> None:
    assert max(outcome.differences.values()) <= training.TOLERANCE[dtype]
    assert (outcome.aliased, outcome.moved, outcome.copied) == (outcome.written, 0, 0)


@pytest.mark.parametrize(
    ("model", "optimizer"),
    [("transformer", "sgd-foreach"), ("transformer", "adamw"), ("convnet", "sgd-by-hand"),
     ("convnet", "adamw-foreach"), ("convnet", "adamw-fused")],
)  # fmt: skip
def test_three_steps(model: str, optimizer: str) -> None:
    torch.set_default_dtype(torch.float64)
    outcome = training.train(model, optimizer, flags=training.FAST)
    assert set(outcome.differences) >= {"losses", "gradients", "parameters", "optimizer"}
    check(outcome, torch.float64)


@pytest.mark.parametrize("model", training.MODELS)
@pytest.mark.parametrize("dtype", training.TOLERANCE)
def test_one_program(model: str, dtype: torch.dtype) -> None:
    torch.set_default_dtype(dtype)
    check(training.train_in_one_program(model, flags=training.FAST), dtype)


# -- fused steps as the program writes them ----------------------------------------------------


def _adam(kind: str) -> Any:
    step = getattr(torch, f"_fused_{kind}_")

    def run(p: Any, g: Any, a: Any, b: Any, c: Any, t: Any, scaling: Any) -> None:
        step(
            p,
            g,
            a,
            b,
            c,
            t,
            lr=1e-2,
            beta1=0.9,
            beta2=0.999,
            weight_decay=0.1,
            eps=1e-8,
            amsgrad=True,
            maximize=False,
            **scaling,
        )

    return run


FUSED: dict[str, Any] = {
    "adam": _adam("adam"),
    "adamw": _adam("adamw"),
    "sgd": lambda p, g, a, b, c, t, scaling: torch._fused_sgd_(
        p, g, a, lr=0.1, momentum=0.9, weight_decay=0.1, dampening=0.2, nesterov=False, maximize=True, is_first_step=False, **scaling
    ),
    "sgd-first": lambda p, g, a, b, c, t, scaling: torch._fused_sgd_(
        p, g, a, lr=0.1, momentum=0.9, weight_decay=0.0, dampening=0.0, nesterov=True, maximize=False, is_first_step=True, **scaling
    ),
    "adagrad": lambda p, g, a, b, c, t, scaling: torch._fused_adagrad_(
        p, g, b, t, lr=0.1, lr_decay=0.1, weight_decay=0.1, eps=1e-8, maximize=False, **scaling
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FUSED)
@pytest.mark.parametrize("found_inf", [None, 0.0, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_fused(name: str, found_inf: float | None, dtype: torch.dtype) -> None:
    torch.manual_seed(0)

    def some() -> list[torch.Tensor]:
        return [torch.randn(4, 3).to(dtype), torch.randn(5).to(dtype)]

    mine = (
        some(),
        some(),
        some(),
        *([x.abs() for x in some()] for _ in range(2)),
        [torch.tensor(2.0), torch.tensor(7.0)],
    )
    scaling = {} if found_inf is None else {"grad_scale": torch.tensor(4.0), "found_inf": torch.tensor(found_inf)}
    theirs, before = copy.deepcopy(mine), copy.deepcopy(mine)
    compiler.compile(FUSED[name], (*mine, scaling))(*mine, scaling)
    FUSED[name](*theirs, scaling)
    torch.testing.assert_close(mine, theirs)
    assert torch.equal(mine[0][0], before[0][0]) == (found_inf == 1)


# -- what a step may contain -------------------------------------------------------------------


def test_dropout_follows_the_default_generator() -> None:
    """A seed repeats a run, calls differ, the backward has the forward's mask, and two graphs draw different numbers."""

    def program(x: torch.Tensor) -> Any:
        first = F.dropout(x, 0.5)
        torch._dynamo.graph_break()
        return first, F.dropout(x, 0.5)

    run = torch.compile(program, backend=fx2hlo)
    x = torch.ones(4000, requires_grad=True)
    torch.manual_seed(3)
    first, second = run(x)
    third, _ = run(x)
    torch.manual_seed(3)
    again, _ = run(x)
    assert torch.equal(first, again)
    for other in (second, third):
        assert 0.4 < (first == other).float().mean() < 0.6
    first.sum().backward()
    assert x.grad is not None and torch.equal(x.grad, first.detach())


def test_a_checkpoint_draws_again_what_it_drew() -> None:
    w, x = torch.randn(8, 64, requires_grad=True), torch.randn(4, 8)
    run = torch.compile(
        lambda w, x: checkpoint(lambda w, x: F.dropout(torch.tanh(x @ w), 0.5), w, x, use_reentrant=False),
        backend=fx2hlo,
    )
    out = run(w, x)
    out.sum().backward()
    twin = w.detach().clone().requires_grad_()
    (torch.tanh(x @ twin) * (out != 0) * 2).sum().backward()
    assert w.grad is not None and twin.grad is not None
    torch.testing.assert_close(w.grad, twin.grad)
    assert 0.3 < (out == 0).float().mean() < 0.7


def test_transforms_and_a_write_in_one_graph() -> None:
    def step(w: torch.Tensor, x: torch.Tensor) -> Any:
        gradient, loss = torch.func.grad_and_value(lambda w: (w * x).square().sum())(w)
        w.sub_(gradient, alpha=0.1)
        return loss, torch.func.vmap(lambda row: row.sin().sum())(x)

    mine, theirs, x = torch.ones(3), torch.ones(3), torch.arange(6.0).view(2, 3)
    torch.testing.assert_close(torch.compile(step, backend=fx2hlo, fullgraph=True)(mine, x), step(theirs, x))
    torch.testing.assert_close(mine, theirs)
    assert mine[1] != 1


@pytest.mark.parametrize("gradient", [True, False])
def test_autocast(gradient: bool) -> None:
    def program(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return x @ w

    w, x = torch.randn(8, 8, requires_grad=gradient), torch.randn(4, 8)
    got, want = torch.compile(program, backend=fx2hlo)(w, x), program(w, x)
    assert got.dtype == want.dtype == torch.bfloat16
    assert got.requires_grad == gradient
    torch.testing.assert_close(got, want)


def test_a_step_without_gradient_on_parameters_that_want_one() -> None:
    """The mode changes inside the graph; nothing is recorded, so there is one graph, and it writes in place."""
    made: list[Any] = []

    def step(w: torch.Tensor) -> None:
        with torch.no_grad():
            w.mul_(2)

    w = torch.ones(3, requires_grad=True)
    torch.compile(step, backend=lambda gm, x: made.append(fx2hlo(gm, x)) or made[-1])(w)
    assert w.tolist() == [2, 2, 2]
    (executable,) = made[0].executables.values()
    assert len(executable.alias_table) == 1


def test_options() -> None:
    run = torch.compile(lambda x: x + 1, backend=fx2hlo, options={"xla_flags": training.FAST, "validate": True})
    assert run(torch.zeros(2)).tolist() == [1, 1]
    for wrong in ({"options": {"speed": 3}}, {"mode": "max-autotune"}):
        with pytest.raises(Exception, match="the backend fx2hlo knows no"):
            torch.compile(lambda x: x + 2, backend=fx2hlo, **wrong)(torch.zeros(2))


CHECKED = {
    "inv": torch.linalg.inv,
    "solve": lambda a: torch.linalg.solve(a, torch.ones(3, 2)),
    "cholesky": torch.linalg.cholesky,
    "assert": lambda a: torch._assert_async((a == a).all()) or a.sin(),
}


@pytest.mark.parametrize("function", CHECKED.values(), ids=CHECKED)
def test_gradients_through_what_checks_its_data(function: Any) -> None:
    """AOTAutograd orders the checks by effect tokens."""
    half = torch.randn(3, 3, generator=torch.Generator().manual_seed(0))
    x, y = ((half @ half.T + torch.eye(3)).requires_grad_() for _ in range(2))
    got, want = torch.compile(function, backend=fx2hlo)(x), function(y)
    weights = torch.arange(1.0, want.numel() + 1).view_as(want)
    (got * weights).sum().backward()
    (want * weights).sum().backward()
    torch.testing.assert_close(x.grad, y.grad, rtol=1e-4, atol=1e-4)
