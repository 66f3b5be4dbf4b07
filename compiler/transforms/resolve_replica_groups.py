"""Every collective names its ranks: the process group is replaced by the partition of the world that it is part of.

The partition is full (sibling groups of one width that cover every rank once) and written the same on every rank, so
that all ranks compile one and the same program.

    resolve-replica-groups{groups="tp=0,1;2,3 dp=0,2;1,3"}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute
from xdsl.passes import ModulePass

from compiler.errors import CompileError, UnsupportedError
from compiler.locations import source_of
from dialects.calls import HandleCall, ValueCall
from dialects.fx import integer

Groups = tuple[tuple[int, ...], ...]
NAMESPACES = frozenset({"_c10d_functional", "c10d_functional", "_c10d_functional_autograd"})


@dataclass(frozen=True)
class ResolveReplicaGroups(ModulePass):
    """See the module's text.

    Options:
        groups: `name=rank,rank;rank,rank` for every process group, separated by spaces.
    """

    name: ClassVar[str] = "resolve-replica-groups"
    groups: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        resolve_replica_groups(op, dict(_parse(entry) for entry in self.groups.split()))


def resolve_replica_groups(module: ModuleOp, groups: Mapping[str, Sequence[Sequence[int]]]) -> int:
    """Resolve the collectives of a module; how many there were.

    Raises:
        UnsupportedError: the ranks of a process group are not known.
        CompileError: a partition does not cover the world, or its groups differ in width.
    """
    known = {name: checked(name, partition) for name, partition in groups.items()}
    count = 0
    for op in module.walk():
        if not isinstance(op, (HandleCall, ValueCall)) or op.target.data.partition(".")[0] not in NAMESPACES:
            continue
        # The schemas of all collectives end with the process group; `wait_tensor` has none.
        last = op.arguments.data[-1] if op.arguments.data else None
        if not isinstance(last, StringAttr):
            continue
        if last.data not in known:
            location, node = source_of(op)
            raise UnsupportedError(
                f"the ranks of process group {last.data!r} are not known", location=location, node=node,
                hint=f"give its partition of the world: {{{last.data!r}: [[ranks], ...]}}",
            )  # fmt: skip
        spelled: list[Attribute] = [ArrayAttr([integer(rank) for rank in group]) for group in known[last.data]]
        op.properties["arguments"] = ArrayAttr([*op.arguments.data[:-1], ArrayAttr(spelled)])
        count += 1
    return count


def checked(name: str, groups: Sequence[Sequence[int]]) -> Groups:
    """Groups sorted by first rank, order inside a group kept.

    Raises:
        CompileError: they are no partition of ranks 0..n-1 into groups of one width.
    """
    found = tuple(sorted((tuple(int(rank) for rank in group) for group in groups), key=lambda group: group[:1]))
    ranks = sorted(rank for group in found for rank in group)
    if not found or ranks != list(range(len(ranks))):
        raise CompileError(f"the groups {[list(g) for g in found]} of {name!r} do not cover every rank once")
    if len({len(group) for group in found}) > 1:
        raise CompileError(f"the groups {[list(g) for g in found]} of {name!r} differ in width")
    return found


def partition(ranks: Sequence[int], world: int) -> Groups:
    """The one regular partition of the world that has `ranks` as a group.

    >>> partition((2, 3), 8)
    ((0, 1), (2, 3), (4, 5), (6, 7))
    >>> partition((1, 5), 8)
    ((0, 4), (1, 5), (2, 6), (3, 7))

    Raises:
        UnsupportedError: the ranks are not evenly spaced, or the pattern does not fill the world.
    """
    size = len(ranks)
    if size == 1:
        return tuple((rank,) for rank in range(world))
    ordered = sorted(ranks)
    step = ordered[1] - ordered[0]
    regular = all(b - a == step for a, b in zip(ordered, ordered[1:], strict=False))
    block = step * size
    if not regular or world % block or ordered[0] % block >= step:
        raise UnsupportedError(
            f"ranks {list(ranks)} of a world of {world} do not show which ranks the sibling groups have",
            hint="pass replica_groups={name: [[ranks], ...]}",
        )
    order = [ordered.index(rank) for rank in ranks]
    return tuple(
        tuple(base + first + order[i] * step for i in range(size)) for base in range(0, world, block) for first in range(step)
    )


def _parse(entry: str) -> tuple[str, list[list[int]]]:
    name, _, text = entry.partition("=")
    try:
        return name, [[int(rank) for rank in group.split(",")] for group in text.split(";")]
    except ValueError:
        raise CompileError(f"groups: {entry!r} is not of the form name=0,1;2,3") from None
