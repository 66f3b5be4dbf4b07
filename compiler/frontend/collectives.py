"""PyTorch's functional collectives as operations of their own: calls are recorded by schema and read here.

The autograd forms of the operators compute the same; they differ in what their backward does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch._ops import OpOverload
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute, Operation

from dialects.alias import Effects
from dialects.arguments import Numbers
from dialects.calls import ValueForm, ValueFormData, ValueOutput
from dialects.collective import (
    NAMESPACE,
    AllGatherOp,
    AllReduceOp,
    AllToAllOp,
    BroadcastOp,
    Groups,
    ReduceScatterOp,
    WaitTensorOp,
    reduction_from_pytorch,
)

NAMESPACES = frozenset({NAMESPACE, "c10d_functional", f"{NAMESPACE}_autograd"})
"""Whose operators are collectives of a process group."""


class _Reader(NamedTuple):
    op: type[Operation]
    properties: Callable[..., dict[str, Attribute]]
    """From the arguments between the tensors and the group."""


def _numbers(counts: Any) -> Numbers:
    return Numbers(tuple(count.value.data for count in counts.data))


def _size(size: IntegerAttr) -> dict[str, Attribute]:
    return {"size": size}


def _reduced(reduction: StringAttr, *size: IntegerAttr) -> dict[str, Attribute]:
    sizes: dict[str, Attribute] = {"size": size[0]} if size else {}
    return {"reduction": reduction_from_pytorch(reduction.data), **sizes}


_READERS: dict[str, _Reader] = {
    "all_reduce": _Reader(AllReduceOp, _reduced),
    "all_gather_into_tensor": _Reader(AllGatherOp, _size),
    "reduce_scatter_tensor": _Reader(ReduceScatterOp, _reduced),
    "all_to_all_single": _Reader(
        AllToAllOp, lambda received, sent: {"sent": _numbers(sent), "received": _numbers(received)}
    ),
    "broadcast": _Reader(BroadcastOp, lambda source: {"source": source}),
}
"""Operator, coalesced or not and in place or not -> operation."""


def stored_collective(func: OpOverload) -> OpOverload | None:
    """The collective that one with an `out` argument stores the result of."""
    if func.namespace not in NAMESPACES or not any(a.is_out for a in func._schema.arguments):
        return None
    packet = getattr(
        getattr(torch.ops, func.namespace), func._schema.name.partition("::")[2].removesuffix("_out"), None
    )
    return packet.default if packet is not None else None


def collective(target: str, properties: dict[str, Attribute]) -> tuple[type[Operation], dict[str, Attribute]] | None:
    """The operation that a recorded call of an operator is, if it is a collective, with its properties."""
    namespace, _, rest = target.partition(".")
    if namespace not in NAMESPACES:
        return None
    name = rest.removesuffix(".default")
    memory = {name: properties[name] for name in ("effects", "aliases", "value") if name in properties}
    if name == "wait_tensor":
        return WaitTensorOp, memory
    base = name.removesuffix("_").removesuffix("_coalesced")
    reader, arguments = _READERS.get(base), properties["arguments"]
    if reader is None or not isinstance(arguments, ArrayAttr) or not isinstance(arguments.data[-1], StringAttr):
        return None
    _, *between, group = arguments.data
    effects = memory["effects"]
    writes = effects.writes() or () if isinstance(effects, Effects) else ()
    if writes:  # every result is the new value of an operand; the schema of the coalesced form has no twin that says so
        twin = f"{NAMESPACE}.{name.removesuffix('_')}.default"
        memory["value"] = ValueForm(ValueFormData(twin, tuple(ValueOutput("write", operand) for operand in writes)))
    return reader.op, {**reader.properties(*between), "groups": Groups(group.data), **memory}


__all__ = ["NAMESPACES", "collective", "stored_collective"]
