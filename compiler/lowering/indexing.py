"""Rules for operators that read or write at positions held in tensors."""

from __future__ import annotations

import math
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from compiler.errors import UnsupportedError
from compiler.lowering import windows
from compiler.lowering.addressing import Combination, Operand, element, put, shape, take, value
from compiler.lowering.builder import Builder
from compiler.lowering.registry import Call, lowering
from compiler.lowering.shaping import axis as axis_of

_REDUCTIONS: dict[str, Combination] = {
    "add": "add", "multiply": "multiply", "sum": "add", "prod": "multiply", "mean": "add",
    "amax": "maximum", "amin": "minimum",
}  # fmt: skip


# -- forms -------------------------------------------------------------------------------------


def _wrap(b: Builder, index: ir.Value, size: int) -> ir.Value:
    """Negative positions count from the end."""
    kind, sizes = b.element(index), b.shape(index)
    if kind[0] == "u":
        return b.convert(index, "i64")
    if isinstance(index.owner, ir.Operation) and index.owner.name == "stablehlo.iota":
        return index

    def emit() -> ir.Value:
        negative = b.compare("LT", index, b.splat(0, kind, sizes))
        return hlo.select(negative, hlo.add(index, b.splat(size, kind, sizes)), index)

    return b.once(("wrap", index, size), emit)


def _as_element(b: Builder, source: Any, kind: str, sizes: tuple[int, ...]) -> ir.Value:
    """A number or a tensor as elements of `kind`, broadcast to `sizes`."""
    if not isinstance(source, ir.Value):
        return b.splat(source, kind, sizes)
    have = b.shape(source)
    if len(have) > len(sizes):  # PyTorch drops leading ones
        source = b.reshape(source, have[len(have) - len(sizes) :])
    return b.broadcast(b.convert(source, kind), sizes)


def _running_count(b: Builder, mask: ir.Value) -> ir.Value:
    """How many are true up to and including each element of a 1-d mask, as i64."""
    (size,) = b.shape(mask)
    counts = hlo.convert(b.tensor("i64", (size,)), mask)
    if size <= 1:
        return counts
    i64 = b.elements["i64"]
    widths: list[ir.Attribute] = [ir.IntegerAttr.get(i64, size - 1), ir.IntegerAttr.get(i64, 0)]
    padding = ir.DenseIntElementsAttr(ir.DenseElementsAttr.get(widths, ir.RankedTensorType.get([1, 2], i64)))
    op = hlo.ReduceWindowOp([counts.type], [counts], [b.splat(0, "i64")], [size], padding=padding)
    b.region(op, [b.tensor("i64", ())] * 2, hlo.add)
    return op.results[0]


def _masked_values(b: Builder, mask: ir.Value, source: ir.Value) -> ir.Value:
    """Row n of `source` at the n-th true element of the mask: shape mask + the row's (elsewhere any row)."""
    sizes = b.shape(mask)
    count, *row = b.shape(source)
    last = b.splat(count - 1, "i64")
    flat = b.reshape(mask, (math.prod(sizes),))
    position = hlo.subtract(_running_count(b, flat), b.splat(1, "i64", b.shape(flat)))
    position = hlo.clamp(b.splat(0, "i64"), position, last)
    return b.reshape(take(b, source, {0: position}, 0), (*sizes, *row))


# -- index and index_put -----------------------------------------------------------------------


def _columns(b: Builder, indices: list[Any], sizes: tuple[int, ...]) -> tuple[dict[int, ir.Value], int]:
    """Wrapped, mutually broadcast index columns by dimension, and where the batch's dimensions go."""
    given = {d: index for d, index in enumerate(indices) if index is not None}
    batch: tuple[int, ...] = ()
    for index in given.values():
        batch = _broadcast_shape(batch, b.shape(index))
    columns = {d: b.broadcast(_wrap(b, index, sizes[d]), batch) for d, index in given.items()}
    dimensions = list(columns)
    adjacent = dimensions == list(range(dimensions[0], dimensions[-1] + 1))
    return columns, dimensions[0] if adjacent else 0


