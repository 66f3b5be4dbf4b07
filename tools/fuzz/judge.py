"""Rejects a program whose answer could differ for another reason than memory.

Every ATen call is watched while eager PyTorch runs: float arithmetic must be exact in any order of evaluation, and
no call may read what it writes in a way that depends on the order in which elements are visited.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

MOVES = frozenset(
    [
        "copy_",
        "clone",
        "_to_copy",
        "cat",
        "stack",
        "index",
        "index_select",
        "gather",
        "where",
        "index_put_",
        "index_put",
        "_index_put_impl_",
        "index_copy_",
        "index_copy",
        "index_fill_",
        "index_fill",
        "fill_",
        "fill",
        "zero_",
        "masked_fill_",
        "masked_fill",
        "scatter_",
        "scatter",
        "masked_scatter_",
        "flip",
        "roll",
        "repeat",
        "constant_pad_nd",
        "empty",
        "empty_like",
        "new_empty",
        "empty_strided",
        "new_empty_strided",
        "zeros",
        "zeros_like",
        "new_zeros",
        "ones",
        "ones_like",
        "new_ones",
        "full",
        "full_like",
        "new_full",
        "take",
        "put_",
        "lift_fresh",
        "lift_fresh_copy",
        "_unsafe_view",
        "select_scatter",
        "slice_scatter",
        "diagonal_scatter",
        "as_strided_scatter",
        "_reshape_alias",
        "resize_",
        "set_",
        "contiguous",
        "tril",
        "triu",
        "tril_",
        "triu_",
        "_foreach_copy_",
        "_foreach_zero_",
        "unfold_copy",
        "view_copy",
        "squeeze_copy",
        "permute_copy",
        "t_copy",
        "alias_copy",
        "as_strided_copy",
        "detach_copy",
        "diagonal_copy",
        "expand_copy",
        "select_copy",
        "slice_copy",
        "transpose_copy",
        "unsqueeze_copy",
        "split_copy",
        "unbind_copy",
        "store_",
        "store_and_old_",
        "exchange_",
        "fill_list_",
    ]  # fmt: skip
)
"""ATen operators that only move elements: any bits may go through them while no dtype changes."""

_LIMITS = {
    torch.float64: 2.0**18, torch.float32: 2.0**18, torch.float16: 1024.0, torch.bfloat16: 128.0,
    torch.float8_e4m3fn: 8.0, torch.float8_e5m2: 4.0, torch.complex64: 2.0**9,
}  # fmt: skip


_PRODUCTS = (
    "mul",
    "addc",
    "addm",
    "addr",
    "baddbmm",
    "addbmm",
    "mm",
    "bmm",
    "dot",
    "mv",
    "prod",
    "cumprod",
    "pow",
    "square",
)
"""How names of operators that multiply start."""


class Unfit(Exception):
    """The program is no good test. `kind` is "order" when eager's own answer depends on the order of elements."""

    def __init__(self, kind: Literal["order", "value"], message: str):
        self.kind = kind
        super().__init__(message)


def offsets(tensor: torch.Tensor) -> np.ndarray:
    """Every byte a tensor covers, with repetitions, as offsets into its storage."""
    size = tensor.element_size()
    found = np.array([tensor.storage_offset() * size])
    for count, stride in zip(tensor.shape, tensor.stride()):
        found = np.add.outer(found, np.arange(count) * stride * size).reshape(-1)
    return np.add.outer(found, np.arange(size)).reshape(-1) if len(found) else found


def overlaps_itself(tensor: torch.Tensor) -> bool:
    if tensor.numel() < 2 or tensor.is_contiguous():
        return False
    found = offsets(tensor)
    return len(np.unique(found)) < len(found)


