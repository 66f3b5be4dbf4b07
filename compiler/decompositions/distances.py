"""Distances between rows, and their gradients."""

from __future__ import annotations

import torch
from torch import Tensor

from compiler.decompositions import decomposition


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
