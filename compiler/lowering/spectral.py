"""Discrete Fourier transforms over any dimensions, three at a time, as `stablehlo.fft` wants them: at the end."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from compiler.lowering.builder import Builder
from compiler.lowering.elementwise import like
from compiler.lowering.promotion import finish
from compiler.lowering.registry import Call, lowering


def _transform(b: Builder, x: ir.Value, kind: str, dims: Sequence[int], last: int | None = None) -> ir.Value:
    """An unscaled transform over `dims`; for the real kinds the halved dimension is the last of them, of size `last`."""
    rank = len(b.shape(x))
    first = [d for d in range(rank) if d not in dims]
    order = [*first, *dims]
    x = b.transpose(x, order)
    shape = list(b.shape(x))
    lengths = shape[len(first) :]
    element = b.element(x)
    if kind == "RFFT":
        element, shape[-1] = ("complex<f64>" if element == "f64" else "complex<f32>"), shape[-1] // 2 + 1
    if kind == "IRFFT":
        assert last is not None
        element, shape[-1], lengths[-1] = ("f64" if element == "complex<f64>" else "f32"), last, last
    result = b.tensor(element, tuple(shape))
    op = hlo.FftOp(x, hlo.FftTypeAttr.get(kind), lengths, results=[result])
    back = [order.index(d) for d in range(rank)]
    return b.transpose(op.result, back)


def _all(b: Builder, x: ir.Value, kind: str, dims: Sequence[int]) -> ir.Value:
    """A complex transform over any number of dimensions."""
    for start in range(0, len(dims), 3):
        x = _transform(b, x, kind, dims[start : start + 3])
    return x


def _scaled(b: Builder, call: Call, x: ir.Value, size: int, applied: float) -> ir.Value:
    """PyTorch's normalisation: 0 none, 1 by the root of the size, 2 by the size; `applied` is what HLO divided by."""
    wanted = {0: 1.0, 1: math.sqrt(size), 2: float(size)}[call.args[2]]
    return finish(b, call, x if wanted == applied else hlo.multiply(x, like(b, applied / wanted, x)))


@lowering("aten._fft_c2c.default")
def fft_c2c(b: Builder, call: Call) -> ir.Value:
    x, dims, _, forward = call.args
    size = math.prod(b.shape(x)[d] for d in dims)
    return _scaled(b, call, _all(b, x, "FFT" if forward else "IFFT", dims), size, 1 if forward else size)


@lowering("aten._fft_r2c.default")
def fft_r2c(b: Builder, call: Call) -> ir.Value:
    """One-sided: real along the last dimension, complex along the others. Two-sided: complex throughout."""
    x, dims, _, onesided = call.args
    size = math.prod(b.shape(x)[d] for d in dims)
    if onesided:
        found = _all(b, _transform(b, x, "RFFT", dims[-1:]), "FFT", dims[:-1])
    else:
        found = _all(b, b.convert(x, call.types[0][0]), "FFT", dims)
    return _scaled(b, call, found, size, 1)


@lowering("aten._fft_c2r.default")
def fft_c2r(b: Builder, call: Call) -> ir.Value:
    x, dims, _, last = call.args
    size = last * math.prod(b.shape(x)[d] for d in dims[:-1])
    return _scaled(b, call, _transform(b, _all(b, x, "IFFT", dims[:-1]), "IRFFT", dims[-1:], last), size, size)
