"""Overloads for which PyTorch has no decomposition, in terms of operators that have a lowering rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten

DECOMPOSITIONS: dict[str, Callable[..., Any]] = {}
"""Overload -> a function with its signature."""


def decomposition(*overloads: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        DECOMPOSITIONS.update({f"aten.{overload}": function for overload in overloads})
        return function

    return register


# -- distances -----------------------------------------------------------------------------------


def _norm(difference: Tensor, p: float) -> Tensor:
    """The p-norm over the last dimension, which may be empty."""
    if p == 0:
        return (difference != 0).to(difference.dtype).sum(-1)
    if p == 1:
        return difference.abs().sum(-1)
    if p == 2:
        return (difference * difference).sum(-1).sqrt()
    if p == float("inf"):
        return difference.abs().amax(-1) if difference.shape[-1] else difference.sum(-1)
    return difference.abs().pow(p).sum(-1).pow(1 / p)


@decomposition("_cdist_forward.default")
def cdist_forward(x1: Tensor, x2: Tensor, p: float, compute_mode: int | None) -> Tensor:
    return _norm(x1.unsqueeze(-2) - x2.unsqueeze(-3), p)


def _norm_gradient(difference: Tensor, distance: Tensor, grad: Tensor, p: float) -> Tensor:
    """The gradient of `_norm` at every difference; zero where the distance is."""
    if p == 0:
        return torch.zeros_like(difference)
    distance, grad = distance.unsqueeze(-1), grad.unsqueeze(-1)
    if p == 1:
        return grad * difference.sign()
    if p == float("inf"):
        return grad * difference.sign() * (difference.abs() == distance)
    slope = difference if p == 2 else difference * difference.abs().pow(p - 2)
    whole = grad * slope / (distance if p == 2 else distance.pow(p - 1))
    return torch.where((distance == 0) | (difference == 0), torch.zeros_like(whole), whole)


@decomposition("_cdist_backward.default")
def cdist_backward(grad: Tensor, x1: Tensor, x2: Tensor, p: float, cdist: Tensor) -> Tensor:
    return _norm_gradient(x1.unsqueeze(-2) - x2.unsqueeze(-3), cdist, grad, p).sum(-2)


@decomposition("_pdist_forward.default")
def pdist_forward(x: Tensor, p: float = 2.0) -> Tensor:
    if len(x) < 2:
        return x.new_empty((0,))
    first, second = torch.triu_indices(len(x), len(x), 1)
    return _norm(x[first] - x[second], p)


@decomposition("_pdist_backward.default")
def pdist_backward(grad: Tensor, x: Tensor, p: float, pdist: Tensor) -> Tensor:
    if len(x) < 2:
        return torch.zeros_like(x)
    first, second = torch.triu_indices(len(x), len(x), 1)
    found = _norm_gradient(x[first] - x[second], pdist, grad, p)
    return torch.zeros_like(x).index_add(0, first, found).index_add(0, second, -found)


# -- adaptive pools ------------------------------------------------------------------------------


def _spans(size: int, out: int) -> tuple[Tensor, Tensor]:
    """Which of `size` elements each of `out` windows holds (out x size), and how many they are (out)."""
    number = torch.arange(out)
    start, stop = number * size // out, ((number + 1) * size + out - 1) // out
    place = torch.arange(size)
    return (place >= start[:, None]) & (place < stop[:, None]), stop - start


def _wide(x: Tensor) -> Tensor:
    return x.to(torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x


def _adaptive_average(x: Tensor, sizes: Sequence[int]) -> Tensor:
    """One dimension after the other, exactly: what is outside a window does not enter it, be it infinite."""
    found = _wide(x)
    for dim, out in zip(range(-len(sizes), 0), sizes):
        inside, count = _spans(x.shape[dim], out)
        moved = found.movedim(dim, -1).unsqueeze(-2)
        found = (torch.where(inside, moved, torch.zeros_like(moved)).sum(-1) / count).movedim(-1, dim)
    return found.to(x.dtype)


def _adaptive_average_backward(grad: Tensor, x: Tensor, spatial: int) -> Tensor:
    found = _wide(grad)
    for dim in range(-spatial, 0):
        inside, count = _spans(x.shape[dim], grad.shape[dim])
        moved = (found.movedim(dim, -1) / count).unsqueeze(-1)
        found = torch.where(inside, moved, torch.zeros_like(moved)).sum(-2).movedim(-1, dim)
    return found.to(x.dtype)


@decomposition("_adaptive_avg_pool3d.default", "adaptive_avg_pool3d.default", "_adaptive_avg_pool2d.default")
def adaptive_avg_pool(x: Tensor, output_size: Sequence[int]) -> Tensor:
    return _adaptive_average(x, output_size)


@decomposition("_adaptive_avg_pool2d_backward.default")
def adaptive_avg_pool2d_backward(grad: Tensor, x: Tensor) -> Tensor:
    return _adaptive_average_backward(grad, x, 2)


@decomposition("_adaptive_avg_pool3d_backward.default")
def adaptive_avg_pool3d_backward(grad: Tensor, x: Tensor) -> Tensor:
    return _adaptive_average_backward(grad, x, 3)


@decomposition("adaptive_max_pool2d.default", "adaptive_max_pool3d.default")
def adaptive_max_pool(x: Tensor, output_size: Sequence[int]) -> tuple[Tensor, Tensor]:
    """The first greatest element (or NaN) of each window, with its place in the plane."""
    spatial = len(output_size)
    size = x.shape[-spatial:]
    inside = torch.ones((), dtype=torch.bool)
    for place, (n, out) in enumerate(zip(size, output_size)):
        span, _ = _spans(n, out)
        shape = [1] * (2 * spatial)
        shape[place], shape[spatial + place] = out, n
        inside = inside & span.reshape(shape)
    count = 1
    for n in size:
        count *= n
    lead = list(x.shape[:-spatial])
    flat = inside.reshape([*output_size, count])
    plane = x.reshape([*lead, *[1] * spatial, count])
    lowest = float("-inf") if x.dtype.is_floating_point else torch.iinfo(x.dtype).min
    values, places = torch.where(flat, plane, lowest).max(-1)
    first = flat.to(torch.int64).argmax(-1)  # where every element is the lowest there is
    return values, torch.where(values == lowest, first.expand(values.shape), places)


# -- embeddings ----------------------------------------------------------------------------------


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
    bag_of = torch.where(inside, torch.arange(bags, dtype=offsets.dtype)[:, None], 0).sum(0)
    kept = inside & (indices != padding_idx if padding_idx >= 0 else torch.ones_like(inside))
    sizes = kept.to(offsets.dtype).sum(-1)
    rows = _wide(weight.index_select(0, indices.reshape(-1)))
    if per_sample_weights is not None:
        rows = rows * _wide(per_sample_weights)[:, None]
    mask = kept[:, :, None]
    if mode == 2:
        best = torch.where(mask, rows, float("-inf"))
        values, where = best.max(1) if count else (rows.new_zeros((bags, weight.shape[1])), indices.new_zeros((bags, weight.shape[1])))
        empty = (sizes == 0)[:, None]
        out = torch.where(empty, torch.zeros_like(values), values)
        chosen = indices[where] if count else where.to(indices.dtype)
        return out.to(weight.dtype), bag_of, sizes, torch.where(empty, torch.zeros_like(chosen), chosen)
    out = torch.where(mask, rows, torch.zeros_like(rows)).sum(1)
    if mode == 1:
        out = out / sizes.clamp(min=1)[:, None]
    return out.to(weight.dtype), bag_of, sizes, sizes.new_zeros((bags,))


# -- linear algebra ------------------------------------------------------------------------------


@decomposition("linalg_lu.default")
def linalg_lu(x: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    factors, pivots, _ = aten.linalg_lu_factor_ex(x, pivot=pivot)
    p, lower, upper = aten.lu_unpack(factors, pivots)
    return (p if pivot else x.new_empty((0,))), lower, upper


def _solved(factors: Tensor, pivots: Tensor, right: Tensor, adjoint: bool = False) -> Tensor:
    """X with A X = right (or A^H X = right), A by its factors."""
    lead = torch.broadcast_shapes(factors.shape[:-2], right.shape[:-2])
    factors = factors.expand(*lead, *factors.shape[-2:])
    pivots = pivots.expand(*lead, pivots.shape[-1])
    right = right.expand(*lead, *right.shape[-2:])
    order, _, _ = aten.lu_unpack(factors, pivots, False, True)
    if adjoint:
        half = aten.linalg_solve_triangular(factors.mH, right, upper=False)
        return order @ aten.linalg_solve_triangular(factors.mH, half, upper=True, unitriangular=True)
    half = aten.linalg_solve_triangular(factors, order.mT @ right, upper=False, unitriangular=True)
    return aten.linalg_solve_triangular(factors, half, upper=True)


@decomposition("linalg_lu_solve.default")
def linalg_lu_solve(factors: Tensor, pivots: Tensor, right: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    if left:
        return _solved(factors, pivots, right, adjoint)
    return _solved(factors, pivots, right.mH, not adjoint).mH


@decomposition("_linalg_solve_ex.default")
def linalg_solve_ex(
    x: Tensor, right: Tensor, *, left: bool = True, check_errors: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    vector = right.dim() == 1 or (x.dim() - 1 == right.dim() and right.shape == x.shape[:-1])
    columns = right.unsqueeze(-1) if vector else right
    factors, pivots, info = aten.linalg_lu_factor_ex(x)
    found = linalg_lu_solve(factors, pivots, columns, left=left)
    return (found.squeeze(-1) if vector else found), factors, pivots, info


@decomposition("linalg_inv_ex.default")
def linalg_inv_ex(x: Tensor, *, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    factors, pivots, info = aten.linalg_lu_factor_ex(x)
    return _solved(factors, pivots, torch.eye(x.shape[-1], dtype=x.dtype).expand(x.shape)), info


def _exchanges(pivots: Tensor) -> Tensor:
    """Whether an odd number of rows were exchanged."""
    here = torch.arange(1, pivots.shape[-1] + 1, dtype=pivots.dtype)
    return (pivots != here).to(torch.int64).sum(-1) % 2 == 1


@decomposition("_linalg_det.default")
def linalg_det(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    factors, pivots, _ = aten.linalg_lu_factor_ex(x)
    product = factors.diagonal(0, -2, -1).prod(-1)
    return torch.where(_exchanges(pivots), -product, product), factors, pivots


@decomposition("_linalg_slogdet.default")
def linalg_slogdet(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    factors, pivots, _ = aten.linalg_lu_factor_ex(x)
    diagonal = factors.diagonal(0, -2, -1)
    sign = torch.sgn(diagonal).prod(-1)
    return torch.where(_exchanges(pivots), -sign, sign), diagonal.abs().log().sum(-1), factors, pivots


@decomposition("linalg_qr.default")
def linalg_qr(x: Tensor, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    rows, columns = x.shape[-2:]
    factors, taus = aten.geqrf(x)
    inner = min(rows, columns)
    if mode == "r":
        return x.new_empty((0,)), factors[..., :inner, :].triu()
    if mode == "complete":
        room = torch.cat([factors, x.new_zeros((*x.shape[:-1], max(rows - columns, 0)))], -1)[..., :rows]
        return aten.linalg_householder_product(room, taus), factors.triu()
    return aten.linalg_householder_product(factors[..., :inner], taus), factors[..., :inner, :].triu()


@decomposition("ormqr.default")
def ormqr(x: Tensor, taus: Tensor, other: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    rows = x.shape[-2]
    room = torch.cat([x, x.new_zeros((*x.shape[:-1], max(rows - x.shape[-1], 0)))], -1)[..., :rows]
    q = aten.linalg_householder_product(room, taus)
    q = q.mH if transpose else q
    return q @ other if left else other @ q


@decomposition("cholesky_solve.default", "_cholesky_solve_helper.default")
def cholesky_solve(right: Tensor, factor: Tensor, upper: bool = False) -> Tensor:
    lower = factor.mH if upper else factor
    half = aten.linalg_solve_triangular(lower, right, upper=False)
    return aten.linalg_solve_triangular(lower.mH, half, upper=True)


@decomposition("cholesky_inverse.default")
def cholesky_inverse(factor: Tensor, upper: bool = False) -> Tensor:
    return cholesky_solve(torch.eye(factor.shape[-1], dtype=factor.dtype).expand(factor.shape), factor, upper)
