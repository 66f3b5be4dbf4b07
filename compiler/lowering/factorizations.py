"""Matrix factorizations and triangular systems: Cholesky by HLO's own operation, LU and QR column by column in a loop.

Leading dimensions are a batch and are worked on together. Signs and pivots are LAPACK's, so results are eager's. Where
eager raises because a matrix is singular or not positive definite, the result holds NaN or infinities, and `info` says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from compiler.errors import UnsupportedError
from compiler.lowering.builder import Builder
from compiler.lowering.elementwise import is_nan, kind, like
from compiler.lowering.reductions import add_up, greatest, least
from compiler.lowering.registry import Call, lowering


def batched(b: Builder, x: ir.Value, trailing: int = 2) -> ir.Value:
    """Leading dimensions as one."""
    shape = b.shape(x)
    lead = len(shape) - trailing
    return b.reshape(x, (math.prod(shape[:lead]), *shape[lead:]))


def loop(b: Builder, steps: int, state: Sequence[ir.Value], body: Callable[..., Sequence[ir.Value]]) -> list[ir.Value]:
    """`state = body(k, *state)` for k in 0..steps-1; the body is emitted once."""
    counter = b.splat(0, "i32")
    types = [counter.type, *(v.type for v in state)]
    op = hlo.WhileOp(types, [counter, *state])
    b.region(op, types, lambda k, *_: b.compare("LT", k, b.splat(steps, "i32")), 0)
    b.region(op, types, lambda k, *held: [hlo.add(k, b.splat(1, "i32")), *body(k, *held)], 1)
    results: list[ir.Value] = list(op.results)
    return results[1:]


def line(b: Builder, x: ir.Value, k: ir.Value, dim: int) -> ir.Value:
    """Row (dim 1) or column (dim 2) `k` of every matrix, with size 1."""
    zero = b.splat(0, "i32")
    sizes = [1 if d == dim else s for d, s in enumerate(b.shape(x))]
    return hlo.dynamic_slice(x, [k if d == dim else zero for d in range(3)], sizes)


def _index(b: Builder, shape: tuple[int, ...], dim: int) -> ir.Value:
    return b.iota("i32", shape, dim)


def pick(b: Builder, mask: ir.Value, x: ir.Value, dim: int) -> ir.Value:
    """The one element along `dim` that the mask marks, with size 1; the others may be NaN."""
    return add_up(b, hlo.select(mask, x, like(b, 0, x)), (dim,), keep=True)


def _first(b: Builder, mask: ir.Value, dim: int) -> ir.Value:
    """The first position along `dim` that the mask marks, or the size of `dim`; that dimension is gone."""
    shape = b.shape(mask)
    return least(b, hlo.select(mask, _index(b, shape, dim), b.splat(shape[dim], "i32", shape)), (dim,))


# -- Cholesky and triangular systems -------------------------------------------------------------


@lowering("aten.linalg_cholesky_ex.default", "aten.cholesky.default")
def cholesky(b: Builder, call: Call) -> list[ir.Value]:
    x = call.args[0]
    upper = call.kwargs.get("upper", False) if "linalg" in call.target else call.arg(1, "upper", False)
    shape = b.shape(x)
    if not math.prod(shape):
        return [b.splat(0, *kind_) for kind_ in call.types]
    rank = len(shape)
    factor = hlo.cholesky(x, lower=not upper)
    row, column = _index(b, shape, rank - 2), _index(b, shape, rank - 1)
    factor = hlo.select(b.compare("LE" if upper else "GE", row, column), factor, like(b, 0, factor))
    if len(call.types) == 1:
        return [factor]
    broken = is_nan(b, factor if kind(b, factor) == 2 else hlo.real(factor))
    diagonal = hlo.and_(broken, b.compare("EQ", row, column))
    rows = b.reduce([diagonal], [b.splat(False, "i1")], [rank - 1], lambda a, e: hlo.or_(a, e))[0]
    first = _first(b, rows, rank - 2)
    size = b.splat(shape[-1], "i32", b.shape(first))
    info = hlo.select(b.compare("EQ", first, size), like(b, 0, first), hlo.add(first, like(b, 1, first)))
    return [factor, info]


def solve_triangular(
    b: Builder,
    matrix: ir.Value,
    right: ir.Value,
    *,
    upper: bool,
    left: bool,
    unit: bool,
    transpose: str = "NO_TRANSPOSE",
) -> ir.Value:
    """X with `matrix X = right` (or `X matrix = right`); batches broadcast."""
    leads = [b.shape(v)[:-2] for v in (matrix, right)]
    width = max(map(len, leads))
    padded = [(1,) * (width - len(lead)) + lead for lead in leads]
    lead = tuple(m if n == 1 else n for n, m in zip(*padded, strict=True))
    matrix, right = (b.broadcast(v, (*lead, *b.shape(v)[-2:])) for v in (matrix, right))
    if not math.prod(b.shape(right)):
        return right
    return hlo.triangular_solve(
        matrix, right, left_side=left, lower=not upper, unit_diagonal=unit, transpose_a=hlo.TransposeAttr.get(transpose)
    )


@lowering("aten.linalg_solve_triangular.default")
def linalg_solve_triangular(b: Builder, call: Call) -> ir.Value:
    left, unit = call.kwargs.get("left", True), call.kwargs.get("unitriangular", False)
    return solve_triangular(b, call.args[0], call.args[1], upper=call.kwargs["upper"], left=left, unit=unit)


@lowering("aten.triangular_solve.default")
def triangular_solve(b: Builder, call: Call) -> list[ir.Value]:
    right, matrix = call.args[:2]
    turned = "TRANSPOSE" if call.arg(3, "transpose", False) else "NO_TRANSPOSE"
    upper, unit = call.arg(2, "upper", True), call.arg(4, "unitriangular", False)
    found = solve_triangular(b, matrix, right, upper=upper, left=True, unit=unit, transpose=turned)
    return [found, b.broadcast(matrix, call.types[1][1])]


# -- LU ------------------------------------------------------------------------------------------


@lowering("aten.linalg_lu_factor_ex.default")
def lu_factor(b: Builder, call: Call) -> list[ir.Value]:
    """Partial pivoting: the first entry of greatest magnitude in each column; both factors in one matrix."""
    x = batched(b, call.args[0])
    batch, rows, columns = b.shape(x)
    steps = min(rows, columns)
    if not batch * steps:
        return [b.splat(0, *kind_) for kind_ in call.types]
    pivoting = call.kwargs.get("pivot", True)
    row, column = _index(b, b.shape(x), 1), _index(b, b.shape(x), 2)
    tall = (batch, rows, 1)
    tall_row = _index(b, tall, 1)

    def step(k: ir.Value, matrix: ir.Value, pivots: ir.Value, info: ir.Value) -> list[ir.Value]:
        k_tall = b.broadcast(k, tall)
        head = line(b, matrix, k, 2)
        if pivoting:
            size = hlo.abs(head) if kind(b, head) == 2 else hlo.add(hlo.abs(hlo.real(head)), hlo.abs(hlo.imag(head)))
            size = hlo.select(b.compare("GE", tall_row, k_tall), size, like(b, -1, size))
            top = b.broadcast(greatest(b, size, (1,), keep=True), tall)
            found = hlo.or_(b.compare("EQ", size, top), is_nan(b, size))
            chosen = hlo.minimum(_first(b, found, 1), b.splat(rows - 1, "i32", (batch, 1)))
        else:
            chosen = b.broadcast(k, (batch, 1))
        pivot = b.broadcast(b.reshape(chosen, (batch, 1, 1)), b.shape(x))
        here, there = line(b, matrix, k, 1), pick(b, b.compare("EQ", row, pivot), matrix, 1)
        whole = b.shape(x)
        matrix = hlo.select(b.compare("EQ", row, pivot), b.broadcast(here, whole), matrix)
        matrix = hlo.select(b.compare("EQ", row, b.broadcast(k, whole)), b.broadcast(there, whole), matrix)
        head = line(b, matrix, k, 2)
        value = b.broadcast(line(b, there, k, 2), tall)
        zero = b.compare("EQ", value, like(b, 0, value))
        below = hlo.and_(b.compare("GT", tall_row, k_tall), hlo.not_(zero))
        factors = hlo.select(below, hlo.divide(head, value), head)
        active = hlo.and_(b.broadcast(below, whole), b.compare("GT", column, b.broadcast(k, whole)))
        product = hlo.multiply(b.broadcast(factors, whole), b.broadcast(there, whole))
        matrix = hlo.select(active, hlo.subtract(matrix, product), matrix)
        matrix = hlo.select(b.compare("EQ", column, b.broadcast(k, whole)), b.broadcast(factors, whole), matrix)
        mine = b.compare("EQ", _index(b, (batch, steps), 1), b.broadcast(k, (batch, steps)))
        one = b.splat(1, "i32", (batch, steps))
        pivots = hlo.select(mine, hlo.add(b.broadcast(chosen, (batch, steps)), one), pivots)
        fresh = hlo.and_(b.compare("EQ", info, like(b, 0, info)), b.reshape(_one(b, zero), (batch,)))
        info = hlo.select(fresh, b.broadcast(hlo.add(k, b.splat(1, "i32")), (batch,)), info)
        return [matrix, pivots, info]

    state = [x, b.splat(0, "i32", (batch, steps)), b.splat(0, "i32", (batch,))]
    return [b.reshape(v, t[1]) for v, t in zip(loop(b, steps, state, step), call.types, strict=True)]


def _one(b: Builder, tall: ir.Value) -> ir.Value:
    """The first element of a column of equal ones."""
    batch = b.shape(tall)[0]
    return hlo.slice(tall, [0, 0, 0], [batch, 1, 1], [1, 1, 1])


@lowering("aten.lu_unpack.default")
def lu_unpack(b: Builder, call: Call) -> list[ir.Value]:
    """P, L and U; the permutation is the pivots' exchanges, one after the other."""
    data, pivots = call.args[:2]
    rows, columns = b.shape(data)[-2:]
    steps = min(rows, columns)
    results: list[ir.Value] = []
    if call.arg(3, "unpack_pivots", True):
        exchanges = batched(b, pivots, 1)
        batch = b.shape(exchanges)[0]
        order = _index(b, (batch, rows), 1)
        position = _index(b, (batch, rows), 1)

        def step(k: ir.Value, order: ir.Value) -> list[ir.Value]:
            wide = (batch, rows)
            other = hlo.dynamic_slice(exchanges, [b.splat(0, "i32"), k], [batch, 1])
            there = b.broadcast(hlo.subtract(other, b.splat(1, "i32", (batch, 1))), wide)
            at_there, at_k = b.compare("EQ", position, there), b.compare("EQ", position, b.broadcast(k, wide))
            first, second = pick(b, at_k, order, 1), pick(b, at_there, order, 1)
            order = hlo.select(at_there, b.broadcast(first, wide), order)
            return [hlo.select(at_k, b.broadcast(second, wide), order)]

        if batch * steps:
            (order,) = loop(b, steps, [order], step)
        square = (batch, rows, rows)
        mark = b.compare("EQ", _index(b, square, 1), b.broadcast(b.reshape(order, (batch, 1, rows)), square))
        results.append(b.reshape(b.convert(mark, b.element(data)), call.types[0][1]))
    else:
        results.append(b.splat(0, *call.types[0]))
    if call.arg(2, "unpack_data", True):
        rank = len(b.shape(data))
        row, column = _index(b, b.shape(data), rank - 2), _index(b, b.shape(data), rank - 1)
        zero, one = like(b, 0, data), like(b, 1, data)
        lower = hlo.select(b.compare("GT", row, column), data, hlo.select(b.compare("EQ", row, column), one, zero))
        upper = hlo.select(b.compare("LE", row, column), data, zero)
        start, unit = [0] * rank, [1] * rank
        results.append(hlo.slice(lower, start, list(call.types[1][1]), unit))
        results.append(hlo.slice(upper, start, list(call.types[2][1]), unit))
    else:
        results += [b.splat(0, *kind_) for kind_ in call.types[1:]]
    return results


