"""Where arguments live: one root per connected set of bytes, read off real tensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute

from compiler.frontend.forms import ALIGNMENT, Form, Forms, Root, is_symbolic, last_element
from compiler.frontend.inputs import Input
from dialects.alias import TENSOR, RootData
from dialects.alias import Root as RootAttr
from dialects.types import DYNAMIC


@dataclass(frozen=True)
class Placement:
    """The root an argument is on, and its window there."""

    form: Form
    root: Root


def place(items: Sequence[Input], forms: Forms) -> list[Placement]:
    """A placement for each argument. Arguments whose byte extents overlap have the same root.

    Only real tensors can share memory: metadata in somebody's graph is no evidence of storage.
    """
    storages: dict[int, list[int]] = {}
    for index, item in enumerate(items):
        assert item.tensor is not None
        key = item.tensor.untyped_storage()._cdata if item.real else -1 - index
        storages.setdefault(key, []).append(index)
    roots: list[Root | None] = [None] * len(items)
    for members in storages.values():
        extents = sorted((*_extent(items[i].tensor), i) for i in members)  # type: ignore[arg-type]
        group: list[int] = []
        start = end = 0
        for low, high, index in extents:
            if low == high:  # no bytes, nothing to share
                _close(roots, [index], low, high)
            elif low < end:
                end = max(end, high)
                group.append(index)
            else:
                _close(roots, group, start, end)
                group, start, end = [index], low, high
        _close(roots, group, start, end)
    placed: list[Placement] = []
    first: dict[int, Root | None] = {}
    for item, root in zip(items, roots, strict=True):
        if item.real:  # one tensor without bytes, given twice
            root = first.setdefault(id(item.tensor), root)
        assert root is not None and item.tensor is not None
        if is_symbolic(item.tensor):
            root.bytes = DYNAMIC
        placed.append(Placement(forms.of(item.tensor, root.base), root))
    return placed


def argument_attributes(arguments: Sequence[tuple[Input, Placement]], traced: bool) -> list[DictionaryAttr]:
    """Root, name and kind of each argument, and, of a program that was traced, which are one tensor."""
    roots: dict[int, int] = {}
    tensors = Counter((id(item.tensor), id(p.root)) for item, p in arguments)
    repeated = {key: number for number, key in enumerate(k for k, count in tensors.items() if count > 1)}
    attributes: list[DictionaryAttr] = []
    for item, p in arguments:
        data: dict[str, Attribute] = {
            "alias.root": RootAttr(RootData(roots.setdefault(id(p.root), len(roots)), max(p.root.bytes, 0))),
            "fx.name": StringAttr(item.name),
            "fx.kind": StringAttr(item.kind),
        }
        if traced and (number := repeated.get((id(item.tensor), id(p.root)))) is not None:
            data[TENSOR] = IntegerAttr(number, 64)
        attributes.append(DictionaryAttr(data))
    return attributes


def counted_offsets(arguments: Sequence[tuple[Input, Placement]]) -> dict[int, int]:
    """The storage offsets, in elements, of the arguments in whose storages the program counts from the first byte."""
    return {
        n: int(item.tensor.storage_offset())
        for n, (item, p) in enumerate(arguments)
        if p.root.counted and item.tensor is not None and not is_symbolic(item.tensor)
    }


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    """First byte a tensor touches, and one past the last; no bytes when that is known only at run time."""
    if is_symbolic(tensor):
        return 0, 0
    size = tensor.element_size()
    low = int(tensor.storage_offset())
    high = last_element(tuple(tensor.shape), tensor.stride(), low) + 1
    return low * size, max(high, low) * size


def _close(roots: list[Root | None], group: Sequence[int], start: int, end: int) -> None:
    if not group:
        return
    base = start - start % ALIGNMENT
    root = Root(end - base, base)
    for index in group:
        roots[index] = root
