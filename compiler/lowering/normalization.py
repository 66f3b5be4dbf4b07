"""Softmax and the normalisation layers, with statistics in f32 for the 16-bit floats."""

from __future__ import annotations

from collections.abc import Sequence

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from compiler.lowering.builder import Builder
from compiler.lowering.elementwise import like
from compiler.lowering.promotion import finish, wide
from compiler.lowering.reductions import add_up, average, count, greatest, peak, variance
from compiler.lowering.registry import Call, lowering


def _along(b: Builder, value: ir.Value, element: str, shape: tuple[int, ...], dims: Sequence[int]) -> ir.Value:
    """`value`, whose dimensions are `dims` of `shape`, repeated over the others."""
    value = b.convert(value, element)
    return b.broadcast(b.reshape(value, tuple(s if i in dims else 1 for i, s in enumerate(shape))), shape)


def _affine(b: Builder, x: ir.Value, weight: ir.Value | None, bias: ir.Value | None, dims: Sequence[int]) -> ir.Value:
    element, shape = b.element(x), b.shape(x)
    if weight is not None:
        x = hlo.multiply(x, _along(b, weight, element, shape, dims))
    return hlo.add(x, _along(b, bias, element, shape, dims)) if bias is not None else x


def _standardise(b: Builder, x: ir.Value, mean: ir.Value, rstd: ir.Value) -> ir.Value:
    return hlo.multiply(hlo.subtract(x, b.broadcast(mean, b.shape(x))), b.broadcast(rstd, b.shape(x)))


def _reciprocal_root(b: Builder, spread: ir.Value, eps: float) -> ir.Value:
    return hlo.rsqrt(hlo.add(spread, like(b, eps, spread)))


def _stored(b: Builder, call: Call, value: ir.Value, result: int) -> ir.Value:
    """A statistic in the type and shape the call stores it in."""
    element, shape = call.types[result]
    return b.reshape(b.convert(value, element), shape)


# -- softmax -----------------------------------------------------------------------------------


def softmax_of(b: Builder, x: ir.Value, dim: int, top: ir.Value | None = None) -> tuple[ir.Value, ir.Value, ir.Value]:
    """exp(x - max), its sum, and x - max; the sum's dimension is kept. `top` is the maximum where it is known."""
    shifted = hlo.subtract(x, b.broadcast(peak(b, x, (dim,)) if top is None else top, b.shape(x)))
    powers = hlo.exponential(shifted)
    return powers, add_up(b, powers, (dim,), keep=True), shifted


def _softmax_operand(b: Builder, call: Call) -> tuple[ir.Value, int]:
    x = call.args[0]
    if not b.shape(x):
        x = b.reshape(x, (1,))
    return b.convert(x, wide(call.types[0][0])), call.args[1] % len(b.shape(x))


@lowering("aten._softmax.default", "aten.softmax.int")
def softmax(b: Builder, call: Call) -> ir.Value:
    x, dim = _softmax_operand(b, call)
    powers, total, _ = softmax_of(b, x, dim)
    return _stored(b, call, hlo.divide(powers, b.broadcast(total, b.shape(x))), 0)


@lowering("aten._safe_softmax.default")
def safe_softmax(b: Builder, call: Call) -> ir.Value:
    """Softmax that is zero where every element is -inf."""
    x, dim = _softmax_operand(b, call)
    return _stored(b, call, masked_softmax(b, x, dim), 0)


def masked_softmax(b: Builder, x: ir.Value, dim: int) -> ir.Value:
    top = greatest(b, x, (dim,), keep=True)
    empty = b.broadcast(b.compare("EQ", top, like(b, float("-inf"), top)), b.shape(x))
    powers, total, _ = softmax_of(b, x, dim, top)
    return hlo.select(empty, like(b, 0, x), hlo.divide(powers, b.broadcast(total, b.shape(x))))


@lowering("aten._log_softmax.default", "aten.log_softmax.int")
def log_softmax(b: Builder, call: Call) -> ir.Value:
    x, dim = _softmax_operand(b, call)
    _, total, shifted = softmax_of(b, x, dim)
    return _stored(b, call, hlo.subtract(shifted, b.broadcast(hlo.log(total), b.shape(x))), 0)


# -- layer and group norm ----------------------------------------------------------------------


@lowering("aten.native_layer_norm.default")
def layer_norm(b: Builder, call: Call) -> list[ir.Value]:
    x, normalized, weight, bias, eps = call.args
    rank = len(b.shape(x))
    dims = tuple(range(rank - len(normalized), rank))
    x = b.convert(x, wide(b.element(x)))
    spread, mean = variance(b, x, dims, 0, keep=True)
    rstd = _reciprocal_root(b, spread, eps)
    out = _affine(b, _standardise(b, x, mean, rstd), weight, bias, dims)
    return [finish(b, call, out), _stored(b, call, mean, 1), _stored(b, call, rstd, 2)]


