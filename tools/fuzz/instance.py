"""A program with memory of its own, to be called again and again: what is called, with what, and the state it keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from tools.fuzz.program import Program
from tools.fuzz.regions import PLAIN, PYTORCH


@dataclass
class Instance:
    """See the module's text.

    Attributes:
        tensors: one per argument of the program, those that the module held at first included.
        call: the function or module, or what behaves like it.
        state: the tensors that the module holds now.
        apart: the state is in memory of its own, which is no longer than it must be.
        guarded: a call that is given, or finds in the state, something of another form is refused.
    """

    program: Program
    tensors: list[torch.Tensor]
    call: Callable[..., Any]
    state: Callable[[], list[torch.Tensor]]
    apart: bool = False
    guarded: bool = True

    @staticmethod
    def of(program: Program, *, captured: bool = False) -> Instance:
        """The program itself, in eager PyTorch. One that is captured has PyTorch's operators with regions."""
        tensors, made = program.make_arguments(), program.function(PYTORCH if captured else PLAIN)
        if not program.held:
            return Instance(program, tensors, made, list)
        module = made()
        assert isinstance(module, torch.nn.Module)
        for number in program.held:
            _hold(module, program, number, tensors[number])
        return Instance(program, tensors, module, lambda: [held(module, program, number) for number in program.held])

    def given(self) -> tuple[Any, ...]:
        """The arguments of a call, nested as the program takes them."""
        return self.program.pack(self.tensors)

    def arguments(self) -> list[torch.Tensor]:
        """What a call is given, and what the module holds by now, in the order of the program's arguments."""
        now = dict(zip(self.program.held, self.state()))
        return [now.get(number, tensor) for number, tensor in enumerate(self.tensors)]

    def step(self, *_: torch.Tensor) -> Any:
        """A call; what the module holds afterwards counts as a result."""
        result = self.call(*self.given())
        return (result, self.state()) if self.program.held else result

    def renew(self, world: int, *, misaligned: bool) -> None:
        """Arguments of another call. Memory that is the module's stays as it is, and what it shares with arguments."""
        self.tensors = self.program.next_arguments(self.tensors, world, misaligned=misaligned)

    def separate(self) -> None:
        """Arguments of another call, each in memory of its own, which may not be how they were when it was compiled."""
        self.tensors = self.program.separate_arguments(self.tensors)

    def join(self) -> None:
        """Arguments of another call, one tensor in all places where it would do."""
        self.tensors = self.program.joined_arguments(self.tensors)

    def form(self) -> list[object]:
        """What a compiled program takes for granted of the tensors: their geometry, and which share memory where."""
        found: list[object] = []
        bases: dict[int, tuple[int, int]] = {}
        objects: dict[int, int] = {}
        for number, t in enumerate(self.arguments()):
            start = int(t.storage_offset()) * t.element_size()
            base, first = bases.setdefault(t.untyped_storage()._cdata, (number, 0 if self.program.counts else start))
            geometry = t.dtype, tuple(t.shape), t.stride(), t.is_conj(), t.is_neg()
            found.append((geometry, base, start - first, objects.setdefault(id(t), number)))
        return found


def _owner(module: torch.nn.Module, program: Program, number: int) -> torch.nn.Module:
    name = program.arguments[number].module
    if name and not hasattr(module, name):
        module.add_module(name, torch.nn.Module())
    return getattr(module, name) if name else module


def _hold(module: torch.nn.Module, program: Program, number: int, tensor: torch.Tensor) -> None:
    owner, name, kind = _owner(module, program, number), f"a{number}", program.arguments[number].held
    if kind == "parameter":
        assert isinstance(tensor, torch.nn.Parameter)
        owner.register_parameter(name, tensor)
    elif kind == "attribute":
        setattr(owner, name, tensor)
    else:
        owner.register_buffer(name, tensor, persistent=kind == "buffer")


def held(module: torch.nn.Module, program: Program, number: int) -> torch.Tensor:
    """The tensor under the name of an argument that the module holds."""
    return getattr(_owner(module, program, number), f"a{number}")