def _view_key(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype


def is_clean(tensor: torch.Tensor, limit: float) -> bool:
    """Whether all elements are integers of small magnitude, and none is -0.0."""
    if not tensor.numel():
        return True
    if tensor.dtype.is_complex:
        tensor = torch.view_as_real(tensor.resolve_conj().resolve_neg())
    if not tensor.dtype.is_floating_point:
        return tensor.dtype is torch.bool or bool((tensor.to(torch.float64).abs() <= limit).all())
    wide = tensor.to(torch.float64)
    zero = (wide == 0) & torch.signbit(wide)
    return bool(((wide == wide.round()) & (wide.abs() <= limit) & ~zero).all())


def _has_nan(tensor: torch.Tensor) -> bool:
    """Whether a bf16 or f16 tensor has a NaN: eager's scatter makes one NaN of all, with a payload of its own."""
    return tensor.dtype in (torch.bfloat16, torch.float16) and bool(tensor.isnan().any())


def is_boolean(tensor: torch.Tensor) -> bool:
    """Whether every byte is 0 or 1: another byte in a bool tensor has no defined meaning."""
    return tensor.dtype is not torch.bool or not tensor.numel() or bool((tensor.view(torch.uint8) <= 1).all())


_KEEPING_GAPS = frozenset(
    {
        torch.ops.aten.slice_scatter.default,
        torch.ops.aten.select_scatter.default,
        torch.ops.aten.diagonal_scatter.default,
    }
)
"""Their results have the strides of the operand, and a copy of its whole storage around them."""

_BY_POSITION = frozenset({torch.ops.aten.as_strided.default, torch.ops.aten._reshape_alias.default})


def _is_dense(tensor: torch.Tensor) -> bool:
    return tensor.numel() == 0 or len(np.unique(offsets(tensor))) == tensor.untyped_storage().nbytes()


def _share_storage(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.untyped_storage()._cdata == other.untyped_storage()._cdata


class Judge(TorchDispatchMode):
    """Raises Unfit at the first ATen call that makes the program no good test."""

    def __init__(self, allow_order: bool = False):
        super().__init__()
        self.allow_order = allow_order
        self.order_dependent = False
        self._gapped: list[torch.Tensor] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        outs = [
            kwargs[a.name] for a in func._schema.arguments if a.is_out and isinstance(kwargs.get(a.name), torch.Tensor)
        ]
        sizes = [tuple(t.shape) for t in outs]
        result = self._judge(func, args, kwargs)
        if sizes != [tuple(t.shape) for t in outs]:
            raise Unfit("value", "a resized out=, of which PyTorch warns")
        return result

    def _judge(self, func: Any, args: Any, kwargs: Any) -> Any:
        written, read, view = operands_of(func, args, kwargs)
        if view:
            if func in _BY_POSITION and any(_share_storage(args[0], made) for made in self._gapped):
                raise Unfit(
                    "value", "memory between the elements of a result, where eager keeps what lay around the operand"
                )
            return func(*args, **kwargs)
        if func in _KEEPING_GAPS and not _is_dense(args[0]):
            self._gapped.append(made := func(*args, **kwargs))
            return made
        if written:
            self._order(func, written, read, args, kwargs)
        operands = [*written, *read]
        if not all(map(is_boolean, operands)):
            raise Unfit("value", "a byte other than 0 and 1 in a bool tensor")
        floats = {t.dtype for t in operands if t.dtype in _LIMITS}
        dtype = kwargs.get("dtype")
        if dtype in _LIMITS:
            floats.add(dtype)
        if not floats:
            return func(*args, **kwargs)
        name = func._schema.name.split("::")[1]
        if name in ("gather", "scatter", "scatter_") and any(map(_has_nan, operands)):
            raise Unfit(
                "value",
                "a NaN of 16 bits in a gather or scatter: eager's kernel rewrites them, touched or not, and their payload is lost",
            )
        same = len({t.dtype for t in _moved(name, operands)} | ({dtype} if dtype is not None else set())) == 1
        accumulate = "index_put" in name and (kwargs.get("accumulate") or (len(args) > 3 and args[3]))
        lazy = any(t.is_conj() or t.is_neg() for t in operands)
        if name in MOVES and not accumulate and not lazy and (same or not read):
            return func(*args, **kwargs)
        limit = min(_LIMITS[f] for f in floats)
        # A tensor of which nothing is read may hold anything: it is the destination of a copy.
        looked_at = read if name == "copy_" else operands
        if not all(is_clean(t, limit) for t in looked_at):
            raise Unfit("value", f"{name} on values that are not small integers")
        if any(t.dtype.is_complex for t in operands) and (
            name.strip("_").removeprefix("foreach_").startswith(_PRODUCTS) or kwargs.get("alpha", 1) != 1
        ):
            raise Unfit("value", "a complex product: the sign of its zeros depends on how it is computed")
        negates = name.strip("_") in ("neg", "foreach_neg") or any(t.is_neg() for t in operands)
        if negates and any(t.dtype.is_complex for t in operands):
            raise Unfit(
                "value", "a complex negation: eager's vector kernel computes 0 - x, which has another sign of zero"
            )
        if torch.Tag.pointwise not in func.tags and name not in MOVES:
            self._bounded(func, args, kwargs, limit)
        result = func(*args, **kwargs)
        for tensor in [*written, *(t for t in tree_leaves(result) if isinstance(t, torch.Tensor))]:
            if not is_clean(tensor, _LIMITS.get(tensor.dtype, limit)):
                raise Unfit("value", f"{name} gives values that are not small integers")
        return result

    def _order(self, func: Any, written: list[torch.Tensor], read: list[torch.Tensor], args: Any, kwargs: Any) -> None:
        reason = _order_dependence(func, written, read, args, kwargs)
        if reason:
            if not self.allow_order:
                raise Unfit("order", f"{func}: {reason}")
            self.order_dependent = True

    def _bounded(self, func: Any, args: Any, kwargs: Any, limit: float) -> None:
        """Refuse when some partial result could leave the exact range: the call on absolute values bounds them all."""

        def bound(value: Any) -> Any:
            if isinstance(value, torch.Tensor) and value.dtype in _LIMITS:
                wide = value.abs().to(torch.float64) if value.dtype.is_complex else value.to(torch.float64).abs()
                return wide.clamp(min=1) if "prod" in str(func) else wide
            if isinstance(value, torch.Tensor):  # the call may write it
                return value.clone()
            return torch.float64 if isinstance(value, torch.dtype) and value in _LIMITS else value

        try:
            result = func(*tree_map(bound, args), **tree_map(bound, kwargs))
        except (RuntimeError, NotImplementedError):
            return  # eager refuses the call itself in a moment
        wide = [t for t in tree_leaves((result, tree_map(bound, args[:1]))) if isinstance(t, torch.Tensor)]
        if not all(bool((t.to(torch.float64) <= limit).all()) for t in wide if t.numel() and t.dtype is torch.float64):
            raise Unfit("value", f"{func} may round on the way")


def operands_of(func: Any, args: Any, kwargs: Any) -> tuple[list[torch.Tensor], list[torch.Tensor], bool]:
    """Tensors written, tensors read, and whether the call only makes views."""
    written: list[torch.Tensor] = []
    read: list[torch.Tensor] = []
    view = False
    given = dict(zip((a.name for a in func._schema.arguments), args)) | kwargs
    for parameter in func._schema.arguments:
        tensors = [t for t in tree_leaves(given.get(parameter.name)) if isinstance(t, torch.Tensor)]
        info = parameter.alias_info
        view |= info is not None and not info.is_write
        (written if info is not None and info.is_write else read).extend(tensors)
    return written, read, view and not written


def _moved(name: str, operands: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Operands whose elements end up in the result, rather than saying where elements go."""
    if "index" in name or "mask" in name or "where" in name or "gather" in name or "scatter" in name:
        return [t for t in operands if t.dtype not in (torch.bool, torch.int64)] or list(operands[:1])
    return list(operands)


def _order_dependence(func: Any, written: list[torch.Tensor], read: list[torch.Tensor], args: Any, kwargs: Any) -> str:
    """Why the call depends on the order in which elements are visited, or ""."""
    name = func._schema.name.split("::")[1]
    uniform = name in ("fill_", "zero_") or (name == "masked_fill_" and not isinstance(args[2], torch.Tensor))
    for number, target in enumerate(written):
        if not uniform and overlaps_itself(target):
            return "writes a window that overlaps itself"
        for other in [*read, *written[number + 1 :]]:
            if other.untyped_storage()._cdata != target.untyped_storage()._cdata or not (
                other.numel() and target.numel()
            ):
                continue
            if not len(np.intersect1d(offsets(other), offsets(target))):
                continue
            is_read = any(other is t for t in read)
            if not is_read and name.startswith("_foreach"):
                continue  # lists are processed one element after the other
            if (
                is_read
                and _view_key(other) == _view_key(target)
                and (torch.Tag.pointwise in func.tags or name == "copy_")
            ):
                continue
            return "reads memory that it writes"
    return _duplicate_targets(name, args, kwargs)


def _duplicate_targets(name: str, args: Any, kwargs: Any) -> str:
    """Whether different source elements go to one place."""
    if not args or not isinstance(args[0], torch.Tensor):
        return ""
    hits = torch.zeros(args[0].shape, dtype=torch.int64)
    if name in ("index_put_", "_index_put_impl_") and not (kwargs.get("accumulate") or (len(args) > 3 and args[3])):
        if args[2].numel() > 1:
            hits.index_put_(tuple(args[1]), torch.ones((), dtype=torch.int64), accumulate=True)
    elif name == "index_copy_":
        hits.index_add_(args[1], args[2], torch.ones(args[3].shape, dtype=torch.int64))
    elif name == "scatter_" and isinstance(args[3], torch.Tensor):
        hits.scatter_add_(args[1], args[2], torch.ones(args[3].shape, dtype=torch.int64))
    elif name == "put_" and not (len(args) > 3 and args[3]):
        hits.put_(args[1], torch.ones(args[2].shape, dtype=torch.int64), accumulate=True)
    return "two source elements go to one place" if bool((hits > 1).any()) else ""
