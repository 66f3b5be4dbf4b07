"""Functional collectives over listed replica groups, in the operators that the Neuron compiler documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from compiler.errors import UnsupportedError
from compiler.lowering.builder import Builder
from compiler.lowering.registry import Call, lowering

_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": hlo.add, "avg": hlo.add, "prod": hlo.multiply, "min": hlo.minimum, "max": hlo.maximum, "and": hlo.and_, "or": hlo.or_,
}  # fmt: skip


@lowering("collective.value_wait_tensor")
def wait_tensor(b: Builder, call: Call) -> ir.Value:
    """Values are there when they are used."""
    return call.args[0]


@lowering("collective.value_all_reduce")
def all_reduce(b: Builder, call: Call) -> Sequence[ir.Value]:
    return [_all_reduce(b, value, call.kwargs["reduction"], ranks) for value, ranks in _operands(call)]


@lowering("collective.value_all_gather")
def all_gather(b: Builder, call: Call) -> Sequence[ir.Value]:
    return [_all_gather(b, value, ranks) for value, ranks in _operands(call)]


@lowering("collective.value_reduce_scatter")
def reduce_scatter(b: Builder, call: Call) -> Sequence[ir.Value]:
    return [_reduce_scatter(b, value, call.kwargs["reduction"], ranks) for value, ranks in _operands(call)]


@lowering("collective.value_all_to_all")
def all_to_all(b: Builder, call: Call) -> ir.Value:
    ((value, ranks),) = _operands(call)
    sent, received, rows = call.kwargs["sent"], call.kwargs["received"], b.shape(value)[0]
    if any(n * ranks.width != rows for n in (*sent, *received)):
        raise UnsupportedError(
            f"ranks exchange uneven parts ({list(sent)} of {rows} rows, for {list(received)}), and HLO exchanges equal ones "
            "in one program for all ranks; pad the parts, or give the permutation if it is one"
        )
    return hlo.AllToAllOp([value], 0, 0, ranks.width, ranks.attribute()).results[0]


@lowering("collective.value_broadcast")
def broadcast(b: Builder, call: Call) -> Sequence[ir.Value]:
    """Everybody gathers, and takes the part of rank number `source` of the group."""
    source = call.kwargs["source"]
    results: list[ir.Value] = []
    for value, ranks in _operands(call):
        shape = b.shape(value)
        parts = _all_gather(b, b.reshape(value, (1, *shape)), ranks)
        rest = [0] * len(shape)
        part = hlo.slice(parts, [source, *rest], [source + 1, *shape], [1] * (len(shape) + 1))
        results.append(b.reshape(part, shape))
    return results


@lowering("collective.value_permute")
def permute(b: Builder, call: Call) -> Sequence[ir.Value]:
    results: list[ir.Value] = []
    for value, ranks in _operands(call):
        pairs = [(group[n], group[to]) for group in ranks.groups for n, to in enumerate(call.kwargs["destinations"])]
        results.append(hlo.CollectivePermuteOp(value, ir.DenseIntElementsAttr.get(np.array(pairs, np.int64))).result)
    return results


# -- who works together ------------------------------------------------------------------------


@dataclass(frozen=True)
class _Ranks:
    """The groups of a collective, and its number.

    A module is one partition, run by as many replicas as there are ranks, so groups list replicas. For operators that reduce
    and gather a channel leaves it at that; for the others it would make them list partitions, so they have none.
    """

    groups: tuple[tuple[int, ...], ...]
    channel: int

    @property
    def width(self) -> int:
        return len(self.groups[0])

    def attribute(self) -> ir.Attribute:
        """One row per group."""
        return ir.DenseIntElementsAttr.get(np.array(self.groups, np.int64))

    def handle(self) -> ir.Attribute | None:
        """Device to device."""
        return hlo.ChannelHandle.get(self.channel, 1) if self.channel else None


def _operands(call: Call) -> list[tuple[ir.Value, _Ranks]]:
    """Each tensor with its groups and a number of its own: the collective is a channel for every operand."""
    groups, channel = call.kwargs["groups"], call.kwargs.get("channel", 0)
    if isinstance(groups, str):
        raise UnsupportedError(f"the ranks of process group {groups!r} are not known; resolve the replica groups first")
    values = call.args[0] if isinstance(call.args[0], list) else [call.args[0]]
    return [(value, _Ranks(groups, channel and channel + n)) for n, value in enumerate(values)]


# -- forms -------------------------------------------------------------------------------------


def _all_reduce(b: Builder, value: ir.Value, reduction: str, ranks: _Ranks) -> ir.Value:
    element = b.element(value)
    combine = _reduction(reduction, element)
    if combine in (hlo.and_, hlo.or_) and element != "i1":
        return _bitwise(b, value, combine, ranks)
    op = hlo.AllReduceOp([value.type], [value], ranks.attribute(), channel_handle=ranks.handle())
    b.region(op, [b.tensor(element, ())] * 2, combine)
    return _average(b, op.results[0], reduction, ranks)


def _bitwise(b: Builder, value: ir.Value, combine: Callable[..., Any], ranks: _Ranks) -> ir.Value:
    """Integers bit by bit: XLA's CPU back end reduces over ranks with `and` and `or` for booleans only."""
    element, shape = b.element(value), b.shape(value)
    parts = _all_gather(b, b.reshape(value, (1, *shape)), ranks)
    neutral = b.splat(-1 if combine is hlo.and_ else 0, element)
    return b.reduce([parts], [neutral], [0], combine)[0]


def _all_gather(b: Builder, value: ir.Value, ranks: _Ranks) -> ir.Value:
    shape = b.shape(value) or (1,)
    whole = b.tensor(b.element(value), (shape[0] * ranks.width, *shape[1:]))
    op = hlo.AllGatherOp([whole], [b.reshape(value, shape)], 0, ranks.attribute(), channel_handle=ranks.handle())
    return op.results[0]


def _reduce_scatter(b: Builder, value: ir.Value, reduction: str, ranks: _Ranks) -> ir.Value:
    shape, element = b.shape(value), b.element(value)
    part = b.tensor(element, (shape[0] // ranks.width, *shape[1:]))
    op = hlo.ReduceScatterOp(part, value, 0, ranks.attribute(), channel_handle=ranks.handle())
    b.region(op, [b.tensor(element, ())] * 2, _reduction(reduction, element))
    return _average(b, op.results[0], reduction, ranks)


def _average(b: Builder, value: ir.Value, reduction: str, ranks: _Ranks) -> ir.Value:
    if reduction != "avg":
        return value
    return hlo.divide(value, b.splat(ranks.width, b.element(value), b.shape(value)))


def _reduction(name: str, element: str) -> Callable[..., Any]:
    found = _REDUCTIONS.get(name)
    if found is None:
        raise UnsupportedError(f"there is no reduction {name!r} in HLO; use one of {', '.join(_REDUCTIONS)}")
    if found in (hlo.and_, hlo.or_) and not element.lstrip("u").startswith("i"):
        raise UnsupportedError(
            f"a reduction {name!r} over ranks is one of bits, and the elements are {element}; reduce integers or booleans "
            "(view the elements as integers of their width if their bits are meant)"
        )
    return found
