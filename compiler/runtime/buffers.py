"""The memory of an HLO parameter: found through an argument, lent or given to XLA without a copy, then checked.

Whether a run was in place is decided by one thing, the output's pointer. Misaligned memory, and memory that cannot be
handed over, is run on a copy; the new value is then copied back into the arguments' windows. Other bytes of the parameter
may be anybody's: they are left alone, except those that the program writes as well, which are the ones that have changed.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxlib import _jax  # pyright: ignore[reportAttributeAccessIssue]
from torch.utils import dlpack

from compiler.export.elements import DTYPES
from compiler.export.signature import Signature, Window
from compiler.runtime.client import device
from compiler.runtime.views import copy_into, raw


@dataclass(slots=True)
class _Held:
    """A buffer on an argument's memory, good for as long as that very tensor lives and stays where it is."""

    tensor: weakref.ref[torch.Tensor]
    address: int
    buffer: Any


class _Place(NamedTuple):
    """Where one argument is in the memory of a parameter."""

    argument: int
    byte_offset: int
    dtype: torch.dtype
    window: Window


class Memory:
    """The memory of one HLO parameter, call after call.

    Importing costs XLA about 50 us. The buffer is kept for the next call, by a weak reference to the argument it was
    imported from: a program called with the same caches and weights imports nothing.
    """

    def __init__(self, signature: Signature, parameter: int):
        kind = signature.parameters[parameter]
        self.bytes = kind.bytes
        self.donated = parameter in signature.donated
        self.address = 0
        self._dtype = DTYPES[kind.element]
        self._window = Window(kind.shape, _row_major(kind.shape))
        self._places = tuple(
            _Place(i, b.window.offset * dtype.itemsize, dtype, b.window)
            for i in signature.bound(parameter)
            for b, dtype in [(signature.bindings[i], DTYPES[signature.bindings[i].element])]
        )
        self._lead = next((p for p in self._places if p.window.numel), self._places[0])
        self._around = any(signature.bindings[i].around for i in signature.bound(parameter))
        self._before: torch.Tensor | None = None
        self._held: _Held | None = None

    def lend(self, tensors: Sequence[torch.Tensor], addresses: Sequence[int], staged: bool) -> Any:
        """An XLA buffer with the parameter's present value; of the memory itself wherever that is possible."""
        lead = self._lead
        tensor = tensors[lead.argument]
        self.address = addresses[lead.argument] - lead.byte_offset
        held = self._held
        if held is not None and held.address == self.address and held.tensor() is tensor and not staged:
            return held.buffer
        self._held = None
        self._before = None
        storage = tensor.untyped_storage()
        start = self.address - storage.data_ptr()
        inside = 0 <= start <= storage.nbytes() - self.bytes and start % self._dtype.itemsize == 0
        if staged or not inside or not self.bytes:
            value = self._staged(storage, start)
            if self._around:
                self._before = _bytes(value).clone()
            return _import(value, self.donated)
        buffer = _import(raw(storage, self._dtype, start, self._window), self.donated)
        if buffer.unsafe_buffer_pointer() != self.address:
            if self._around:
                self._before = raw(storage, torch.uint8, start, Window((self.bytes,), (1,))).clone()
        elif not self.donated:
            self._keep(tensor, buffer)
        return buffer

    def settle(self, tensors: Sequence[torch.Tensor], output: Any) -> int:
        """Make the arguments hold `output`, the parameter's new value; return how many bytes had to be copied."""
        if not self.bytes:
            return 0
        if output.unsafe_buffer_pointer() == self.address:
            if (held := self._held) is not None:
                held.buffer = output  # the one that was lent is spent; this one is on the same memory
            else:
                self._keep(tensors[self._lead.argument], output)
            return 0
        self._held = None
        value = to_torch(output).untyped_storage()
        copied = 0
        for place in self._places:
            if place.window.numel:
                target = raw(tensors[place.argument].untyped_storage(), place.dtype, *self._own(tensors, place))
                copy_into(target, raw(value, place.dtype, 0, place.window))
                copied += place.window.numel * place.dtype.itemsize
        return copied + self._settle_around(tensors, _bytes(to_torch(output)))

    def _settle_around(self, tensors: Sequence[torch.Tensor], value: torch.Tensor) -> int:
        """Copy back the bytes that have changed and are no elements; return how many."""
        before, self._before = self._before, None
        if before is None:
            return 0
        storage = tensors[self._lead.argument].untyped_storage()
        start = self.address - storage.data_ptr()
        low, high = max(-start, 0), min(self.bytes, storage.nbytes() - start)
        memory = raw(storage, torch.uint8, start + low, Window((high - low,), (1,)))
        before, value = before[low:high], value[low:high]
        changed = (value != before) & (value != memory)
        memory[changed] = value[changed]
        return int(changed.sum())

    def forget(self) -> None:
        """Drop the kept buffer."""
        self._held = self._before = None

    def _keep(self, tensor: torch.Tensor, buffer: Any) -> None:
        def drop(dead: weakref.ref[torch.Tensor]) -> None:
            if self._held is not None and self._held.tensor is dead:
                self._held = None

        self._held = _Held(weakref.ref(tensor, drop), self.address, buffer)

    def _own(self, tensors: Sequence[torch.Tensor], place: _Place) -> tuple[int, Window]:
        """An argument's window, as it is in its own storage."""
        return 0, Window(place.window.sizes, place.window.strides, int(tensors[place.argument].storage_offset()))

    def _staged(self, storage: torch.UntypedStorage, start: int) -> torch.Tensor:
        """The parameter's value in new memory: bytes of the storage from `start` on, and zeros where it has none."""
        memory = torch.zeros(self.bytes, dtype=torch.uint8)
        low, high = max(-start, 0), min(self.bytes, storage.nbytes() - start)
        if low < high:
            memory[low:high] = raw(storage, torch.uint8, start + low, Window((high - low,), (1,)))
        return raw(memory.untyped_storage(), self._dtype, 0, self._window)


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(max(n, 1) for n in shape[d + 1 :]) for d in range(len(shape)))


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a row-major tensor."""
    return raw(tensor.untyped_storage(), torch.uint8, 0, Window((tensor.numel() * tensor.dtype.itemsize,), (1,)))


def _import(tensor: torch.Tensor, donated: bool) -> Any:
    """A row-major tensor as an XLA buffer: given away if `donated`, else borrowed; on the same memory if aligned."""
    capsule = dlpack.to_dlpack(tensor)
    return _jax.dlpack_managed_tensor_to_buffer(capsule, device(), None, True if donated else None)


def to_torch(buffer: Any) -> torch.Tensor:
    """A tensor on the memory of an XLA buffer, which lives as long as the tensor's storage."""
    return dlpack.from_dlpack(_jax.buffer_to_dlpack_managed_tensor(buffer, None))
