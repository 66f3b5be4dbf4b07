"""The `torch.compile` backend `fx2hlo`: each call runs the executable made for how its arguments lie in memory.

Dynamo does not compile again when arguments that were apart come to overlap, and with symbolic sizes not when a size
changes. An executable assumes both, so every graph has a dispatcher from (sharing, sizes, strides) to executables.

Graphs that Dynamo hands over mutate their inputs, and so do the executables. Only where a gradient is wanted does the
graph go through AOTAutograd, which splits it into a pure forward and backward part.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func

from compiler.compilation import compile_program
from compiler.runtime.executable import Executable


class Dispatcher:
    """Executables of one graph by what they assume about their arguments.

    Attributes:
        executables: what has been compiled so far.
    """

    def __init__(self, gm: fx.GraphModule, limit: int = 64) -> None:
        self.gm, self.limit = gm, limit
        self.executables: dict[Hashable, Executable] = {}

    def __call__(self, *args: Any) -> Any:
        return self.executable(args)(*args)

    def executable(self, args: Sequence[Any]) -> Executable:
        """The executable for arguments like these, compiled when there is none yet."""
        key = assumptions(args)
        found = self.executables.get(key)
        if found is None:
            if len(self.executables) >= self.limit:
                del self.executables[next(iter(self.executables))]  # the oldest
            with torch.no_grad():
                found = self.executables[key] = compile_program(self.gm, [_concrete(value) for value in args])
        return found


def assumptions(args: Sequence[Any]) -> Hashable:
    """All that an executable assumes: plain values; dtype, sizes, strides and lazy bits of tensors; who shares memory how."""
    storages: dict[int, list[int]] = {}
    for number, value in enumerate(args):
        if isinstance(value, torch.Tensor):
            storages.setdefault(value.untyped_storage()._cdata, []).append(number)
    shared = {number: group[0] for group in storages.values() if len(group) > 1 for number in group}
    parts: list[Hashable] = []
    for number, value in enumerate(args):
        if isinstance(value, torch.Tensor):
            place = (shared[number], value.storage_offset()) if number in shared else ()
            parts.append((value.dtype, value.shape, value.stride(), value.is_conj(), value.is_neg(), place))
        else:
            plain = _concrete(value)
            parts.append((type(plain), plain))
    return tuple(parts)


def _concrete(value: Any) -> Any:
    """A symbolic number as the number it is in this call."""
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}[type(value)](value)
    return value


def fx2hlo(gm: fx.GraphModule, example_inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """Compile a Dynamo graph. Errors of compilation carry the user's line.

    Without symbolic sizes the first executable is made at once, so that what cannot be compiled is said before anything runs.
    """
    if torch.is_grad_enabled() and any(isinstance(t, torch.Tensor) and t.requires_grad for t in example_inputs):
        return _differentiable(gm, example_inputs)
    dispatcher = Dispatcher(gm)
    if all(_is_real(value) for value in example_inputs):
        dispatcher.executable(example_inputs)
    return dispatcher


def _is_real(value: Any) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    if isinstance(value, torch.Tensor):
        return not isinstance(value, FakeTensor) and not value.is_meta
    return not isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


def _differentiable(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """Forward and backward as two pure graphs, each with its dispatcher."""

    def compile_part(part: fx.GraphModule, _example_inputs: Sequence[Any]) -> Callable[..., Any]:
        dispatcher = Dispatcher(part)

        def run(*args: Any) -> Any:
            with torch.no_grad():
                return dispatcher(*args)

        return make_boxed_func(run)

    return aot_autograd(fw_compiler=compile_part, bw_compiler=compile_part)(gm, example_inputs)


__all__ = ["Dispatcher", "assumptions", "fx2hlo"]
