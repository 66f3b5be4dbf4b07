"""The `torch.compile` backend `fx2hlo`: each call runs the executable made for how its arguments lie in memory.

Dynamo does not compile again when arguments that were apart come to overlap, and with symbolic sizes not when a size
changes. An executable assumes both, so every graph has a dispatcher from (sharing, sizes, strides) to executables.

Graphs that Dynamo hands over mutate their inputs, and so do the executables: an optimizer's step writes parameters and
momentum where they are. Only where a gradient is recorded does the graph go through AOTAutograd, which splits it into a
forward and a backward part; what the forward part writes (running statistics) it writes in place as well.

A graph that draws takes a new key from PyTorch's default generator at each call. So `torch.manual_seed` repeats a run, and
what two graphs draw is independent.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch.fx.traceback import preserve_node_meta
from torch.utils import _pytree as pytree

from compiler.compilation import compile_program
from compiler.errors import CompileError, GuardError, UnsupportedError
from compiler.integrations.numbers import Numbers, exact
from compiler.runtime.executable import Executable

_OPTIONS = ("xla_flags", "validate")


class Dispatcher:
    """Executables of one graph by what they assume about their arguments.

    A float that changes is data to them. Where the graph wants to know it (a bound, a branch of an operator), each value
    gets an executable of its own.

    Attributes:
        executables: what has been compiled so far.
        options: those of `compiler.compile` that hold for all of them.
    """

    def __init__(self, gm: fx.GraphModule, limit: int = 64, **options: Any) -> None:
        self.gm, self.limit, self.options = gm, limit, options
        self.executables: dict[tuple[Hashable, tuple[int, ...]], Executable] = {}
        self._numbers = Numbers(gm)
        self._by_value = False
        again = _has_modes(gm) or self._numbers.computed
        self._program: Callable[..., Any] = _in_one_go(self._numbers.graph) if again else self._numbers.graph
        self._random = False
        self._counted: frozenset[int] = frozenset()
        """Arguments in whose storages the graph counts from the first byte: another place is another executable."""
        self.fixed = False
        """Numbers in the graph were made from where arguments lay when it was traced: it has no other places."""
        self._detached = _detached(gm)

    def __call__(self, *args: Any) -> Any:
        with torch.no_grad():
            executable = self.executable(args)
            if self._random:
                executable.manual_seed(int(torch.randint(-(1 << 63), (1 << 63) - 1, ())))
            results = executable(*self._arguments(args))
        return _without_gradient(results, self._detached) if self._detached else results

    def executable(self, args: Sequence[Any]) -> Executable:
        """The executable for arguments like these, compiled when there is none yet."""
        places = self._places(args)
        if self.fixed and self.executables and places not in {place for _, place in self.executables}:
            raise GuardError(
                f"an argument of a graph that records a gradient begins at another element of its storage than at compile time ({places}), "
                "and the graph counts from the first byte of that storage",
                hint="leave out the storage_offset of as_strided, which then counts from the tensor",
            )
        key = assumptions(self._arguments(args)), places
        found = self.executables.get(key)
        if found is None:
            if len(self.executables) >= self.limit:
                del self.executables[next(iter(self.executables))]  # the oldest
            with torch.no_grad():
                found = self._compiled(args)
            leaves = enumerate(found.signature.in_leaves)
            self._counted |= {n for n, leaf in leaves if leaf.is_tensor and leaf.index in dict(found.signature.offsets)}
            self.executables[assumptions(self._arguments(args)), self._places(args)] = found
            self._random |= any(binding.kind == "generator" for binding in found.signature.bindings)
        return found

    def _places(self, args: Sequence[Any]) -> tuple[int, ...]:
        given = self._arguments(args)
        return tuple(given[n].storage_offset() for n in sorted(self._counted))

    def _arguments(self, args: Sequence[Any]) -> Sequence[Any]:
        """What the executables are called with."""
        if not self._numbers.places:
            return args
        return self._numbers.values(args) if self._by_value else self._numbers.tensors(args)

    def _compiled(self, args: Sequence[Any]) -> Executable:
        if self._numbers.places and not self._by_value:
            program = self._numbers.taking_tensors(_in_one_go(self._numbers.graph))
            try:
                return compile_program(program, [_concrete(v) for v in self._arguments(args)], **self.options)
            except CompileError as error:
                if type(error) not in (CompileError, UnsupportedError):
                    raise
                self._by_value = True
        return compile_program(self._program, [_concrete(v) for v in self._arguments(args)], **self.options)


def _detached(gm: fx.GraphModule) -> frozenset[int]:
    """The results that Dynamo saw need no gradient; as views of an argument that needs one they would seem to."""
    output = next(node for node in gm.graph.nodes if node.op == "output")
    if not isinstance(output.args[0], (tuple, list)):
        return frozenset()
    examples = [node.meta.get("example_value") if isinstance(node, fx.Node) else None for node in output.args[0]]
    return frozenset(i for i, e in enumerate(examples) if isinstance(e, torch.Tensor) and not e.requires_grad)


def _without_gradient(results: Any, numbers: frozenset[int]) -> Any:
    return type(results)(r.detach() if i in numbers and r.requires_grad else r for i, r in enumerate(results))


def _has_modes(gm: fx.GraphModule) -> bool:
    """Whether nodes change how later ones run: transforms of `torch.func`, autocast. Such nodes mean nothing one by one."""
    places = ("torch._functorch", "torch._C._functorch", "torch.amp")
    modules = [m for m in gm.modules() if isinstance(m, fx.GraphModule)]
    targets = [n.target for m in modules for n in m.graph.nodes if n.op == "call_function"]
    return any((getattr(target, "__module__", None) or "").startswith(places) for target in targets)


def _in_one_go(gm: fx.GraphModule) -> Callable[..., Any]:
    """The graph as a function to be traced again, under the gradient mode of now, since Dynamo notes changes of it only; what
    is traced keeps the nodes' source lines."""
    recording = torch.is_grad_enabled()

    def run(*args: Any) -> Any:
        with torch.set_grad_enabled(recording), preserve_node_meta():
            return fx.Interpreter(gm).run(*args)

    return run


