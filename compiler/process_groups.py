"""Which ranks work together: partitions of the world, from a table or from a live process group.

Every rank has to compile one and the same program, so a group is never spelled alone but with its siblings, in an order that
does not depend on the rank.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.utils.exceptions import VerifyException

from compiler.errors import CompileError, UnsupportedError
from dialects.collective import Partition, verify_partition

_FORM = "give for each group the partition of the world that it is part of: {'tp': [[0, 1], [2, 3]]}"


def partitions(groups: Mapping[str, Sequence[Sequence[int]]] | None) -> dict[str, Partition]:
    """The partition of every process group of a table.

    Raises:
        CompileError: it is no table, or one of them is no partition.
    """
    if groups is not None and not isinstance(groups, Mapping):
        raise CompileError(f"replica groups are {groups!r}, which is no table of process groups", hint=_FORM)
    return {name: checked(name, partition) for name, partition in (groups or {}).items()}


def checked(name: str, groups: Sequence[Sequence[int]]) -> Partition:
    """Groups sorted by first rank, order inside a group kept.

    Raises:
        CompileError: they are no partition of ranks 0..n-1 into groups of one width.
    """
    try:
        listed = [[_rank(rank) for rank in group] for group in groups]
    except TypeError:
        raise CompileError(f"process group {name!r}: {groups!r} is no list of lists of ranks", hint=_FORM) from None
    found = tuple(sorted(map(tuple, listed), key=lambda group: group[:1]))
    try:
        verify_partition(found)
    except VerifyException as error:
        raise CompileError(f"process group {name!r}: {error}", hint=_FORM) from None
    return found


def _rank(value: Any) -> int:
    """An integer; TypeError for anything else, also for truth values and text."""
    if isinstance(value, bool):
        raise TypeError
    return operator.index(value)


def partition(ranks: Sequence[int], world: int) -> Partition:
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
        tuple(base + first + order[i] * step for i in range(size))
        for base in range(0, world, block)
        for first in range(step)
    )


def resolve_process_group(name: str) -> Partition:
    """The partition that a process group of this process is part of, from the regular pattern that the group shows.

    Every rank sees only its own group; a regular pattern is the same seen from each of them.

    Raises:
        UnsupportedError: there is no process group of that name, or its siblings cannot be told.
    """
    import torch.distributed as dist

    lead, way_out = f"the ranks of process group {name!r} are not known", "pass replica_groups={name: [[ranks], ...]}"
    if not dist.is_available() or not dist.is_initialized():
        raise UnsupportedError(f"{lead}: torch.distributed is not initialised; {way_out}")
    try:
        group: Any = dist.distributed_c10d._resolve_process_group(name)  # type: ignore[arg-type]
    except (RuntimeError, ValueError) as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UnsupportedError(f"{lead}: {said}; {way_out}") from None
    return partition(tuple(dist.get_process_group_ranks(group)), dist.get_world_size())


def this_rank() -> int | None:
    """The rank of this process in the world, None outside one."""
    import torch.distributed as dist

    return dist.get_rank() if dist.is_available() and dist.is_initialized() else None


def whole_permutation(name: str, size: int, rank: int, to: int, source: int) -> tuple[int, ...]:
    """The permutation of a group of which rank number `rank` sends to `to` and hears from `source`.

    Raises:
        UnsupportedError: the others may still exchange among themselves in several ways.
    """
    known = {rank: to, source: rank}
    free = sorted(set(range(size)) - known.keys())
    targets = sorted(set(range(size)) - set(known.values()))
    if known[rank] != to or len(free) != len(targets) or len(free) > 1:
        raise UnsupportedError(
            f"rank {rank} of group {name!r} sends to {to} and hears from {source}, which does not tell where the others send",
            hint=f"pass permutations={{{name!r}: [[destination of each rank], ...]}}",
        )
    known.update(zip(free, targets, strict=True))
    return tuple(known[source] for source in range(size))