# -- QR ------------------------------------------------------------------------------------------


def _only_real(b: Builder, call: Call) -> None:
    if any(kind(b, v) != 2 for v in call.args if isinstance(v, ir.Value)):
        raise UnsupportedError("QR of complex matrices", hint="factor the real form [[re, -im], [im, re]]")


@lowering("aten.geqrf.default")
def geqrf(b: Builder, call: Call) -> list[ir.Value]:
    """Householder reflections: the triangle, and below it the vectors without their leading one; their factors."""
    _only_real(b, call)
    x = batched(b, call.args[0])
    batch, rows, columns = whole = b.shape(x)
    steps = min(rows, columns)
    if not batch * steps:
        return [b.reshape(x, call.types[0][1]), b.splat(0, *call.types[1])]
    column, tall = _index(b, whole, 2), (batch, rows, 1)
    tall_row = _index(b, tall, 1)

    def step(k: ir.Value, matrix: ir.Value, taus: ir.Value) -> list[ir.Value]:
        head, k_tall = line(b, matrix, k, 2), b.broadcast(k, tall)
        below, at = b.compare("GT", tall_row, k_tall), b.compare("EQ", tall_row, k_tall)
        alpha = pick(b, at, head, 1)
        rest = hlo.select(below, head, like(b, 0, head))
        tail = add_up(b, hlo.multiply(rest, rest), (1,), keep=True)
        norm = hlo.sqrt(hlo.add(hlo.multiply(alpha, alpha), tail))
        beta = hlo.select(b.compare("GE", alpha, like(b, 0, alpha)), hlo.negate(norm), norm)
        trivial = b.compare("EQ", tail, like(b, 0, tail))
        beta = hlo.select(trivial, alpha, beta)
        tau = hlo.select(trivial, like(b, 0, alpha), hlo.divide(hlo.subtract(beta, alpha), beta))
        scale = hlo.select(trivial, like(b, 1, alpha), hlo.subtract(alpha, beta))
        vector = hlo.select(at, like(b, 1, rest), hlo.divide(rest, b.broadcast(scale, tall)))
        after = b.compare("GT", column, b.broadcast(k, whole))
        matrix = hlo.select(after, _reflected(b, matrix, vector, tau), matrix)
        new = hlo.select(below, vector, hlo.select(at, b.broadcast(beta, tall), head))
        matrix = hlo.select(b.compare("EQ", column, b.broadcast(k, whole)), b.broadcast(new, whole), matrix)
        mine = b.compare("EQ", _index(b, (batch, steps), 1), b.broadcast(k, (batch, steps)))
        return [matrix, hlo.select(mine, b.broadcast(b.reshape(tau, (batch, 1)), (batch, steps)), taus)]

    state = [x, b.splat(0, b.element(x), (batch, steps))]
    return [b.reshape(v, t[1]) for v, t in zip(loop(b, steps, state, step), call.types, strict=True)]