def _broadcast_shape(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    rank = max(len(left), len(right))
    pairs = zip((1,) * (rank - len(left)) + left, (1,) * (rank - len(right)) + right, strict=True)
    return tuple(b if a == 1 else a for a, b in pairs)


def _mask(b: Builder, indices: list[Any]) -> tuple[int, ir.Value] | None:
    """The boolean mask among the indices, and the dimension where it starts."""
    given = [(d, index) for d, index in enumerate(indices) if index is not None]
    masks = [(d, index) for d, index in given if b.element(index) in ("i1", "ui8")]
    if not masks:
        return None
    if len(given) > 1:
        raise UnsupportedError(
            "a boolean mask beside other index tensors picks a number of elements known only at run time"
        )
    dimension, mask = masks[0]
    return dimension, b.convert(mask, "i1")


@lowering("aten.index.Tensor", "aten._unsafe_index.Tensor", through="read")
def index(b: Builder, call: Call) -> ir.Value:
    operand, indices = call.args[0], call.args[1]
    if _mask(b, indices) is not None:
        raise UnsupportedError("indexing by a boolean mask gives a size known only at run time; use torch.where")
    columns, at = _columns(b, indices, shape(b, operand))
    return take(b, operand, columns, at)


@lowering("aten.index_put.default", "aten._unsafe_index_put.default", "aten._index_put_impl.default", through="update")
def index_put(b: Builder, call: Call) -> Operand:
    operand, indices, values = call.args[:3]
    accumulate = bool(call.arg(3, "accumulate", False))
    kind, sizes = element(b, operand), shape(b, operand)
    found = _mask(b, indices)
    if found is not None:
        return _mask_put(b, value(b, operand), *found, values, accumulate)
    if all(entry is None for entry in indices):
        whole = _as_element(b, values, kind, sizes)
        return b.plus(value(b, operand), whole) if accumulate else whole
    columns, at = _columns(b, indices, sizes)
    rest = [sizes[d] for d in range(len(sizes)) if d not in columns]
    batch = b.shape(next(iter(columns.values())))
    updates = _as_element(b, values, kind, (*rest[:at], *batch, *rest[at:]))
    return put(b, operand, columns, updates, at, "add" if accumulate else "assign")


def _mask_put(
    b: Builder, operand: ir.Value, dimension: int, mask: ir.Value, values: ir.Value, accumulate: bool
) -> ir.Value:
    """Where the mask, which covers some dimensions from `dimension`, is true: the values, broadcast or in order."""
    kind, sizes = b.element(operand), b.shape(operand)
    covered = b.shape(mask)
    end = dimension + len(covered)
    before, after = sizes[:dimension], sizes[end:]
    given = b.shape(values)
    count = given[-1 - len(after)] if len(given) > len(after) else 1
    values = b.convert(values, kind)
    if count == 1:
        # One row for all: the dimension that counts the true elements becomes the mask's dimensions.
        head = given[: max(len(given) - len(after) - 1, 0)]
        tail = given[max(len(given) - len(after), 0) :]
        spread = (*head, *(1 for _ in covered), *tail) if len(given) > len(after) else given
        new = b.broadcast(b.reshape(values, spread), sizes)
    else:
        head = given[: len(given) - len(after) - 1]
        full = (
            b.broadcast(values, (*before, count, *after))
            if head != before or given[len(head) + 1 :] != after
            else values
        )
        lead = len(before)
        rows = b.transpose(full, [lead, *range(lead), *range(lead + 1, lead + 1 + len(after))])
        rows = _masked_values(b, mask, rows)
        width = len(covered)
        order = [*range(width, width + lead), *range(width), *range(width + lead, len(sizes))]
        new = b.transpose(rows, order)
    if accumulate:
        new = b.plus(operand, new)
    spread_mask = hlo.broadcast_in_dim(b.tensor("i1", sizes), mask, list(range(dimension, end)))
    return windows.choose(b, spread_mask, new, operand)


# -- along one dimension -----------------------------------------------------------------------


def _along(b: Builder, operand: Operand, dimension: int, positions: ir.Value) -> tuple[dict[int, ir.Value], int]:
    """Columns for a 1-d (or 0-d) index along one dimension."""
    at = axis_of(dimension, len(shape(b, operand)))
    return {at: b.reshape(positions, (math.prod(b.shape(positions)),))}, at


def _expanded(b: Builder, operand: Operand, columns: dict[int, ir.Value], at: int) -> tuple[int, ...]:
    sizes = shape(b, operand)
    (count,) = b.shape(columns[at])
    return (*sizes[:at], count, *sizes[at + 1 :])


def _at_least_1d(b: Builder, operand: Operand) -> Operand:
    return b.reshape(value(b, operand), (1,)) if not shape(b, operand) else operand


def _like(b: Builder, result: Operand, original: Operand) -> Operand:
    """Undo `_at_least_1d`."""
    return b.reshape(result, ()) if not shape(b, original) and isinstance(result, ir.Value) else result


@lowering("aten.index_select.default", through="read")
def index_select(b: Builder, call: Call) -> ir.Value:
    columns, at = _along(b, call.args[0], call.args[1], call.args[2])
    return b.reshape(take(b, _at_least_1d(b, call.args[0]), columns, at), call.types[0][1])


@lowering("aten.index_copy.default", through="update")
def index_copy(b: Builder, call: Call) -> Operand:
    operand, dimension, positions, source = call.args[:4]
    return _index_update(b, operand, dimension, positions, source, "assign")


@lowering("aten.index_add.default", through="update")
def index_add(b: Builder, call: Call) -> Operand:
    operand, dimension, positions, source = call.args[:4]
    alpha = call.arg(4, "alpha", 1)
    if alpha != 1:
        source = hlo.multiply(source, b.splat(alpha, b.element(source), b.shape(source)))
    return _index_update(b, operand, dimension, positions, source, "add")


@lowering("aten.index_fill.int_Scalar", "aten.index_fill.int_Tensor", through="update")
def index_fill(b: Builder, call: Call) -> Operand:
    operand, dimension, positions, filler = call.args[:4]
    sizes = shape(b, operand) or (1,)
    positions = _wrap(b, positions, sizes[axis_of(dimension, len(sizes))])
    return _index_update(b, operand, dimension, positions, filler, "assign")


@lowering("aten.index_reduce.default", through="update")
def index_reduce(b: Builder, call: Call) -> Operand:
    operand, dimension, positions, source, reduce = call.args[:5]
    original, operand = operand, _at_least_1d(b, operand)
    columns, at = _along(b, operand, dimension, positions)
    source = _as_element(b, source, element(b, operand), _expanded(b, operand, columns, at))
    return _like(b, _reduce_into(b, operand, columns, source, at, reduce, call.arg(5, "include_self", True)), original)


def _index_update(
    b: Builder, operand: Operand, dimension: int, positions: ir.Value, source: Any, combination: Combination
) -> Operand:
    original, operand = operand, _at_least_1d(b, operand)
    columns, at = _along(b, operand, dimension, positions)
    sizes = _expanded(b, operand, columns, at)
    if isinstance(source, ir.Value) and math.prod(b.shape(source)) == math.prod(sizes):
        source = b.reshape(source, sizes)  # a 0-d source or index
    return _like(
        b, put(b, operand, columns, _as_element(b, source, element(b, operand), sizes), at, combination), original
    )


@lowering("aten.embedding.default", through="read")
def embedding(b: Builder, call: Call) -> ir.Value:
    return take(b, call.args[0], {0: call.args[1]}, 0)


@lowering("aten.embedding_dense_backward.default")
def embedding_dense_backward(b: Builder, call: Call) -> Operand:
    grad, positions, _, padding, by_frequency = call.args[:5]
    kind, sizes = call.types[0]
    updates = b.convert(grad, kind)
    if by_frequency:
        ones = b.splat(1, kind, b.shape(positions))
        counts = put(b, b.splat(0, kind, sizes[:1]), {0: positions}, ones, 0, "add")
        often = take(b, counts, {0: positions}, 0)
        updates = hlo.divide(updates, hlo.broadcast_in_dim(updates.type, often, list(range(len(b.shape(often))))))
    if padding >= 0:
        keep = b.compare("NE", positions, b.splat(padding, b.element(positions), b.shape(positions)))
        grid = b.shape(updates)
        keep = hlo.broadcast_in_dim(b.tensor("i1", grid), keep, list(range(len(grid) - 1)))
        updates = hlo.select(keep, updates, b.splat(0, kind, grid))
    return put(b, b.splat(0, kind, sizes), {0: positions}, updates, 0, "add")


# -- element by element ------------------------------------------------------------------------


def _grid(b: Builder, dimension: int, positions: ir.Value) -> dict[int, ir.Value]:
    """Columns that address element (i, .., positions[i, .., k], ..) along `dimension`."""
    sizes = b.shape(positions)
    kind = "i32" if b.element(positions) == "i32" else "i64"
    return {d: positions if d == dimension else b.iota(kind, sizes, d) for d in range(len(sizes))}


@lowering("aten.gather.default", through="read")
def gather(b: Builder, call: Call) -> ir.Value:
    operand, dimension, positions = call.args[:3]
    sizes = b.shape(positions)
    if math.prod(sizes) == 0:
        return b.splat(0, *call.types[0])
    operand = _at_least_1d(b, operand)
    positions = positions if sizes else b.reshape(positions, (1,))
    columns = _grid(b, axis_of(dimension, len(shape(b, operand))), positions)
    return b.reshape(take(b, operand, columns, 0), call.types[0][1])


def _scattered(
    b: Builder, operand: Operand, dimension: int, positions: ir.Value, source: Any
) -> tuple[dict[int, ir.Value], ir.Value]:
    """Columns and updates of a scatter: the source is cut to the index's sizes."""
    sizes = b.shape(positions) or (1,)
    positions = b.reshape(positions, sizes)
    kind = element(b, operand)
    if not isinstance(source, ir.Value) or not b.shape(source):
        updates = _as_element(b, source, kind, sizes)
    else:
        updates = b.convert(source, kind)
        if b.shape(updates) != sizes:
            updates = hlo.slice(updates, [0] * len(sizes), list(sizes), [1] * len(sizes))
    return _grid(b, axis_of(dimension, len(sizes)), positions), updates


@lowering(
    "aten.scatter.src", "aten.scatter.value", "aten.scatter.reduce", "aten.scatter.value_reduce",
    "aten.scatter_add.default", through="update",
)  # fmt: skip
def scatter(b: Builder, call: Call) -> Operand:
    operand, dimension, positions, source = call.args[:4]
    reduce = "add" if call.target == "aten.scatter_add.default" else call.arg(4, "reduce")
    original = operand
    if math.prod(b.shape(positions)) == 0:
        return operand
    operand = _at_least_1d(b, operand)
    columns, updates = _scattered(b, operand, dimension, positions, source)
    return _like(b, put(b, operand, columns, updates, 0, _REDUCTIONS[reduce] if reduce else "assign"), original)


@lowering("aten.scatter_reduce.two", through="update")
def scatter_reduce(b: Builder, call: Call) -> Operand:
    operand, dimension, positions, source, reduce = call.args[:5]
    if math.prod(b.shape(positions)) == 0:
        return operand
    original, operand = operand, _at_least_1d(b, operand)
    columns, updates = _scattered(b, operand, dimension, positions, source)
    return _like(b, _reduce_into(b, operand, columns, updates, 0, reduce, call.arg(5, "include_self", True)), original)


def _reduce_into(
    b: Builder, operand: Operand, columns: dict[int, ir.Value], updates: ir.Value, at: int, reduce: str, include: bool
) -> Operand:
    """Reduce updates into indexed places; without `include` what was there does not take part."""
    kind, sizes = element(b, operand), shape(b, operand)
    combination = _REDUCTIONS[reduce]
    start = operand
    if not include:
        neutral = b.splat(_neutral(combination, kind), kind, b.shape(updates))
        start = put(b, operand, columns, neutral, at)
    total = put(b, start, columns, updates, at, combination)
    if reduce != "mean":
        return total
    counted = b.splat(1, kind, b.shape(updates))
    count = value(b, put(b, b.splat(1 if include else 0, kind, sizes), columns, counted, at, "add"))
    if not include:
        count = hlo.maximum(count, b.splat(1, kind, sizes))
    return _divide(b, value(b, total), count)


def _divide(b: Builder, total: ir.Value, count: ir.Value) -> ir.Value:
    """Division that rounds down for integers."""
    kind, sizes = b.element(total), b.shape(total)
    quotient = hlo.divide(total, count)
    if kind[0] != "i":
        return quotient
    rest = hlo.subtract(total, hlo.multiply(quotient, count))
    return hlo.subtract(quotient, b.convert(b.compare("LT", rest, b.splat(0, kind, sizes)), kind))


def _neutral(combination: Combination, kind: str) -> float | int:
    if combination in ("add", "multiply"):
        return int(combination == "multiply")
    least = combination == "maximum"
    if kind == "i1":
        return not least
    if kind[0] in "iu":
        width = int(kind.lstrip("ui"))
        low, high = (0, (1 << width) - 1) if kind[0] == "u" else (-(1 << (width - 1)), (1 << (width - 1)) - 1)
        return low if least else high
    return float("-inf") if least else float("inf")


# -- flat positions ----------------------------------------------------------------------------


@lowering("aten.take.default")
def take_flat(b: Builder, call: Call) -> ir.Value:
    operand, positions = call.args[:2]
    numel = math.prod(b.shape(operand))
    return take(b, b.reshape(operand, (numel,)), {0: _wrap(b, positions, numel)}, 0)


@lowering("aten.put.default")
def put_flat(b: Builder, call: Call) -> ir.Value:
    operand, positions, source = call.args[:3]
    numel = math.prod(b.shape(operand))
    column = _wrap(b, positions, numel)
    updates = b.reshape(b.convert(source, b.element(operand)), b.shape(column))
    combination: Combination = "add" if call.arg(3, "accumulate", False) else "assign"
    flat = put(b, b.reshape(operand, (numel,)), {0: column}, updates, 0, combination)
    return b.reshape(value(b, flat), b.shape(operand))


# -- masks -------------------------------------------------------------------------------------


@lowering("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def masked_fill(b: Builder, call: Call) -> ir.Value:
    kind, sizes = call.types[0]
    mask = b.broadcast(b.convert(call.args[1], "i1"), sizes)
    return windows.choose(b, mask, _as_element(b, call.args[2], kind, sizes), b.broadcast(call.args[0], sizes))


@lowering("aten.masked_scatter.default")
def masked_scatter(b: Builder, call: Call) -> ir.Value:
    operand, mask, source = call.args[:3]
    _, sizes = call.types[0]
    operand, mask = b.broadcast(operand, sizes), b.broadcast(b.convert(mask, "i1"), sizes)
    count = math.prod(b.shape(source))
    if count == 0 or 0 in sizes:
        return operand
    return windows.choose(b, mask, _masked_values(b, mask, b.reshape(source, (count,))), operand)


@lowering("aten.masked_select.default", "aten.nonzero.default")
def data_dependent(b: Builder, call: Call) -> ir.Value:
    raise UnsupportedError("its size is known only at run time; use torch.where or a fixed-size form")
