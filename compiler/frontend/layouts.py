"""Operators whose values or strides depend on how an operand lies in memory, in terms of calls where they do not.

Values have no strides and no storage around them: a decomposition takes its operands for contiguous, and for all of
their storage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

from compiler.errors import UnsupportedError
from compiler.frontend.forms import number

_Form = Callable[..., Any]
_aten = torch.ops.aten
_CONTIGUOUS = torch.contiguous_format
SCATTERS = frozenset(
    {
        _aten.as_strided_scatter.default, _aten.diagonal_scatter.default,
        _aten.select_scatter.default, _aten.slice_scatter.default,
    }
)  # fmt: skip
"""Operators that give a copy of their first operand's whole storage, with other elements in a window on it."""


def plain_form(op: OpOverload, args: Sequence[Any]) -> _Form | None:
    """What gives the results of `op(*args)` by calls that depend on no layout; None where nothing depends on it."""
    form = _FORMS.get(op)
    if form is None or not isinstance(args[0], torch.Tensor):
        return None
    return form(op, args[0])


def _determinant(op: OpOverload, x: torch.Tensor) -> _Form | None:
    """The LU factors are those of the transpose of a contiguous real matrix, and of any other matrix as it is."""
    if x.is_complex() or x.is_contiguous():
        return None
    return lambda x: op(x.mT.clone(memory_format=_CONTIGUOUS))


def _as_strided_copy(op: OpOverload, x: torch.Tensor) -> _Form:
    """The window is one of the storage, as that of `as_strided` is."""
    return lambda x, *window, **named: x.as_strided(*window, **named).clone(memory_format=_CONTIGUOUS)


def copies_storage(op: OpOverload, args: Sequence[Any]) -> bool:
    """Whether the result of `op(*args)` lies in a copy of its first operand's storage, at the place where that one does."""
    if op not in SCATTERS:
        return False
    window = zip(map(number, args[0].shape), map(number, args[0].stride()), strict=True)
    return not any(size != 1 and stride == 0 for size, stride in window)


def _as_strided_scatter(op: OpOverload, x: torch.Tensor) -> _Form:
    """The window counts from the start of the storage; the result lies as the operand does, in a storage of its own."""

    def run(
        x: torch.Tensor, source: torch.Tensor, size: Any, stride: Any, storage_offset: int | None = None
    ) -> torch.Tensor:
        if x.clone().stride() != x.stride():
            raise UnsupportedError(
                "as_strided_scatter on a tensor with gaps between its elements", hint="call contiguous() on it first"
            )
        start = x.storage_offset()
        copy = x.new_zeros(start + x.numel()).as_strided(x.shape, x.stride(), start).copy_(x)
        copy.as_strided(size, stride, start if storage_offset is None else storage_offset).copy_(source)
        return copy

    return run


def _of_contiguous(op: OpOverload, x: torch.Tensor) -> _Form | None:
    """The kernel gives a contiguous result, PyTorch's shape function or decomposition one that lies as the operand does."""
    if x.is_contiguous():
        return None
    return lambda x, *others, **named: op(x.contiguous(), *others, **named)


_FORMS: dict[OpOverload, Callable[[OpOverload, torch.Tensor], _Form | None]] = {
    _aten._linalg_det.default: _determinant, _aten._linalg_slogdet.default: _determinant,
    _aten.as_strided_copy.default: _as_strided_copy, _aten.as_strided_scatter.default: _as_strided_scatter,
    _aten.isin.Tensor_Tensor: _of_contiguous, _aten.isin.Tensor_Scalar: _of_contiguous,
    _aten.upsample_nearest1d.default: _of_contiguous, _aten._upsample_nearest_exact1d.default: _of_contiguous,
}  # fmt: skip
