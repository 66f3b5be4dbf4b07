"""Handles during import: interned forms (type and geometry), roots, and the objects the program sees."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import SSAValue

from compiler.errors import UnsupportedError
from compiler.export.elements import ELEMENTS as ELEMENT_OF
from dialects.types import DYNAMIC, ELEMENTS, handle_type

ALIGNMENT = 16
"""A root starts at a multiple of this many bytes of its storage, so that every element type counts from it evenly."""


def element_of(dtype: torch.dtype) -> str:
    element = ELEMENT_OF.get(dtype)
    if element is None:
        raise UnsupportedError(
            f"tensors of type {dtype} have no element type in the IR",
            hint=f"use one of {', '.join(map(str, ELEMENT_OF))}",
        )
    return element


@dataclass(frozen=True, eq=False)
class Form:
    """What a handle's type says; interned, so that identity is equality.

    `end` is one past the last byte it covers, `at_start` the same form at offset 0 (None: this one).
    """

    dtype: torch.dtype
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    lazy: str
    type: MemRefType
    end: int
    at_start: Form | None

    @property
    def shape(self) -> Form:
        """All that it says but the offset."""
        return self.at_start or self


class Forms:
    """The interned forms of one import."""

    def __init__(self) -> None:
        self._known: dict[Any, Form] = {}

    def get(self, dtype: torch.dtype, sizes: Sequence[int], strides: Sequence[int], offset: int, lazy: str) -> Form:
        key = (dtype, tuple(sizes), tuple(strides), offset, lazy)
        form = self._known.get(key)
        if form is None:
            element = element_of(dtype)
            kind = handle_type(element, key[1], key[2], offset, lazy)
            end = (last_element(key[1], key[2], offset) + 1) * ELEMENTS[element][1]
            start = self.get(dtype, key[1], key[2], 0, lazy) if offset else None
            form = self._known[key] = Form(dtype, key[1], key[2], offset, lazy, kind, end, start)
        return form

    def of(self, tensor: torch.Tensor, base: int) -> Form:
        """The form of a tensor on a root that starts `base` bytes into its storage."""
        offset = number(tensor.storage_offset())
        if offset != DYNAMIC:
            offset -= base // tensor.element_size()
            if offset < 0:
                raise UnsupportedError(
                    "a view begins before the memory the program was given", hint="pass the whole tensor as an argument"
                )
        lazy = ",".join(name for name, on in (("conj", tensor.is_conj()), ("neg", tensor.is_neg())) if on)
        return self.get(
            tensor.dtype, tuple(map(number, tensor.shape)), tuple(map(number, tensor.stride())), offset, lazy
        )


def number(value: int | torch.SymInt) -> int:
    """A size for the type of a handle: DYNAMIC when it is known only at run time."""
    if isinstance(value, int):
        return value
    known = value.node.maybe_as_int()
    return DYNAMIC if known is None else known


def is_symbolic(tensor: torch.Tensor) -> bool:
    """Whether a size, stride or offset is known only at run time."""
    return DYNAMIC in map(number, (*tensor.shape, *tensor.stride(), tensor.storage_offset()))


def last_element(sizes: Sequence[int], strides: Sequence[int], offset: int) -> int:
    """The highest element a window touches; -1 when it is empty or not known."""
    if 0 in sizes or DYNAMIC in sizes or DYNAMIC in strides or offset == DYNAMIC:
        return -1
    return offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))


def has_gaps(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether there is memory between the elements of a window, as far as its sizes are known."""
    return DYNAMIC not in (*sizes, *strides) and last_element(sizes, strides, 0) + 1 != math.prod(sizes)


class Root:
    """A storage, or the part of one that the program was given: `bytes` from byte `base` of the real storage on.

    `bytes` is DYNAMIC when it is known only at run time. `begin`: in front of this byte is nothing that the program has.
    `gaps`: nor is there between the elements of the tensor that the memory was made for. `counted`: the program counts
    places in it from the first byte of the real storage. `anywhere`: in eager PyTorch it is at no place that is known.
    """

    __slots__ = ("_may_be", "anywhere", "base", "begin", "bytes", "counted", "gaps", "written")

    def __init__(self, size: int, base: int = 0) -> None:
        self.bytes, self.base, self.begin = size, base, 0
        self.written = self.counted = self.anywhere = self.gaps = False
        self._may_be: tuple[Root, ...] = ()

    def is_of_one(self, handles: Sequence[Handle]) -> None:
        """In eager PyTorch a tensor at the start of this memory is one of these, so it is at a known place if all begin theirs."""
        self.anywhere = any(handle.root.base or handle.form.offset for handle in handles)
        self._may_be = tuple(handle.root for handle in handles)
        if self.counted:
            self.counted = False
            self.count()

    def lies_as(self, form: Form, operand: Root) -> None:
        """In eager PyTorch this is a copy of the operand's whole storage; here it has the elements of a tensor of `form`."""
        self.begin = form.offset * form.dtype.itemsize
        self.gaps = has_gaps(form.sizes, form.strides)
        self._may_be = (operand,)

    def count(self) -> None:
        """Note that the program counts from the first byte of the storage; UnsupportedError where that is not one."""
        if self.anywhere:
            raise UnsupportedError(
                "the program counts from the first byte of a storage that is not the same at each run of a branch, loop or subscript",
                hint="leave out the storage_offset of as_strided, which then counts from the tensor",
            )
        if not self.counted:
            self.counted = True
            for root in self._may_be:
                root.count()


class Handle:
    """A tensor object of the program. An in-place change of its metadata gives it another value and form."""

    __slots__ = ("argument", "form", "root", "value")

    def __init__(self, value: SSAValue, form: Form, root: Root, argument: bool = False) -> None:
        self.value, self.form, self.root, self.argument = value, form, root, argument
