"""Strides of results, where PyTorch has one rule for them: element by element, in the order in which the operands lie.

A pointwise operator (`torch.Tag.pointwise`) gives a dense result whose dimensions lie in memory as those of its operands
do. Where they all lie in one order, beyond doubt, a slice of rows and a dense copy of it give results that lie alike.
What other operators do with strides is theirs, and nothing is known of it here.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch._ops import OpOverload
from xdsl.dialects.builtin import MemRefType

from compiler.errors import CompileError
from compiler.torch_types import overload
from dialects.calls import HandleCall
from dialects.types import Geometry, geometry, lazy_bits


def pointwise_result_stays(op: HandleCall, windows: Sequence[Geometry]) -> bool:
    """Whether the results of a pointwise call have the strides they have in the program when its operands lie so."""
    kinds = [value.type for value in (*op.args, *op.outs)]
    if op.effects.writes() != () or any(alias.kind != "fresh" for alias in op.aliases.data):
        return False
    if not all(isinstance(kind, MemRefType) and not lazy_bits(kind) for kind in kinds):
        return False
    told = [geometry(kind) for kind in kinds if isinstance(kind, MemRefType)]
    orders = {_order(window, told[-1].sizes) for window in (*told, *windows)}
    if len(orders) != 1 or None in orders or not all(_is_dense(geometry(r.type)) for r in op.outs):  # type: ignore[arg-type]
        return False
    try:
        operator = overload(op.target.data)
    except CompileError:
        return False
    return isinstance(operator, OpOverload) and torch.Tag.pointwise in operator.tags


def _order(window: Geometry, sizes: tuple[int, ...]) -> tuple[int, ...] | None:
    """Dimensions from the outermost in memory inwards; None where they do not nest, are not those of the result, or
    have one element, so that their strides say nothing."""
    if window.sizes != sizes or not window.static or min(sizes, default=2) < 2:
        return None
    order = sorted(range(len(sizes)), key=lambda d: -window.strides[d])
    reach = 1
    for dim in reversed(order):
        if window.strides[dim] < reach:
            return None
        reach = window.strides[dim] * sizes[dim]
    return tuple(order)


def _is_dense(window: Geometry) -> bool:
    return sum((n - 1) * s for n, s in zip(window.sizes, window.strides, strict=True)) + 1 == window.numel


__all__ = ["pointwise_result_stays"]
