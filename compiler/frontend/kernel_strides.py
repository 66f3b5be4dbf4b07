"""Operators whose results fake mode lays out unlike the kernels.

A pointwise kernel is one iterator over its operands (ATen's `TensorIterator`): each is first converted to the type the
kernel computes in, then the first operand with an opinion decides the order of the dimensions. For most operators the
shape function of PyTorch does the same; those named here are put together from several operators there, each with an
order of its own. Sums have the kernel's order in fake mode too, so it is asked of them. Other kernels ask for a memory
format, which their shape functions do not look at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch._prims_common import compute_elementwise_output_strides, suggest_memory_format
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from compiler.frontend.forms import is_symbolic

_aten = torch.ops.aten


def _in_order(first: Tensor, second: Tensor, computed: torch.dtype) -> Tensor:
    return first.to(computed) + second.to(computed)


def _second_first(first: Tensor, second: Tensor, computed: torch.dtype) -> Tensor:
    """`threshold_backward` takes the input before its gradient."""
    return _in_order(second, first, computed)


def _by_a_power(first: Tensor, second: Tensor, computed: torch.dtype) -> Tensor:
    """`ldexp` is `first * 2 ** second`, and a power of a number asks for no strides; of a float by integers it is one kernel."""
    if first.is_floating_point() and not (second.is_floating_point() or second.is_complex()):
        return _in_order(first, second, computed)
    return _in_order(first, second.contiguous(), computed)


def _as_they_are(first: Tensor, second: Tensor, computed: torch.dtype) -> Tensor:
    """`native_dropout_backward` is `grad * mask`, times a number."""
    return first + second


_ITERATED = (
    _aten.copysign.Tensor, _aten.floor_divide.default, _aten.heaviside.default, _aten.logaddexp.default,
    _aten.logaddexp2.default, _aten.logical_and.default, _aten.logical_or.default, _aten.logical_xor.default,
    _aten.logit_backward.default, _aten.special_xlog1py.default, _aten.xlogy.Tensor, _aten.div.Tensor_mode,
)  # fmt: skip

_LAYOUTS: dict[OpOverload, Callable[[Tensor, Tensor, torch.dtype], Tensor]] = {
    **dict.fromkeys(_ITERATED, _in_order),
    _aten.threshold_backward.default: _second_first,
    _aten.ldexp.Tensor: _by_a_power,
    _aten.native_dropout_backward.default: _as_they_are,
    _aten.complex.default: _as_they_are,
    _aten.polar.default: _as_they_are,
}
"""By overload, a tensor that lies as the result does, of the two operands and the type that the kernel computes in."""

_FORMATTED = frozenset({
    _aten._native_batch_norm_legit.default, _aten._native_batch_norm_legit.no_stats,
    _aten._native_batch_norm_legit_functional.default, _aten._native_batch_norm_legit_no_training.default,
    _aten._batch_norm_with_update.default, _aten._batch_norm_with_update_functional.default,
    _aten.native_batch_norm_backward.default,
    _aten.channel_shuffle.default, _aten.max_unpool2d.default,
})  # fmt: skip
"""The results are in the memory format that the operands suggest: channels last, or contiguous."""

_INDEXED = frozenset({_aten.index.Tensor, _aten._unsafe_index.Tensor})

_CONTIGUOUS = frozenset({
    _aten.pow.Scalar, _aten.nll_loss2d_forward.default, _aten.log_sigmoid_forward.default,
})  # fmt: skip
"""The results are contiguous."""

_LIKE_THE_FIRST = frozenset({
    _aten.index_fill.int_Scalar, _aten.index_fill.int_Tensor, _aten.native_dropout.default,
})  # fmt: skip
"""The first result lies as a copy of the first operand does."""


def as_the_kernel_lays_out(op: OpOverload, args: Sequence[Any], result: Any) -> Any:
    """What fake mode gave for `op(*args)`, with the strides that the kernel gives."""
    if op in _CONTIGUOUS:
        return _in_format(torch.contiguous_format, result)
    if op in _FORMATTED:
        return result if is_symbolic(args[0]) else _in_format(suggest_memory_format(args[0]), result)
    if op in _LIKE_THE_FIRST or (op is _aten.binary_cross_entropy.default and result.dim()):
        return result if is_symbolic(args[0]) else _like(args[0], result)
    if op in _INDEXED:
        return _in_order_of_indices(args[0], args[1], result)
    tensors = [a for a in args if isinstance(a, Tensor)]
    layout = _LAYOUTS.get(op)
    if layout is None and len({t.dtype for t in tensors}) > 1 and torch.Tag.pointwise in op.tags and not _is_masked(op):
        layout = _in_order
    if layout is None:
        return result
    if len(tensors) != 2 or any(is_symbolic(t) for t in tensors) or all(t.is_contiguous() for t in tensors):
        return result
    computed = result.dtype if result.dtype != torch.bool else torch.result_type(*tensors)
    with _disable_current_modes(), result.fake_mode:
        strides = layout(tensors[0], tensors[1], computed).stride()
    return result if strides == result.stride() else _fake(result, strides)


def _in_order_of_indices(source: Tensor, indices: Sequence[Tensor | None], result: Any) -> Any:
    """One iterator over the source, which does not move along the dimensions of the indices, and the indices, which move along
    these only. PyTorch's shape function asks the source alone."""
    given = [i for i in indices if i is not None]
    if not given or any(is_symbolic(t) or t.dtype in (torch.bool, torch.uint8) for t in (source, *given)):
        return result
    # On the meta device views have the strides of the kernels, also of dimensions of one.
    with _disable_current_modes():
        source, *given = (
            torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta") for t in (source, *given)
        )
        # Other integers are converted after they are expanded, which makes a copy.
        given = [i.to(torch.int64) for i in torch.broadcast_tensors(*given)]
        places = [n for n, index in enumerate(indices) if index is not None]
        first, count = places[0], len(places)
        if places[-1] - first >= count:  # what lies apart comes to the front
            rest = [n for n in range(source.dim()) if n not in places]
            source, first = source.permute(*places, *rest), 0
        before, after = source.shape[:first], source.shape[first + count :]
        shape = (*before, *given[0].shape, *after)
        still = (0,) * given[0].dim()
        operands = [source.as_strided(shape, (*source.stride()[:first], *still, *source.stride()[first + count :]))]
        operands += [i.reshape((*(1 for _ in before), *i.shape, *(1 for _ in after))).expand(shape) for i in given]
        found = compute_elementwise_output_strides(*operands)
    # Of an index without dimensions behind others the shape function makes another shape.
    return result if (shape, found) == (tuple(result.shape), result.stride()) else _fake(result, found, shape)


