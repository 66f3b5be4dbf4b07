"""Calls of core ATen overloads that no entry of `op_db` reaches: autograd's backward operators, scalar forms, and those that
PyTorch's own composite operators keep hidden."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from tools.opinfo.samples import Sample

aten = torch.ops.aten
FLOATS = (torch.float32, torch.bfloat16)
INTEGERS = (torch.int64, torch.bool)

Made = Callable[[torch.dtype], Sequence[tuple[Any, ...]]]


def _made(*shape: int, dtype: torch.dtype, low: float = -2.0, high: float = 2.0) -> torch.Tensor:
    if dtype is torch.bool:
        return torch.rand(shape) < 0.5
    data = torch.rand(shape, dtype=torch.float64) * (high - low) + low
    return (data if dtype.is_floating_point else data.floor()).to(dtype)


def _group_norm_backward(d: torch.dtype) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for channels, groups, mask in ((6, 3, [True] * 3), (4, 2, [True, False, True]), (4, 1, [True] * 3)):
        x, weight = _made(2, channels, 5, dtype=d), _made(channels, dtype=d)
        _, mean, rstd = aten.native_group_norm.default(x, weight, None, 2, channels, 5, groups, 1e-5)
        found.append((_made(2, channels, 5, dtype=d), x, mean, rstd, weight, 2, channels, 5, groups, mask))
    return found


def _layer_norm_backward(d: torch.dtype) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for shape, mask in (([5], [True] * 3), ([4, 5], [True] * 3), ([5], [True, False, False])):
        x, weight, bias = _made(3, 4, 5, dtype=d), _made(*shape, dtype=d), _made(*shape, dtype=d)
        _, mean, rstd = aten.native_layer_norm.default(x, shape, weight, bias, 1e-5)
        found.append((_made(3, 4, 5, dtype=d), x, shape, mean, rstd, weight, bias, mask))
    return found


def _embedding_bag(d: torch.dtype) -> list[tuple[Any, ...]]:
    table, indices, offsets = _made(7, 3, dtype=d), torch.tensor([1, 6, 0, 2, 2, 4]), torch.tensor([0, 2, 2, 5])
    weights = _made(6, dtype=d)
    return [(table, indices, offsets, False, mode) for mode in (0, 1, 2)] + [
        (table, indices, offsets, False, 0, False, weights),
        (table, indices, torch.tensor([0, 3, 6]), False, 1, False, None, True),
        (table, indices, offsets, False, 0, False, None, False, 2),
    ]


def _convolution_backward(d: torch.dtype) -> list[tuple[Any, ...]]:
    x, mask = _made(2, 4, 7, 6, dtype=d), [True] * 3
    return [
        (
            _made(2, 4, 7, 6, dtype=d),
            x,
            _made(4, 4, 3, 3, dtype=d),
            [4],
            [1, 1],
            [1, 1],
            [1, 1],
            False,
            [0, 0],
            1,
            mask,
        ),
        (
            _made(2, 6, 4, 4, dtype=d),
            x,
            _made(6, 2, 3, 2, dtype=d),
            [6],
            [2, 1],
            [1, 0],
            [1, 2],
            False,
            [0, 0],
            2,
            mask,
        ),
        (
            _made(2, 6, 13, 5, dtype=d),
            x,
            _made(4, 3, 3, 2, dtype=d),
            [6],
            [2, 1],
            [1, 1],
            [1, 1],
            True,
            [0, 0],
            2,
            mask,
        ),
    ]


def _scalars(*numbers: Any, low: float = -9, high: float = 9) -> Made:
    return lambda d: [(_made(3, 5, dtype=d, low=low, high=high), n) for n in numbers]


_IMAGE = (2, 3, 6, 5)

CORE: dict[str, tuple[tuple[torch.dtype, ...], Made]] = {
    "aten._adaptive_avg_pool2d_backward.default": (FLOATS, lambda d: [
        (_made(2, 3, *out, dtype=d), _made(*_IMAGE, dtype=d)) for out in ((3, 5), (4, 2), (1, 1))]),
    "aten._embedding_bag.default": (FLOATS[:1], _embedding_bag),
    "aten._local_scalar_dense.default": (FLOATS + INTEGERS, lambda d: [(_made(*shape, dtype=d),) for shape in ((), (1,), (1, 1))]),
    "aten._native_batch_norm_legit_no_training.default": (FLOATS, lambda d: [
        (_made(*_IMAGE, dtype=d), w, w, _made(3, dtype=d), _made(3, dtype=d, low=0.5), 0.1, 1e-5) for w in (_made(3, dtype=d), None)]),
    "aten.adaptive_avg_pool1d.default": (FLOATS, lambda d: [
        (_made(2, 3, 7, dtype=d), [3]), (_made(3, 8, dtype=d), [4]), (_made(2, 3, 5, dtype=d), [1])]),
    "aten.avg_pool1d.default": (FLOATS, lambda d: [
        (_made(2, 3, 9, dtype=d), [3], [2], [1]), (_made(3, 8, dtype=d), [2]), (_made(2, 3, 9, dtype=d), [4], [3], [2], True, False)]),
    "aten.avg_pool2d_backward.default": (FLOATS[:1], lambda d: [
        (_made(2, 3, 3, 2, dtype=d), _made(*_IMAGE, dtype=d), [3, 2], [2, 2], [1, 0], False, True, None),
        (_made(2, 3, 3, 2, dtype=d), _made(*_IMAGE, dtype=d), [2, 2], [], [0, 0], False, True, 3)]),
    "aten.bitwise_and.Scalar": (INTEGERS[:1], _scalars(6, -1)),
    "aten.bitwise_or.Scalar": (INTEGERS[:1], _scalars(6, -1)),
    "aten.bitwise_xor.Scalar": (INTEGERS[:1], _scalars(6, -1)),
    "aten.col2im.default": (FLOATS, lambda d: [
        (_made(2, 12, 12, dtype=d), [4, 5], [2, 2], [1, 1], [0, 0], [1, 1]),
        (_made(2, 8, 6, dtype=d), [5, 6], [2, 2], [1, 1], [1, 0], [2, 3]),
        (_made(8, 4, dtype=d), [4, 4], [2, 2], [2, 1], [0, 1], [1, 3])]),
    "aten.convolution_backward.default": (FLOATS[:1], _convolution_backward),
    "aten.copy.default": (FLOATS + INTEGERS, lambda d: [
        (_made(3, 4, dtype=torch.float32), _made(4, dtype=d)), (_made(3, 4, dtype=d), _made(3, 1, dtype=torch.float32))]),
    "aten.div.Scalar_mode": (FLOATS + INTEGERS[:1], lambda d: [
        (_made(3, 5, dtype=d, low=-9, high=9), n, {"rounding_mode": mode}) for n in (2, 0.7, -3) for mode in ("floor", "trunc")]),
    "aten.embedding_dense_backward.default": (FLOATS[:1], lambda d: [
        (_made(2, 3, 4, dtype=d), torch.tensor([[1, 0, 1], [4, 1, 4]]), 6, padding, scaled)
        for padding, scaled in ((-1, False), (1, True))]),
    "aten.fmod.Scalar": (FLOATS + INTEGERS[:1], _scalars(3, -2)),
    "aten.gt.Scalar": (FLOATS + INTEGERS, _scalars(0.5, 1)),
    "aten.native_dropout.default": (FLOATS, lambda d: [
        (_made(4, 5, dtype=d), 0.3, True), (_made(4, 5, dtype=d), 0.5, False), (_made(3, dtype=d), 0.0, True)]),
    "aten.native_group_norm_backward.default": (FLOATS[:1], _group_norm_backward),
    "aten.native_layer_norm_backward.default": (FLOATS, _layer_norm_backward),
    "aten.pow.Scalar": (FLOATS, lambda d: [(b, _made(3, 5, dtype=d)) for b in (2, 0.5)]),
    "aten.rand.default": (FLOATS, lambda d: [([2048],), ([3, 0],), ([],)]),
    "aten.randn.default": (FLOATS, lambda d: [([2048],), ([3, 0],), ([],)]),
    "aten.randperm.default": ((torch.int64, torch.float32), lambda d: [(9,), (1,), (0,)]),
    "aten.reflection_pad3d.default": (FLOATS, lambda d: [
        (_made(2, 3, 4, 5, 3, dtype=d), [1, 2, 0, 3, 2, 1]), (_made(3, 4, 5, 3, dtype=d), [0, 1, 2, 2, 1, 0])]),
    "aten.replication_pad3d.default": (FLOATS, lambda d: [
        (_made(2, 3, 4, 5, 3, dtype=d), [1, 2, 0, 3, 2, 1]), (_made(3, 4, 5, 3, dtype=d), [0, 4, 2, 2, 1, 0])]),
    "aten.scatter.value": (FLOATS + INTEGERS, lambda d: [
        (_made(3, 5, dtype=d), dim, torch.tensor([[0, 2, 1], [2, 0, 0]]), 1) for dim in (0, 1)]),
    "aten.upsample_bilinear2d.vec": (FLOATS, lambda d: [
        (_made(*_IMAGE, dtype=d), [9, 4], False, None), (_made(*_IMAGE, dtype=d), [9, 4], True, None),
        (_made(*_IMAGE, dtype=d), None, False, [2.0, 1.5])]),
    "aten.upsample_nearest2d.vec": (FLOATS, lambda d: [
        (_made(*_IMAGE, dtype=d), [9, 4], None), (_made(*_IMAGE, dtype=d), None, [2.0, 1.5])]),
    "aten.var.dim": (FLOATS, lambda d: [
        (_made(3, 4, 5, dtype=d), dims, *rest) for dims, rest in (([1], (True,)), ([0, -1], (False, True)), ([2], ()))]),
}  # fmt: skip
"""Overload -> the types it is called with, and the arguments of its calls, a dict of keywords last."""

_TYPED = frozenset({"aten.rand.default", "aten.randn.default", "aten.randperm.default"})
"""Overloads that make a tensor of the type they are told."""


def core_samples(name: str, dtype: torch.dtype) -> list[Sample]:
    """The calls of an overload."""
    torch.manual_seed(0)
    namespace, packet, overload = name.split(".")
    function = getattr(getattr(getattr(torch.ops, namespace), packet), overload)
    typed = {"dtype": dtype} if name in _TYPED else {}
    calls = [(args, {}) if not isinstance(args[-1], dict) else (args[:-1], args[-1]) for args in CORE[name][1](dtype)]
    return [Sample.of(function, args, typed | kwargs) for args, kwargs in calls]
