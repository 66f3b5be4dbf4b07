"""Pointwise operators that store what they compute in an `out=` of another type: PyTorch rounds to the type of the result
first, and converts then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

from compiler.frontend.schemas import facts
from compiler.torch_types import overload

_ITERATED = frozenset({"aten::addr", "aten::glu"})
"""Kernels that take elements at other places than they write, and convert what they computed in the same way."""


def converted_store(
    op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[str, Callable[..., torch.Tensor]] | None:
    """The argument that `op` stores into after a conversion, and the operator that computes what is converted; None where
    nothing is, or where the argument is resized."""
    name, *others = [a.name for a in op._schema.arguments if a.is_out] or [""]
    converts = facts(op).pointwise or op._schema.name in _ITERATED
    twin = facts(op).twin if converts and name in kwargs and not others else None
    if twin is None:
        return None
    compute = overload(twin.target)
    computed = compute(*args, **{key: value for key, value in kwargs.items() if key != name})
    stored = kwargs[name]
    different = computed.dtype != stored.dtype and torch.can_cast(computed.dtype, stored.dtype)
    return (name, compute) if different and computed.shape == stored.shape else None


__all__ = ["converted_store"]
