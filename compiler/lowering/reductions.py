"""Reductions: 16-bit floats accumulate in f32, integers in the result's type, and NaN wins every comparison."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from compiler.lowering.builder import Builder
from compiler.lowering.elementwise import absolute, divide, is_nan, kind, like
from compiler.lowering.origins import origin
from compiler.lowering.promotion import category, wide
from compiler.lowering.reassociation import apart
from compiler.lowering.registry import Call, lowering
from compiler.lowering.wrapping import wrapping


def lowest(element: str) -> float:
    """The neutral element of maximum."""
    if category(element) == 2:
        return -math.inf
    if element == "i1" or element[0] == "u":
        return 0
    return -(1 << (int(element[1:]) - 1))


def highest(element: str) -> float:
    """The neutral element of minimum."""
    if category(element) == 2:
        return math.inf
    if element == "i1":
        return 1
    return (1 << int(element.lstrip("ui"))) - 1 if element[0] == "u" else (1 << (int(element[1:]) - 1)) - 1


def axes(dim: Any, rank: int) -> tuple[int, ...]:
    """The dimensions an argument `dim` names: none and the empty list are all of them."""
    if dim is None or (isinstance(dim, Sequence) and not dim):
        return tuple(range(rank))
    return tuple(sorted({d % rank for d in (dim if isinstance(dim, Sequence) else (dim,))})) if rank else ()


def fold(
    b: Builder, x: ir.Value, initial: float, dims: Sequence[int], body: Callable[..., ir.Value], keep: bool = False
) -> ir.Value:
    """Reduce one value over `dims`; with `keep` they stay, with size 1."""
    if dims:
        (y,) = b.reduce([x], [b.splat(initial, b.element(x))], dims, body)
    else:
        y = x
    return b.reshape(y, tuple(1 if i in dims else s for i, s in enumerate(b.shape(x)))) if keep else y


def add_up(b: Builder, x: ir.Value, dims: Sequence[int], keep: bool = False) -> ir.Value:
    """The sum, which starts with 0: of -0 it is 0. XLA forgets the 0 of a sum over one element, which it takes for a reshape, of
    parts put together, which it adds up by themselves, and of an element repeated, which it multiplies."""
    total = fold(b, x, 0, dims, lambda a, e: hlo.add(a, e), keep)
    made = origin(x, _ARRANGEMENTS)
    starts_elsewhere = all(b.shape(x)[d] == 1 for d in dims) or (made is not None and made.name in _COMPOSED)
    return b.plus(total, like(b, 0, total)) if starts_elsewhere else total


_ARRANGEMENTS = frozenset({"stablehlo.convert", "stablehlo.reshape", "stablehlo.slice", "stablehlo.transpose"})
_COMPOSED = frozenset({"stablehlo.broadcast_in_dim", "stablehlo.concatenate", "stablehlo.constant", "stablehlo.pad"})


def _extreme(
    b: Builder, x: ir.Value, neutral: float, dims: Sequence[int], body: Callable[..., ir.Value], keep: bool
) -> ir.Value:
    """A reduction by `maximum` or `minimum`; NaN where there is one. XLA's CPU backend loses NaN among some thousand floats
    (jaxlib 0.10.2). Asking for it in a reduction of its own leaves both to vector instructions."""
    found = fold(b, x, neutral, dims, body, keep)
    if b.target != "xla" or kind(b, x) != 2:
        return found
    lost = fold(b, is_nan(b, x), 0, dims, lambda a, e: hlo.or_(a, e), keep)
    return hlo.select(lost, like(b, math.nan, found), found)


def greatest(b: Builder, x: ir.Value, dims: Sequence[int], keep: bool = False) -> ir.Value:
    """Largest element; NaN when there is one."""
    return _extreme(b, x, lowest(b.element(x)), dims, lambda a, e: hlo.maximum(a, e), keep)


def peak(b: Builder, x: ir.Value, dims: Sequence[int]) -> ir.Value:
    """The largest element, to be taken off in front of exponentials; `dims` stay, with size 1.

    NaN may be passed over: the sum of the exponentials is NaN then as well.
    """
    return fold(b, x, lowest(b.element(x)), dims, lambda a, e: hlo.maximum(a, e), keep=True)


def least(b: Builder, x: ir.Value, dims: Sequence[int], keep: bool = False) -> ir.Value:
    return _extreme(b, x, highest(b.element(x)), dims, lambda a, e: hlo.minimum(a, e), keep)


def count(b: Builder, x: ir.Value, dims: Sequence[int]) -> int:
    return math.prod(b.shape(x)[d] for d in dims)


def average(b: Builder, x: ir.Value, dims: Sequence[int], keep: bool = False) -> ir.Value:
    total = add_up(b, x, dims, keep)
    return divide(b, total, like(b, count(b, x, dims), total))


def variance(
    b: Builder, x: ir.Value, dims: Sequence[int], correction: float, keep: bool = False
) -> tuple[ir.Value, ir.Value]:
    """Two passes: the mean, then the mean square distance from it. Gives (variance, mean)."""
    mean = average(b, x, dims, keep=True)
    gap = hlo.subtract(x, b.broadcast(mean, b.shape(x)))
    square = (
        hlo.real(hlo.multiply(gap, hlo.complex(hlo.real(gap), hlo.negate(hlo.imag(gap)))))
        if kind(b, x) == 3
        else hlo.multiply(gap, gap)
    )
    total = add_up(b, square, dims, keep)
    spread = hlo.divide(total, like(b, max(count(b, x, dims) - correction, 0), total))
    return spread, mean if keep else b.reshape(mean, b.shape(spread))


# -- sums and products -------------------------------------------------------------------------


def _dims(b: Builder, call: Call, position: int = 1) -> tuple[int, ...]:
    return axes(call.arg(position, "dim"), len(b.shape(call.args[0])))


def _accumulated(b: Builder, call: Call) -> ir.Value:
    """The operand in the type its reduction accumulates in."""
    return b.convert(call.args[0], wide(call.types[0][0]))


def _shaped(b: Builder, call: Call, value: ir.Value, result: int = 0) -> ir.Value:
    """A reduced value as result number `result`: kept dimensions have size 1, so a reshape puts them back."""
    element, shape = call.types[result]
    return b.reshape(b.convert(value, element), shape)


@lowering("aten.sum.default", "aten.sum.dim_IntList")
def total(b: Builder, call: Call) -> ir.Value:
    return _shaped(b, call, add_up(b, _accumulated(b, call), _dims(b, call)))


@lowering("aten.nansum.default")
def nansum(b: Builder, call: Call) -> ir.Value:
    x = call.args[0]
    if kind(b, x) == 2:
        x = hlo.select(is_nan(b, x), like(b, 0, x), x)
    return _shaped(b, call, add_up(b, b.convert(x, wide(call.types[0][0])), _dims(b, call)))


@lowering("aten.mean.default", "aten.mean.dim")
def mean(b: Builder, call: Call) -> ir.Value:
    return _shaped(b, call, average(b, _accumulated(b, call), _dims(b, call)))


@lowering("aten.prod.default", "aten.prod.dim_int")
def product(b: Builder, call: Call) -> ir.Value:
    dims = _dims(b, call) if call.target.endswith("dim_int") else axes(None, len(b.shape(call.args[0])))
    return _shaped(b, call, wrapping(b, fold(b, _accumulated(b, call), 1, dims, lambda a, e: hlo.multiply(a, e))))


@lowering("aten.count_nonzero.default", "aten.count_nonzero.dim_IntList")
def count_nonzero(b: Builder, call: Call) -> ir.Value:
    return _shaped(b, call, add_up(b, b.convert(b.convert(call.args[0], "i1"), "i64"), _dims(b, call)))


# -- smallest, largest, truth ------------------------------------------------------------------


@lowering("aten.amax.default", "aten.max.default")
def amax(b: Builder, call: Call) -> ir.Value:
    return _shaped(b, call, greatest(b, call.args[0], _dims(b, call)))


@lowering("aten.amin.default", "aten.min.default")
def amin(b: Builder, call: Call) -> ir.Value:
    return _shaped(b, call, least(b, call.args[0], _dims(b, call)))


@lowering("aten.aminmax.default")
def aminmax(b: Builder, call: Call) -> list[ir.Value]:
    dims = axes(call.arg(9, "dim"), len(b.shape(call.args[0])))
    return [_shaped(b, call, least(b, call.args[0], dims)), _shaped(b, call, greatest(b, call.args[0], dims), 1)]


@lowering("aten.any.default", "aten.any.dim", "aten.any.dims")
def any_true(b: Builder, call: Call) -> ir.Value:
    return _shaped(b, call, fold(b, b.convert(call.args[0], "i1"), 0, _dims(b, call), lambda a, e: hlo.or_(a, e)))


@lowering("aten.all.default", "aten.all.dim", "aten.all.dims")
def all_true(b: Builder, call: Call) -> ir.Value:
    return _shaped(b, call, fold(b, b.convert(call.args[0], "i1"), 1, _dims(b, call), lambda a, e: hlo.and_(a, e)))


# -- spread ------------------------------------------------------------------------------------


def _correction(call: Call) -> float:
    """`correction` of the newer overloads, `unbiased` of the older ones; one by default."""
    if call.target.endswith("correction"):
        given = call.kwargs.get("correction")
        return 1 if given is None else given
    return int(call.arg(2 if call.target.endswith("dim") else 1, "unbiased", True))


def _moments(b: Builder, call: Call) -> tuple[ir.Value, ir.Value]:
    dims = axes(None, len(b.shape(call.args[0]))) if call.target.endswith("default") else _dims(b, call)
    return variance(b, b.convert(call.args[0], wide(b.element(call.args[0]))), dims, _correction(call))


@lowering("aten.var.correction", "aten.var.dim", "aten.var.default")
def var(b: Builder, call: Call) -> ir.Value:
    return _shaped(b, call, _moments(b, call)[0])


@lowering("aten.std.correction", "aten.std.dim", "aten.std.default")
def std(b: Builder, call: Call) -> ir.Value:
    return _shaped(b, call, hlo.sqrt(_moments(b, call)[0]))


@lowering("aten.var_mean.correction", "aten.var_mean.dim", "aten.var_mean.default")
def var_mean(b: Builder, call: Call) -> list[ir.Value]:
    spread, mean = _moments(b, call)
    return [_shaped(b, call, spread), _shaped(b, call, mean, 1)]


@lowering("aten.std_mean.correction", "aten.std_mean.dim", "aten.std_mean.default")
def std_mean(b: Builder, call: Call) -> list[ir.Value]:
    spread, mean = _moments(b, call)
    return [_shaped(b, call, hlo.sqrt(spread)), _shaped(b, call, mean, 1)]


# -- norms -------------------------------------------------------------------------------------


def _norm(b: Builder, call: Call, order: float, dims: Sequence[int]) -> ir.Value:
    x = call.args[0]
    x = absolute(b, b.convert(x, wide(call.types[0][0])) if kind(b, x) < 3 else x)
    if order == math.inf:
        return _shaped(b, call, greatest(b, x, dims))
    if order == -math.inf:
        return _shaped(b, call, least(b, x, dims))
    if order == 0:
        return _shaped(b, call, add_up(b, b.convert(b.convert(x, "i1"), b.element(x)), dims))
    if count(b, x, dims) == 1:
        return _shaped(b, call, x)
    if order == 1:
        return _shaped(b, call, add_up(b, x, dims))
    if order == 2:
        return _shaped(b, call, hlo.sqrt(apart(b, add_up(b, hlo.multiply(x, x), dims))))
    powers = apart(b, add_up(b, hlo.power(x, like(b, order, x)), dims))
    return _shaped(b, call, hlo.power(powers, like(b, 1 / order, powers)))


@lowering("aten.linalg_vector_norm.default")
def vector_norm(b: Builder, call: Call) -> ir.Value:
    return _norm(b, call, call.arg(1, "ord", 2), _dims(b, call, 2))


@lowering("aten.norm.Scalar", "aten.norm.ScalarOpt_dim", "aten.norm.ScalarOpt_dim_dtype", "aten.norm.ScalarOpt_dtype")
def norm(b: Builder, call: Call) -> ir.Value:
    order = call.arg(1, "p", 2)
    dims = _dims(b, call, 2) if "_dim" in call.target else axes(None, len(b.shape(call.args[0])))
    return _norm(b, call, 2 if order is None else order, dims)


@lowering("aten.logsumexp.default")
def logsumexp(b: Builder, call: Call) -> ir.Value:
    x, dims = _accumulated(b, call), _dims(b, call)
    top = peak(b, x, dims)
    finite = hlo.select(hlo.is_finite(top), top, like(b, 0, top))
    shifted = hlo.exponential(hlo.subtract(x, b.broadcast(finite, b.shape(x))))
    return _shaped(b, call, hlo.add(hlo.log(add_up(b, shifted, dims, keep=True)), finite))


@lowering("aten.hash_tensor.default")
def hash_tensor(b: Builder, call: Call) -> ir.Value:
    """The exclusive or of the elements as words of 64 bits: of f64, or of integers with their sign."""
    element = "f64" if category(b.element(call.args[0])) == 2 else "i64"
    words = hlo.bitcast_convert(b.tensor("ui64", b.shape(call.args[0])), b.convert(call.args[0], element))
    return _shaped(b, call, fold(b, words, 0, _dims(b, call), lambda a, e: hlo.xor(a, e)))
