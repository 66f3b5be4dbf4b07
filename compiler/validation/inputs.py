"""Random arguments for a program: with its shapes, strides, dtypes, lazy bits and sharing of memory.

Values that may be indices, sizes or conditions are never invented when an example is known: only floating-point
elements are changed. Without an example, integers come from a range so small that it is inside every dimension.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import torch
from xdsl.dialects.builtin import MemRefType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from compiler.errors import CompileError
from compiler.locations import place_of
from compiler.program import Argument
from compiler.torch_types import DTYPES
from dialects.alias import Bindings, Root
from dialects.types import Geometry, element_name, geometry, lazy_bits

Arguments = list[torch.Tensor]
_Argument = tuple[int, str, Geometry, str, int]
"""(root, element, window from the start of the root, lazy bits, bytes of the root)."""

_MOST_IN_FRONT = 1 << 26
"""Bytes of a storage in front of a root that are allocated again; nobody reads them."""

_MOST_DIMENSIONS = 64

_PADDING = 64
"""Bytes behind every storage, so that a program which reads too far is found by its result and not by a crash."""


def arguments_of(
    function: FuncOp, seed: int, examples: Sequence[torch.Tensor | None] = (), integers: int = 2
) -> Arguments:
    """Arguments for a function in either form.

    Args:
        examples: one per argument of the program, where known: integers and booleans are theirs, floats are near theirs.
        integers: elements of integer arguments without an example are at least 0 and below this.
    """
    generator = torch.Generator().manual_seed(seed)
    windows = _windows(function)
    known = list(examples) or [None] * len(windows)
    bases = _bases(windows, known)
    _require_fitting(function, windows)
    memory: dict[int, torch.UntypedStorage] = {}
    arguments: Arguments = []
    for (root, element, window, lazy, size), example in zip(windows, known, strict=True):
        dtype, base = DTYPES[element], bases.get(root, 0)
        if root not in memory:
            memory[root] = torch.zeros(base + size + _PADDING, dtype=torch.uint8).untyped_storage()
        window = Geometry(window.sizes, window.strides, window.offset + base // dtype.itemsize)
        plain = torch.empty(0, dtype=dtype).set_(memory[root], window.offset, window.sizes, window.strides)
        _fill(plain, window, memory[root], example, generator, integers if seed >= 0 else 1, perturb=seed >= 0)
        arguments.append(with_lazy(plain, lazy))
    return arguments


def _require_fitting(function: FuncOp, windows: Sequence[_Argument]) -> None:
    """Refuse arguments that PyTorch or this machine cannot hold, before a word of them is written."""
    needed = sum({root: size for root, _, _, _, size in windows}.values())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    rank = max((len(window.sizes) for _, _, window, _, _ in windows), default=0)
    if needed > memory or rank > _MOST_DIMENSIONS:
        why = (
            f"they need {needed} bytes, the machine has {memory}"
            if needed > memory
            else f"one has {rank} dimensions, and PyTorch's tensors at most {_MOST_DIMENSIONS}"
        )
        raise CompileError(
            f"the program cannot be validated, no arguments can be made for it: {why}",
            location=place_of(function),
            hint="leave validation out",
        )


def _bases(windows: Sequence[_Argument], examples: Sequence[torch.Tensor | None]) -> dict[int, int]:
    """Bytes in front of each root in its storage, as the examples have them: operators like `as_strided` count from there."""
    bases: dict[int, int] = {}
    for (root, element, window, _, _), example in zip(windows, examples, strict=True):
        dtype = DTYPES[element]
        if example is not None and example.dtype == dtype:
            base = (int(example.storage_offset()) - window.offset) * dtype.itemsize
            if 0 < base <= _MOST_IN_FRONT:
                bases[root] = base
    return bases


def require_offsets(
    arguments: Sequence[Argument], examples: Sequence[torch.Tensor | None], offsets: Iterable[int]
) -> None:
    """Refuse a program that counts in storages of which too much lies in front of its arguments to be made again."""
    for number in offsets:
        example = examples[number]
        if example is not None and (front := int(example.storage_offset()) * example.itemsize) > _MOST_IN_FRONT:
            raise CompileError(
                f"the program cannot be validated: it counts from the first byte of the storage of {arguments[number].name}, of which "
                f"{front} bytes lie in front of the argument, and at most {_MOST_IN_FRONT} are made again",
                hint="leave validation out, or give an example in a storage of its own",
            )


def copies(arguments: Sequence[torch.Tensor], shifted: bool = False, counted: Iterable[int] = ()) -> Arguments:
    """The arguments on memory of their own, sharing it among themselves as they do now; `shifted` by one element of the
    widest type, so that no vector of them begins where one should. The storages of the `counted` ones are shifted as a whole.
    """
    shift = max((argument.itemsize for argument in arguments), default=0) if shifted else 0
    whole = {arguments[number].untyped_storage()._cdata for number in counted}
    storages: dict[int, tuple[torch.UntypedStorage, int]] = {}
    result: Arguments = []
    for argument in arguments:
        storage = argument.untyped_storage()
        if storage._cdata not in storages:
            start = 0 if storage._cdata in whole else shift
            fresh = _storage(start + storage.nbytes(), shift - start)
            fresh[start : start + storage.nbytes()].copy_(storage)
            storages[storage._cdata] = fresh, start
        fresh, start = storages[storage._cdata]
        offset = argument.storage_offset() + start // argument.itemsize
        mine = torch.empty(0, dtype=argument.dtype).set_(fresh, offset, argument.shape, argument.stride())
        result.append(with_lazy(mine, ",".join(lazy_of(argument))))
    return result


def _storage(size: int, shift: int) -> torch.UntypedStorage:
    """A storage whose first byte is `shift` bytes behind where an allocation begins."""
    if not size or not shift:
        return torch.UntypedStorage(size)
    return torch.frombuffer(bytearray(shift + size), dtype=torch.uint8, offset=shift).untyped_storage()


def with_lazy(tensor: torch.Tensor, bits: str) -> torch.Tensor:
    """The tensor with conj and neg bits set."""
    tensor = tensor.conj() if "conj" in bits else tensor
    return torch._neg_view(tensor) if "neg" in bits else tensor


def lazy_of(tensor: torch.Tensor) -> tuple[str, ...]:
    return tuple(bit for bit, on in (("conj", tensor.is_conj()), ("neg", tensor.is_neg())) if on)


def _windows(function: FuncOp) -> list[_Argument]:
    """(root, element, window from the start of the root, lazy bits, bytes of the root) of every argument."""
    bindings = function.attributes.get("alias.bindings")
    if isinstance(bindings, Bindings):
        return _bound_windows(bindings)
    found: list[_Argument] = []
    for number, argument in enumerate(function.body.block.args):
        kind = argument.type
        data = function.arg_attrs.data[number].data if function.arg_attrs is not None else {}
        root = data.get("alias.root")
        if isinstance(kind, MemRefType):
            element, window = element_name(kind.element_type), geometry(kind)
            own = _end(window) * DTYPES[element].itemsize
            identity, size = root.data if isinstance(root, Root) else (-1 - number, own)
            found.append((identity, element, window, lazy_bits(kind), max(size, own)))
        else:
            found.append(_value_window(number, kind))
    return found


def _bound_windows(bindings: Bindings) -> list[_Argument]:
    sizes: dict[int, int] = {}
    entries: list[tuple[int, str, Geometry, str]] = []
    for number, b in enumerate(bindings.data):
        root = b.parameter if b.parameter >= 0 else -1 - number
        sizes[root] = max(sizes.get(root, 0), _end(b.geometry) * DTYPES[b.element].itemsize)
        entries.append((root, b.element, b.geometry, b.lazy))
    return [(*entry, sizes[entry[0]]) for entry in entries]


def _value_window(number: int, kind: Attribute) -> _Argument:
    element = element_name(kind.element_type)  # type: ignore[attr-defined]
    sizes = tuple(kind.get_shape())  # type: ignore[attr-defined]
    window = Geometry(sizes, torch.empty(sizes, device="meta").stride(), 0)
    return number, element, window, "", _end(window) * DTYPES[element].itemsize


def _end(window: Geometry) -> int:
    if 0 in window.sizes:
        return 0
    return window.offset + 1 + sum((n - 1) * s for n, s in zip(window.sizes, window.strides, strict=True))


def _fill(
    plain: torch.Tensor,
    window: Geometry,
    storage: torch.UntypedStorage,
    example: torch.Tensor | None,
    generator: torch.Generator,
    integers: int,
    perturb: bool,
) -> None:
    """Give a window its elements; one that meets an element twice is filled element by element, in order."""
    if not plain.numel():
        return
    values = _values(plain, example, generator, integers, perturb)
    flat = torch.empty(0, dtype=plain.dtype).set_(storage, 0, (storage.nbytes() // plain.dtype.itemsize,), (1,))
    places = torch.arange(flat.numel()).as_strided(window.sizes, window.strides, window.offset)
    width = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.complex128}[plain.dtype.itemsize]
    flat.view(width)[places.reshape(-1)] = values.contiguous().view(-1).view(width)


def _values(
    plain: torch.Tensor, example: torch.Tensor | None, generator: torch.Generator, integers: int, perturb: bool
) -> torch.Tensor:
    dtype, sizes = plain.dtype, tuple(plain.shape)
    known = None
    if example is not None and example.dtype == dtype and tuple(example.shape) == sizes:
        known = example.detach()
        known = known.conj() if known.is_conj() else known
        known = torch._neg_view(known) if known.is_neg() else known
    if not (dtype.is_floating_point or dtype.is_complex):
        if known is not None:
            return known.clone(memory_format=torch.contiguous_format)
        return torch.randint(0, integers, sizes, generator=generator).to(dtype)
    if known is not None and not perturb:
        return known.clone(memory_format=torch.contiguous_format)
    # Quarters in [-2, 2]: exact in every float type, and many sums and products of them are as well.
    wide = torch.complex128 if dtype.is_complex else torch.float64
    noise = torch.randint(-8, 9, sizes, generator=generator).to(wide) / 4
    if dtype.is_complex:
        noise = noise + 1j * torch.randint(-8, 9, sizes, generator=generator) / 4
    return (noise if known is None else known.to(wide) + noise).to(dtype)


__all__ = ["Arguments", "arguments_of", "copies", "lazy_of", "with_lazy"]
