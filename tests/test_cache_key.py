"""The key of a compilation: everything that changes the program is in it, and nothing that does not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import custom_ops
import pytest
import torch
from conftest import ROOT
from fx_oracle import Hand

from compiler.integrations.vllm_neuron import cache_key


class Plain:
    """A configuration object whose text is its address."""

    def __init__(self, size: int) -> None:
        self.size = size


@dataclass(frozen=True)
class Config:
    size: int = 1


def graph(
    *,
    names: tuple[str, str] = ("cache", "v"),
    config: str = "cfg",
    aliases: dict[int, int] | None = None,
    grid: tuple[int, ...] = (1,),
    constant: Any = 2.0,
    captured: float = 1.0,
    shift: int = 1,
    function: Callable[..., Any] = torch.add,
    key: int = -1,
    idx: int = 0,
    trace: str = "a.py",
) -> torch.fx.GraphModule:
    h = Hand(*names, table=torch.full((3,), captured))
    if isinstance(constant, (Plain, Config)):  # as the passes leave an object: an attribute of the module
        h.root.settings = constant
        constant = h.attr("settings")
    call = h.nki(custom_ops.k_bump, *h.ins, backend_config=config, grid=grid, constant_args_key=key,
                 aliases={0: 0} if aliases is None else aliases)  # fmt: skip
    call.kwargs = {**call.kwargs, "args": (*call.kwargs["args"], constant), "kernel_idx": idx}
    total = h.f(function, call, h.attr("table"))
    gm = h.out((h.m("add", total, shift),)).module()
    for node in gm.graph.nodes:
        node.meta["stack_trace"] = f'File "/home/{trace}", line {len(trace)}, in f\n    x'
    return gm


def inputs(dtype: torch.dtype = torch.float32, size: int = 3, stride: int = 1) -> list[torch.Tensor]:
    return [torch.zeros(size * stride, dtype=dtype)[::stride], torch.ones(3)]


BASE = cache_key(graph(), inputs(), {0: 0}, {"donate": ()})


def key(gm: torch.fx.GraphModule | None = None, given: Any = None, io_map: Any = None, **options: Any) -> str:
    return cache_key(gm or graph(), given or inputs(), {0: 0} if io_map is None else io_map, {"donate": (), **options})


@pytest.mark.parametrize(
    "same",
    [
        lambda: key(graph(names=("kv", "row"))),
        lambda: key(graph(key=7, idx=4)),
        lambda: key(graph(trace="elsewhere/b.py")),
        lambda: key(given=[torch.full((3,), 9.0), torch.zeros(3)]),
        lambda: key(given=[t.requires_grad_() for t in inputs()]),
    ],
    ids=["names", "counters", "source paths", "values of inputs", "gradients"],
)
def test_what_does_not_change_the_program(same: Callable[[], str]) -> None:
    assert same() == BASE


DIFFERENT: dict[str, Callable[[], str]] = {
    "dtype of an input": lambda: key(given=inputs(torch.float64)),
    "shape of an input": lambda: key(given=inputs(size=4)),
    "stride of an input": lambda: key(given=inputs(stride=2)),
    "inputs that share memory": lambda: key(given=[(base := torch.zeros(3)), base]),
    "donation": lambda: key(donate=(0,)),
    "other options": lambda: key(lnc=1),
    "alias map": lambda: key(io_map={}),
    "kernel configuration": lambda: key(graph(config="other")),
    "kernel aliases": lambda: key(graph(aliases={0: 0, 1: 1})),
    "kernel grid": lambda: key(graph(grid=(2,))),
    "kernel constant": lambda: key(graph(constant=3.0)),
    "type of a kernel constant": lambda: key(graph(constant=2)),
    "configuration object": lambda: key(graph(constant=Config(1))),
    "another configuration object": lambda: key(graph(constant=Config(2))),
    "object without a text": lambda: key(graph(constant=Plain(1))),
    "another object without a text": lambda: key(graph(constant=Plain(2))),
    "captured tensor": lambda: key(graph(captured=2.0)),
    "number in the graph": lambda: key(graph(shift=2)),
    "function in the graph": lambda: key(graph(function=torch.mul)),
    "function without a name": lambda: key(graph(function=lambda a, b: a + b)),
    "another function without a name": lambda: key(graph(function=lambda a, b: a - b)),
    "function that calls functions": lambda: key(graph(function=calls_another)),
    "function with a set in it": lambda: key(graph(function=lambda a, b: a if "x" in {"x", "y", "z", "u"} else b)),
}


STEP = 1


def with_default(value: int) -> Callable[..., Any]:
    def scaled(a: Any, b: Any, k: int = value) -> Any:
        return a * k

    return scaled


def with_keyword_default(value: int) -> Callable[..., Any]:
    def scaled(a: Any, b: Any, *, k: int = value) -> Any:
        return a * k

    return scaled


def reads_step(a: Any, b: Any) -> Any:
    return (lambda c: c + STEP)(a)


def calls_another(a: Any, b: Any) -> Any:
    return reads_step(a, b) if b is not None else calls_another(b, a)


def recursive(value: int) -> Callable[..., Any]:
    def inner(a: Any, b: Any) -> Any:
        return inner(b, a) if a is None else a * value

    return inner


@pytest.mark.parametrize("make", [with_default, with_keyword_default, recursive])
def test_what_a_function_is_made_with_is_in_it(make: Callable[[int], Callable[..., Any]]) -> None:
    assert len({key(graph(function=make(value))) for value in (1, 2, 1)}) == 2


@pytest.mark.parametrize("function", [reads_step, calls_another])
def test_globals_that_a_function_reads_are_in_it(monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any]) -> None:
    before = key(graph(function=function))
    monkeypatch.setitem(globals(), "UNRELATED", 3)
    assert key(graph(function=function)) == before
    for value in (2, 1.0, torch.tensor(1)):
        monkeypatch.setitem(globals(), "STEP", value)
        assert key(graph(function=function)) != before


WITHOUT_TEXT = (
    "configuration object",
    "object without a text",
    "function without a name",
    "function that calls functions",
    "function with a set in it",
)


def test_what_changes_the_program() -> None:
    keys = {name: make() for name, make in DIFFERENT.items()}
    assert BASE not in keys.values()
    assert len(set(keys.values())) == len(keys)


def test_replica_groups_are_in_it() -> None:
    made = set()
    for groups in ([[0, 1]], [[0], [1]], [[0, 1]]):
        h = Hand("x")
        gm = h.out((h.f(torch.ops.aten.neg.default, h.ins[0]),)).module()
        next(node for node in gm.graph.nodes if node.op == "call_function").meta["replica_groups"] = groups
        made.add(cache_key(gm, [torch.ones(2)]))
    assert len(made) == 2


def test_the_state_of_a_called_module_is_in_it() -> None:
    made = set()
    for weight, p in ((1.0, 1), (2.0, 1), (1.0, 1)):
        linear = torch.nn.Linear(p, 1)
        torch.nn.init.constant_(linear.weight, weight)
        torch.nn.init.zeros_(linear.bias)
        h = Hand("x", layer=linear)
        made.add(cache_key(h.out((h.sub("layer", h.ins[0]),)).module(), [torch.ones(1, p)]))
    assert len(made) == 2


def test_other_processes_make_the_same_key() -> None:
    """Objects whose text is an address, and functions without a name of their own."""
    code = (
        "import sys; sys.path[:0] = ['tests', 'tests/cases']\n"
        "from tests import test_cache_key as t\n"
        "print(t.BASE, *(t.DIFFERENT[name]() for name in t.WITHOUT_TEXT))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(ROOT)}
    said = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert said.stdout.split() == [BASE, *(DIFFERENT[name]() for name in WITHOUT_TEXT)]