def _like(operand: Tensor, result: Any) -> Any:
    first, *rest = result if isinstance(result, tuple) else (result,)
    with _disable_current_modes(), first.fake_mode:
        strides = torch.empty_like(operand).stride()
    if strides != first.stride():
        first = _fake(first, strides)
    return (first, *rest) if rest else first


def _is_masked(op: OpOverload) -> bool:
    """Whether an operand says where, and is not converted."""
    return any(a.name == "mask" for a in op._schema.arguments)


def _in_format(memory_format: torch.memory_format, result: Any) -> Any:
    if isinstance(result, tuple):
        return tuple(
            _in_format(memory_format, r) if r is not None and r.dim() == result[0].dim() else r for r in result
        )
    if not isinstance(result, FakeTensor) or is_symbolic(result) or result.is_contiguous(memory_format=memory_format):
        return result
    with _disable_current_modes(), result.fake_mode:
        return _fake(result, torch.empty(result.shape, memory_format=memory_format).stride())


def _fake(result: Any, strides: Sequence[int], shape: Sequence[int] | None = None) -> Tensor:
    with _disable_current_modes(), result.fake_mode:
        return torch.empty_strided(
            result.shape if shape is None else shape, strides, dtype=result.dtype, device=result.device
        )


__all__ = ["as_the_kernel_lays_out"]
