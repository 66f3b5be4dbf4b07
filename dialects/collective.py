"""Collectives: calls in which the ranks of a group exchange data, on handles (`collective.all_reduce`) and on values
(`collective.value_all_reduce`).

    %1 = collective.all_reduce(%x) "sum" groups<"tp"> effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
    %2 = collective.value_all_reduce(%x) "sum" groups<[0, 1], [2, 3]> channel 1 : (tensor<4xf32>) -> tensor<4xf32>

`groups` is the name of a process group until `resolve-replica-groups` spells out which ranks work together: a partition of the
world into groups of one width, the same on every rank. That pass numbers the collectives too, in program order (`channel`).
Several operands make a coalesced collective, one result for each. Ranks are numbers of the world in `groups`, and positions
within a group everywhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, MemRefType, StringAttr, TensorType, i64
from xdsl.ir import Attribute, Data, Dialect
from xdsl.irdl import irdl_attr_definition, irdl_op_definition, opt_prop_def, prop_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from dialects.arguments import Numbers, Operand, integer
from dialects.calls import HandleCall, OperatorCall, ValueCall

NAMESPACE = "_c10d_functional"
"""PyTorch's operators of these names are what a collective calls."""

Partition = tuple[tuple[int, ...], ...]


@irdl_attr_definition
class Groups(Data[str | Partition]):
    """The name of a process group, or the partition of the world that it is part of."""

    name = "collective.groups"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str | Partition:
        def group() -> tuple[int, ...]:
            def rank() -> int:
                return parser.parse_integer(allow_boolean=False, allow_negative=False)

            return tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, rank))

        with parser.in_angle_brackets():
            name = parser.parse_optional_str_literal()
            return name if name is not None else tuple(parser.parse_comma_separated_list(parser.Delimiter.NONE, group))

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            if isinstance(self.data, str):
                printer.print_string_literal(self.data)
            else:
                printer.print_string(", ".join(str(list(group)) for group in self.data))

    @property
    def width(self) -> int:
        """Ranks in a group, 0 when they are not known."""
        return 0 if isinstance(self.data, str) else len(self.data[0])


def verify_partition(groups: Sequence[Sequence[int]]) -> None:
    """Raise VerifyException unless groups of one width cover the ranks 0..n-1 once."""
    listed = [list(group) for group in groups]
    ranks = sorted(rank for group in groups for rank in group)
    if not ranks or ranks != list(range(len(ranks))):
        raise VerifyException(f"the groups {listed} do not cover every rank once")
    if len({len(group) for group in groups}) > 1:
        raise VerifyException(f"the groups {listed} differ in width")


# -- what a collective is made of ----------------------------------------------------------------


