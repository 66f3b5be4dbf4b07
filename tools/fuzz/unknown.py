"""Operators as unknown functions: equal operands give equal results, and nothing else is known of them.

Brute force on real operators takes luck for freedom: the sum of one element is that element, whatever was in between, and
an operator may happen to give results of the same strides whatever strides its operands have. Only pointwise ones promise.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tools.fuzz.judge import offsets, operands_of, overlaps_itself
from tools.fuzz.observe import strides_of, values

EXACT = frozenset(
    [
        "copy_",
        "clone",
        "_to_copy",
        "fill_",
        "zero_",
        "zeros",
        "zeros_like",
        "ones",
        "ones_like",
        "full",
        "full_like",
        "empty",
        "empty_like",
        "new_empty",
        "empty_strided",
        "new_empty_strided",
        "new_zeros",
        "new_full",
        "new_ones",
        "lift_fresh",
        "lift_fresh_copy",
        "flip",
        "_unsafe_view",
    ]  # fmt: skip
)
"""ATen operators of which more is known: they move elements, make constants, or (`flip` over nothing) are probes."""

COPIES = frozenset(["clone", "_to_copy"])
"""Operators that may be gone."""


def _converts(func: Any, kwargs: dict[str, Any], read: list[torch.Tensor]) -> bool:
    """Whether a copy has another element type, which takes luck to bring back."""
    return func._schema.name == "aten::_to_copy" and kwargs.get("dtype") not in (None, read[0].dtype)


class Unknown(TorchDispatchMode):
    """Runs each call, then replaces all it gave by numbers that follow from its operands.

    Attributes:
        integers: replace integers too, by 0 and 1; they may be indices.
        doubled: how often an operator that is none of PyTorch's got bytes of a written operand through another one as well.
        layouts: the strides of operands that the strides of results may follow, call by call.
    """

    def __init__(self, integers: bool):
        super().__init__()
        self.integers = integers
        self.doubled = 0
        self.layouts: list[tuple[str, list[tuple[int, ...]]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        written, read, view = operands_of(func, args, kwargs)
        if view:
            return func(*args, **kwargs)
        if func._schema.name.split("::")[1] in EXACT and not _converts(func, kwargs, read):
            result = func(*args, **kwargs)
            self._note_layouts(func, kwargs, read, result)
            return result
        if func.namespace != "aten":
            places = [set(offsets(t).tolist()) for t in (*written, *read)]
            storages = [t.untyped_storage()._cdata for t in (*written, *read)]
            self.doubled += sum(
                storages[w] == storages[n] and not places[w].isdisjoint(places[n])
                for w in range(len(written)) for n in range(len(places)) if n != w
            )  # fmt: skip
        out = {id(t) for name, t in kwargs.items() if name == "out"}
        plain = [leaf for leaf in tree_leaves((args, kwargs)) if not isinstance(leaf, torch.Tensor)]
        key = hashlib.blake2b(f"{func} {plain}".encode(), digest_size=8)
        for tensor in [*written, *read]:
            if id(tensor) not in out:
                key.update(f"{tensor.dtype} {tensor.shape}".encode() + values(tensor)[0])
        result = func(*args, **kwargs)
        self._note_layouts(func, kwargs, read, result)
        fresh = all(r.alias_info is None for r in func._schema.returns)
        made = [t for t in tree_leaves(result) if isinstance(t, torch.Tensor)] if fresh else []
        source = np.random.default_rng(int.from_bytes(key.digest(), "big"))
        for tensor in [*written, *made]:
            self._replace(tensor, source)
        return result

    def _note_layouts(self, func: Any, kwargs: dict[str, Any], read: list[torch.Tensor], result: Any) -> None:
        """What a call sees of strides that those of its results may follow."""
        returns = func._schema.returns
        if torch.Tag.pointwise in func.tags or (
            func._schema.name.split("::")[1] in COPIES and not _converts(func, kwargs, read)
        ):
            return
        if kwargs.get("memory_format") is torch.contiguous_format or any(r.alias_info is not None for r in returns):
            return
        if any(sum(n > 1 for n in t.shape) > 1 for t in tree_leaves(result) if isinstance(t, torch.Tensor)):
            self.layouts.append((str(func), [strides_of(t) for t in read]))

    def _replace(self, tensor: torch.Tensor, source: np.random.Generator) -> None:
        whole = not (tensor.is_floating_point() or tensor.is_complex())
        if whole and not self.integers and tensor.dtype is not torch.bool:
            return
        values = torch.from_numpy(source.integers(0, 2 if whole else 200, tensor.numel())).to(tensor.dtype)
        if overlaps_itself(tensor):
            tensor.fill_(values[0])
        else:
            tensor.copy_(values.reshape(tensor.shape))
