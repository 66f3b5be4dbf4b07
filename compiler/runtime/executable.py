"""A compiled program as a function with PyTorch's semantics: same structure, same mutations, same sharing as eager."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from jaxlib import _jax  # pyright: ignore[reportAttributeAccessIssue]
from torch.utils import _pytree as pytree

from compiler.errors import CompileError, GuardError
from compiler.export import artifact
from compiler.export import hlo as export_hlo
from compiler.export.elements import element_size
from compiler.export.signature import OWN, Binding, OutputSource, Signature, TensorType
from compiler.export.trees import is_size
from compiler.program import Assumptions, Link
from compiler.random_bits import SEEDS, next_seed, seeded
from compiler.runtime.buffers import Memory
from compiler.runtime.client import check_process, compile_hlo, sharding
from compiler.runtime.guards import Guards
from compiler.runtime.outputs import Outputs
from compiler.runtime.state import ModuleState, StoredState, check_link, untied

if TYPE_CHECKING:
    from compiler.program import Leaf

_SIMPLE = (torch.Tensor, torch.nn.Parameter, int, float, bool, str, type(None))
"""Types that are leaves of every tree."""


@dataclass(frozen=True)
class AliasRow:
    """One entry of the alias table, as people read it."""

    output: int
    parameter: int
    arguments: tuple[str, ...]
    kind: Literal["must-alias"]
    element: str
    shape: tuple[int, ...]
    bytes: int


class _Description(NamedTuple):
    """What jaxlib notes beside a result, for JAX. Nobody here reads it: the buffer itself knows its type."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any] = np.dtype(np.uint8)
    weak_type: bool = False


