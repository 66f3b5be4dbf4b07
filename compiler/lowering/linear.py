"""Matrix products. 16-bit floats multiply exactly and accumulate in f32; one rounding at the end."""

from __future__ import annotations

from collections.abc import Sequence

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from compiler.errors import UnsupportedError
from compiler.lowering.builder import Builder
from compiler.lowering.elementwise import like, multiply
from compiler.lowering.promotion import finish, operands, wide
from compiler.lowering.reassociation import factors
from compiler.lowering.registry import Call, lowering
from compiler.lowering.wrapping import wrapping


def contract(
    b: Builder, left: ir.Value, right: ir.Value, contracted: tuple[Sequence[int], Sequence[int]],
    batch: tuple[Sequence[int], Sequence[int]] = ((), ()),
) -> ir.Value:  # fmt: skip
    """dot_general in the accumulation type: batch dimensions, then the free ones of `left`, then of `right`.

    An operand that is a transpose is contracted where it lies: XLA's CPU back end would copy a transposed weight for
    every matrix-vector product.
    """
    left, batch_left, contracted_left = _untransposed(b, left, batch[0], contracted[0])
    right, batch_right, contracted_right = _untransposed(b, right, batch[1], contracted[1])
    batch, contracted = (batch_left, batch_right), (contracted_left, contracted_right)
    shared = _without_broadcast(right, *batch, contracted[1])
    if shared is not None:  # one matrix for the whole batch: the batch is nothing but more rows
        right, contracted = shared[0], (contracted[0], shared[1])
        right, _, contracted_right = _untransposed(b, right, (), contracted[1])
        batch, contracted = ((), ()), (contracted[0], contracted_right)
    if all(b.shape(left)[d] == 1 for d in contracted[0]):
        left, right = factors(b, left, right)
    numbers = hlo.DotDimensionNumbers.get(list(batch[0]), list(batch[1]), list(contracted[0]), list(contracted[1]))
    have, other = b.shape(left), b.shape(right)
    shape = [have[d] for d in batch[0]]
    shape += [s for d, s in enumerate(have) if d not in batch[0] and d not in contracted[0]]
    shape += [s for d, s in enumerate(other) if d not in batch[1] and d not in contracted[1]]
    return wrapping(b, hlo.dot_general(b.tensor(wide(b.element(left)), tuple(shape)), left, right, numbers))