class Collective(OperatorCall):
    """A collective in either form.

    Args:
        groups: who works together.
        channel: a number that no other collective of the program has; its further operands have the numbers behind it.
    """

    BASE: ClassVar[str] = ""
    groups = prop_def(Groups)
    channel = opt_prop_def(IntegerAttr.constr(i64))

    @property
    def target(self) -> StringAttr:
        """PyTorch's operator: several operands make the coalesced one, a write the in-place one."""
        coalesced = "_coalesced" if len(self.args) != 1 else ""
        in_place = "_" if isinstance(self, HandleCall) and self.effects.writes() else ""
        return StringAttr(f"{NAMESPACE}.{self.BASE}{coalesced}{in_place}.default")

    @property
    def arguments(self) -> ArrayAttr[Attribute]:
        operands: list[Attribute] = [Operand(number) for number in range(len(self.args))]
        first = operands[0] if len(operands) == 1 else ArrayAttr(operands)
        return ArrayAttr([first, *self.between(), self._group()])

    def in_pytorch(self) -> tuple[tuple[Attribute, ...], dict[str, Attribute]]:
        return self.arguments.data, {}

    def between(self) -> Sequence[Attribute]:
        """PyTorch's arguments between the tensors and the group."""
        return ()

    def _group(self) -> Attribute:
        if isinstance(self.groups.data, str):
            return StringAttr(self.groups.data)
        return ArrayAttr([ArrayAttr([integer(rank) for rank in group]) for group in self.groups.data])

    def verify_ranks(self) -> None:
        if not isinstance(self.groups.data, str):
            verify_partition(self.groups.data)
        if len(self.outs) != len(self.args) or not self.args:
            raise VerifyException(f"{len(self.outs)} results for {len(self.args)} operands")
        for operand, result in zip(self.args, self.outs, strict=True):
            (element, sizes), (given, shape) = _form(operand.type), _form(result.type)
            if element != given:
                raise VerifyException(
                    f"a collective does not change the element type: {operand.type} and {result.type}"
                )
            if -1 not in (*sizes, *shape):
                self.verify_shape(sizes, shape)

    def verify_shape(self, sizes: Sequence[int], shape: Sequence[int]) -> None:
        """Compare the sizes of an operand and of its result."""
        if sizes != shape:
            raise VerifyException(f"every rank gets what it gives, {list(sizes)}, and not {list(shape)}")

    def verify_size(self, size: int) -> None:
        if size < 1 or (self.groups.width and size != self.groups.width):
            raise VerifyException(f"the call speaks of {size} ranks, its groups have {self.groups.width}")

    def verify_member(self, what: str, rank: int) -> None:
        if rank < 0 or (self.groups.width and rank >= self.groups.width):
            raise VerifyException(f"{what} {rank} is not in a group of {self.groups.width}")


def _form(kind: Attribute) -> tuple[Attribute, tuple[int, ...]]:
    if not isinstance(kind, MemRefType | TensorType):
        raise VerifyException(f"ranks exchange tensors, not values of type {kind}")
    return kind.element_type, tuple(kind.get_shape())


class AllReduce(Collective):
    """Every rank gets the combination of all: `sum`, `prod`, `min`, `max`, `and`, `or`, `avg`."""

    BASE: ClassVar[str] = "all_reduce"
    reduction = prop_def(StringAttr)

    def between(self) -> Sequence[Attribute]:
        return (reduction_in_pytorch(self.reduction),)


class AllGather(Collective):
    """Every rank gets the parts of all, one behind the other, in the order of the group."""

    BASE: ClassVar[str] = "all_gather_into_tensor"
    size = prop_def(IntegerAttr.constr(i64))

    def between(self) -> Sequence[Attribute]:
        return (self.size,)

    def verify_shape(self, sizes: Sequence[int], shape: Sequence[int]) -> None:
        size, (first, *rest) = self.size.value.data, sizes or (1,)
        self.verify_size(size)
        if list(shape) != [first * size, *rest]:
            raise VerifyException(f"{size} parts of sizes {list(sizes)} do not make {list(shape)}")


