"""Names of operators by what their schemas say: for hosts that ask; no pass here decides by them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch


def _aten(wanted: Callable[[Any], bool]) -> frozenset[str]:
    """Names of the ATen operators that have an overload whose first argument is wanted."""
    found: set[str] = set()
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, name = schema.name.partition("::")
        if namespace == "aten" and schema.arguments and wanted(schema):
            found.add(name)
    return frozenset(found)


def _views_first(schema: Any) -> bool:
    """A result is a view of the first argument, and nothing is written."""
    info = schema.arguments[0].alias_info
    if info is None or any(a.alias_info is not None and a.alias_info.is_write for a in schema.arguments):
        return False
    return "*" in info.after_set or any(r.alias_info is not None and r.alias_info.before_set & info.before_set
                                        for r in schema.returns)  # fmt: skip


def _writes_first(schema: Any) -> bool:
    first = schema.arguments[0]
    return first.name == "self" and first.alias_info is not None and first.alias_info.is_write


@functools.cache
def aliasing_aten_ops() -> frozenset[str]:
    """ATen operators whose result may share memory with their first argument."""
    return _aten(_views_first)


@functools.cache
def aliasing_methods() -> frozenset[str]:
    """Those that are methods or properties of tensors."""
    return frozenset(name for name in aliasing_aten_ops() if hasattr(torch.Tensor, name))


@functools.cache
def inplace_methods() -> frozenset[str]:
    """Tensor methods that write the tensor they are called on."""
    return frozenset(name for name in _aten(_writes_first) if hasattr(torch.Tensor, name))