def _untransposed(
    b: Builder, value: ir.Value, batch: Sequence[int], contracted: Sequence[int]
) -> tuple[ir.Value, Sequence[int], Sequence[int]]:
    """The operand of a transpose, with the dimensions renumbered, where the free ones keep their order."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "stablehlo.transpose":
        return value, batch, contracted
    order = list(ir.DenseI64ArrayAttr(owner.attributes["permutation"]))
    free = [order[d] for d in range(len(order)) if d not in batch and d not in contracted]
    if free != sorted(free):
        return value, batch, contracted
    return owner.operands[0], [order[d] for d in batch], [order[d] for d in contracted]


def _without_broadcast(
    right: ir.Value, batch_left: Sequence[int], batch_right: Sequence[int], contracted: Sequence[int]
) -> tuple[ir.Value, Sequence[int]] | None:
    """What `right` repeats over its batch dimensions, where these lead both operands, and what is contracted in it."""
    owner = right.owner
    count = len(batch_right)
    if not count or isinstance(owner, ir.Block) or owner.name != "stablehlo.broadcast_in_dim":
        return None
    if list(batch_left) != list(range(count)) or list(batch_right) != list(range(count)):
        return None
    dimensions = list(ir.DenseI64ArrayAttr(owner.attributes["broadcast_dimensions"]))
    inner = owner.operands[0]
    whole = list(ir.RankedTensorType(right.type).shape)[count:]
    if dimensions != list(range(count, count + len(whole))) or list(ir.RankedTensorType(inner.type).shape) != whole:
        return None
    return inner, [d - count for d in contracted]


def matrix_product(b: Builder, left: ir.Value, right: ir.Value) -> ir.Value:
    """`left @ right` over equal leading dimensions."""
    rank = len(b.shape(left))
    batch = tuple(range(rank - 2))
    return contract(b, left, right, ((rank - 1,), (rank - 2,)), (batch, batch))


def _plus(b: Builder, call: Call, product: ir.Value) -> ir.Value:
    """beta * self + alpha * product; with beta 0 `self` is not even read, so its NaNs do not count."""
    beta, alpha = call.arg(3, "beta", 1), call.arg(4, "alpha", 1)
    if alpha != 1:
        product = multiply(b, product, like(b, alpha, product))
    if beta != 0:
        (addend,) = operands(b, call.args[:1], b.element(product), call.types[0][1])
        addend = addend if beta == 1 else multiply(b, addend, like(b, beta, addend))
        product = b.plus(addend, product)
    return finish(b, call, product)


@lowering("aten.mm.default", "aten.bmm.default", "aten.mm.dtype", "aten.bmm.dtype")
def mm(b: Builder, call: Call) -> ir.Value:
    return finish(b, call, matrix_product(b, call.args[0], call.args[1]))


@lowering("aten._int_mm.default")
def int_mm(b: Builder, call: Call) -> ir.Value:
    """i8 times i8 in i32."""
    left, right = (b.convert(v, call.types[0][0]) for v in call.args)
    return finish(b, call, matrix_product(b, left, right))


@lowering("aten.addmm.default", "aten.baddbmm.default")
def addmm(b: Builder, call: Call) -> ir.Value:
    return _plus(b, call, matrix_product(b, call.args[1], call.args[2]))


@lowering("aten.addbmm.default")
def addbmm(b: Builder, call: Call) -> ir.Value:
    """The batch is summed as well: one contraction over both."""
    return _plus(b, call, contract(b, call.args[1], call.args[2], ((0, 2), (0, 1))))


@lowering("aten.mv.default")
def mv(b: Builder, call: Call) -> ir.Value:
    return finish(b, call, contract(b, call.args[0], call.args[1], ((1,), (0,))))


@lowering("aten.addmv.default")
def addmv(b: Builder, call: Call) -> ir.Value:
    return _plus(b, call, contract(b, call.args[1], call.args[2], ((1,), (0,))))


@lowering("aten.dot.default")
def dot(b: Builder, call: Call) -> ir.Value:
    return finish(b, call, contract(b, call.args[0], call.args[1], ((0,), (0,))))


@lowering("aten.vdot.default")
def vdot(b: Builder, call: Call) -> ir.Value:
    left, right = call.args
    if b.element(left).startswith("complex"):
        left = hlo.complex(hlo.real(left), hlo.negate(hlo.imag(left)))
    return finish(b, call, contract(b, left, right, ((0,), (0,))))


@lowering("aten.addr.default")
def addr(b: Builder, call: Call) -> ir.Value:
    rows, columns = (b.convert(v, wide(call.types[0][0])) for v in call.args[1:3])
    return _plus(b, call, contract(b, rows, columns, ((), ())))


@lowering("aten.linear.default")
def linear(b: Builder, call: Call) -> ir.Value:
    x, weight, bias = call.args[0], call.args[1], call.arg(2, "bias")
    product = contract(b, x, weight, ((len(b.shape(x)) - 1,), (len(b.shape(weight)) - 1,)))
    if bias is not None:
        product = b.plus(product, *operands(b, [bias], b.element(product), call.types[0][1]))
    return finish(b, call, product)


@lowering("aten.matmul.default")
def matmul(b: Builder, call: Call) -> ir.Value:
    """Vectors gain a dimension that the result's shape drops again; leading dimensions broadcast."""
    left, right = call.args
    if len(b.shape(left)) == 1:
        left = b.reshape(left, (1, *b.shape(left)))
    if len(b.shape(right)) == 1:
        right = b.reshape(right, (*b.shape(right), 1))
    if len(b.shape(right)) == 2:
        product = contract(b, left, right, ((len(b.shape(left)) - 1,), (0,)))
    else:
        leads = [
            (1,) * (max(len(b.shape(left)), len(b.shape(right))) - len(b.shape(v))) + b.shape(v)[:-2]
            for v in (left, right)
        ]
        lead = tuple(m if n == 1 else n for n, m in zip(*leads, strict=True))
        left, right = (b.broadcast(v, (*lead, *b.shape(v)[-2:])) for v in (left, right))
        product = matrix_product(b, left, right)
    return b.reshape(b.convert(product, call.types[0][0]), call.types[0][1])


@lowering("aten._grouped_mm.default", "transformers.grouped_mm_fallback.default")
def grouped_mm(b: Builder, call: Call) -> ir.Value:
    """Each row times its group's matrix; `offs` holds where each group of rows ends.

    One contraction over groups and inner dimension, in which a row is zero outside its own group.
    """
    left, right, ends, bias = call.args[0], call.args[1], call.arg(2, "offs"), call.arg(3, "bias")
    if len(b.shape(left)) == len(b.shape(right)) == 3 and bias is None:
        return finish(b, call, matrix_product(b, left, right))
    if len(b.shape(left)) != 2 or len(b.shape(right)) != 3 or bias is not None:
        raise UnsupportedError("_grouped_mm other than rows by a stack of matrices", hint="write it as matrix products")
    rows, inner = b.shape(left)
    spread = (rows, b.shape(right)[0], inner)
    row, end = b.iota(b.element(ends), spread[:2], 0), b.broadcast(ends, spread[:2])
    before = hlo.pad(ends, b.splat(0, b.element(ends)), [1], [-1], [0])
    member = hlo.and_(b.compare("LT", row, end), b.compare("GE", row, b.broadcast(before, spread[:2])))
    placed = b.broadcast(b.reshape(left, (rows, 1, inner)), spread)
    mask = b.broadcast(b.reshape(member, (*spread[:2], 1)), spread)
    placed = hlo.select(mask, placed, b.splat(0, b.element(left), spread))
    return finish(b, call, contract(b, placed, right, ((1, 2), (0, 1))))
