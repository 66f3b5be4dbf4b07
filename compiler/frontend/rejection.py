"""Gamma, Dirichlet, Poisson and binomial numbers: by proposals of which the first that is accepted counts.

A loop until acceptance becomes a fixed number of proposals, so many that none is accepted less than once in 10^13 draws; then
the last proposal counts. Small means of counts are drawn by inversion: the sum of probabilities up to any count that can come.
Everything is computed in f64 for f64, else in f32, in forms whose terms do not cancel for large means.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from compiler.frontend.draws import Draw, normal, uniform

_SMALL = 10.0
"""Means below it are drawn by inversion."""

_COUNTS = 56
"""With a mean below `_SMALL`, a count from here on is rarer than 2^-53."""

_GAMMA_PROPOSALS = 10
_COUNT_PROPOSALS = 24


def _wide(kind: torch.dtype) -> torch.dtype:
    return torch.float64 if kind is torch.float64 else torch.float32


def _first(accepted: Tensor, proposals: Tensor) -> Tensor:
    """The first accepted proposal along the leading dimension, or the last there is."""
    found = proposals[-1]
    for number in range(proposals.shape[0] - 2, -1, -1):
        found = torch.where(accepted[number], proposals[number], found)
    return found


# -- gamma ---------------------------------------------------------------------------------------


def _log_gamma(draw: Draw, alpha: Tensor) -> Tensor:
    """Logarithms of gamma numbers: Marsaglia and Tsang's method (2000), which takes a shape of one or more; with a smaller
    one a number of the shape one greater, times a power of a uniform one."""
    boosted = torch.where(alpha < 1, alpha + 1, alpha)
    d = boosted - 1 / 3
    c = 1 / torch.sqrt(9 * d)
    size = (_GAMMA_PROPOSALS, *alpha.shape)
    x = normal(draw, size, alpha.dtype)
    root = 1 + c * x
    positive = root > 0
    log_v = 3 * torch.log(torch.where(positive, root, torch.ones_like(root)))
    log_u = torch.log1p(-uniform(draw, size, alpha.dtype))
    accepted = positive & (log_u < 0.5 * x * x + d * (1 - torch.exp(log_v) + log_v))
    found = torch.log(d) + _first(accepted, log_v)
    power = torch.log1p(-uniform(draw, alpha.shape, alpha.dtype)) / alpha
    return torch.where(alpha < 1, found + power, found)


def standard_gamma(draw: Draw, self: Tensor) -> Tensor:
    """Gamma numbers of scale one; what would be zero is the least normal number, as in eager."""
    found = torch.exp(_log_gamma(draw, self.to(_wide(self.dtype)))).to(self.dtype)
    return found.clamp(min=torch.finfo(self.dtype).tiny)


def sample_dirichlet(draw: Draw, self: Tensor) -> Tensor:
    """Gamma numbers over their sum, from logarithms, so that small shapes do not underflow."""
    found = torch.softmax(_log_gamma(draw, self.to(_wide(self.dtype))), -1).to(self.dtype)
    limits = torch.finfo(self.dtype)
    return found.clamp(min=limits.tiny, max=1 - limits.eps / 2)


# -- counts --------------------------------------------------------------------------------------


def _inverted(v: Tensor, nothing: Tensor, next: Callable[[Tensor, int], Tensor]) -> Tensor:
    """How many counts have a probability of at least `v` of being exceeded, summed from the far end, where it is smallest.

    `nothing` is the probability of zero, `next` gives that of k + 1 from that of k.
    """
    probabilities = [nothing]
    for k in range(_COUNTS):
        probabilities.append(next(probabilities[-1], k))
    exceeded = found = torch.zeros_like(v)
    for probability in probabilities[:0:-1]:
        exceeded = exceeded + probability
        found = found + (v <= exceeded)
    return found


def _stirling(k: Tensor) -> Tensor:
    """log(k!) less (k + 1/2) log(k + 1) - (k + 1) + log(2 pi) / 2."""
    large = torch.clamp(k + 1, min=10.0)
    square = large * large
    series = (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / large
    few = k.clamp(min=0.0, max=9.0)
    exact = torch.lgamma(few + 1) - (few + 0.5) * torch.log(few + 1) + (few + 1) - 0.5 * math.log(2 * math.pi)
    return torch.where(k < 9.5, exact, series)


def poisson(draw: Draw, self: Tensor) -> Tensor:
    """Large means by Hoermann's transformed rejection (PTRS, 1993)."""
    mean = self.to(_wide(self.dtype))
    small = mean.clamp(max=_SMALL)
    few = _inverted(1 - uniform(draw, mean.shape, mean.dtype), torch.exp(-small), lambda p, k: p * (small / (k + 1)))
    large = mean.clamp(min=_SMALL)
    b = 0.931 + 2.53 * torch.sqrt(large)
    a = -0.059 + 0.02483 * b
    inverse = 1.1239 + 1.1328 / (b - 3.4)
    squeeze = 0.9277 - 3.6224 / (b - 2)
    size = (_COUNT_PROPOSALS, *mean.shape)
    u, v = uniform(draw, size, mean.dtype) - 0.5, 1 - uniform(draw, size, mean.dtype)
    us = 0.5 - u.abs() + torch.finfo(mean.dtype).tiny
    k = torch.floor((2 * a / us + b) * u + large + 0.43)
    count = k.clamp(min=0.0)
    gap = (large - count - 1) / (count + 1)
    log_p = (
        (count + 0.5) * (torch.log1p(gap) - gap) - 0.5 * gap - 0.5 * torch.log(2 * math.pi * large) - _stirling(count)
    )
    bound = torch.log(v * inverse / (a / (us * us) + b))
    accepted = (k >= 0) & (((us >= 0.07) & (v <= squeeze)) | (((us >= 0.013) | (v <= us)) & (bound <= log_p)))
    return torch.where(mean < _SMALL, few, _first(accepted, count)).to(self.dtype)


