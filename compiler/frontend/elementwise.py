"""Marks the calls that go element by element: writing an operand that is also read at the same window is safe there."""

from __future__ import annotations

import functools

import torch
from torch._ops import OpOverload
from xdsl.dialects.builtin import ModuleOp, UnitAttr

from dialects.alias import ELEMENTWISE
from dialects.fx import CallOp

_UNTAGGED = frozenset({"aten.copy_.default", "aten.masked_fill_.Scalar", "aten.masked_fill_.Tensor"})
"""Element-wise operators that PyTorch does not tag as such."""


def mark_elementwise(module: ModuleOp) -> None:
    """Give every element-wise call of the module the attribute `alias.elementwise`."""
    for op in module.walk():
        if isinstance(op, CallOp) and elementwise(op.target.data):
            op.attributes[ELEMENTWISE] = UnitAttr()


@functools.cache
def elementwise(target: str) -> bool:
    """Whether an overload, `namespace.name.overload`, computes each element from the elements at the same index."""
    return target in _UNTAGGED or (op := overload(target)) is not None and torch.Tag.pointwise in op.tags


@functools.cache
def overload(target: str) -> OpOverload | None:
    """The operator overload of that name, if PyTorch knows it."""
    namespace, _, rest = target.partition(".")
    name, _, which = rest.rpartition(".")
    packet = getattr(getattr(torch.ops, namespace, None), name, None)
    found = getattr(packet, which, None)
    return found if isinstance(found, OpOverload) else None
