"""Data movement: joining, repeating, padding, copies, and the value forms of views. Moves keep every bit."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from compiler.errors import UnsupportedError
from compiler.lowering.builder import Builder
from compiler.lowering.promotion import finish
from compiler.lowering.registry import Call, lowering
from compiler.lowering.windows import bitcast, carrier, choose, reinterpret


def axis(dim: int, rank: int) -> int:
    """A dimension counted from the front; a 0-d value counts as having one."""
    return dim % max(rank, 1)


def cut(b: Builder, x: ir.Value, dim: int, start: int, stop: int, step: int = 1) -> ir.Value:
    """Elements start, start + step, ... before stop, along one dimension."""
    shape = b.shape(x)
    if (start, stop, step) == (0, shape[dim], 1):
        return x
    starts, stops, steps = [0] * len(shape), list(shape), [1] * len(shape)
    starts[dim], stops[dim], steps[dim] = start, stop, step
    return hlo.slice(x, starts, stops, steps)


def pad(b: Builder, x: ir.Value, value: float | complex, low: Sequence[int], high: Sequence[int]) -> ir.Value:
    """Constant edges; a negative width crops."""
    if not any(low) and not any(high):
        return x
    element, (x, edge) = b.element(x), _movable(b, [x, b.splat(value, b.element(x))])
    return bitcast(b, hlo.pad(x, edge, list(low), list(high), [0] * len(low)), element)


def join(b: Builder, values: Sequence[ir.Value], dim: int) -> ir.Value:
    """Values of one type, one after the other along a dimension."""
    if len(values) == 1:
        return values[0]
    return bitcast(b, hlo.concatenate(_movable(b, values), dim), b.element(values[0]))


def _movable(b: Builder, values: Sequence[ir.Value]) -> list[ir.Value]:
    """The values as the type that XLA moves without a look at the bits; the Neuron compiler takes them as they are."""
    return [bitcast(b, x, carrier(b.element(x))) for x in values] if b.target == "xla" else list(values)


# -- copies ------------------------------------------------------------------------------------


@lowering(
    "aten.clone.default", "aten._to_copy.default", "aten.lift_fresh_copy.default", "aten.lift_fresh.default",
    "aten.contiguous.default", "aten.alias.default", "aten.alias_copy.default", "aten.detach.default",
    "aten.detach_copy.default", "aten.expand.default", "aten.expand_copy.default",
    "prims.convert_element_type.default",
)  # fmt: skip
def copy_of(b: Builder, call: Call) -> ir.Value:
    """The operand in the type and shape of the result."""
    return finish(b, call, call.args[0])


@lowering("aten.copy.default")
def copy(b: Builder, call: Call) -> ir.Value:
    """`src` in the type and shape of `self`."""
    return finish(b, call, call.args[1])


@lowering("aten.native_dropout.default")
def native_dropout(b: Builder, call: Call) -> list[ir.Value] | ir.Value:
    if call.arg(2, "train") is not False and call.arg(1, "p") != 0:
        raise UnsupportedError("native_dropout in training needs random numbers", hint="compile the model in eval mode")
    return [finish(b, call, call.args[0]), b.splat(True, *call.types[1])]


# -- views as values ---------------------------------------------------------------------------


@lowering(
    "aten.view.default", "aten.view_copy.default", "aten._unsafe_view.default", "aten.reshape.default",
    "aten._reshape_alias.default", "aten._reshape_copy.default", "aten.unsqueeze.default", "aten.unsqueeze_copy.default",
    "aten.flatten.using_ints", "aten.unflatten.int", "aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims",
    "aten.squeeze_copy.default", "aten.squeeze_copy.dim", "aten.squeeze_copy.dims",
)  # fmt: skip
def reshape(b: Builder, call: Call) -> ir.Value:
    return b.reshape(call.args[0], call.types[0][1])


@lowering("aten.view.dtype", "aten.view_copy.dtype")
def view_dtype(b: Builder, call: Call) -> ir.Value:
    """The same bytes; the last dimension scales with the element size."""
    return reinterpret(b, call.args[0], call.types[0][0])


@lowering("aten.permute.default", "aten.permute_copy.default")
def permute(b: Builder, call: Call) -> ir.Value:
    return b.transpose(call.args[0], [axis(d, len(call.args[1])) for d in call.args[1]])


@lowering(
    "aten.transpose.int", "aten.transpose_copy.int", "aten.t.default", "aten.t_copy.default", "aten.numpy_T.default"
)
def transpose(b: Builder, call: Call) -> ir.Value:
    rank = len(b.shape(call.args[0]))
    order = list(range(rank))
    if len(call.args) == 1:
        order.reverse()
    elif rank:
        first, second = axis(call.args[1], rank), axis(call.args[2], rank)
        order[first], order[second] = order[second], order[first]
    return b.transpose(call.args[0], order)


@lowering("aten.slice.Tensor", "aten.slice_copy.Tensor")
def slice_along(b: Builder, call: Call) -> ir.Value:
    x = call.args[0]
    dim = axis(call.arg(1, "dim", 0), len(b.shape(x)))
    start, stop, step = slice(call.arg(2, "start"), call.arg(3, "end"), call.arg(4, "step", 1)).indices(b.shape(x)[dim])
    return cut(b, x, dim, start, max(start, stop), step)


@lowering("aten.select.int", "aten.select_copy.int")
def select(b: Builder, call: Call) -> ir.Value:
    x, dim, index = call.args
    dim = axis(dim, len(b.shape(x)))
    index %= b.shape(x)[dim]
    return b.reshape(cut(b, x, dim, index, index + 1), call.types[0][1])


@lowering(
    "aten.split.Tensor", "aten.split_copy.Tensor", "aten.split_with_sizes.default", "aten.split_with_sizes_copy.default",
    "aten.unsafe_split.Tensor", "aten.unsafe_split_with_sizes.default", "aten.chunk.default", "aten.split.sizes",
)  # fmt: skip
def split(b: Builder, call: Call) -> list[ir.Value]:
    """The result shapes say where to cut."""
    x = call.args[0]
    dim = axis(call.arg(2, "dim", 0), len(b.shape(x)))
    ends = list(itertools.accumulate(shape[dim] for _, shape in call.types))
    return [cut(b, x, dim, end - shape[dim], end) for end, (_, shape) in zip(ends, call.types, strict=True)]


@lowering("aten.unbind.int", "aten.unbind_copy.int")
def unbind(b: Builder, call: Call) -> list[ir.Value]:
    x = call.args[0]
    dim = axis(call.arg(1, "dim", 0), len(b.shape(x)))
    return [b.reshape(cut(b, x, dim, i, i + 1), shape) for i, (_, shape) in enumerate(call.types)]


# -- joining and repeating ---------------------------------------------------------------------


def _is_legacy_empty(b: Builder, x: ir.Value, rank: int) -> bool:
    """`cat` skips values of shape (0,), whatever the rank of the others."""
    return b.shape(x) == (0,) and rank != 1


@lowering("aten.cat.default", "aten.concat.default")
def cat(b: Builder, call: Call) -> ir.Value:
    element, shape = call.types[0]
    values = [b.convert(x, element) for x in call.args[0] if not _is_legacy_empty(b, x, len(shape))]
    if not values:
        return b.splat(0, element, shape)
    return join(b, values, axis(call.arg(1, "dim", 0), len(shape)))


@lowering("aten.stack.default")
def stack(b: Builder, call: Call) -> ir.Value:
    element, shape = call.types[0]
    dim = axis(call.arg(1, "dim", 0), len(shape))
    slab = (*shape[:dim], 1, *shape[dim + 1 :])
    return join(b, [b.reshape(b.convert(x, element), slab) for x in call.args[0]], dim)


@lowering("aten.repeat.default")
def repeat(b: Builder, call: Call) -> ir.Value:
    x, repeats = call.args[0], call.args[1]
    have = (1,) * (len(repeats) - len(b.shape(x))) + b.shape(x)
    spread = tuple(n for pair in zip(repeats, have, strict=True) for n in pair)
    aligned = b.reshape(x, tuple(n for size in have for n in (1, size)))
    return b.reshape(b.broadcast(aligned, spread), call.types[0][1])


@lowering("aten.roll.default")
def roll(b: Builder, call: Call) -> ir.Value:
    element, shape = b.element(call.args[0]), b.shape(call.args[0])
    (x,), shifts, dims = _movable(b, [call.args[0]]), call.args[1], call.arg(2, "dims", ())
    if not dims:
        x, dims = b.reshape(x, (math.prod(shape),)), (0,)
    for shift, dim in zip(shifts, dims, strict=True):
        dim = axis(dim, len(b.shape(x)))
        size = b.shape(x)[dim]
        start = -shift % size if size else 0
        if start:
            x = hlo.concatenate([cut(b, x, dim, start, size), cut(b, x, dim, 0, start)], dim)
    return bitcast(b, b.reshape(x, shape), element)


@lowering("aten.flip.default")
def flip(b: Builder, call: Call) -> ir.Value:
    rank = len(b.shape(call.args[0]))
    dims = sorted({axis(d, rank) for d in call.args[1]}) if rank else []
    if not dims:
        return call.args[0]
    (x,) = _movable(b, call.args[:1])
    return bitcast(b, hlo.reverse(x, dims), b.element(call.args[0]))


@lowering("aten.constant_pad_nd.default")
def constant_pad(b: Builder, call: Call) -> ir.Value:
    """Widths come as (low, high) pairs from the last dimension on."""
    x, widths = call.args[0], call.args[1]
    before = [0] * (len(b.shape(x)) - len(widths) // 2)
    low, high = before + list(widths[0::2])[::-1], before + list(widths[1::2])[::-1]
    return pad(b, x, call.arg(2, "value", 0), low, high)


# -- triangles ---------------------------------------------------------------------------------


def _triangle(b: Builder, call: Call, keeps: str) -> ir.Value:
    x, shape = call.args[0], b.shape(call.args[0])
    rows, columns = b.iota("i32", shape[-2:], 0), b.iota("i32", shape[-2:], 1)
    edge = hlo.add(rows, b.splat(call.arg(1, "diagonal", 0), "i32", shape[-2:]))
    kept = b.broadcast(b.compare(keeps, columns, edge), shape)
    return choose(b, kept, x, b.splat(0, b.element(x), shape))


@lowering("aten.tril.default")
def tril(b: Builder, call: Call) -> ir.Value:
    return _triangle(b, call, "LE")


@lowering("aten.triu.default")
def triu(b: Builder, call: Call) -> ir.Value:
    return _triangle(b, call, "GE")


# -- broadcasting of several values ------------------------------------------------------------


@lowering("aten.broadcast_tensors.default", "aten.meshgrid.default")
def broadcast_all(b: Builder, call: Call) -> list[ir.Value]:
    values: Sequence[ir.Value] = call.args[0]
    if call.target == "aten.meshgrid.default":
        rank = len(values)
        values = [
            b.reshape(v, tuple(math.prod(b.shape(v)) if i == j else 1 for j in range(rank)))
            for i, v in enumerate(values)
        ]
    return [finish(b, call, value, i) for i, value in enumerate(values)]
