"""Views with the strides that eager PyTorch gives them.

Fake mode computes some views (`view`, `_unsafe_view`) by rules of its own, which give dimensions of size one other
strides; the kernels on meta tensors are those of eager mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from compiler.frontend.forms import is_symbolic


def eager_view(op: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The views that `op` makes of fake tensors.

    None where only fake mode knows: sizes known at run time, and tensors whose elements it keeps.
    """
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    if not tensors or not all(isinstance(t, FakeTensor) and t.constant is None and not is_symbolic(t) for t in tensors):
        return None
    if any(isinstance(leaf, torch.SymInt) for leaf in pytree.tree_leaves((args, kwargs))):
        return None
    first: Any = tensors[0]

    def fake(view: torch.Tensor) -> FakeTensor:
        return FakeTensor(first.fake_mode, view, first.fake_device)

    with _disable_current_modes():
        views = op(*(_bare(a) if isinstance(a, FakeTensor) else a for a in args), **kwargs)
        return fake(views) if isinstance(views, torch.Tensor) else type(views)(map(fake, views))


def _bare(tensor: FakeTensor) -> torch.Tensor:
    """The meta tensor on the same storage."""
    window = (tensor.storage_offset(), tuple(tensor.shape), tensor.stride())
    meta = torch.empty(0, dtype=tensor.dtype, device="meta").set_(tensor.untyped_storage(), *window)
    meta = torch.ops.aten._conj.default(meta) if tensor.is_conj() else meta
    return torch.ops.aten._neg_view.default(meta) if tensor.is_neg() else meta


__all__ = ["eager_view"]