class Executable:
    """A compiled program. Call it like the function or module it was compiled from.

    Written arguments and module state are updated in place; outputs share memory with arguments and with each other
    exactly as in eager. A call checks its guards before anything runs, and returns when everything has been computed.
    Calls of one executable are serialised by a lock, so threads may share it.

    Attributes:
        copied_bytes: bytes the last call had to copy back because it could not run in place (misaligned memory).
        timings: seconds per stage of its compilation; empty for a loaded one.
        counts: ops imported, and how many of them write; empty for a loaded one.
    """

    def __init__(
        self,
        signature: Signature,
        hlo: bytes,
        stablehlo: str | Callable[[], str] = "",
        *,
        state: Mapping[str, torch.Tensor] | None = None,
        owner: torch.nn.Module | None = None,
        training: Mapping[str, bool] | None = None,
        assumed: Assumptions | None = None,
        stages: Mapping[str, str | Callable[[], str]] | None = None,
        options: Any = None,
        files: Mapping[str, bytes] | None = None,
    ):
        """`state` holds the tensors of arguments that are no inputs, where `owner` has none of that name; `stages` the
        texts for `ir`; `options` those of `compiler.runtime.client.compile_options`; `files` go into a saved artifact as
        they are."""
        parts = export_hlo.interface(hlo)
        if (parts.parameters, parts.results) != (signature.parameters, signature.results):
            raise CompileError("the HLO module and the signature disagree on parameters or results")
        if set(parts.aliases) != set(signature.aliases):
            raise CompileError("the HLO module and the signature disagree on the alias table")
        self.signature = signature
        self.hlo_proto = hlo
        self.copied_bytes = 0
        self.timings: dict[str, float] = {}
        self.counts: dict[str, int] = {}
        self._stablehlo = stablehlo
        self._stages = dict(stages or {})
        self._options = options
        self._files = dict(files or {})
        self._lock = threading.Lock()
        self._compiling = threading.Lock()
        self._guards = Guards(signature)
        self._memories = [Memory(signature, p) for p in range(len(signature.parameters))]
        self._outputs = Outputs(signature)
        self._handlers = [
            _jax.array_result_handler(_Description(r.shape), sharding(), True, True) for r in signature.results
        ]
        self._touched = _touched(signature)
        self._beyond = tuple(_beyond(signature))
        self._plain_call = _plain_call(signature.in_tree)
        self._keywords = _keywords(signature.in_tree)
        self._owned = tuple((i, b.name) for i, b in enumerate(signature.bindings) if b.kind != "input")
        self._seeds = tuple(i for i, b in enumerate(signature.bindings) if b.kind == "generator" and not b.written)
        names = [name for _, name in self._owned]
        self._assumed = assumed or Assumptions()
        self._links: tuple[Link, ...] = self._assumed.links
        self._state: StoredState | ModuleState = StoredState(names, state or {})
        if owner is not None:
            known = dict(state or {})
            constants = {b.name: known[b.name] for b in signature.bindings if b.kind in OWN and b.name in known}
            self._state = ModuleState(names, owner, constants, training or {}, self._assumed)

    @classmethod
    def load(cls, directory: str | PathLike[str], options: Any = None) -> Executable:
        """The executable saved in a directory. It owns its state; nothing in the directory is executed but the HLO."""
        stored = artifact.read(directory)
        return cls(stored.signature, stored.hlo, stored.stablehlo, state=stored.state, options=options)

    def save(self, directory: str | PathLike[str], weights: Literal["include", "omit"] = "include") -> None:
        """Write an artifact (docs/artifact.md) with the present state; "omit" leaves parameters and buffers out."""
        with self._lock:
            state = self._state.available()
            artifact.write(directory, self.signature, self.hlo_proto, self.stablehlo(), state, weights, self._files)

    def on(self, state: Mapping[str, torch.Tensor]) -> Executable:
        """The same program with these tensors, by name, as its state; nothing is compiled again."""
        other = Executable(self.signature, self.hlo_proto, self._stablehlo, state=state, options=self._options)
        other.__dict__["_loaded"] = self._loaded
        return other

    def bind(self, state: Mapping[str, torch.Tensor] | torch.nn.Module) -> Executable:
        """Use these tensors, by name, as the state from now on. They are not copied: calls write into them.

        A second name of a tensor that has one in the program, as tied parameters have, is welcome.
        """
        if not isinstance(state, (Mapping, torch.nn.Module)):
            raise CompileError(
                f"bind: a {type(state).__name__} is no state", hint="give a module or a dict of tensors by name"
            )
        if isinstance(state, torch.nn.Module):
            state = {
                **dict(state.named_buffers(remove_duplicate=False)),
                **dict(state.named_parameters(remove_duplicate=False)),
            }
        state = untied(state, self._assumed.ties)
        self._refuse_unknown(state)
        with self._lock:
            known = {**self._state.available(), **state}
            missing = [name for _, name in self._owned if name not in known]
            if missing:
                raise CompileError(f"bind: no tensor for the state {', '.join(map(repr, missing))}")
            for index, name in self._owned:
                _require_plain(known[name], name)
                self._guards.check_one(index, known[name])
            self._state = StoredState([name for _, name in self._owned], known)
            self._links = ()  # the tensors are those bound from now on, wherever the program found its own
        return self

    def _refuse_unknown(self, state: Mapping[str, Any]) -> None:
        names = {name for _, name in self._owned}
        places = {t.data_ptr() for name, t in state.items() if name in names and isinstance(t, torch.Tensor)}
        for name, tensor in state.items():
            if name not in names and not (isinstance(tensor, torch.Tensor) and tensor.data_ptr() in places):
                known = ", ".join(sorted(names)) or "none"
                raise CompileError(f"bind: the program has no state {name!r}", hint=f"its names are {known}")

    def manual_seed(self, seed: int) -> Executable:
        """Start the program's stream of random numbers again, for this seed. It is not the stream that eager PyTorch has
        for the same seed. A program that draws nothing has no stream, and this changes nothing."""
        with self._lock:
            state = self._state.available()
            for binding in self.signature.bindings:
                if binding.kind == "generator":
                    takes_seed = not binding.window.sizes
                    state[binding.name].copy_(torch.tensor(seed % SEEDS) if takes_seed else seeded(seed))
        return self

    # -- what it is ----------------------------------------------------------------------------

    @property
    def state(self) -> dict[str, torch.Tensor]:
        """The tensors of arguments that are no inputs, by name: those the next call reads and writes."""
        return self._state.available()

    @property
    def io_map(self) -> dict[int, int]:
        """Result -> argument whose memory it is; results from `original_output_count` on are added for written ones."""
        return self.signature.contract.results

    @property
    def original_output_count(self) -> int:
        """How many results the program itself has, Python values included."""
        return self.signature.contract.original_output_count

    @property
    def alias_table(self) -> list[AliasRow]:
        """One row per HLO output that is written into a parameter's memory."""
        rows: list[AliasRow] = []
        for alias in self.signature.aliases:
            kind = self.signature.parameters[alias.parameter]
            names = tuple(self.signature.bindings[i].name for i in self.signature.bound(alias.parameter))
            rows.append(AliasRow(*alias, names, "must-alias", kind.element, kind.shape, kind.bytes))
        return rows

    @property
    def output_plan(self) -> tuple[OutputSource, ...]:
        """What every tensor result of the program is made of."""
        return self.signature.plan

    @property
    def parameters(self) -> tuple[TensorType, ...]:
        """Types of the HLO parameters."""
        return self.signature.parameters

    @property
    def argument_names(self) -> tuple[str, ...]:
        """Names of all arguments, module state included, in order."""
        return tuple(b.name for b in self.signature.bindings)

    @property
    def unused_arguments(self) -> tuple[str, ...]:
        """Names of the arguments whose memory nothing reads or writes."""
        return tuple(b.name for b in self.signature.bindings if b.parameter < 0)

    def stablehlo(self) -> str:
        """The StableHLO text."""
        return self._stablehlo() if callable(self._stablehlo) else self._stablehlo

    def hlo_text(self) -> str:
        """The exported HLO as text."""
        return export_hlo.hlo_text(self.hlo_proto)

    def ir(self, stage: str) -> str:
        """The program's text at a stage of compilation. An executable that was loaded has none."""
        if stage not in self._stages:
            known = ", ".join(map(repr, self._stages)) or "none: they are not part of an artifact"
            raise CompileError(f"there is no stage {stage!r}; stages kept: {known}")
        text = self._stages[stage]
        return text if isinstance(text, str) else text()

    @functools.cached_property
    def _loaded(self) -> Any:
        with self._compiling:
            return compile_hlo(self.hlo_proto, self._options)

    @property
    def compiled(self) -> Any:
        """The XLA executable; compiled when first needed."""
        return self._loaded

    # -- calling -------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            tensors = self._arguments(args, kwargs)
            outputs = self._run(tensors)
            for index in self._seeds:
                next_seed(tensors[index])
            for name, index in self.signature.rebound:
                self._state.rebind(name, outputs[index])
        leaves = [
            (outputs[leaf.index].item() if leaf.number else outputs[leaf.index]) if leaf.is_tensor else leaf.constant
            for leaf in self.signature.out_leaves
        ]
        return pytree.tree_unflatten(leaves, self.signature.out_tree)

    def run(self, arguments: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The results on these tensors, flat: one for each of `argument_names`, in place of the inputs and the state."""
        tensors, names = list(arguments), self.argument_names
        if len(tensors) != len(names):
            raise GuardError(
                f"run: expected {len(names)} tensors, got {len(tensors)}", hint=f"they are {', '.join(names)}"
            )
        for tensor, name in zip(tensors, names, strict=True):
            _require_plain(tensor, name)
        with self._lock:
            return self._run(tensors)

    def _run(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        check_process()
        addresses, staged = self._guards.check(tensors)
        for index, first, end in self._beyond:
            tensor, b = tensors[index], self.signature.bindings[index]
            start = int(tensor.storage_offset()) * tensor.element_size() - b.window.offset * element_size(b.element)
            if start + first < 0 or start + end > tensor.untyped_storage().nbytes():
                raise GuardError(
                    f"argument {b.name!r} has {tensor.untyped_storage().nbytes()} bytes of memory, and the program views "
                    f"bytes {start + first} to {start + end} of it",
                    hint="pass a view of as much memory as when the program was compiled",
                )
        taken: set[int] = set()
        buffers: list[Any] = []
        results: list[Any] = []
        self.copied_bytes = 0
        if self._handlers:  # a program without results has nothing to compute
            try:
                for number, memory in enumerate(self._memories):
                    buffers.append(memory.lend(tensors, addresses, number in staged))
                    taken.add(memory.address)
                results = self._loaded.execute_sharded(buffers).consume_with_handlers(self._handlers)
                for result in results:
                    result.block_until_ready()
            except BaseException:
                for memory in self._memories:
                    memory.forget()
                raise
            for output, parameter in self.signature.aliases:
                self.copied_bytes += self._memories[parameter].settle(tensors, results[output])
            if self._touched:
                torch.autograd.graph.increment_version([tensors[i] for i in self._touched])
        outputs = self._outputs.rebuild(tensors, results, taken)
        if self.signature.reshaped:
            self._reshape(tensors)
        return outputs

    def _reshape(self, tensors: list[torch.Tensor]) -> None:
        """Leave arguments with the metadata that the program gives them, as `x.t_()` does."""
        with torch.no_grad():
            for index, window in self.signature.reshaped:
                tensor, before = tensors[index], self.signature.bindings[index].window
                start = int(tensor.storage_offset()) - before.offset
                tensor.as_strided_(window.sizes, window.strides, start + window.offset)

    def _arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
        """The tensors of a call in argument order, after the checks of its structure and constants."""
        tensors: list[Any] = [None] * len(self.signature.bindings)
        for leaf, value in zip(self.signature.in_leaves, self._flatten(args, kwargs), strict=True):
            if not leaf.is_tensor:
                self._check_constant(leaf, value)
                continue
            if type(value) is not torch.Tensor:
                _require_plain(value, self.signature.bindings[leaf.index].name)
            if tensors[leaf.index] is None:
                tensors[leaf.index] = value
            elif tensors[leaf.index] is not value:
                raise GuardError(
                    f"argument {self.signature.bindings[leaf.index].name!r} was one tensor passed at several places, "
                    "and now there are two",
                    hint="pass the same tensor at all of them, or compile for separate ones",
                )
        for link in self._links:
            check_link(link)
        for (index, name), tensor in zip(
            self._owned, self._state.tensors(), strict=True
        ):  # guards what has no tensors too
            tensors[index] = tensor
            if type(tensor) is not torch.nn.Parameter and type(tensor) is not torch.Tensor:
                _require_plain(tensor, name)
        return tensors

    def _flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any]:
        if not kwargs and len(args) == self._plain_call and all(type(a) in _SIMPLE for a in args):
            return args
        if len(kwargs) > 1 and kwargs.keys() == set(self._keywords):
            kwargs = {name: kwargs[name] for name in self._keywords}
        leaves, tree = pytree.tree_flatten((args, kwargs), is_leaf=is_size)
        if tree != self.signature.in_tree:
            raise GuardError(
                f"the arguments have another structure than when compiled: expected {_sketch(self.signature.in_tree)}, "
                f"got {_sketch(tree)}",
                hint="pass the same arguments by position and by name, in the same containers",
            )
        return leaves

    def _check_constant(self, leaf: Leaf, value: Any) -> None:
        if not same_constant(leaf.constant, value):
            got = "a tensor" if isinstance(value, torch.Tensor) else repr(value)
            place = next(n for n, other in enumerate(self.signature.in_leaves) if other is leaf)
            raise GuardError(
                f"argument leaf {place} was compiled in as the constant {leaf.constant!r}, got {got}",
                hint="pass that value, or compile the program for this one",
            )


def same_constant(expected: Any, value: Any) -> bool:
    """Whether a non-tensor argument is the one that was compiled in: same type, same value, NaN equal to itself."""
    if expected is value:
        return True
    if type(expected) is not type(value):
        return False
    if isinstance(expected, float):
        return expected.hex() == value.hex()
    return (expected == value) is True


def _require_plain(value: Any, name: str) -> None:
    """Raise unless `value` is a tensor with memory of its own."""
    if not isinstance(value, torch.Tensor):
        raise GuardError(f"argument {name!r}: expected a tensor, got {type(value).__name__}")
    if type(value) is torch.Tensor or type(value) is torch.nn.Parameter:
        return
    dispatch = getattr(type(value), "__torch_dispatch__", None)
    if dispatch is not None and dispatch is not torch._C._disabled_torch_dispatch_impl:
        raise GuardError(
            f"argument {name!r} is a {type(value).__name__}, which intercepts operators",
            hint="pass the plain tensor inside it",
        )


class _Star:
    """A leaf in a sketch of a structure."""

    def __repr__(self) -> str:
        return "*"


def _sketch(tree: pytree.TreeSpec) -> str:
    """`((*, [*]), {'mask': *})`: positional and keyword arguments with stars for leaves."""
    return repr(pytree.tree_unflatten([_Star()] * tree.num_leaves, tree))


def _plain_call(tree: pytree.TreeSpec) -> int:
    """How many positional leaves a call has if it has nothing else, else -1."""
    args = tree.children()[0] if tree.num_children == 2 else tree
    plain = pytree.tree_structure(((0,) * args.num_children, {}))
    return args.num_children if tree == plain else -1


def _keywords(tree: pytree.TreeSpec) -> tuple[str, ...]:
    """Names of the keyword arguments, in the order of the tree."""
    if tree.num_children != 2 or tree.children()[1].type is not dict:
        return ()
    return tuple(tree.children()[1].context)


def _beyond(signature: Signature) -> Iterator[tuple[int, int, int]]:
    """Windows that reach beyond the argument they are on, as (argument, first byte, end), where no parameter holds that memory."""
    views = [(o.index, o.element, o.window) for o in signature.plan if o.kind == "argument_view"]
    views += [(index, signature.bindings[index].element, window) for index, window in signature.reshaped]
    for index, element, window in views:
        b, size = signature.bindings[index], element_size(element)
        own, first, end = element_size(b.element), window.offset * size, window.reach * size
        if b.parameter < 0 and window.numel and (first < b.window.offset * own or end > b.window.reach * own):
            yield index, first, end


def _touched(signature: Signature) -> tuple[int, ...]:
    """The arguments that are written, and those that share memory with a written one."""

    def span(b: Binding) -> tuple[int, int]:
        size = element_size(b.element)
        return b.window.offset * size, b.window.reach * size

    written = [(b.parameter, *span(b)) for b in signature.bindings if b.written]
    return tuple(
        i
        for i, b in enumerate(signature.bindings)
        if b.parameter >= 0
        and any(b.parameter == p and span(b)[0] < end and start < span(b)[1] for p, start, end in written)
    )
