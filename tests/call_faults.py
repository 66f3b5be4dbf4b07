"""Faults of what comes after the passes, for tests/test_seeded_faults.py: the seed that takes the place of the random state,
memory that is kept from call to call or copied, and calls as users make them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.dialects.func import FuncOp

from compiler import compilation
from compiler.runtime import executable
from compiler.runtime.buffers import Memory
from compiler.runtime.executable import Executable
from compiler.runtime.state import StoredState
from compiler.transforms import seed_parameter
from dialects.alias import Table

Patch = pytest.MonkeyPatch


class Counter(torch.nn.Module):
    """State that is written, state that is bound anew, and a structured result with numbers in it."""

    total: torch.Tensor
    calls: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(64))
        self.register_buffer("calls", torch.zeros(64))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Any]:
        self.total.add_(x)
        self.calls = self.calls + 1
        return {"sum": self.total - y, "parts": [x - self.calls, x.sum().item()], "name": "counter"}


def draws(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.add_(torch.rand(64))
    y.mul_(2)
    return torch.nn.functional.dropout(y, 0.5)


@dataclasses.dataclass(frozen=True)
class CallFault:
    """A change of the compiler or the runtime, and what says so."""

    plant: Callable[[Patch], None]
    pass_name: str
    program: Callable[[], Callable[..., Any]]
    target: str


CALL_FAULTS: dict[str, CallFault] = {}


def examples() -> tuple[torch.Tensor, ...]:
    return torch.arange(64.0), torch.ones(64)


def fault(
    pass_name: str, program: Callable[[], Callable[..., Any]], target: str = "xla"
) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    def register(plant: Callable[[Patch], None]) -> Callable[[Patch], None]:
        CALL_FAULTS[plant.__name__] = CallFault(plant, pass_name, program, target)
        return plant

    return register


# -- the seed ------------------------------------------------------------------------------------


@fault("seed-parameter", lambda: draws, "neuron")
def the_counter_does_not_start_at_zero(patch: Patch) -> None:
    from_list = DenseIntOrFPElementsAttr.from_list

    class Ones:
        from_list = staticmethod(lambda kind, data: from_list(kind, [1 for _ in data]))

    patch.setattr(seed_parameter, "DenseIntOrFPElementsAttr", Ones)


@fault("seed-parameter", lambda: draws, "neuron")
def entries_of_the_alias_table_are_lost_with_the_state(patch: Patch) -> None:
    def without_table(function: FuncOp) -> int | None:
        number = seed_parameter.add_seed_parameter(function)
        function.attributes["alias.table"] = Table(())
        return number

    patch.setattr(compilation, "add_seed_parameter", without_table)


@fault("call", lambda: draws, "neuron")
def every_call_draws_from_the_same_seed(patch: Patch) -> None:
    patch.setattr(executable, "next_seed", lambda seed: None)


# -- memory --------------------------------------------------------------------------------------


@fault("run", Counter)
def a_spent_buffer_is_kept(patch: Patch) -> None:
    settle = Memory.settle

    def keep(self: Memory, tensors: Any, output: Any) -> int:
        held = self._held
        spent = held.buffer if held is not None else None
        copied = settle(self, tensors, output)
        if held is not None and self._held is held:
            held.buffer = spent
        return copied

    patch.setattr(Memory, "settle", keep)


@fault("run", Counter)
def memory_that_had_to_be_copied_is_not_written_back(patch: Patch) -> None:
    settle = Memory.settle

    def only_in_place(self: Memory, tensors: Any, output: Any) -> int:
        return settle(self, tensors, output) if output.unsafe_buffer_pointer() == self.address else 0

    patch.setattr(Memory, "settle", only_in_place)


@fault("run", Counter)
def memory_that_had_to_be_copied_is_written_to_its_start(patch: Patch) -> None:
    patch.setattr(Memory, "_own", lambda self, tensors, place: (0, place.window))


@fault("run", Counter)
def autograd_is_not_told_of_writes(patch: Patch) -> None:
    patch.setattr(executable, "_touched", lambda signature: ())


# -- calls ---------------------------------------------------------------------------------------


@fault("call", Counter)
def arguments_change_places(patch: Patch) -> None:
    flatten = Executable._flatten
    patch.setattr(Executable, "_flatten", lambda self, args, kwargs: flatten(self, args, kwargs)[::-1])


@fault("call", Counter)
def state_is_not_bound_anew(patch: Patch) -> None:
    patch.setattr(StoredState, "rebind", lambda self, name, tensor: None)


@fault("call", Counter)
def state_is_bound_under_another_name(patch: Patch) -> None:
    rebind = StoredState.rebind
    patch.setattr(StoredState, "rebind", lambda self, name, tensor: rebind(self, "total", tensor))


@fault("call", Counter)
def tensors_of_the_state_change_places(patch: Patch) -> None:
    tensors = StoredState.tensors
    patch.setattr(StoredState, "tensors", lambda self, guarded=True: tensors(self, guarded)[::-1])