def assumptions(args: Sequence[Any]) -> Hashable:
    """All that an executable assumes: plain values; dtype, sizes, strides and lazy bits of tensors; who shares memory how."""
    storages: dict[int, list[int]] = {}
    for number, value in enumerate(args):
        if isinstance(value, torch.Tensor):
            storages.setdefault(value.untyped_storage()._cdata, []).append(number)
    shared = {number: group[0] for group in storages.values() if len(group) > 1 for number in group}
    meeting = _meeting(args, storages.values()) if len(storages) > 1 else {}
    parts: list[Hashable] = []
    for number, value in enumerate(args):
        if isinstance(value, torch.Tensor):
            place = (shared[number], value.storage_offset()) if number in shared else ()
            if number in meeting:
                place = (*place, meeting[number], value.storage_offset())
            parts.append((value.dtype, value.shape, value.stride(), value.is_conj(), value.is_neg(), place))
        else:
            plain = _concrete(value)
            parts.append((type(plain), exact(plain)))
    return tuple(parts)


def _meeting(args: Sequence[Any], groups: Iterable[list[int]]) -> dict[int, tuple[int, int]]:
    """The arguments whose storage overlaps another one: the first such argument in memory, and bytes from its storage to theirs.

    Tensors made from memory of someone else (`torch.from_numpy`) have storages of their own, wherever that memory is.
    """
    spans: list[tuple[int, int, list[int]]] = []
    for group in groups:
        storage = args[group[0]].untyped_storage()
        if storage.nbytes():
            spans.append((storage.data_ptr(), storage.nbytes(), group))
    found: dict[int, tuple[int, int]] = {}
    first, lead, end = 0, [0], 0
    for start, length, group in sorted(spans):
        if start >= end:
            first, lead, end = start, group, start + length
            continue
        end = max(end, start + length)
        found |= dict.fromkeys(lead, (lead[0], 0)) | dict.fromkeys(group, (lead[0], start - first))
    return found


def _concrete(value: Any) -> Any:
    """A symbolic number as the number it is in this call."""
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}[type(value)](value)
    return value


def fx2hlo(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
    dispatcher: Callable[..., Dispatcher] | None = None,
) -> Callable[..., Any]:
    """Compile a Dynamo graph. Errors of compilation carry the user's line.

    Without symbolic sizes the first executable is made at once, so that what cannot be compiled is said before anything runs.

    Args:
        options: `xla_flags` and `validate`, as `compiler.compile` takes them: `torch.compile(f, backend="fx2hlo", options={...})`.
        mode: refused, since the backend has none.
        dispatcher: what makes the dispatcher of a graph, for a caller that wants to watch it.
    """
    unknown = [f"mode {mode!r}"] if mode else [f"option {name!r}" for name in options or () if name not in _OPTIONS]
    if unknown:
        raise CompileError(f"the backend fx2hlo knows no {unknown[0]}", hint=f"options are {' and '.join(_OPTIONS)}")
    make = functools.partial(dispatcher or Dispatcher, **options or {})
    if _records_gradient(gm, example_inputs):
        return _differentiable(gm, example_inputs, make)
    found = make(gm)
    if all(_is_real(value) for value in example_inputs):
        found.executable(example_inputs)
    return found


def _records_gradient(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> bool:
    """Whether a gradient is recorded anywhere. The mode at the border does not tell: the graph may change it inside."""
    if not any(isinstance(value, torch.Tensor) and value.requires_grad for value in example_inputs):
        return False
    nodes = [n for n in gm.graph.nodes if n.op not in ("placeholder", "output")]
    values = [v for n in nodes for v in pytree.tree_leaves(n.meta.get("example_value")) if isinstance(v, torch.Tensor)]
    return any(value.grad_fn is not None for value in values) if values else torch.is_grad_enabled()


def _is_real(value: Any) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    if isinstance(value, torch.Tensor):
        return not isinstance(value, FakeTensor) and not value.is_meta
    return not isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


def _differentiable(
    gm: fx.GraphModule, example_inputs: Sequence[Any], make: Callable[[fx.GraphModule], Dispatcher]
) -> Callable[..., Any]:
    """Forward and backward as two graphs, each with its dispatcher."""

    def compile_part(part: fx.GraphModule, _example_inputs: Sequence[Any]) -> Callable[..., Any]:
        made = make(part)
        made.fixed = True
        return make_boxed_func(made)

    backend = aot_autograd(fw_compiler=compile_part, bw_compiler=compile_part, keep_inference_input_mutations=True)
    return backend(gm, example_inputs)


__all__ = ["Dispatcher", "assumptions", "fx2hlo"]