class ReduceScatter(Collective):
    """Each rank gets its part of the combination of all."""

    BASE: ClassVar[str] = "reduce_scatter_tensor"
    reduction = prop_def(StringAttr)
    size = prop_def(IntegerAttr.constr(i64))

    def between(self) -> Sequence[Attribute]:
        return reduction_in_pytorch(self.reduction), self.size

    def verify_shape(self, sizes: Sequence[int], shape: Sequence[int]) -> None:
        size = self.size.value.data
        self.verify_size(size)
        if not sizes or sizes[0] % size:
            raise VerifyException(f"{list(sizes)[:1]} rows cannot be scattered evenly over {size} ranks; pad them")
        if list(shape) != [sizes[0] // size, *sizes[1:]]:
            raise VerifyException(f"one of {size} parts of {list(sizes)} does not have sizes {list(shape)}")


class AllToAll(Collective):
    """Each rank sends `sent[i]` rows to rank i of its group, and gets `received[i]` rows from it."""

    BASE: ClassVar[str] = "all_to_all_single"
    sent = prop_def(Numbers)
    received = prop_def(Numbers)

    def between(self) -> Sequence[Attribute]:
        return ArrayAttr(map(integer, self.received.data)), ArrayAttr(map(integer, self.sent.data))

    def verify_shape(self, sizes: Sequence[int], shape: Sequence[int]) -> None:
        for counts, rows in ((self.sent.data, sizes), (self.received.data, shape)):
            self.verify_size(len(counts))
            if min(counts) < 0 or not rows or sum(counts) != rows[0]:
                raise VerifyException(f"the parts {list(counts)} are not those of a tensor of sizes {list(rows)}")
        if sizes[1:] != shape[1:]:
            raise VerifyException(f"rows of sizes {list(sizes[1:])} do not become rows of sizes {list(shape[1:])}")


class Broadcast(Collective):
    """Every rank gets what rank `source` of its group gives."""

    BASE: ClassVar[str] = "broadcast"
    source = prop_def(IntegerAttr.constr(i64))

    def between(self) -> Sequence[Attribute]:
        return (self.source,)

    def verify_shape(self, sizes: Sequence[int], shape: Sequence[int]) -> None:
        super().verify_shape(sizes, shape)
        self.verify_member("rank", self.source.value.data)


class Permute(Collective):
    """Rank i of each group sends what it gives to rank `destinations[i]` of its group; PyTorch has no operator for it."""

    BASE: ClassVar[str] = "permute"
    destinations = prop_def(Numbers)

    def between(self) -> Sequence[Attribute]:
        return (ArrayAttr(map(integer, self.destinations.data)),)

    def verify_shape(self, sizes: Sequence[int], shape: Sequence[int]) -> None:
        super().verify_shape(sizes, shape)
        self.verify_size(len(self.destinations.data))
        if sorted(self.destinations.data) != list(range(len(self.destinations.data))):
            raise VerifyException(f"the destinations {list(self.destinations.data)} are no permutation")


_TO_PYTORCH = {"prod": "product", "and": "band", "or": "bor"}
_FROM_PYTORCH = {there: here for here, there in _TO_PYTORCH.items()}


def reduction_in_pytorch(reduction: StringAttr) -> StringAttr:
    """PyTorch's name of a reduction."""
    return StringAttr(_TO_PYTORCH.get(reduction.data, reduction.data))


def reduction_from_pytorch(reduction: str) -> StringAttr:
    """The name here of one of PyTorch's reductions."""
    return StringAttr(_FROM_PYTORCH.get(reduction.lower(), reduction.lower()))


# -- operations --------------------------------------------------------------------------------


class OnHandles(Collective, HandleCall):
    def verify_(self) -> None:
        super().verify_()
        self.verify_ranks()


class OnValues(Collective, ValueCall):
    def verify_(self) -> None:
        super().verify_()
        self.verify_ranks()


def _handles(own: str) -> str:
    return (
        f"`(` $args `)` {own} `groups` `` $groups (`channel` $channel^)? `effects` `` $effects `results` `` $aliases "
        "(`value` `` $value^)? attr-dict `:` functional-type($args, $outs)"
    )


def _values(own: str) -> str:
    return f"`(` $args `)` {own} `groups` `` $groups (`channel` $channel^)? attr-dict `:` functional-type($args, $outs)"


@irdl_op_definition
class AllReduceOp(AllReduce, OnHandles):
    name = "collective.all_reduce"
    assembly_format = _handles("$reduction")

    @classmethod
    def value_op(cls) -> type[ValueCall]:
        return ValueAllReduceOp


@irdl_op_definition
class ValueAllReduceOp(AllReduce, OnValues):
    name = "collective.value_all_reduce"
    assembly_format = _values("$reduction")


@irdl_op_definition
class AllGatherOp(AllGather, OnHandles):
    name = "collective.all_gather"
    assembly_format = _handles("`size` $size")

    @classmethod
    def value_op(cls) -> type[ValueCall]:
        return ValueAllGatherOp


@irdl_op_definition
class ValueAllGatherOp(AllGather, OnValues):
    name = "collective.value_all_gather"
    assembly_format = _values("`size` $size")


@irdl_op_definition
class ReduceScatterOp(ReduceScatter, OnHandles):
    name = "collective.reduce_scatter"
    assembly_format = _handles("$reduction `size` $size")

    @classmethod
    def value_op(cls) -> type[ValueCall]:
        return ValueReduceScatterOp


@irdl_op_definition
class ValueReduceScatterOp(ReduceScatter, OnValues):
    name = "collective.value_reduce_scatter"
    assembly_format = _values("$reduction `size` $size")


@irdl_op_definition
class AllToAllOp(AllToAll, OnHandles):
    name = "collective.all_to_all"
    assembly_format = _handles("`sent` `` $sent `received` `` $received")

    @classmethod
    def value_op(cls) -> type[ValueCall]:
        return ValueAllToAllOp


@irdl_op_definition
class ValueAllToAllOp(AllToAll, OnValues):
    name = "collective.value_all_to_all"
    assembly_format = _values("`sent` `` $sent `received` `` $received")


@irdl_op_definition
class BroadcastOp(Broadcast, OnHandles):
    name = "collective.broadcast"
    assembly_format = _handles("`from` $source")

    @classmethod
    def value_op(cls) -> type[ValueCall]:
        return ValueBroadcastOp


@irdl_op_definition
class ValueBroadcastOp(Broadcast, OnValues):
    name = "collective.value_broadcast"
    assembly_format = _values("`from` $source")


@irdl_op_definition
class PermuteOp(Permute, OnHandles):
    name = "collective.permute"
    assembly_format = _handles("`to` `` $destinations")

    @classmethod
    def value_op(cls) -> type[ValueCall]:
        return ValuePermuteOp


@irdl_op_definition
class ValuePermuteOp(Permute, OnValues):
    name = "collective.value_permute"
    assembly_format = _values("`to` `` $destinations")


class Wait(OperatorCall):
    """The result of a collective that is under way, once it is there."""

    @property
    def target(self) -> StringAttr:
        return StringAttr(f"{NAMESPACE}.wait_tensor.default")

    @property
    def arguments(self) -> ArrayAttr[Attribute]:
        return ArrayAttr([Operand(0)])

    def verify_wait(self) -> None:
        if len(self.args) != 1 or len(self.outs) != 1 or _form(self.args[0].type) != _form(self.outs[0].type):
            raise VerifyException("one waits for one tensor, and gets it as it is")


@irdl_op_definition
class WaitTensorOp(Wait, HandleCall):
    name = "collective.wait_tensor"
    assembly_format = (
        "`(` $args `)` `effects` `` $effects `results` `` $aliases (`value` `` $value^)? attr-dict "
        "`:` functional-type($args, $outs)"
    )

    @classmethod
    def value_op(cls) -> type[ValueCall]:
        return ValueWaitTensorOp

    def verify_(self) -> None:
        super().verify_()
        self.verify_wait()


@irdl_op_definition
class ValueWaitTensorOp(Wait, ValueCall):
    name = "collective.value_wait_tensor"
    assembly_format = "`(` $args `)` attr-dict `:` functional-type($args, $outs)"

    def verify_(self) -> None:
        super().verify_()
        self.verify_wait()


CollectiveDialect = Dialect(
    "collective",
    [
        AllReduceOp, ValueAllReduceOp, AllGatherOp, ValueAllGatherOp, ReduceScatterOp, ValueReduceScatterOp, AllToAllOp,
        ValueAllToAllOp, BroadcastOp, ValueBroadcastOp, PermuteOp, ValuePermuteOp, WaitTensorOp, ValueWaitTensorOp,
    ],
    [Groups],
)  # fmt: skip

__all__ = [
    "AllGatherOp", "AllReduceOp", "AllToAll", "AllToAllOp", "BroadcastOp", "Collective", "CollectiveDialect", "Groups",
    "NAMESPACE", "Partition", "PermuteOp", "ReduceScatterOp", "ValueAllGatherOp", "ValueAllReduceOp", "ValueAllToAllOp",
    "ValueBroadcastOp", "ValuePermuteOp", "ValueReduceScatterOp", "ValueWaitTensorOp", "WaitTensorOp", "reduction_from_pytorch",
    "reduction_in_pytorch", "verify_partition",
]  # fmt: skip
