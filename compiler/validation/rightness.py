"""Whether factors of a matrix are right ones: they multiply to the matrix, and what is to be orthonormal is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from compiler.torch_types import overload, python_argument
from dialects.calls import ValueCall

Results = Sequence[torch.Tensor]


def wrong(name: str, operands: Results, results: Results, call: ValueCall) -> str:
    """What is not right with what a factorization gave, or ""."""
    arguments, keywords = call.in_pytorch()
    parameters = overload(call.target.data)._schema.arguments
    named = {p.name: p.default_value for p in parameters if p.has_default_value()}
    given = [python_argument(value, operands) for value in arguments]
    named |= {p.name: value for p, value in zip(parameters, given, strict=False)}
    named |= {key: python_argument(value, operands) for key, value in keywords.items()}
    matrix = operands[0]
    if not all(bool(torch.isfinite(x).all()) for x in (matrix, *results)):
        same = bool(torch.isfinite(matrix).all())
        return "gives elements that are not finite" if same else ""
    a, *found = (x.to(torch.complex128) for x in (matrix, *results))
    rounding = 1e2 * max(torch.finfo(x.dtype).eps for x in (matrix, *results)) * max(1, *a.shape[-2:])

    def far(one: torch.Tensor, two: torch.Tensor, scale: float) -> bool:
        return bool(((one - two).abs() > rounding * scale).any())

    size = float(torch.linalg.matrix_norm(a).max()) if a.numel() else 0.0
    for what, one, two, scale in _laws(name, named, a, found):
        if one.numel() and far(one, two, 1.0 if scale is None else scale * max(size, torch.finfo(torch.float32).tiny)):
            return f"{what}"
    return ""


def _laws(
    name: str, named: Mapping[str, Any], a: torch.Tensor, found: Results
) -> list[tuple[str, Any, Any, float | None]]:
    """(what is wrong if it does not hold, left side, right side, error in norms of the matrix or None for that of 1)."""
    if name == "_linalg_svd" and named["compute_uv"]:
        u, s, vh = found
        count = s.shape[-1]
        return [
            (
                "gives factors whose product is another matrix",
                u[..., :count] * s[..., None, :] @ vh[..., :count, :],
                a,
                1,
            ),
            ("gives left vectors that are not orthonormal", u.mH @ u, _one(u), None),
            ("gives right vectors that are not orthonormal", vh @ vh.mH, _one(vh.mH), None),
        ]
    if name == "_linalg_eigh" and named["compute_v"]:
        values, vectors = found
        whole = a.tril() + a.tril(-1).mH if named["UPLO"].upper() == "L" else a.triu() + a.triu(1).mH
        return [
            ("gives vectors that are no eigenvectors", whole @ vectors, vectors * values[..., None, :], 1),
            ("gives vectors that are not orthonormal", vectors.mH @ vectors, _one(vectors), None),
        ]
    if name == "linalg_eig":
        values, vectors = found
        lengths = vectors.abs().square().sum(-2)
        return [
            ("gives vectors that are no eigenvectors", a @ vectors, vectors * values[..., None, :], 1),
            ("gives vectors that are not of length one", lengths, torch.ones_like(lengths), None),
        ]
    if name == "linalg_qr" and named["mode"] != "r":
        q, r = found
        return [
            ("gives factors whose product is another matrix", q @ r, a, 1),
            ("gives columns that are not orthonormal", q.mH @ q, _one(q), None),
        ]
    if name == "geqrf":
        packed, tau = found
        reduced = packed[..., : tau.shape[-1]] if packed.shape[-2] >= packed.shape[-1] else packed
        if packed.shape[-2] < packed.shape[-1]:
            reduced = packed[..., : packed.shape[-2]]
        q = torch.linalg.householder_product(reduced, tau)
        return [("gives factors whose product is another matrix", q @ packed.triu()[..., : q.shape[-1], :], a, 1)]
    return []


def _one(columns: torch.Tensor) -> torch.Tensor:
    return torch.eye(columns.shape[-1], dtype=columns.dtype).expand(*columns.shape[:-2], -1, -1)


__all__ = ["wrong"]
