"""Operators whose values depend on the strides of an operand, in terms of calls on contiguous operands.

Values have no strides: a decomposition takes its operands for contiguous. The determinants return the LU factors of the
transpose of a contiguous real matrix, and of any other matrix as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

_DETERMINANTS = frozenset({torch.ops.aten._linalg_det.default, torch.ops.aten._linalg_slogdet.default})


def contiguous_form(op: OpOverload, args: Sequence[Any]) -> Callable[[torch.Tensor], Any] | None:
    """What gives the values of `op(*args)` by a call on a contiguous operand; None where nothing depends on strides."""
    if op not in _DETERMINANTS or args[0].is_complex() or args[0].is_contiguous():
        return None
    return lambda x: op(x.mT.clone(memory_format=torch.contiguous_format))
