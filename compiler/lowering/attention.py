"""Scaled dot-product attention in its plain form: two contractions around a masked softmax, all in f32 or wider.

Key and value heads may be fewer than query heads: queries are grouped by the head they share, nothing is repeated.
"""

from __future__ import annotations

import math
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from compiler.errors import UnsupportedError
from compiler.lowering.builder import Builder
from compiler.lowering.elementwise import like
from compiler.lowering.linear import matrix_product
from compiler.lowering.normalization import masked_softmax
from compiler.lowering.promotion import finish, wide
from compiler.lowering.reductions import add_up, peak
from compiler.lowering.registry import Call, lowering


def _grouped(b: Builder, query: ir.Value, key: ir.Value, value: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """With fewer key heads, fold the heads that share one into the query's rows."""
    rank, shape = len(b.shape(query)), b.shape(query)
    lead = shape[:-2]
    if rank < 3 or b.shape(key)[:-2] == lead:
        return query, key, value
    heads = b.shape(key)[-3]
    if shape[-3] == heads:
        return query, b.broadcast(key, (*lead, *b.shape(key)[-2:])), b.broadcast(value, (*lead, *b.shape(value)[-2:]))
    rows = (*shape[:-3], heads, shape[-3] // heads * shape[-2], shape[-1])
    spread = [b.broadcast(v, (*shape[:-3], *b.shape(v)[-3:])) for v in (key, value)]
    return b.reshape(query, rows), spread[0], spread[1]


def _turned(b: Builder, matrix: ir.Value) -> ir.Value:
    """The last two dimensions exchanged."""
    rank = len(b.shape(matrix))
    return b.transpose(matrix, [*range(rank - 2), rank - 1, rank - 2])


def _scores(b: Builder, query: ir.Value, key: ir.Value, scale: float | None, full: tuple[int, ...]) -> ir.Value:
    """query @ key^T * scale, with the query's own head count again."""
    factor = 1 / math.sqrt(b.shape(query)[-1]) if scale is None else scale
    product = matrix_product(b, query, _turned(b, key))
    return b.reshape(hlo.multiply(product, like(b, factor, product)), full)


def _masked(b: Builder, scores: ir.Value, mask: ir.Value | None, causal: bool, excludes: bool) -> ir.Value:
    """Add the mask; a bool mask that excludes, and the causal triangle (aligned at the top left), set to -inf."""
    shape = b.shape(scores)
    excluded = like(b, -math.inf, scores)
    if causal:
        rows, columns = b.iota("i32", shape[-2:], 0), b.iota("i32", shape[-2:], 1)
        scores = hlo.select(b.broadcast(b.compare("LE", columns, rows), shape), scores, excluded)
    if mask is None:
        return scores
    if b.element(mask) == "i1" and excludes:
        return hlo.select(b.broadcast(mask, shape), scores, excluded)
    return hlo.add(scores, b.broadcast(b.convert(mask, b.element(scores)), shape))


def _attend(
    b: Builder,
    call: Call,
    mask: ir.Value | None,
    dropout: float,
    causal: bool,
    scale: float | None,
    *,
    excludes: bool = True,
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Output, attention weights, and masked scores."""
    if dropout:
        raise UnsupportedError(
            f"{call.target} with dropout needs random numbers", hint="compile the model in eval mode"
        )
    query, key, value = call.args[:3]
    full = (*b.shape(query)[:-1], b.shape(key)[-2])
    query, key, value = _grouped(b, query, key, value)
    scores = _masked(b, _scores(b, query, key, scale, full), mask, causal, excludes)
    weights = masked_softmax(b, scores, len(full) - 1)
    rows = b.reshape(weights, (*b.shape(query)[:-1], full[-1]))
    out = matrix_product(b, rows, b.convert(value, wide(b.element(value))))
    return b.reshape(b.convert(out, call.types[0][0]), call.types[0][1]), weights, scores


@lowering("aten._scaled_dot_product_flash_attention_for_cpu.default")
def flash_attention_for_cpu(b: Builder, call: Call) -> list[ir.Value]:
    out, _, scores = _attend(
        b, call, call.kwargs.get("attn_mask"), call.arg(3, "dropout_p", 0.0), call.arg(4, "is_causal", False),
        call.kwargs.get("scale"),
    )  # fmt: skip
    rank = len(b.shape(scores))
    top = peak(b, scores, (rank - 1,))
    finite = hlo.select(hlo.is_finite(top), top, like(b, 0, top))
    total = add_up(
        b, hlo.exponential(hlo.subtract(scores, b.broadcast(finite, b.shape(scores)))), (rank - 1,), keep=True
    )
    logsumexp = b.reshape(hlo.add(hlo.log(total), finite), b.shape(scores)[:-1])
    if b.shape(logsumexp) != call.types[1][1]:  # stored as (batch, rows, heads)
        logsumexp = b.transpose(logsumexp, [0, 2, 1])
    return [out, finish(b, call, logsumexp, 1)]


def _plain_arguments(call: Call) -> tuple[Any, float, bool, Any]:
    return (
        call.arg(3, "attn_mask"),
        call.arg(4, "dropout_p", 0.0),
        call.arg(5, "is_causal", False),
        call.kwargs.get("scale"),
    )


@lowering("aten._scaled_dot_product_attention_math.default")
def attention_math(b: Builder, call: Call) -> list[ir.Value]:
    """Here a bool mask is a number like any other: the public operator converts it before it calls this one."""
    out, weights, _ = _attend(b, call, *_plain_arguments(call), excludes=False)
    return [out, finish(b, call, weights, 1)]


@lowering("aten.scaled_dot_product_attention.default")
def attention(b: Builder, call: Call) -> ir.Value:
    return _attend(b, call, *_plain_arguments(call))[0]


@lowering("aten._scaled_dot_product_flash_attention_for_cpu_backward.default")
def flash_attention_for_cpu_backward(b: Builder, call: Call) -> list[ir.Value]:
    """The weights again from the saved logsumexp, then the gradients of query, key and value."""
    element = wide(call.types[0][0])
    grad, query, key, value, out, logsumexp = (b.convert(v, element) for v in call.args[:6])
    dropout, causal = call.args[6:8]
    if dropout or b.shape(key)[:-2] != b.shape(query)[:-2]:
        reason = "dropout" if dropout else "fewer key heads than query heads"
        raise UnsupportedError(f"the gradient of attention with {reason}", hint="write attention as matrix products")
    scale = call.kwargs.get("scale")
    scale = 1 / math.sqrt(b.shape(query)[-1]) if scale is None else scale
    full = (*b.shape(query)[:-1], b.shape(key)[-2])
    scores = _masked(b, _scores(b, query, key, scale, full), call.kwargs.get("attn_mask"), causal, True)
    column = b.reshape(
        b.transpose(logsumexp, [0, 2, 1]) if b.shape(logsumexp) != full[:-1] else logsumexp, (*full[:-1], 1)
    )
    weights = hlo.exponential(hlo.subtract(scores, b.broadcast(column, full)))
    inner = add_up(b, hlo.multiply(grad, out), (len(full) - 1,), keep=True)
    above = hlo.subtract(matrix_product(b, grad, _turned(b, value)), b.broadcast(inner, full))
    change = hlo.multiply(hlo.multiply(weights, above), like(b, scale, weights))
    gradients = [
        matrix_product(b, change, key),
        matrix_product(b, _turned(b, change), query),
        matrix_product(b, _turned(b, weights), grad),
    ]
    return [finish(b, call, gradient, i) for i, gradient in enumerate(gradients)]
