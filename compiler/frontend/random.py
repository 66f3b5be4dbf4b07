"""Random operators as deterministic ones on random bits.

The distributions are PyTorch's, with the same number of random bits in a result where that shows (24 in a uniform f32); the
streams are not: eager draws from a Mersenne Twister, a compiled program from the counter-based generator of
`compiler.random_bits`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._decomp import decomposition_table
from torch._ops import OpOverload

import compiler.random_bits  # registers the operator  # noqa: F401
from compiler.errors import UnsupportedError
from compiler.frontend.draws import DIGITS, Draw, integers, normal, uniform
from compiler.frontend.rejection import binomial, poisson, sample_dirichlet, standard_gamma
from compiler.frontend.schemas import facts
from compiler.torch_types import overload

if TYPE_CHECKING:
    from compiler.frontend.importer import Importer

Rule = Callable[..., torch.Tensor | tuple[torch.Tensor, ...]]
"""A random operator in terms of others: takes a Draw, then the operator's own arguments."""


def implementation(op: OpOverload, stream: torch.Tensor | None, generator: Any = None) -> Callable[..., Any]:
    """What computes a random operator by simpler ones, with bits from the program's own stream."""
    if generator is not None:
        raise UnsupportedError(
            f"{op} draws from a generator that is passed in", hint="leave it to the program's own stream"
        )

    def draw(size: Sequence[int]) -> torch.Tensor:
        return torch.ops.fx2hlo.random_bits.default(stream, list(size))

    twin = facts(op).twin if op._schema.is_mutable and any(a.is_out for a in op._schema.arguments) else None
    if twin is not None:
        pure = overload(twin.target)
        return lambda *args, out, **kwargs: out.copy_(pure(*args, **kwargs))
    rule = _RULES.get(op)
    if rule is not None:
        return lambda *args, generator=None, **kwargs: rule(draw, *args, **kwargs)
    if op.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeExplicitAutograd):
        return lambda *args, **kwargs: op._op_dk(torch._C.DispatchKey.CompositeExplicitAutograd, *args, **kwargs)
    found = decomposition_table.get(op)
    if found is None:
        raise UnsupportedError(f"{op} draws from a distribution that has no form in random bits",
                               hint="pass the random tensor as an input")  # fmt: skip
    return found


