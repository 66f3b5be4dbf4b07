"""Python floats that change between calls of a function compiled by `torch.compile`: eager's values and types, each time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from compiler.integrations import dynamo
from compiler.integrations.dynamo import Dispatcher, fx2hlo

X, WHOLE, H, ZERO_DIM = (
    torch.tensor([1.0, 2.0]),
    torch.tensor([1, 2]),
    torch.tensor([1.0, 2.0]).half(),
    torch.tensor(2.0),
)
VALUES = (1.5, 2.5, 0.0, -3.0)


@pytest.fixture(autouse=True)
def dispatchers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Dispatcher]]:
    """Those that a test makes."""
    made: list[Dispatcher] = []

    class Recorded(Dispatcher):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            made.append(self)

    torch._dynamo.reset()
    monkeypatch.setattr(dynamo, "Dispatcher", Recorded)
    yield made
    torch._dynamo.reset()


def _same(function: Callable[..., Any], x: torch.Tensor, values: Sequence[float], **options: Any) -> None:
    run = torch.compile(function, backend=fx2hlo, **options)
    for value in values:
        torch.testing.assert_close(run(x.clone(), value), function(x.clone(), value), equal_nan=True)


@pytest.mark.parametrize("x", [X, WHOLE, H, ZERO_DIM], ids=["f32", "i64", "f16", "0-d"])
def test_one_executable_serves_all_values_with_a_numbers_promotion(x: torch.Tensor, dispatchers) -> None:
    _same(lambda x, s: (x * s, x + s, s - x, x / (s + 7), x > s), x, VALUES)
    assert [len(d.executables) for d in dispatchers] == [1, 1], "one for the first value, one for all others"


def test_a_value_of_zero_in_a_dynamic_graph(dispatchers) -> None:
    _same(lambda x, s: x * s, X, (0.0, 1.0, -0.5), dynamic=True)
    assert [len(d.executables) for d in dispatchers] == [1]


SCALARS: dict[str, Callable[..., Any]] = {
    "alpha": lambda x, s: torch.add(x, x, alpha=s),
    "value": lambda x, s: x.addcdiv_(x, x + 1, value=s),
    "pow": lambda x, s: (x**s, (x + 1).pow_(s), (s * s) ** x),
    "clamp": lambda x, s: (x.clamp(min=s), x.clamp(s - 1, s)),
    "lerp": lambda x, s: torch.lerp(x, x + 1, s),
    "full": lambda x, s: (torch.full((2,), s), torch.full_like(x, s), x.new_full((2,), s), x.fill_(s)),
    "masked": lambda x, s: (x.masked_fill(x > 1, s), torch.where(x > 1, x, s)),
    "foreach": lambda x, s: (
        *torch._foreach_mul([x, x + 1], s),
        *torch._foreach_add([x, x + 1], [x, x], alpha=s),
        *torch._foreach_lerp([x, x + 1], [x, x], s),
        *torch._foreach_addcdiv([x, x + 1], [x, x], [x, x], value=s),
    ),
}


@pytest.mark.parametrize("function", SCALARS.values(), ids=SCALARS)
def test_arguments_of_operators(function: Callable[..., Any], dispatchers) -> None:
    _same(function, X, VALUES)
    assert len(dispatchers[-1].executables) == 1


@pytest.mark.parametrize(
    "function",
    [lambda x, s: F.leaky_relu(-x, s), lambda x, s: F.elu(-x, s), lambda x, s: torch.sub(x, x, alpha=s)],
    ids=["leaky_relu", "elu", "sub"],
)
def test_a_number_that_an_operator_looks_at_has_an_executable_for_each_value(
    function: Callable[..., Any], dispatchers
) -> None:
    _same(function, X, (1.5, 2.5, 0.5, 2.5))
    assert len(dispatchers[-1].executables) == 2


def test_a_number_with_a_gradient() -> None:
    def function(x: torch.Tensor, s: float) -> torch.Tensor:
        return (x * s).sin() * s + (x + 1).pow(s)

    run = torch.compile(function, backend=fx2hlo)
    for value in (1.5, 2.5, 0.5):
        x, y = X.clone().requires_grad_(), X.clone().requires_grad_()
        run(x, value).sum().backward()
        function(y, value).sum().backward()
        torch.testing.assert_close(x.grad, y.grad)


def _sgd(p: Any, foreach: bool) -> torch.optim.Optimizer:
    return torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=foreach)


def _adamw(p: Any, foreach: bool) -> torch.optim.Optimizer:
    return torch.optim.AdamW(p, lr=0.1, foreach=foreach)


@pytest.mark.parametrize("foreach", [False, True], ids=["one by one", "foreach"])
@pytest.mark.parametrize("make", [_sgd, _adamw], ids=["SGD", "AdamW"])
def test_a_schedule_of_the_learning_rate(make: Callable[..., Any], foreach: bool, dispatchers) -> None:
    torch.manual_seed(0)
    mine = [torch.nn.Parameter(torch.randn(3, 4)), torch.nn.Parameter(torch.randn(5))]
    theirs = [torch.nn.Parameter(p.detach().clone()) for p in mine]
    optimizers = make(mine, foreach), make(theirs, foreach)
    schedules = [torch.optim.lr_scheduler.StepLR(o, 1, 0.5) for o in optimizers]
    step = torch.compile(lambda: optimizers[0].step(), backend=fx2hlo)
    for _ in range(4):
        for p, q in zip(mine, theirs, strict=True):
            p.grad = torch.randn_like(p)
            q.grad = p.grad.clone()
        step()
        optimizers[1].step()
        for schedule in schedules:
            schedule.step()
        torch.testing.assert_close(mine, theirs, rtol=2e-5, atol=2e-6)
    assert [len(d.executables) for d in dispatchers] == [1, 1]