def binomial(draw: Draw, count: Tensor, prob: Tensor) -> Tensor:
    """Large means by Hoermann's transformed rejection (BTRS, 1993), of the rarer of the two outcomes."""
    count, prob = torch.broadcast_tensors(count, prob)
    kind = _wide(count.dtype)
    n, p = count.to(kind), prob.to(kind)
    rare = torch.minimum(p, 1 - p).clamp(min=0.0)
    many = n * rare >= _SMALL
    odds = rare / (1 - rare)
    few = _inverted(
        1 - uniform(draw, n.shape, kind),
        torch.exp(n * torch.log1p(-rare)),
        lambda p, k: p * ((n - k).clamp(min=0) / (k + 1) * odds),
    )
    few = torch.minimum(few, n.clamp(min=0))
    found = torch.where(many, _many(draw, torch.where(many, n, 40.0), torch.where(many, rare, 0.5)), few)
    found = torch.where(p > 0.5, n - found, found)
    found = torch.where((n <= 0) | (p <= 0), 0.0, torch.where(p >= 1, n, found))
    return torch.where(n.isnan() | p.isnan(), math.nan, found).to(count.dtype)


def _many(draw: Draw, n: Tensor, q: Tensor) -> Tensor:
    spread = torch.sqrt(n * q * (1 - q))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * q
    alpha = (2.83 + 5.1 / b) * spread
    squeeze = 0.92 - 4.2 / b
    odds, mode = q / (1 - q), torch.floor((n + 1) * q)
    size = (_COUNT_PROPOSALS, *n.shape)
    u, v = uniform(draw, size, n.dtype) - 0.5, 1 - uniform(draw, size, n.dtype)
    us = 0.5 - u.abs() + torch.finfo(n.dtype).tiny
    k = torch.floor((2 * a / us + b) * u + n * q + 0.5)
    possible = (k >= 0) & (k <= n)
    k = torch.minimum(k.clamp(min=0.0), n)
    gap = mode - k
    log_ratio = (mode + 0.5) * torch.log1p(gap / (k + 1)) + (n - mode + 0.5) * torch.log1p(-gap / (n - k + 1))
    log_ratio = log_ratio - gap * torch.log(odds * ((n - k + 1) / (k + 1)))
    log_ratio = log_ratio + _stirling(mode) + _stirling(n - mode) - _stirling(k) - _stirling(n - k)
    accepted = ((us >= 0.07) & (v <= squeeze)) | (torch.log(v * alpha / (a / (us * us) + b)) <= log_ratio)
    return _first(possible & accepted, k)
