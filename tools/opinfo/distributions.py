"""Whether what a random sample draws has eager's distribution: form, sharing, repeatable by seed, and the same law.

Streams differ from eager's, so draws are compared, not numbers. Both sides run `RUNS` times. What eager leaves the same each
time has to be the same; every element of the rest, and the mean, spread, least and greatest of each run, have to pass a
two-sample test of Kolmogorov and Smirnov. The statistics of a run see what single elements do not: dependent elements, and
small errors of scale. A set of values that eager draws from again and again has to hold all that is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from tools.opinfo.judge import TOLERANCE, Call, Seen, compare, product, same_bits

RUNS = 256
DOUBT = 1e-9
"""How rarely a test may fail by chance: a full run makes some hundred thousand of them."""

OFTEN = 24
"""Where eager draws each of its values so often, there are no others."""

BOUNDS: dict[str, tuple[float, float]] = {
    "exponential": (0.0, math.inf),
    "geometric": (1.0, math.inf),
    "log_normal": (0.0, math.inf),
    "aten.rand.default": (0.0, 1.0),
}
"""Half-open intervals that no draw may leave."""

LOW_RANK = frozenset({"svd_lowrank", "pca_lowrank"})
"""Entries that give factors, unique up to signs: compared by their product and by the singular values."""


def compare_draws(
    call: Call, eager: Callable[[int], Seen], compiled: Callable[[int], Seen], before: Sequence[torch.Tensor]
) -> tuple[str, str]:
    """The kind of verdict and its reason. `eager(seed)` and `compiled(seed)` start a stream; seed -1 goes on with it."""
    first, again = compiled(3), compiled(3)
    if any(not same_bits(a, b) for a, b in zip(_all(first), _all(again), strict=True)):
        return "wrong", "one seed gives two results"
    mine = [eager(0), *(eager(-1) for _ in range(RUNS - 1))]
    theirs = [compiled(0), *(compiled(-1) for _ in range(RUNS - 1))]
    if call.entry in LOW_RANK and len(mine[0].outputs) == 3:
        mine, theirs = ([replace(s, outputs=_product(s.outputs)) for s in seen] for seen in (mine, theirs))
    drawn = [any(not same_bits(_all(m)[k], _all(mine[0])[k]) for m in mine) for k in range(len(_all(mine[0])))]
    if len(_all(theirs[0])) != len(drawn):
        return "wrong", "another number of results"
    for k, (a, b) in enumerate(zip(_all(mine[0]), _all(theirs[0]), strict=True)):
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return "wrong", f"{b.dtype}{list(b.shape)} instead of {a.dtype}{list(a.shape)}"
        if drawn[k]:
            rows, others = (torch.stack([_numbers(_all(seen)[k]) for seen in runs]) for runs in (mine, theirs))
            why = _differ(call.entry, rows, others, TOLERANCE.get(a.dtype, (0.0, 0.0))[0])
            if why:
                return "wrong", why
    # What is left is compared as always, with eager's draws in place of the compiled ones.
    outputs = len(mine[0].outputs)
    mixed = [a if d else b for a, b, d in zip(_all(mine[0]), _all(theirs[0]), drawn, strict=True)]
    return compare(call, mine[0], replace(theirs[0], outputs=mixed[:outputs], arguments=mixed[outputs:]), before)


def _all(seen: Seen) -> list[torch.Tensor]:
    return [*seen.outputs, *seen.arguments]


def _product(factors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    u, s, v = factors
    return [product(u, s, v.mH), s]


def _numbers(tensor: torch.Tensor) -> torch.Tensor:
    """The elements as one row of f64; NaN, which has no place in an order, as infinity."""
    tensor = torch.view_as_real(tensor.resolve_conj()) if tensor.dtype.is_complex else tensor
    return tensor.reshape(-1).to(torch.float64).nan_to_num(nan=math.inf, posinf=math.inf, neginf=-math.inf)


def _differ(entry: str, mine: torch.Tensor, theirs: torch.Tensor, close: float) -> str:
    """Why two samples of a row of random numbers, one row a run, are of different laws, or ""."""
    low, high = BOUNDS.get(entry, (-math.inf, math.inf))
    if not bool(((theirs >= low) & ((theirs < high) | (high == math.inf))).all()):
        return f"a draw outside [{low:g}, {high:g})"
    values, counts = mine.unique(return_counts=True)
    if bool((counts >= OFTEN).all()):
        found = theirs.reshape(-1)
        place = torch.searchsorted(values, found)
        near = [values[(place - k).clamp(0, len(values) - 1)] for k in (0, 1)]
        known = torch.stack([(found == v) | ((found - v).abs() <= 1e-2 * found.abs()) for v in near]).any(0)
        if not bool(known.all()):
            return f"{float(found[int((~known).int().argmax())]):g} is none of eager's values"
    rows = [_statistics(runs) for runs in (mine, theirs)]
    gap, where = _distance(rows[0], rows[1], close).max(0)
    if float(gap) > math.sqrt(-math.log(DOUBT / 2) / len(mine)):
        numbers = [float(r[:, where].nan_to_num(posinf=0.0, neginf=0.0).mean()) for r in rows]
        return f"another distribution: the greatest gap of two is {float(gap):.2f}, with means {numbers[1]:g} and {numbers[0]:g}"
    return ""


def _statistics(runs: torch.Tensor) -> torch.Tensor:
    finite = runs.nan_to_num(posinf=0.0, neginf=0.0)
    spread = finite.std(1) if runs.shape[1] > 1 else finite[:, 0]
    return torch.cat([runs, torch.stack([finite.mean(1), spread, finite.amin(1), finite.amax(1)], 1)], 1)


def _distance(first: torch.Tensor, second: torch.Tensor, close: float) -> torch.Tensor:
    """The greatest difference of two empirical distribution functions, for each column, where values that are `close`,
    relative to themselves or as the rounding of the greatest, are the same."""
    a, b = (x.T.contiguous().sort(1).values for x in (first, second))
    places = torch.cat([a, b], 1)
    finite = places.nan_to_num(posinf=0.0, neginf=0.0)
    slack = close * finite.abs().clamp_min(1e-2 * float(finite.abs().max()))
    low, high = places - slack, places + slack

    def below(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return torch.searchsorted(x, at.contiguous(), right=True) / x.shape[1]

    return torch.maximum(below(a, low) - below(b, high), below(b, low) - below(a, high)).clamp_min(0).amax(1)