@lowering("aten._fused_rms_norm.default")
def rms_norm(b: Builder, call: Call) -> list[ir.Value]:
    x, normalized, weight, eps = call.args[0], call.args[1], call.arg(2, "weight"), call.arg(3, "eps")
    rank = len(b.shape(x))
    dims = tuple(range(rank - len(normalized), rank))
    if eps is None:
        eps = {"f64": 2.220446049250313e-16}.get(b.element(x), 1.1920928955078125e-07)
    x = b.convert(x, wide(b.element(x)))
    rstd = _reciprocal_root(b, average(b, hlo.multiply(x, x), dims, keep=True), eps)
    out = _affine(b, hlo.multiply(x, b.broadcast(rstd, b.shape(x))), weight, None, dims)
    return [finish(b, call, out), _stored(b, call, rstd, 1)]


@lowering("aten.native_group_norm.default")
def group_norm(b: Builder, call: Call) -> list[ir.Value]:
    x, weight, bias, batch, channels, inner, groups, eps = call.args
    shape = b.shape(x)
    grouped = b.reshape(b.convert(x, wide(b.element(x))), (batch, groups, channels // groups, inner))
    spread, mean = variance(b, grouped, (2, 3), 0, keep=True)
    rstd = _reciprocal_root(b, spread, eps)
    out = _affine(b, b.reshape(_standardise(b, grouped, mean, rstd), shape), weight, bias, (1,))
    return [finish(b, call, out), _stored(b, call, mean, 1), _stored(b, call, rstd, 2)]


# -- batch norm --------------------------------------------------------------------------------


def _batch_norm(
    b: Builder, call: Call, weight: ir.Value | None, bias: ir.Value | None,
    running: tuple[ir.Value, ir.Value] | None, training: bool, momentum: float, eps: float,
) -> list[ir.Value]:  # fmt: skip
    """Output, saved mean and 1/std, and with running statistics and training their new values.

    The running variance is updated with the unbiased variance of the batch, the output uses the biased one.
    """
    x = call.args[0]
    shape, element = b.shape(x), wide(b.element(x))
    x = b.convert(x, element)
    dims = tuple(i for i in range(len(shape)) if i != 1)
    if training:
        spread, mean = variance(b, x, dims, 0)
    else:
        assert running is not None
        mean, spread = (b.convert(r, element) for r in running)
    rstd = _reciprocal_root(b, spread, eps)
    centred = hlo.subtract(x, _along(b, mean, element, shape, (1,)))
    out = _affine(b, hlo.multiply(centred, _along(b, rstd, element, shape, (1,))), weight, bias, (1,))
    results = [finish(b, call, out)]
    for statistic, (kind, size) in zip((mean, rstd), call.types[1:3], strict=True):
        results.append(b.convert(statistic, kind) if size == b.shape(statistic) else b.splat(0, kind, size))
    if running is None or len(call.types) == 3:
        return results
    if not training:
        return [*results, *running]
    number = count(b, x, dims)
    unbiased = hlo.multiply(spread, like(b, number / max(number - 1, 1), spread))
    for old, new in zip(running, (mean, unbiased), strict=True):
        kept = hlo.multiply(b.convert(old, element), like(b, 1 - momentum, new))
        results.append(b.convert(hlo.add(kept, hlo.multiply(new, like(b, momentum, new))), b.element(old)))
    return results


@lowering("aten._native_batch_norm_legit_functional.default")
def batch_norm_functional(b: Builder, call: Call) -> list[ir.Value]:
    _, weight, bias, mean, var, training, momentum, eps = call.args
    return _batch_norm(b, call, weight, bias, (mean, var), training, momentum, eps)


@lowering("aten._native_batch_norm_legit.no_stats")
def batch_norm_no_stats(b: Builder, call: Call) -> list[ir.Value]:
    _, weight, bias, training, momentum, eps = call.args
    return _batch_norm(b, call, weight, bias, None, training, momentum, eps)


@lowering("aten._native_batch_norm_legit_no_training.default")
def batch_norm_no_training(b: Builder, call: Call) -> list[ir.Value]:
    _, weight, bias, mean, var, momentum, eps = call.args
    return _batch_norm(b, call, weight, bias, (mean, var), False, momentum, eps)


@lowering("aten.native_batch_norm.default")
def batch_norm(b: Builder, call: Call) -> list[ir.Value]:
    """As a value: without running statistics, or reading them; what a training call writes to them is its twin's."""
    _, weight, bias, mean, var, training, momentum, eps = call.args
    running = None if mean is None else (mean, var)
    return _batch_norm(b, call, weight, bias, running, training, momentum, eps)


@lowering("aten._batch_norm_with_update_functional.default")
def batch_norm_with_update(b: Builder, call: Call) -> list[ir.Value]:
    """In training; nothing is kept in reserve for the backward pass."""
    _, weight, bias, mean, var, momentum, eps = call.args
    found = _batch_norm(b, call, weight, bias, (mean, var), True, momentum, eps)
    return [*found[:3], b.splat(0, *call.types[3]), *found[3:]]