def import_saved_draw(importer: Importer, op: OpOverload, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """The stream's state before a draw, and the draw: a backward part that computes activations again replays it."""
    return importer.call(_saved, (importer.expander.stream,)), importer.call(op, args, **kwargs)


def import_replayed_draw(importer: Importer, state: Any, op: OpOverload, *args: Any, **kwargs: Any) -> Any:
    """A draw that starts at a saved state, and leaves the program's own stream alone."""
    with importer.expander.drawing_from(importer.call(_saved, (state,))):
        return importer.call(op, args, **kwargs)


def _saved(state: torch.Tensor) -> torch.Tensor:
    return state.clone()


def untagged(op: OpOverload) -> bool:
    """Whether an operator draws although its tags do not say so, or is made of others even where it does not draw."""
    return op.overloadpacket in _UNTAGGED


def uniform_(draw: Draw, self: torch.Tensor, low: float = 0.0, high: float = 1.0) -> torch.Tensor:
    """Types of 16 bits take an f32 that lies half a step of the interval's end lower, so that none rounds up to `high`."""
    if self.dtype not in (torch.float16, torch.bfloat16):
        return self.copy_(uniform(draw, self.shape, self.dtype) * (high - low) + low)
    largest = max(abs(low), abs(high))
    step = 2.0 ** (math.ceil(math.log2(largest)) - DIGITS[self.dtype]) if largest else 0.0
    fine = uniform(draw, self.shape, torch.float32) * (high - low) + low
    return self.copy_((fine - step / 2).clamp_min(low))


def normal_(draw: Draw, self: torch.Tensor, mean: float = 0.0, std: float = 1.0) -> torch.Tensor:
    return self.copy_(normal(draw, self.shape, self.dtype) * std + mean)


def normal_of_tensors(draw: Draw, mean: torch.Tensor | float, std: torch.Tensor) -> torch.Tensor:
    """Contiguous, and of the type of the mean where that is a tensor."""
    like = mean if isinstance(mean, torch.Tensor) else std
    shape = torch.broadcast_shapes(like.shape, std.shape)
    return (normal(draw, shape, like.dtype) * std + mean).to(like.dtype).contiguous()


def random_(draw: Draw, self: torch.Tensor) -> torch.Tensor:
    """All non-negative integers of an integer type, or those that a floating-point type holds exactly."""
    if self.dtype.is_floating_point:
        high = (1 << DIGITS[self.dtype]) + 1
    else:
        high = 2 if self.dtype is torch.bool else torch.iinfo(self.dtype).max + 1
    return self.copy_(integers(draw, self.shape, 0, high))


def random_to_(draw: Draw, self: torch.Tensor, to: int) -> torch.Tensor:
    return self.copy_(integers(draw, self.shape, 0, to))


def random_from_(draw: Draw, self: torch.Tensor, low: int, to: int | None) -> torch.Tensor:
    if to is None:
        to = (1 << DIGITS[self.dtype]) + 1 if self.dtype.is_floating_point else torch.iinfo(self.dtype).max + 1
    return self.copy_(integers(draw, self.shape, low, to))


def bernoulli_(draw: Draw, self: torch.Tensor, p: float | torch.Tensor = 0.5) -> torch.Tensor:
    dtype = torch.float64 if isinstance(p, torch.Tensor) and p.dtype is torch.float64 else torch.float32
    return self.copy_(uniform(draw, self.shape, dtype) < p)


def bernoulli_p(draw: Draw, self: torch.Tensor, p: float) -> torch.Tensor:
    return bernoulli_(draw, torch.empty_like(self), p)


def native_dropout(draw: Draw, self: torch.Tensor, p: float, train: bool | None) -> tuple[torch.Tensor, torch.Tensor]:
    """The result and what was kept of it; without training a copy."""
    kept = torch.ones_like(self, dtype=torch.bool)
    if train is False or not self.numel():
        return (self.clone() if self.numel() else self), kept
    bernoulli_(draw, kept, 1 - p)
    return self * kept * (1 / (1 - p) if p < 1 else 0.0), kept


def geometric_(draw: Draw, self: torch.Tensor, p: float) -> torch.Tensor:
    """How many trials it takes: by inversion."""
    dtype = torch.float32 if self.dtype in (torch.float32, torch.float16, torch.bfloat16) else torch.float64
    return self.copy_(torch.floor(torch.log1p(-uniform(draw, self.shape, dtype)) / math.log1p(-p)) + 1)


def randperm(draw: Draw, n: int, *, dtype: torch.dtype | None = None, **_: Any) -> torch.Tensor:
    """The order of random keys: equal ones, which would favour one order, are rarer than 1 in 2^63 / n^2."""
    return torch.argsort(draw((n,)), stable=True).to(dtype or torch.int64)


def multinomial(draw: Draw, self: torch.Tensor, num_samples: int, replacement: bool = False) -> torch.Tensor:
    """With replacement by inversion of the cumulative sum; without, the largest of p / e for exponential e, which has
    the distribution of drawing one after the other."""
    weights = self if self.dtype in (torch.float32, torch.float64) else self.to(torch.float32)
    if replacement:
        sums = weights.cumsum(-1)
        places = uniform(draw, (*self.shape[:-1], num_samples), weights.dtype) * sums[..., -1:]
        return torch.searchsorted(sums, places, right=True).clamp_max(self.shape[-1] - 1)
    waits = -torch.log1p(-uniform(draw, self.shape, weights.dtype)) + torch.finfo(weights.dtype).tiny
    return torch.topk(weights / waits, num_samples, dim=-1)[1]


def rrelu_with_noise(
    draw: Draw,
    self: torch.Tensor,
    noise: torch.Tensor,
    lower: float = 0.125,
    upper: float = 1 / 3,
    training: bool = False,
) -> torch.Tensor:
    """Where an element is not positive it is scaled by a uniform number, which `noise` keeps; by their mean in evaluation."""
    if not training:
        return torch.ops.aten.leaky_relu.default(self, (lower + upper) / 2)
    slopes = uniform(draw, self.shape, self.dtype) * (upper - lower) + lower
    noise.copy_(torch.where(self <= 0, slopes, torch.ones_like(self)))
    return self * noise


def rrelu_with_noise_functional(
    draw: Draw, self: torch.Tensor, noise: torch.Tensor, *args: Any, **kwargs: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """The noise is a result, and the operand stays as it is."""
    kept = noise.clone()
    return rrelu_with_noise(draw, self, kept, *args, **kwargs), kept


def rrelu_with_noise_(draw: Draw, self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    return self.copy_(rrelu_with_noise(draw, self, *args, **kwargs))


_ATEN = torch.ops.aten
_UNTAGGED = frozenset(
    {_ATEN.random_, _ATEN.rrelu_with_noise, _ATEN.rrelu_with_noise_, _ATEN.rrelu_with_noise_functional}
    | {_ATEN.native_dropout}
)
_RULES: dict[OpOverload, Rule] = {
    _ATEN.uniform_.default: uniform_,
    _ATEN.normal_.default: normal_,
    _ATEN.normal.float_Tensor: normal_of_tensors,
    _ATEN.normal.Tensor_Tensor: normal_of_tensors,
    _ATEN.random_.default: random_,
    _ATEN.random_.to: random_to_,
    getattr(_ATEN.random_, "from"): random_from_,
    _ATEN.bernoulli_.float: bernoulli_,
    _ATEN.bernoulli_.Tensor: bernoulli_,
    _ATEN.bernoulli.p: bernoulli_p,
    _ATEN.native_dropout.default: native_dropout,
    _ATEN.geometric_.default: geometric_,
    _ATEN.randperm.default: randperm,
    _ATEN.multinomial.default: multinomial,
    _ATEN.rrelu_with_noise.default: rrelu_with_noise,
    _ATEN.rrelu_with_noise_functional.default: rrelu_with_noise_functional,
    _ATEN.rrelu_with_noise_.default: rrelu_with_noise_,
    _ATEN.poisson.default: poisson,
    _ATEN.binomial.default: binomial,
    _ATEN._standard_gamma.default: standard_gamma,
    _ATEN._sample_dirichlet.default: sample_dirichlet,
}
"""Overloads that PyTorch does not express by other random ones."""
