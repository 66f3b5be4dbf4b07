"""Rows of a table, summed up by bags."""

from __future__ import annotations

import torch
from torch import Tensor

from compiler.decompositions import decomposition
from compiler.decompositions.pooling import wide


@decomposition("_embedding_bag.default", "_embedding_bag_forward_only.default")
def embedding_bag(
    weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool = False, mode: int = 0,
    sparse: bool = False, per_sample_weights: Tensor | None = None, include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Sum, mean or maximum of the rows of each bag; empty bags give zeros. Bags are runs of `indices`."""
    bags = len(offsets) - 1 if include_last_offset else len(offsets)
    count = len(indices)
    starts = offsets[:bags]
    place = torch.arange(count, dtype=offsets.dtype)
    stops = offsets[1:] if include_last_offset else torch.cat([starts[1:], torch.full_like(starts[:1], count)])
    inside = (place >= starts[:, None]) & (place < stops[:, None])
    # PyTorch's fast path for plain sums does not say which bag an index is in.
    plain = mode == 0 and padding_idx < 0 and weight.dtype in (torch.float32, torch.float16)
    bag_of = indices.new_zeros((0,), dtype=offsets.dtype)
    if not plain:
        bag_of = torch.where(inside, torch.arange(bags, dtype=offsets.dtype)[:, None], 0).sum(0)
    kept = inside & (indices != padding_idx if padding_idx >= 0 else torch.ones_like(inside))
    sizes = kept.to(offsets.dtype).sum(-1)
    rows = wide(weight.index_select(0, indices.reshape(-1)))
    if per_sample_weights is not None:
        rows = rows * wide(per_sample_weights)[:, None]
    mask = kept[:, :, None]
    if mode == 2:
        best = torch.where(mask, rows, float("-inf"))
        values, where = (
            best.max(1)
            if count
            else (rows.new_zeros((bags, weight.shape[1])), indices.new_zeros((bags, weight.shape[1])))
        )
        empty = (sizes == 0)[:, None]
        out = torch.where(empty, torch.zeros_like(values), values)
        chosen = indices[where] if count else where.to(indices.dtype)
        return out.to(weight.dtype), bag_of, sizes, torch.where(empty, torch.zeros_like(chosen), chosen)
    out = torch.where(mask, rows, torch.zeros_like(rows)).sum(1)
    if mode == 1:
        out = out / sizes.clamp(min=1)[:, None]
    told = sizes if mode == 1 else torch.zeros_like(sizes)  # sums do without, and say zero
    return out.to(weight.dtype), bag_of, told, told.clone()


@decomposition("embedding_renorm.default")
def embedding_renorm(table: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """The rows that are looked up, made no longer than `max_norm`."""
    norms = torch.linalg.vector_norm(wide(table), norm_type, -1, keepdim=True)
    used = torch.zeros((len(table), 1), dtype=torch.int64).index_add(
        0, indices.reshape(-1), torch.ones((indices.numel(), 1), dtype=torch.int64)
    )
    factor = torch.where(norms > max_norm, max_norm / (norms + 1e-7), torch.ones_like(norms))
    return torch.where((used > 0) & (norms > max_norm), (wide(table) * factor).to(table.dtype), table)
