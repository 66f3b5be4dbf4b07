"""Operators with several right answers give the one that compiled programs give, so that whatever depends on it is compared.

Equal elements keep their order, and memory that nobody wrote is zero. The factors of a matrix have no such rule: signs of
singular vectors and the order of eigenvalues are anybody's. What depends on them is what comes out differently when the
program runs with another right answer. Rounding is measured in the same way, as stochastic arithmetic does: where an operator
rounds, it reads operands that are up to an ulp off, and what it gives is an ulp off.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from compiler.frontend.schemas import draws_now, facts

USUAL = 0
"""The answer of compiled programs."""

OTHERS = (1, 2, 3, 4, 5)
"""More right answers: all signs are turned, then those of the columns whose number has a certain bit, for products of two."""

_ALLOCATING = frozenset({"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"})
_RESIZING = frozenset({"resize", "resize_", "resize_as", "resize_as_"})

Arguments = Mapping[str, Any]
Results = Sequence[torch.Tensor]


class Factored(NamedTuple):
    """A factorization that ran, by its name in ATen: what it was given, and what it gave."""

    name: str
    operands: tuple[torch.Tensor, ...]
    results: tuple[torch.Tensor, ...] = ()


class Answers(TorchDispatchMode):
    """Gives operators that run inside one of their right answers.

    Attributes:
        met: operators with several right answers that ran, in order.
        given: what these were given.
        noise: where an operator rounds, it reads elements that are up to an ulp off.
        chosen: factors to give to the factorizations, in order.
    """

    supports_higher_order_operators = True

    def __init__(
        self, number: int = USUAL, noise: torch.Generator | None = None, chosen: Sequence[Factored] = ()
    ) -> None:
        super().__init__()
        self.number, self.noise, self.chosen = number, noise, list(chosen)
        self.met: dict[str, None] = {}
        self.given: list[Factored] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if not isinstance(func, torch._ops.OpOverload):
            inside = pytree.tree_map_only(Callable, self._within, (tuple(args), dict(kwargs or {})))  # type: ignore[arg-type]
            return func(*inside[0], **inside[1])
        name = func._schema.name.removeprefix("aten::")
        if name in _RESIZING:
            return _resized(func, args, kwargs or {})
        rounds = self.noise is not None and _computes(func, args, kwargs or {})
        before = pytree.tree_map_only(torch.Tensor, torch.clone, (tuple(args), dict(kwargs or {}))) if rounds else None
        results = func(*args, **(kwargs or {}))
        if before is not None and self.noise is not None:
            _move_rounded(_made(results, func, args, kwargs or {}), func, before[0], before[1], self.noise)
        if name in _ALLOCATING:
            _clear(results.untyped_storage(), 0)
        elif name in _PLACES or name in _FACTORS:
            flat = (results,) if isinstance(results, torch.Tensor) else tuple(results)
            named = _named(func, args, kwargs or {})
            if name in _PLACES:
                chosen = _PLACES[name](named, flat)
            else:
                self.met[str(func)] = None
                operands = tuple(value for value in named.values() if isinstance(value, torch.Tensor))
                self.given.append(Factored(str(func), tuple(x.clone() for x in operands)))
                chosen = flat if self.number == USUAL else _FACTORS[name](named, flat, self.number)
                if len(self.given) <= len(self.chosen):
                    chosen = self.chosen[len(self.given) - 1].results
            for have, want in zip(flat, chosen, strict=True):
                if want is not have:
                    have.copy_(want)
        return results

    def _within(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A branch or a body of a higher-order operator, whose own operators are watched too."""

        def run(*args: Any) -> Any:
            with self:
                return function(*args)

        return run