def _reflected(b: Builder, matrix: ir.Value, vector: ir.Value, tau: ir.Value) -> ir.Value:
    """(I - tau v v^T) matrix; the vector is a column, tau a number, for each matrix of the batch."""
    whole = b.shape(matrix)
    row = add_up(b, hlo.multiply(matrix, b.broadcast(vector, whole)), (1,), keep=True)
    row = hlo.multiply(row, b.broadcast(tau, b.shape(row)))
    return hlo.subtract(matrix, hlo.multiply(b.broadcast(vector, whole), b.broadcast(row, whole)))


@lowering("aten.linalg_householder_product.default")
def householder_product(b: Builder, call: Call) -> ir.Value:
    """The product of the reflections on the first columns of the identity, the last reflection first."""
    _only_real(b, call)
    x, taus = batched(b, call.args[0]), batched(b, call.args[1], 1)
    batch, rows, _ = whole = b.shape(x)
    steps = b.shape(taus)[1]
    identity = b.convert(b.compare("EQ", _index(b, whole, 1), _index(b, whole, 2)), b.element(x))
    if not math.prod(whole) * steps:
        return b.reshape(identity, call.types[0][1])
    tall = (batch, rows, 1)
    tall_row = _index(b, tall, 1)

    def step(n: ir.Value, product: ir.Value) -> list[ir.Value]:
        k = hlo.subtract(b.splat(steps - 1, "i32"), n)
        k_tall, head = b.broadcast(k, tall), line(b, x, k, 2)
        vector = hlo.select(b.compare("GT", tall_row, k_tall), head, like(b, 0, head))
        vector = hlo.select(b.compare("EQ", tall_row, k_tall), like(b, 1, vector), vector)
        tau = hlo.dynamic_slice(taus, [b.splat(0, "i32"), k], [batch, 1])
        return [_reflected(b, product, vector, b.reshape(tau, (batch, 1, 1)))]

    return b.reshape(loop(b, steps, [identity], step)[0], call.types[0][1])
