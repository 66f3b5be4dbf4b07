"""Which programs an entry of `op_db` gives: the function, its in-place and its out= form on a stratified choice of samples."""

from __future__ import annotations

import contextlib
import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch.testing._internal import common_methods_invocations
from torch.testing._internal.opinfo.core import OpInfo
from torch.utils import _pytree as pytree

DTYPES = (torch.float32, torch.int64, torch.bool, torch.bfloat16)
OTHER = (torch.complex64, torch.float64, torch.float16, torch.int32)
"""Taken, the first that fits, for an entry that supports none of DTYPES."""

VARIANTS = ("function", "in-place", "out", "overload")
"""The last are calls of core ATen overloads (`core_samples`), which are no entries of `op_db`."""

LIMIT = 6
"""Samples per entry and dtype."""

LARGEST = 1 << 16
"""Elements of a sample; larger ones test the machine, not the semantics."""


def entries() -> dict[str, OpInfo]:
    """Every entry by its full name."""
    return {full_name(entry): entry for entry in common_methods_invocations.op_db}


def full_name(entry: OpInfo) -> str:
    return f"{entry.name}.{entry.variant_test_name}" if entry.variant_test_name else entry.name


@contextlib.contextmanager
def flowing() -> Iterator[None]:
    """Entries that draw start PyTorch's stream again in each call; here they go on with it."""
    with mock.patch.object(
        common_methods_invocations, "wrapper_set_seed", lambda op, *args, **kwargs: op(*args, **kwargs)
    ):
        yield


def dtypes(entry: OpInfo) -> list[torch.dtype]:
    found = [dtype for dtype in DTYPES if entry.supports_dtype(dtype, "cpu")]
    return found or [dtype for dtype in OTHER if entry.supports_dtype(dtype, "cpu")][:1]


@dataclass(frozen=True)
class Sample:
    """One call: `function` on a structure whose tensors are `tensors` and whose other leaves are constants.

    `broadcasts` says that the result is larger than the first operand, which therefore cannot hold it.
    """

    function: Callable[..., Any]
    tensors: tuple[torch.Tensor, ...]
    leaves: tuple[Any, ...]
    tree: pytree.TreeSpec
    broadcasts: bool = False

    @classmethod
    def of(
        cls, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], broadcasts: bool = False
    ) -> Sample:
        leaves, tree = pytree.tree_flatten((tuple(args), kwargs))
        tensors = tuple(leaf for leaf in leaves if isinstance(leaf, torch.Tensor))
        return cls(
            function,
            tensors,
            tuple(_TENSOR if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves),
            tree,
            broadcasts,
        )

    def arguments(self, tensors: Sequence[torch.Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        rest = iter(tensors)
        return pytree.tree_unflatten([next(rest) if leaf is _TENSOR else leaf for leaf in self.leaves], self.tree)

    def __call__(self, *tensors: torch.Tensor) -> Any:
        args, kwargs = self.arguments(tensors)
        return self.function(*args, **kwargs)

    def __str__(self) -> str:
        args, kwargs = self.arguments(self.tensors)
        shown = [_text(a) for a in args] + [f"{name}={_text(a)}" for name, a in kwargs.items()]
        return f"({', '.join(shown)})"[:300]


_TENSOR = object()


def _text(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        strides = "" if value.layout != torch.strided or value.is_contiguous() else f" strides {list(value.stride())}"
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}{strides}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_text, value))}]"
    return repr(value)


def samples(entry: OpInfo, dtype: torch.dtype, limit: int = LIMIT) -> list[Sample]:
    """At most `limit` of the entry's samples: one of each kind (ranks, emptiness, arguments) before a second of any."""
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = list(entry.sample_inputs("cpu", dtype, requires_grad=False))
    kinds: dict[Any, list[Sample]] = {}
    for item in found:
        sample = Sample.of(entry.op, (item.input, *item.args), item.kwargs, item.broadcasts_input)
        if sum(t.numel() for t in sample.tensors) <= LARGEST:
            kinds.setdefault(_kind(sample), []).append(sample)
    queue = list(kinds.values())
    if len(queue) > limit:  # spread over the list, ends included
        queue = [queue[round(k * (len(queue) - 1) / max(limit - 1, 1))] for k in range(limit)]
    chosen: list[Sample] = []
    while queue and len(chosen) < limit:
        chosen += [kind.pop(0) for kind in queue][: limit - len(chosen)]
        queue = [kind for kind in queue if kind]
    return chosen


def _kind(sample: Sample) -> tuple[Any, ...]:
    tensors = tuple((t.dim(), t.numel() == 0, t.dtype, t.layout) for t in sample.tensors)
    return tensors, str(sample.tree), tuple(repr(leaf)[:80] for leaf in sample.leaves if leaf is not _TENSOR)


def variant(entry: OpInfo, sample: Sample, name: str) -> Sample | None:
    """The sample as a call of a variant; None where the entry or the sample has none."""
    args, kwargs = sample.arguments(sample.tensors)
    if name == "in-place":
        function = entry.get_inplace()
        if function is None or sample.broadcasts or not isinstance(args[0], torch.Tensor):
            return None
        return Sample.of(function, args, kwargs)
    if not entry.supports_out:
        return None
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            results = sample(*sample.tensors)
        except Exception:  # eager refuses the call; its own variant says so
            return None
    leaves = pytree.tree_leaves(results)
    if not leaves or not all(isinstance(r, torch.Tensor) and r.layout == torch.strided for r in leaves):
        return None
    places = [torch.full_like(r, 1, memory_format=torch.contiguous_format) for r in leaves]
    out = places[0] if isinstance(results, torch.Tensor) else tuple(places)
    return Sample.of(entry.op, args, {**kwargs, "out": out})