def _resized(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    before = args[0].untyped_storage().nbytes()
    results = func(*args, **kwargs)
    _clear(results.untyped_storage(), before if results is args[0] else 0)
    return results


def _clear(storage: torch.UntypedStorage, start: int) -> None:
    """Memory that nobody wrote, from a byte on."""
    if storage.nbytes() > start:
        torch.empty(0, dtype=torch.uint8).set_(storage)[start:].zero_()


# -- rounding ------------------------------------------------------------------------------------


def _computes(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether what an operator of PyTorch's own makes or writes follows from its arguments alone."""
    schema, own = func._schema, func.namespace in ("aten", "prims")
    views = any(result.alias_info is not None and not result.alias_info.is_write for result in schema.returns)
    if not own or views or torch.Tag.inplace_view in func.tags:
        return False
    return torch.Tag.nondeterministic_seeded not in func.tags or not draws_now(
        facts(func), dict(_named(func, args, kwargs))
    )


def _made(results: Any, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What a call computed: its results and, of one that writes, the arguments that it has written."""
    if not func._schema.is_mutable:
        return results
    named = _named(func, args, kwargs)
    return [named.get(p.name) for p in func._schema.arguments if p.alias_info is not None and p.alias_info.is_write]


def _move_rounded(
    results: Any, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], generator: torch.Generator
) -> None:
    """Give elements of the results that rounding made what they are the value that follows from operands an ulp off,
    itself an ulp off. `args` and `kwargs` hold what the operator was given.

    What is exact stays: at a step, `x >= 0.5`, the smallest noise would be no small one.
    """

    def wide(x: torch.Tensor) -> torch.Tensor:
        return x.to(_WIDE[x.dtype], copy=True) if x.dtype in _WIDE else x.clone()

    def moved(x: torch.Tensor, whole: bool = False) -> torch.Tensor:
        """Elements up to an ulp off, or (`whole`) all of them an ulp off."""
        if x.dtype not in _WIDE:
            return x.clone()
        noise = torch.rand(x.shape, generator=generator, dtype=torch.float64) * 2 - 1
        noise = torch.where(noise < 0, -1.0, 1.0) if whole else noise
        return (x.to(_WIDE[x.dtype]) * (1 + torch.finfo(x.dtype).eps * noise)).to(x.dtype)

    def again(change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
        given, named = pytree.tree_map_only(torch.Tensor, change, (tuple(args), dict(kwargs)))
        return _made(func(*given, **named), func, given, named)

    try:
        exact, noisy = again(wide), again(moved)
    except Exception:  # no kernel for the wide type, or a check of the values: this one operator counts as exact
        return
    for have, want, other in zip(*map(pytree.tree_leaves, (results, exact, noisy)), strict=True):
        if isinstance(have, torch.Tensor) and have.dtype in _WIDE and have.shape == want.shape:
            short = _WIDE[have.dtype] == have.dtype  # nothing is wider: what fits into half of it was hardly rounded
            narrow = torch.complex64 if have.is_complex() else torch.float32
            rounded = have != (have.to(narrow).to(have.dtype) if short else want)
            have.copy_(torch.where(rounded, moved(other, whole=True), have))


_WIDE = {
    torch.float64: torch.float64, torch.float32: torch.float64, torch.float16: torch.float64, torch.bfloat16: torch.float64,
    torch.complex64: torch.complex128, torch.complex128: torch.complex128,
}  # fmt: skip


def _named(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Arguments:
    """The arguments of a call by their names in the schema, defaults included."""
    parameters = func._schema.arguments
    named = {p.name: p.default_value for p in parameters if p.has_default_value()}
    return {**named, **{p.name: value for p, value in zip(parameters, args, strict=False)}, **kwargs}


# -- order ---------------------------------------------------------------------------------------


def _order(x: torch.Tensor, dim: int, descending: bool) -> torch.Tensor:
    """The positions of a sorted row; equal elements keep their order."""
    return torch.sort(x, stable=True, dim=dim, descending=descending)[1]


def _sort(named: Arguments, results: Results) -> Results:
    if named.get("stable"):
        return results
    places = _order(named["self"], named["dim"], named["descending"])
    return (results[0], places) if len(results) == 2 else (places,)


def _topk(named: Arguments, results: Results) -> Results:
    x, dim = named["self"], named["dim"]
    if not x.dim():
        return results
    places = _order(x, dim, named["largest"]).narrow(dim, 0, named["k"])
    return x.gather(dim, places), places


def _picked(named: Arguments, results: Results, rank: torch.Tensor | int) -> Results:
    """The place of the element of one rank in sorted order."""
    x, dim = named["self"], named["dim"]
    shape = [1 if n == dim % x.dim() else size for n, size in enumerate(x.shape)]
    place = _order(x, dim, False).gather(dim, torch.as_tensor(rank).expand(shape))
    return results[0], place if named["keepdim"] else place.squeeze(dim)


def _kthvalue(named: Arguments, results: Results) -> Results:
    return _picked(named, results, named["k"] - 1) if named["self"].dim() else results


def _median(named: Arguments, results: Results) -> Results:
    x = named["self"]
    if len(results) == 1 or not x.dim():
        return results
    picked = _picked(named, results, (x.shape[named["dim"]] - 1) // 2)[1]
    return results[0], torch.where(results[0].isnan(), results[1], picked)  # a NaN is the answer whatever its rank is


def _nanmedian(named: Arguments, results: Results) -> Results:
    x = named["self"]
    if len(results) == 1 or not x.dim():
        return results
    count = (~x.isnan()).sum(named["dim"], keepdim=True)
    return _picked(named, results, ((count - 1) // 2).clamp(min=0))


def _mode(named: Arguments, results: Results) -> Results:
    """The last place of the most frequent value."""
    x, dim = named["self"], named["dim"]
    if not x.dim():
        return results
    value = results[0] if named["keepdim"] else results[0].unsqueeze(dim)
    same = (x == value).to(torch.int8)
    place = x.shape[dim] - 1 - same.flip(dim).argmax(dim, True)
    place = place if named["keepdim"] else place.squeeze(dim)
    return results[0], torch.where(results[0].isnan(), results[1], place)


_PLACES: dict[str, Callable[[Arguments, Results], Results]] = {
    "sort": _sort, "argsort": _sort, "topk": _topk, "kthvalue": _kthvalue, "median": _median, "nanmedian": _nanmedian,
    "mode": _mode,
}  # fmt: skip
"""Operator -> the answer by our rule, from its arguments and the answer PyTorch gave. No schema says that it has several."""


# -- factors -------------------------------------------------------------------------------------


def _turn(x: torch.Tensor, size: int, generator: torch.Generator) -> torch.Tensor:
    """A random orthogonal matrix of the element type of `x`."""
    noise = torch.randn(size, size, generator=generator, dtype=torch.float64).to(x.dtype)
    return torch.linalg.qr(noise)[0]


def _opposed(usual: torch.Tensor, other: torch.Tensor, number: int) -> torch.Tensor:
    """A factor for each column of `other`, which turns it against the usual one, if this answer turns that column."""
    along = (usual.conj() * other).real.sum(-2, keepdim=True)
    columns = torch.arange(usual.shape[-1])
    turned = torch.ones_like(columns, dtype=torch.bool) if number == 1 else (columns >> (number - 2)) & 1 != 0
    return torch.where((along > 0) == turned, -1, 1).to(usual.dtype)


def _svd(named: Arguments, results: Results, number: int) -> Results:
    """The matrix is turned on both sides, and the vectors are turned back: those of equal values come out mixed."""
    a = named["A"]
    if not named["compute_uv"] or not a.numel():
        return results
    generator = torch.Generator().manual_seed(number)
    left, right = _turn(a, a.shape[-2], generator), _turn(a, a.shape[-1], generator)
    u, _, vh = torch.ops.aten._linalg_svd.default(left @ a @ right, named["full_matrices"], True)
    u, v, count = left.mH @ u, right @ vh.mH, min(a.shape[-2:])
    pairs = _opposed(results[0][..., :count], u[..., :count], number)
    alone_u = _opposed(results[0][..., count:], u[..., count:], number)
    alone_v = _opposed(results[2].mH[..., count:], v[..., count:], number)
    u, v = u * torch.cat([pairs, alone_u], -1), v * torch.cat([pairs, alone_v], -1)
    return u, results[1], v.mH


def _eigh(named: Arguments, results: Results, number: int) -> Results:
    a = named["A"]
    if not named["compute_v"] or not a.numel():
        return results
    whole = a.tril() + a.tril(-1).mH if named["UPLO"].upper() == "L" else a.triu() + a.triu(1).mH
    turn = _turn(a, a.shape[-1], torch.Generator().manual_seed(number))
    vectors = turn.mH @ torch.ops.aten._linalg_eigh.default(turn @ whole @ turn.mH)[1]
    return results[0], vectors * _opposed(results[1], vectors, number)


def _eig(named: Arguments, results: Results, number: int) -> Results:
    """Eigenvalues of no order, and vectors of no phase."""
    if not results[0].numel():
        return results
    order = torch.arange(results[0].shape[-1]).roll(number)
    if len(results) == 1:
        return (results[0][..., order],)
    vectors = results[1] * _opposed(results[1], results[1], number)
    return results[0][..., order], vectors[..., order]


def _qr(named: Arguments, results: Results, number: int) -> Results:
    """The matrix is turned, and the columns are turned back: those that its rank leaves open come out different."""
    if not results[1].numel():
        return results
    a = named["A"]
    turn = _turn(a, a.shape[-2], torch.Generator().manual_seed(number))
    q, r = torch.linalg.qr(turn @ a, named["mode"])
    if not q.numel():
        return q, r * _opposed(results[1].mH, r.mH, number).mT
    q = turn.mH @ q
    factors = _opposed(results[0], q, number)
    return q * factors, r * factors.mT


def _geqrf(named: Arguments, results: Results, number: int) -> Results:
    """Reflections have no choice, but at columns that are zero up to rounding."""
    a = named["self"]
    noise = torch.randn(a.shape, generator=torch.Generator().manual_seed(number), dtype=torch.float64)
    return torch.geqrf(a + a.abs().amax() * torch.finfo(a.dtype).eps * noise.to(a.dtype))


_FACTORS: dict[str, Callable[[Arguments, Results, int], Results]] = {
    "_linalg_svd": _svd, "_linalg_eigh": _eigh, "linalg_eig": _eig, "_linalg_eigvals": _eig, "linalg_eigvals": _eig,
    "linalg_qr": _qr, "geqrf": _geqrf,
}  # fmt: skip
"""Operator -> another right answer, from its arguments, the answer PyTorch gave, and a number. No schema says that it has one."""


FACTORIZATIONS = frozenset(_FACTORS)
"""By their names in ATen."""


__all__ = ["FACTORIZATIONS", "OTHERS", "USUAL", "Answers", "Factored"]
