"""Checks before a call: whatever was assumed at compile time holds for these arguments, or nothing runs.

Checkers are prepared once. The sharing pattern depends on addresses alone once sizes and strides are known to be right,
so it is judged again only when an address has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import torch

from compiler.errors import GuardError, UnsupportedError
from compiler.export.elements import DTYPES, element_size
from compiler.export.signature import Binding, Signature


class Span(NamedTuple):
    """Bytes `start` to `end` of memory, on behalf of one argument or one parameter."""

    start: int
    end: int
    parameter: int
    written: bool
    name: str


class Guards:
    """The guards of one signature."""

    def __init__(self, signature: Signature):
        self._bindings = signature.bindings
        self._parameters = signature.parameters
        self._donated = signature.donated
        self._around = {b.parameter for b in signature.bindings if b.around}
        self._dtypes = [DTYPES[b.element] for b in signature.bindings]
        self._shapes = [torch.Size(b.window.sizes) for b in signature.bindings]
        self._strides = [b.window.strides for b in signature.bindings]
        self._negative = ["neg" in b.lazy for b in signature.bindings]
        self._complex = [(i, "conj" in b.lazy) for i, b in enumerate(signature.bindings) if self._dtypes[i].is_complex]
        sized = [(b.window, element_size(b.element)) for b in signature.bindings]
        self._bytes = tuple(window.offset * size for window, size in sized)
        self._lengths = tuple(_length(b) for b in signature.bindings)
        self._shared = tuple(
            group
            for parameter in range(len(self._parameters))
            if len(group := [i for i in signature.bound(parameter) if self._lengths[i]]) > 1
        )
        self._empty = tuple(
            group
            for parameter in range(len(self._parameters))
            if len(group := [i for i in signature.bound(parameter) if not self._lengths[i]]) > 1
        )
        self._offsets = signature.offsets
        self._addresses: tuple[int, ...] = ()
        self._staged: frozenset[int] = frozenset()

    def check(self, tensors: Sequence[torch.Tensor]) -> tuple[tuple[int, ...], frozenset[int]]:
        """Addresses of all arguments, and the parameters that must be run on a copy of their memory.

        Raises GuardError, naming the argument, for the first thing that is not as it was at compile time.
        """
        if (
            [t.dtype for t in tensors] != self._dtypes
            or [t.shape for t in tensors] != self._shapes
            or not all([t.is_cpu and t.layout is torch.strided for t in tensors])
            or [t.stride() for t in tensors] != self._strides
            or [t.is_neg() for t in tensors] != self._negative
            or any([tensors[i].is_conj() != conj for i, conj in self._complex])
        ):
            for index, tensor in enumerate(tensors):
                self.check_one(index, tensor)
        if torch.is_grad_enabled() and any([t.requires_grad for t in tensors]):
            index = next(i for i, t in enumerate(tensors) if t.requires_grad)
            raise GuardError(
                f"argument {self._bindings[index].name!r} requires a gradient, and a compiled program records none",
                hint="call it under torch.no_grad(), or detach the tensor",
            )
        for index, offset in self._offsets:
            if (got := tensors[index].storage_offset()) != offset:
                raise GuardError(
                    f"argument {self._bindings[index].name!r} begins at element {got} of its storage, and at element {offset} at "
                    "compile time: the program counts from the first byte of that storage",
                    hint="leave out the storage_offset of as_strided, which then counts from the tensor, or compile the program "
                    "for such arguments as well",
                )
        try:
            addresses = tuple([tensor.data_ptr() for tensor in tensors])
        except RuntimeError:
            raise self._without_memory(tensors) from None
        if addresses != self._addresses:
            self._staged = self._judge_sharing(tensors, addresses)
            self._addresses = addresses
        elif self._shared or self._empty:
            self._judge_storages(tensors)
        return addresses, self._staged

    def check_one(self, index: int, tensor: torch.Tensor) -> None:
        """Raise GuardError unless the tensor, by itself, can be argument number `index`.

        A stride that reaches no element may be any.
        """
        binding, dtype, shape = self._bindings[index], self._dtypes[index], self._shapes[index]
        stride, neg, conj = self._strides[index], self._negative[index], "conj" in binding.lazy

        def fail(what: str, want: object, got: object, hint: str) -> GuardError:
            return GuardError(f"argument {binding.name!r}: expected {what} {want}, got {got}", hint=hint)

        recompile = "compile the program for such arguments as well"
        if not tensor.is_cpu or tensor.layout is not torch.strided:
            got = f"{tensor.layout} on {tensor.device}"
            raise fail("a strided tensor on", "cpu", got, "move it with .to('cpu') or .to_dense()")
        if tensor.dtype is not dtype:
            raise fail("dtype", dtype, tensor.dtype, f"convert it with .to({dtype}), or {recompile}")
        if tensor.shape != shape:
            raise fail("shape", tuple(shape), tuple(tensor.shape), recompile)
        got = tuple(s for n, s in zip(tensor.shape, tensor.stride(), strict=True) if n > 1)
        if tensor.numel() and got != tuple(s for n, s in zip(shape, stride, strict=True) if n > 1):
            raise fail("strides", stride, tensor.stride(), f"pass a tensor laid out like the example, or {recompile}")
        bits = (tensor.is_neg(), dtype.is_complex and tensor.is_conj())
        if bits != (neg, conj):
            hint = "resolve it with .resolve_conj() and .resolve_neg()" if not (neg or conj) else recompile
            raise fail("lazy (negative, conjugate) bits", (neg, conj), bits, hint)

    def _without_memory(self, tensors: Sequence[torch.Tensor]) -> GuardError:
        """Tensors inside a transform of torch.func have no memory that could be read or written."""

        def fails(tensor: torch.Tensor) -> bool:
            try:
                tensor.data_ptr()
            except RuntimeError:
                return True
            return False

        name = next(b.name for b, tensor in zip(self._bindings, tensors, strict=True) if fails(tensor))
        return GuardError(
            f"argument {name!r} has no memory: it belongs to a transform such as torch.vmap",
            hint="call the executable outside of the transform, or compile the transformed program",
        )

    # -- sharing -------------------------------------------------------------------------------

    def _judge_storages(self, tensors: Sequence[torch.Tensor]) -> None:
        for group in self._shared:
            first = group[0]
            memory = tensors[first].untyped_storage().data_ptr()
            for other in group[1:]:
                if tensors[other].untyped_storage().data_ptr() != memory:
                    raise self._unshared(first, other, "they do not")
        for first, *others in self._empty:  # one tensor without elements, of which no address tells
            for other in others:
                if tensors[other] is not tensors[first]:
                    raise self._unshared(first, other, "they are two tensors")

    def _judge_sharing(self, tensors: Sequence[torch.Tensor], addresses: Sequence[int]) -> frozenset[int]:
        for binding, address, length in zip(self._bindings, addresses, self._lengths, strict=True):
            if length and not address:
                raise GuardError(
                    f"the memory of argument {binding.name!r} was freed: its storage has no bytes",
                    hint="give the storage its size back and fill it before the call",
                )
        self._judge_storages(tensors)
        for group in self._shared:
            first = group[0]
            for other in group[1:]:
                want = self._bytes[other] - self._bytes[first]
                if (got := addresses[other] - addresses[first]) != want:
                    raise self._unshared(first, other, f"{want} bytes apart, they are {got}")
        arguments = [
            Span(start, start + length, b.parameter, b.written, b.name)
            for b, start, length in zip(self._bindings, addresses, self._lengths, strict=True)
            if length and b.parameter >= 0
        ]
        for one, other in conflicts(arguments):
            raise GuardError(
                f"arguments {one.name!r} and {other.name!r} overlap in memory, which they did not at compile time, "
                f"and {(one if one.written else other).name!r} is written",
                hint="pass a clone of one of them, or compile the program with arguments that overlap like this",
            )
        # Memory between and around the windows of a written parameter may hold other arguments: such a parameter is
        # run on a copy, since XLA may store all of it.
        stretches: dict[int, Span] = {}
        for index, (b, address) in enumerate(zip(self._bindings, addresses, strict=True)):
            if b.parameter in self._donated and self._lengths[index]:
                start = address - self._bytes[index]
                end = start + self._parameters[b.parameter].bytes
                stretches[b.parameter] = Span(start, end, b.parameter, True, b.name)
        others = [span for span in arguments if span.parameter not in stretches]
        pairs = conflicts([*stretches.values(), *others])
        for pair in pairs:
            for one, other in (pair, pair[::-1]):
                if one.parameter in self._around and one is stretches[one.parameter]:
                    raise GuardError(
                        f"the program writes memory around the elements of argument {one.name!r}, where argument {other.name!r} "
                        "is now, and was not at compile time",
                        hint="pass a clone of one of them, or compile the program with arguments that overlap like this",
                    )
        return frozenset(span.parameter for pair in pairs for span in pair if span.parameter in stretches)

    def _unshared(self, first: int, other: int, how: str) -> GuardError:
        names = f"{self._bindings[first].name!r} and {self._bindings[other].name!r}"
        return GuardError(
            f"arguments {names} shared memory at compile time: {how}",
            hint="pass views of one storage laid out as in the example, or compile for separate arguments",
        )


def refuse_overlap_of_storages(signature: Signature, examples: Mapping[str, torch.Tensor]) -> None:
    """Raise UnsupportedError when example tensors overlap in memory that the program writes, and their storages hide it.

    Sharing is seen by storages. Two `torch.from_numpy` of one array are two storages on its memory.
    """
    spans = [
        Span(start, start + length, b.parameter, b.written, b.name)
        for b in signature.bindings
        if b.name in examples and b.parameter >= 0 and (length := _length(b)) and (start := examples[b.name].data_ptr())
    ]
    for one, other in conflicts(spans):
        raise UnsupportedError(
            f"arguments {one.name!r} and {other.name!r} overlap in memory but are tensors of separate storages, and "
            f"{(one if one.written else other).name!r} is written",
            hint="make one tensor of the whole memory, and pass views of it",
        )


def _length(binding: Binding) -> int:
    """Bytes from the first element of the argument to the end of its last."""
    window = binding.window
    return (window.reach - window.offset) * element_size(binding.element) if window.numel else 0


def conflicts(spans: Iterable[Span]) -> list[tuple[Span, Span]]:
    """Pairs of spans that overlap, belong to different parameters, and of which one is written."""
    found: list[tuple[Span, Span]] = []
    active: list[Span] = []
    for span in sorted(spans):
        active = [other for other in active if other.end > span.start]
        found += [
            (other, span) for other in active if other.parameter != span.parameter and (other.written or span.written)
        ]
        active.append(span)
    return found
