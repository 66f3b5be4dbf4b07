"""Training steps through `torch.compile(backend="fx2hlo")` beside eager PyTorch.

    python benchmarks/training.py [--models transformer convnet] [--optimizers sgd adamw ...] [--dtype float32]

A step is a forward with its loss, a backward, and an update in place: PyTorch's own optimizers in every form they have, and
one written by hand. Three steps run beside a copy of everything in eager PyTorch; losses, gradients, parameters, the
optimizer's state and running statistics are compared after each. "written" counts the tensors that a step changes,
"aliased" those that an executable of the last step must write in place, "copied" the bytes that it could not.

The last row of a model is one program: loss, gradient (`torch.func`) and update, through `compiler.compile`.
"""

from __future__ import annotations

import argparse
import copy
import functools
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from models import difference
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.nn import functional as F

import compiler
from compiler.integrations.dynamo import Dispatcher, fx2hlo

STEPS = 3
FAST = {"xla_backend_optimization_level": 0}
"""Half the time to compile, the same values."""


# -- models ------------------------------------------------------------------------------------


class Block(nn.Module):
    """Causal attention and an MLP, each behind a layer norm. No bias on the keys: attention does not depend on it, its
    gradient is rounding alone, and AdamW would blow that up."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.split, self.join = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.split(self.first(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        found = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.join(found.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.second(x))))


def transformer(words: int = 19, width: int = 16) -> nn.Module:
    return nn.Sequential(
        nn.Embedding(words, width),
        Block(width, 2),
        Block(width, 2),
        nn.LayerNorm(width),
        nn.Linear(width, words, bias=False),
    )


def convnet() -> nn.Module:
    """Batch norm in training mode: running statistics and a counter are written in the forward."""
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(4, 6, 3, stride=2, bias=False), nn.BatchNorm2d(6), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(6, 5),
    )  # fmt: skip


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], tuple[torch.Tensor, torch.Tensor]]]] = {
    "transformer": (transformer, lambda: (torch.randint(19, (2, 7)), torch.randint(19, (2, 7)))),
    "convnet": (convnet, lambda: (torch.randn(4, 3, 8, 8), torch.randint(5, (4,)))),
}
"""A model, and a batch of inputs and labels."""


def loss_of(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits.flatten(0, -2), labels.flatten())


# -- optimizers --------------------------------------------------------------------------------


class ByHand:
    """Momentum and weight decay, written out."""

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        self.parameters = list(parameters)
        self.state = {p: {"momentum": torch.zeros_like(p)} for p in self.parameters}

    @torch.no_grad()
    def step(self) -> None:
        for parameter in self.parameters:
            assert parameter.grad is not None
            momentum = self.state[parameter]["momentum"]
            momentum.mul_(0.9).add_(parameter.grad)
            parameter.mul_(1 - 1e-3).sub_(momentum, alpha=0.1)


class Fused:
    """The fused step of AdamW, called by itself: Dynamo leaves optimizers with `fused=True` to eager PyTorch."""

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        self.parameters = list(parameters)
        self.state = {
            p: {"step": torch.zeros(()), "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
            for p in self.parameters
        }

    @torch.no_grad()
    def step(self) -> None:
        own = [self.state[p] for p in self.parameters]
        steps = [s["step"] for s in own]
        torch._foreach_add_(steps, 1)
        torch._fused_adamw_(
            self.parameters, [p.grad for p in self.parameters if p.grad is not None], [s["exp_avg"] for s in own],
            [s["exp_avg_sq"] for s in own], [], steps, lr=1e-2, beta1=0.9, beta2=0.999, weight_decay=1e-2, eps=1e-4,
            amsgrad=False, maximize=False,
        )  # fmt: skip


_SGD = functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9)
_ADAMW = functools.partial(
    torch.optim.AdamW, lr=1e-2, eps=1e-4
)  # with 1e-8 a gradient of 1e-9, rounding alone, takes a full step
OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "sgd": functools.partial(_SGD, weight_decay=1e-2, foreach=False),
    "sgd-foreach": functools.partial(_SGD, nesterov=True, foreach=True),
    "adamw": functools.partial(_ADAMW, foreach=False),
    "adamw-foreach": functools.partial(_ADAMW, amsgrad=True, foreach=True),
    "adamw-tensor-lr": lambda p: _ADAMW(p, lr=torch.tensor(1e-2), foreach=False),
    "adamw-fused": Fused,
    "sgd-by-hand": ByHand,
}

TOLERANCE = {torch.float32: 2e-4, torch.float64: 1e-9}
"""Largest difference allowed, relative to the largest element of the tensor compared. Sums are taken in another order than eager's, and
what a batch norm over few numbers makes of that is the next layer's gradient. Under `torch.compile` PyTorch itself takes AdamW's
corrections of the bias, 1 - beta^step, in f32 tensors instead of Python numbers, which loses four digits of 1 - 0.999."""


# -- beside eager ------------------------------------------------------------------------------


@dataclass
class Outcome:
    """What three steps showed.

    Attributes:
        differences: the largest relative difference by what was compared.
        nodes: operations of the programs that the last step ran.
        written: tensors that the last step changed.
        aliased: rows of the alias tables of these programs, the generator's state aside.
        copied: bytes that they had to copy back because they could not run in place.
        moved: changed tensors that are at another address after the last step.
    """

    differences: dict[str, float] = field(default_factory=dict)
    nodes: int = 0
    written: int = 0
    aliased: int = 0
    copied: int = 0
    moved: int = 0
    seconds: float = 0.0

    def compare(self, kind: str, got: torch.Tensor, want: torch.Tensor) -> None:
        self.differences[kind] = max(self.differences.get(kind, 0.0), difference(got.detach(), want.detach()))

    def ran(self, executable: compiler.Executable) -> None:
        self.nodes += executable.counts["imported"]
        self.aliased += len(executable.alias_table)
        self.copied += executable.copied_bytes


class Watched(Dispatcher):
    """Notes which executables run."""

    def __init__(self, log: list[compiler.Executable], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.log = log

    def __call__(self, *args: Any) -> Any:
        result = super().__call__(*args)
        self.log.append(self.executable(args))
        return result


def _state(model: nn.Module, optimizer: Any) -> list[tuple[str, torch.Tensor]]:
    """What a step changes, by kind."""
    own = [v for p in model.parameters() for v in optimizer.state[p].values() if isinstance(v, torch.Tensor)]
    return [
        *(("parameters", p) for p in model.parameters()),
        *(("optimizer", v) for v in own),
        *(("statistics", b) for b in model.buffers()),
    ]


def train(model: str, optimizer: str, seed: int = 0, flags: dict[str, Any] | None = None) -> Outcome:
    """Train compiled and in eager PyTorch."""
    torch._dynamo.reset()
    torch.manual_seed(seed)
    build, batch = MODELS[model]
    mine = build()
    theirs = copy.deepcopy(mine)
    updates, twins = (OPTIMIZERS[optimizer](m.parameters()) for m in (mine, theirs))
    outcome, log = Outcome(), list[compiler.Executable]()
    backend = functools.partial(fx2hlo, dispatcher=functools.partial(Watched, log), options={"xla_flags": flags or {}})
    forward = torch.compile(lambda x, labels: loss_of(mine(x), labels), backend=backend)
    step = torch.compile(lambda: updates.step(), backend=backend)
    start = time.perf_counter()
    for _ in range(STEPS):
        before = [(v, v._version, v.data_ptr()) for _, v in _state(mine, updates)]
        log.clear()
        x, labels = batch()
        losses = forward(x, labels), loss_of(theirs(x), labels)
        outcome.compare("losses", *losses)
        for loss in losses:
            loss.backward()
        given = [(p.grad, p.grad._version, p.grad.data_ptr()) for p in mine.parameters() if p.grad is not None]
        step()
        twins.step()
        for p, q in zip(mine.parameters(), theirs.parameters(), strict=True):
            assert p.grad is not None and q.grad is not None
            outcome.compare("gradients", p.grad, q.grad)
            p.grad = q.grad = None
        for (kind, got), (_, want) in zip(_state(mine, updates), _state(theirs, twins), strict=True):
            outcome.compare(kind, got, want)
        changed = [(v, address) for v, version, address in (*before, *given) if v._version > version]
        outcome.written, outcome.moved = len(changed), sum(v.data_ptr() != address for v, address in changed)
    outcome.seconds = time.perf_counter() - start
    for executable in log:
        outcome.ran(executable)
    return outcome


def train_in_one_program(model: str, seed: int = 0, flags: dict[str, Any] | None = None) -> Outcome:
    """Loss, gradient and update with momentum as one program with one alias table."""
    torch.manual_seed(seed)
    build, batch = MODELS[model]
    network = build()

    def step(parameters: Any, buffers: Any, momenta: Any, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        def loss(parameters: Any, buffers: Any) -> torch.Tensor:  # a transform refuses writes into what it closes over
            return loss_of(torch.func.functional_call(network, (parameters, buffers), (x,)), labels)

        gradients, value = torch.func.grad_and_value(loss)(parameters, buffers)
        for name, parameter in parameters.items():
            momenta[name].mul_(0.9).add_(gradients[name])
            parameter.sub_(momenta[name], alpha=0.1)
        return value

    parameters = {n: p.detach().clone() for n, p in network.named_parameters()}
    mine: tuple[Any, ...] = (
        parameters,
        dict(network.named_buffers()),
        {n: torch.zeros_like(p) for n, p in parameters.items()},
    )
    theirs = copy.deepcopy(mine)
    outcome = Outcome()
    start = time.perf_counter()
    exe = compiler.compile(step, (*mine, *batch()), xla_flags=flags)
    for _ in range(STEPS):
        data = batch()
        outcome.compare("losses", exe(*mine, *data), step(*theirs, *data))
        for kind, got, want in zip(("parameters", "statistics", "optimizer"), mine, theirs, strict=True):
            for name in got:
                outcome.compare(kind, got[name], want[name])
    outcome.seconds = time.perf_counter() - start
    outcome.written = sum(map(len, mine))
    outcome.ran(exe)
    return outcome


# -- figures -----------------------------------------------------------------------------------

KINDS = ("losses", "gradients", "parameters", "optimizer", "statistics")


def main(arguments: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    options.add_argument("--optimizers", nargs="*", default=list(OPTIMIZERS), choices=list(OPTIMIZERS))
    options.add_argument("--dtype", default="float32", choices=("float32", "float64"))
    asked = options.parse_args(arguments)
    torch.set_default_dtype(getattr(torch, asked.dtype))
    tolerance = TOLERANCE[torch.get_default_dtype()]
    table = Table("model", "optimizer", "nodes", "written", "aliased", "copied", *KINDS, "tolerance", "s", "agrees")
    wrong = 0
    for model in asked.models:
        runs = {name: functools.partial(train, model, name) for name in asked.optimizers}
        for name, run in {**runs, "one program": functools.partial(train_in_one_program, model)}.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = run()
            agrees = max(found.differences.values()) <= tolerance and (found.aliased, found.moved) == (found.written, 0)
            wrong += not agrees
            table.add_row(
                model, name, str(found.nodes), str(found.written), str(found.aliased), str(found.copied),
                *(f"{found.differences[k]:.0e}" if k in found.differences else "" for k in KINDS),
                f"{tolerance:.0e}", f"{found.seconds:.1f}", "yes" if agrees else "NO",
            )  # fmt: skip
    Console(width=160).print(table)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
