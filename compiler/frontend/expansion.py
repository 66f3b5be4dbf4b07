"""One node of a graph as the ATen calls it makes, observed on fake tensors and remembered by signature.

A target runs on fresh fake tensors that have the operands' geometry and share storages as the operands do, under a
dispatch mode that records each ATen call: operands, Python arguments, and how each result's memory relates to the
operands'. The record is a template in terms of slots (operands first, then results in order), so that it serves every
later node with the same signature.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._pytree import tree_leaves
from xdsl.ir import Block

from compiler.errors import UnsupportedError
from compiler.frontend.data_checks import DataChecks
from compiler.frontend.forms import Forms, Handle, Root
from compiler.frontend.recording import Recorder
from compiler.frontend.steps import Expansion, Slot
from compiler.frontend.subscripts import NARROWS, NodeSubscripts

READS = (
    ("call_function", operator.getitem),
    ("call_function", torch.Tensor.__getitem__),
    ("call_method", "__getitem__"),
    *(("call_function", function) for function in NARROWS),
    ("call_method", "narrow"),
)
"""Nodes that do nothing but read a subscript, or a window."""


class Expander:
    """Expands nodes, and remembers the expansions by signature.

    With symbolic sizes a form does not say all about a tensor. Then `mode` is the graph's own fake mode, every handle
    keeps its fake tensor from node to node, and nothing is remembered.
    """

    def __init__(self, forms: Forms, mode: FakeTensorMode | None = None, draws: bool = True) -> None:
        """`draws`: random operators become deterministic ones on the program's own stream; else they are calls like others."""
        self.forms = forms
        self.draws = draws
        self.copies = True
        """Subscripts by 0-d tensors give copies; the caller sees to it that no one can tell."""
        self.symbolic = mode is not None
        self.mode = mode or FakeTensorMode(allow_non_fake_inputs=True)
        if mode is None:
            self.mode.cache_enabled = False  # its cache is slower than ours, and knows nothing of shared storages
        self.hits = 0
        self._anywhere: dict[Any, Expansion] = {}
        self._in_place: dict[Any, Expansion] = {}
        self._adopted: dict[int, torch.Tensor] = {}
        self._storages: dict[int, torch.UntypedStorage] = {}
        self._owners: list[Handle] = []
        state = forms.get(torch.int64, (2,), (1,), 0, "")
        self.stream = Handle(Block(arg_types=[state.type]).args[0], state, Root(state.end), argument=True)
        """The state of the random generator: the last operand of every node, argument of the program once one draws."""
        self._fake_stream = self._fake(self.stream, {})

    def adopt(self, handle: Handle, fake: torch.Tensor) -> None:
        """In a symbolic program: from now on `fake` stands for this handle."""
        self._adopted[id(handle)] = fake
        self._storages.setdefault(id(handle.root), fake.untyped_storage())
        self._owners.append(handle)

    @contextmanager
    def drawing_from(self, stream: Handle) -> Iterator[None]:
        """Random operators inside take their bits from another state; it is in memory of its own."""
        outer = self.stream, self._fake_stream
        self.stream, self._fake_stream = stream, self._fake(stream, {})
        try:
            yield
        finally:
            self.stream, self._fake_stream = outer

    def expand(self, target: Any, run: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Expansion, list[Handle]]:
        """The expansion of `run(*args, **kwargs)`, and the operands in the order of its slots."""
        signature = Signature()
        signature.add(args)
        signature.add(kwargs)
        operands = [*signature.operands, self.stream]
        if self.symbolic:
            return self._observe(target, run, args, kwargs, operands, self._adopted, self._storages), operands
        key = (target, *signature.parts)
        try:
            known = self._anywhere.get(key)
        except TypeError:  # an argument without a hash
            return self._observe_alone(target, run, args, kwargs, operands), operands
        if known is None:
            here = (key, *(handle.form.offset for handle in signature.operands))
            known = self._in_place.get(here)
            if known is None:
                known = self._observe_alone(target, run, args, kwargs, operands)
                apart = signature.roots == len(signature.operands)
                if apart and known.holds_anywhere(len(operands)):
                    self._anywhere[key] = known
                else:
                    self._in_place[here] = known
                return known, operands
        self.hits += 1
        return known, operands

    def _observe_alone(
        self, target: Any, run: Callable[..., Any], args: Any, kwargs: Any, operands: list[Handle]
    ) -> Expansion:
        """With tensors of its own, which no other node has seen; but the state of the generator keeps its geometry."""
        return self._observe(target, run, args, kwargs, operands, {id(self.stream): self._fake_stream}, {})

    def _observe(
        self,
        target: Any,
        run: Callable[..., Any],
        args: Any,
        kwargs: Any,
        operands: list[Handle],
        fakes: dict[int, torch.Tensor],
        storages: dict[int, torch.UntypedStorage],
    ) -> Expansion:
        recorder = Recorder(self.forms, NodeSubscripts(self.copies and target in READS))
        for handle in operands:
            fake = fakes.get(id(handle))
            if fake is None:
                fake = fakes[id(handle)] = self._fake(handle, storages)
            recorder.operand(fake, handle)
        recorder.stream = fakes[id(self.stream)] if self.draws else None
        with torch.no_grad(), self.mode, DataChecks(), recorder.subscripts, recorder:
            out = run(*_replace(args, fakes), **_replace(kwargs, fakes))
        expansion = recorder.finish(out)
        return replace(expansion, tensors=tuple(recorder.tensors)) if self.symbolic else expansion

    def results_of(self, run: Callable[..., Any], args: Any, kwargs: Any) -> tuple[list[torch.Tensor], Any]:
        """What a call gives on fake tensors, flat and as it is: for operators that say their effects themselves."""
        if self.symbolic:
            raise UnsupportedError("an operator of this kind needs static sizes", hint="capture with fixed sizes")
        signature = Signature()
        signature.add((args, kwargs))
        storages: dict[int, torch.UntypedStorage] = {}
        fakes: dict[int, torch.Tensor] = {id(h): self._fake(h, storages) for h in signature.operands}
        with torch.no_grad(), self.mode:
            out = run(*_replace(args, fakes), **_replace(kwargs, fakes))
        return [leaf for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)], out

    def _fake(self, handle: Handle, storages: dict[int, torch.UntypedStorage]) -> FakeTensor:
        form, root = handle.form, handle.root
        storage = storages.get(id(root))
        if storage is None:
            storage = storages[id(root)] = torch.UntypedStorage(root.base + max(root.bytes, 0), device="meta")
        offset = form.offset + root.base // form.dtype.itemsize
        meta = torch.empty(0, dtype=form.dtype, device="meta").set_(storage, offset, form.sizes, form.strides)
        if "conj" in form.lazy:
            meta = torch.ops.aten._conj.default(meta)
        if "neg" in form.lazy:
            meta = torch.ops.aten._neg_view.default(meta)
        return FakeTensor(self.mode, meta, torch.device("cpu"))


