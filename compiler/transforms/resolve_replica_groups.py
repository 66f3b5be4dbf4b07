"""Every collective names its ranks: the process group is replaced by the partition of the world that it is part of.

The partition is full (sibling groups of one width that cover every rank once) and written the same on every rank, and
collectives are numbered in program order, so that all ranks compile one and the same program.

    resolve-replica-groups{groups="tp=0,1;2,3 dp=0,2;1,3"}

PyTorch turns a permutation of ranks into an exchange in which each rank sends all it has to one rank: every rank has another
program, and knows only its own part. Where the whole permutation is given, or follows from that part, the exchange becomes
a permutation again; elsewhere it is refused.

    resolve-replica-groups{groups="tp=0,1,2,3" permutations="tp=1,2,3,0;3,0,1,2" rank=2}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from compiler.errors import CompileError, UnsupportedError
from compiler.locations import source_of
from compiler.process_groups import checked, partitions, whole_permutation
from compiler.transforms.metadata import record
from dialects.arguments import Numbers, integer
from dialects.calls import HandleCall
from dialects.collective import AllToAll, Collective, Groups, Partition, PermuteOp, ValuePermuteOp

Permutations = Mapping[str, Sequence[Sequence[int]]]
"""By process group: the permutations in use, each as the destination of every rank of the group."""


@dataclass(frozen=True)
class ResolveReplicaGroups(ModulePass):
    """See the module's text.

    Options:
        groups: `name=rank,rank;rank,rank` for every process group, separated by spaces.
        permutations: `name=destination,destination;...`, likewise, by position in the group.
        rank: the rank whose program this is, -1 if it does not matter.
    """

    name: ClassVar[str] = "resolve-replica-groups"
    groups: str = ""
    permutations: str = ""
    rank: int = -1

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        groups = dict(_parse("groups", entry) for entry in self.groups.split())
        permutations = dict(_parse("permutations", entry) for entry in self.permutations.split())
        rank = self.rank if self.rank >= 0 else None
        record(op, "resolved_count", resolve_replica_groups(op, groups, permutations=permutations, rank=rank))


def resolve_replica_groups(
    module: ModuleOp,
    groups: Mapping[str, Sequence[Sequence[int]]],
    *,
    resolver: Callable[[str], Sequence[Sequence[int]]] | None = None,
    permutations: Permutations | None = None,
    rank: int | None = None,
) -> int:
    """Resolve the collectives of a module; how many there were.

    Args:
        resolver: asked for groups that are not in the table.
        rank: the rank of the world whose program this is.

    Raises:
        UnsupportedError: the ranks of a process group, or where the ranks of a permutation send, are not known.
        CompileError: a partition does not cover the world, its groups differ in width, or there are two worlds.
    """
    known = partitions(groups)
    count, channel = 0, 1
    for op in list(module.walk()):
        if not isinstance(op, Collective):
            continue
        op.channel = integer(channel)
        channel += len(op.args)
        if not isinstance(op.groups.data, str):
            continue
        name = op.groups.data
        if name not in known:
            known[name] = _ask(op, name, resolver)
        op.groups = Groups(known[name])
        count += 1
        _refuse_other_world(op, name, known)
        if isinstance(op, AllToAll):
            _make_permutation(op, name, known[name], (permutations or {}).get(name, ()), rank)
    return count


def _ask(op: Operation, name: str, resolver: Callable[[str], Sequence[Sequence[int]]] | None) -> Partition:
    location, node = source_of(op)
    if resolver is None:
        raise UnsupportedError(
            f"the ranks of process group {name!r} are not known", location=location, node=node,
            hint=f"give its partition of the world: {{{name!r}: [[ranks], ...]}}",
        )  # fmt: skip
    try:
        return checked(name, resolver(name))
    except CompileError as error:
        raise type(error)(error.message, location=location, node=node, hint=error.hint) from None


def _refuse_other_world(op: Operation, name: str, known: Mapping[str, Partition]) -> None:
    """The groups of a program are partitions of one world."""
    worlds = {other: sum(map(len, groups)) for other, groups in known.items()}
    other = next((other for other, size in worlds.items() if size != worlds[name]), None)
    if other is not None:
        location, node = source_of(op)
        raise CompileError(
            f"process group {name!r} is part of a world of {worlds[name]} ranks, {other!r} of one of {worlds[other]}",
            location=location, node=node,
        )  # fmt: skip


def _make_permutation(
    op: AllToAll, name: str, groups: Partition, given: Sequence[Sequence[int]], rank: int | None
) -> None:
    """An exchange in which this rank sends to one rank and hears from one becomes a permutation of all."""
    (to, sources), size = (_busy(op.sent.data), _busy(op.received.data)), len(groups[0])
    if size < 2 or len(to) != 1 or len(sources) != 1:
        return
    own = next((group.index(rank) for group in groups if rank in group), None)
    try:
        destinations = _choose(name, size, own, to[0], sources[0], given)
    except UnsupportedError as error:
        location, node = source_of(op)
        raise UnsupportedError(error.message, location=location, node=node, hint=error.hint) from None
    handles = isinstance(op, HandleCall)
    properties = {name: value for name, value in op.properties.items() if name not in ("sent", "received")}
    properties["destinations"] = Numbers(destinations)
    permute = (PermuteOp if handles else ValuePermuteOp).create(
        operands=op.args, result_types=[r.type for r in op.outs], properties=properties, attributes=op.attributes,
        location=op.location,
    )  # fmt: skip
    block = op.parent_block()
    assert block is not None
    block.insert_op_before(permute, op)
    for result, value in zip(op.outs, permute.results, strict=True):
        result.replace_all_uses_with(value)
    block.erase_op(op)


def _busy(counts: Sequence[int]) -> list[int]:
    return [position for position, rows in enumerate(counts) if rows]


def _choose(
    name: str, size: int, own: int | None, to: int, source: int, given: Sequence[Sequence[int]]
) -> tuple[int, ...]:
    """The permutation that this rank's part belongs to."""
    if not given and own is not None:
        return whole_permutation(name, size, own, to, source)
    fitting = {
        tuple(p)
        for p in given
        if sorted(p) == list(range(size)) and p[p[source]] == to and (own is None or p[source] == own)
    }
    if len(fitting) == 1:
        return fitting.pop()
    found = " and ".join(str(list(p)) for p in sorted(fitting)) or "none of those given"
    raise UnsupportedError(
        f"one rank of group {name!r} sends all it has to rank {to} and hears from {source}; which permutation of {size} ranks "
        f"that is part of is not clear: {found}",
        hint=f"pass permutations={{{name!r}: [[destination of each rank], ...]}}, and the rank",
    )


def _parse(option: str, entry: str) -> tuple[str, list[list[int]]]:
    name, _, text = entry.partition("=")
    try:
        return name, [[int(rank) for rank in group.split(",")] for group in text.split(";")]
    except ValueError:
        raise CompileError(f"{option}: {entry!r} is not of the form name=0,1;2,3") from None
