"""Solutions, inverses, determinants and orthogonal bases from the factorizations that have a rule."""

from __future__ import annotations

import torch
from torch import Tensor

from compiler.decompositions import decomposition

aten = torch.ops.aten


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
def linalg_lu_solve(
    factors: Tensor, pivots: Tensor, right: Tensor, *, left: bool = True, adjoint: bool = False
) -> Tensor:
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


def _factored(x: Tensor) -> tuple[Tensor, Tensor]:
    """PyTorch factors the transpose of a contiguous real matrix, which is column-major; gradients count on it."""
    factors, pivots, _ = aten.linalg_lu_factor_ex(x if x.is_complex() else x.mT)
    return factors, pivots


@decomposition("_linalg_det.default")
def linalg_det(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    factors, pivots = _factored(x)
    product = factors.diagonal(0, -2, -1).prod(-1)
    return torch.where(_exchanges(pivots), -product, product), factors, pivots


@decomposition("_linalg_slogdet.default")
def linalg_slogdet(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    factors, pivots = _factored(x)
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


@decomposition("linalg_matrix_exp.default")
def linalg_matrix_exp(x: Tensor) -> Tensor:
    """Scaling by a power of two, Taylor's series, and as many squarings as the largest matrix needs at run time allow for."""
    kind = x.dtype
    work = x if kind in (torch.float64, torch.complex64, torch.complex128) else x.to(torch.float64)
    size = work.abs().sum(-2).amax(-1) if x.shape[-1] else work.abs().sum((-2, -1))
    squarings = torch.ceil(torch.log2(size.clamp(min=0.25)) + 2).clamp(min=0)
    scaled = work * torch.exp2(-squarings)[..., None, None].to(work.dtype)
    identity = torch.eye(x.shape[-1], dtype=work.dtype).expand(work.shape)
    found = identity
    for k in range(14, 0, -1):
        found = identity + scaled @ found / k
    for k in range(24):
        found = torch.where((squarings > k)[..., None, None], found @ found, found)
    return found.to(kind)


@decomposition("_trilinear.default")
def trilinear(
    i1: Tensor, i2: Tensor, i3: Tensor, expand1: list[int], expand2: list[int], expand3: list[int],
    sumdim: list[int], unroll_dim: int = 1,
) -> Tensor:  # fmt: skip
    """The sum over some dimensions of the product of three tensors, each with dimensions of size one put in."""
    factors: list[Tensor] = []
    for tensor, places in ((i1, expand1), (i2, expand2), (i3, expand3)):
        for place in sorted(places):
            tensor = tensor.unsqueeze(place)
        factors.append(tensor)
    product = factors[0] * factors[1] * factors[2]
    return product.sum(sumdim) if sumdim else product


@decomposition("_linalg_svd.default")
def linalg_svd(
    x: Tensor, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """From the eigenvectors of the smaller of A^T A and A A^T in f64; each pair of vectors has a sign of its own."""
    kind = x.dtype
    work = x.to(torch.float64)
    rows, columns = x.shape[-2:]
    if rows < columns:
        v, s, uh = linalg_svd(work.mT, full_matrices, compute_uv)
        return (uh.mT.to(kind), s.to(kind), v.mT.to(kind)) if compute_uv else (v.to(kind), s.to(kind), uh.to(kind))
    _, vectors = aten._linalg_eigh(work.mT @ work)
    vectors = vectors.flip(-1)
    image = work @ vectors
    s = (image * image).sum(-2).sqrt()
    s, order = s.sort(dim=-1, descending=True, stable=True)
    if not compute_uv:
        return x.new_empty((0,)), s.to(kind), x.new_empty((0,))
    spread = order.unsqueeze(-2)
    vectors = vectors.gather(-1, spread.expand(vectors.shape))
    image = image.gather(-1, spread.expand(image.shape))
    known = s > 1e-7 * s.amax(-1, keepdim=True) if columns else s > 0
    left = torch.where(known.unsqueeze(-2), image / torch.where(known, s, 1.0).unsqueeze(-2), 0.0)
    # Where a singular value is zero, and beyond the columns, any orthonormal vectors do: those of a QR of the others.
    q, r = linalg_qr(left, "complete" if full_matrices else "reduced")
    signs = torch.where(known & (r.diagonal(0, -2, -1) < 0), -1.0, 1.0)
    if q.shape[-1] > columns:
        signs = torch.cat([signs, signs.new_ones((*signs.shape[:-1], q.shape[-1] - columns))], -1)
    return (q * signs.unsqueeze(-2)).to(kind), s.to(kind), vectors.mT.to(kind)


@decomposition("linalg_pinv.atol_rtol_tensor")
def linalg_pinv(
    x: Tensor, *, atol: Tensor | None = None, rtol: Tensor | None = None, hermitian: bool = False
) -> Tensor:
    """From the singular values (or, hermitian, the eigenvalues) that are greater than the tolerances."""
    rows, columns = x.shape[-2:]
    if not rows * columns:
        return x.new_empty((*x.shape[:-2], columns, rows))
    if hermitian:
        numbers, left = aten._linalg_eigh(x)
        right = left.mT
    else:
        left, numbers, right = aten._linalg_svd(x)
    size = numbers.abs()
    absolute = torch.zeros((), dtype=size.dtype) if atol is None else atol.to(size.dtype)
    if rtol is None:
        default = torch.full((), torch.finfo(x.dtype).eps * max(rows, columns), dtype=size.dtype)
        relative = default if atol is None else torch.where(absolute > 0, torch.zeros_like(absolute), default)
    else:
        relative = rtol.to(size.dtype)
    bound = torch.maximum(absolute.unsqueeze(-1), relative.unsqueeze(-1) * size.amax(-1, keepdim=True))
    inverse = torch.where(size > bound, 1 / numbers, torch.zeros_like(numbers))
    return (right.mT * inverse.unsqueeze(-2)) @ left.mT
