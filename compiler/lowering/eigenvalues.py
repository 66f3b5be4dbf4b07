"""Eigenvalues and eigenvectors of symmetric matrices by Jacobi's rotations, one pair of rows and columns at a time."""

from __future__ import annotations

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from compiler.errors import UnsupportedError
from compiler.lowering.builder import Builder
from compiler.lowering.elementwise import kind, like
from compiler.lowering.factorizations import batched, line, loop, pick
from compiler.lowering.registry import Call, lowering
from compiler.lowering.sorting import sorted_with_positions

_SWEEPS = 12
"""Convergence is quadratic: six to eight sweeps are usual for matrices of any practical size."""


@lowering("aten._linalg_eigh.default")
def eigh(b: Builder, call: Call) -> list[ir.Value]:
    """In f64: eigenvalues ascend, and each vector has the sign that the rotations give it."""
    if kind(b, call.args[0]) != 2:
        raise UnsupportedError("eigenvalues of complex matrices", hint="use the real form [[re, -im], [im, re]]")
    x = b.convert(batched(b, call.args[0]), "f64")
    batch, size, _ = whole = b.shape(x)
    if not batch * size:
        return [b.reshape(b.splat(0, t[0], t[1]), t[1]) for t in call.types]
    row, column = b.iota("i32", whole, 1), b.iota("i32", whole, 2)
    keeps = b.compare("GE" if call.arg(1, "UPLO", "L").upper() == "L" else "LE", row, column)
    x = hlo.select(keeps, x, b.transpose(x, [0, 2, 1]))  # only one triangle is looked at
    identity = b.convert(b.compare("EQ", row, column), "f64")
    pairs = np.array([(p, q) for p in range(size) for q in range(p + 1, size)], np.int32).reshape(-1, 2)
    vectors = identity
    if len(pairs):
        table = b.literal(pairs, "i32")

        def rotate(n: ir.Value, x: ir.Value, vectors: ir.Value) -> list[ir.Value]:
            at = hlo.remainder(n, b.splat(len(pairs), "i32"))
            pair = hlo.dynamic_slice(table, [at, b.splat(0, "i32")], [1, 2])
            p, q = (b.reshape(hlo.slice(pair, [0, d], [1, d + 1], [1, 1]), ()) for d in (0, 1))
            cosine, sine = _rotation(b, x, p, q)
            x = _turned(b, _turned(b, x, p, q, cosine, sine, 1), p, q, cosine, sine, 2)
            return [x, _turned(b, vectors, p, q, cosine, sine, 2)]

        x, vectors = loop(b, _SWEEPS * len(pairs), [x, vectors], rotate)
    diagonal = b.reshape(pick(b, b.compare("EQ", row, column), x, 2), (batch, size))
    values, order = sorted_with_positions(b, diagonal, 1, False)
    chosen = b.compare("EQ", row, b.broadcast(b.reshape(order, (batch, 1, size)), whole))
    numbers = hlo.DotDimensionNumbers.get([0], [0], [2], [1])
    vectors = hlo.dot_general(b.tensor("f64", whole), vectors, b.convert(chosen, "f64"), numbers)
    if not call.arg(2, "compute_v", True):
        return [b.reshape(b.convert(values, call.types[0][0]), call.types[0][1]), b.splat(0, *call.types[1])]
    return [b.reshape(b.convert(v, t[0]), t[1]) for v, t in zip((values, vectors), call.types, strict=True)]


def _rotation(b: Builder, x: ir.Value, p: ir.Value, q: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Cosine and sine of the rotation that makes element (p, q) of every matrix zero, by the smaller angle."""
    rows = {k: line(b, x, k, 1) for k in (p, q)}
    first, second, off = (line(b, rows[i], j, 2) for i, j in ((p, p), (q, q), (p, q)))
    one = like(b, 1, off)
    done = b.compare("EQ", off, like(b, 0, off))
    ratio = hlo.divide(hlo.subtract(second, first), hlo.multiply(like(b, 2, off), hlo.select(done, one, off)))
    root = hlo.sqrt(hlo.add(one, hlo.multiply(ratio, ratio)))
    tangent = hlo.divide(one, hlo.add(hlo.abs(ratio), root))
    tangent = hlo.select(b.compare("LT", ratio, like(b, 0, ratio)), hlo.negate(tangent), tangent)
    tangent = hlo.select(done, like(b, 0, off), tangent)
    cosine = hlo.rsqrt(hlo.add(one, hlo.multiply(tangent, tangent)))
    return cosine, hlo.multiply(tangent, cosine)


def _turned(
    b: Builder, x: ir.Value, p: ir.Value, q: ir.Value, cosine: ir.Value, sine: ir.Value, dim: int
) -> ir.Value:  # fmt: skip
    """Rows (dim 1) or columns (dim 2) p and q, rotated into each other."""
    first, second = line(b, x, p, dim), line(b, x, q, dim)
    thin, whole = b.shape(first), b.shape(x)
    c, s = b.broadcast(cosine, thin), b.broadcast(sine, thin)
    new_first = hlo.subtract(hlo.multiply(c, first), hlo.multiply(s, second))
    new_second = hlo.add(hlo.multiply(s, first), hlo.multiply(c, second))
    place = b.iota("i32", whole, dim)
    x = hlo.select(b.compare("EQ", place, b.broadcast(p, whole)), b.broadcast(new_first, whole), x)
    return hlo.select(b.compare("EQ", place, b.broadcast(q, whole)), b.broadcast(new_second, whole), x)