class Signature:
    """What an expansion depends on beside offsets: plain arguments by type and value, operands by shape, identity, shared
    root, and where that begins, ends and has gaps."""

    def __init__(self) -> None:
        self.parts: list[Any] = []
        self.operands: list[Handle] = []
        self._seen: dict[int, int] = {}
        self._roots: dict[int, int] = {}

    @property
    def roots(self) -> int:
        """The number of storages that the operands lie in."""
        return len(self._roots)

    def add(self, value: Any) -> None:
        kind = type(value)
        parts = self.parts
        if kind is Handle:
            number_ = self._seen.get(id(value))
            if number_ is None:
                number_ = self._seen[id(value)] = len(self.operands)
                self.operands.append(value)
                root = value.root
                parts += (
                    Handle, value.form.shape, self._roots.setdefault(id(root), len(self._roots)), root.base, root.bytes,
                    root.gaps, value.argument,
                )  # fmt: skip
            else:
                parts += (Slot, number_)
        elif kind in (int, bool, str, type(None)):
            parts += (kind, value)
        elif kind in (float, complex):
            parts += (kind, repr(value))
        elif isinstance(value, (list, tuple)):
            parts += ("list" if isinstance(value, list) else "tuple", len(value))
            for item in value:
                self.add(item)
        elif isinstance(value, dict):
            parts += (dict, len(value))
            for name, item in value.items():
                parts.append(name)
                self.add(item)
        elif kind is slice:
            parts.append(slice)
            self.add((value.start, value.stop, value.step))
        else:
            parts += (kind, value)


def _replace(value: Any, fakes: dict[int, torch.Tensor]) -> Any:
    """`value` with fake tensors in place of handles."""
    if isinstance(value, Handle):
        return fakes[id(value)]
    if isinstance(value, (list, tuple)):
        items = [_replace(item, fakes) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        return {name: _replace(item, fakes) for name, item in value.items()}
    if isinstance(value, slice):
        return slice(_replace(value.start, fakes), _replace(value.stop, fakes), _replace(value.step, fakes))
    return value
