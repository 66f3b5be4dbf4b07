"""After the pass every collective says which ranks work together, for all ranks of the world and the same on each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch import fx
from torch._ops import OpOverload, OpOverloadPacket

from compiler.integrations.vllm_neuron.devices import graphs_of

Groups = tuple[tuple[int, ...], ...]
GroupResolver = Callable[[str], Groups]
"""Group name -> the partition of the world into groups like this one."""

NAMESPACES = frozenset({"_c10d_functional", "c10d_functional", "_c10d_functional_autograd"})


class CollectiveReplicaGroupsPass:
    """Stores `meta["replica_groups"]`, a full partition of the world, on every functional collective."""

    name: ClassVar[str] = "collective_replica_groups"

    def __init__(self, resolver: GroupResolver | None = None) -> None:
        self.resolver = resolver or resolve_process_group

    def run(self, gm: fx.GraphModule, **kwargs: Any) -> tuple[fx.GraphModule, dict[str, Any]]:
        """Annotate in place. `replica_groups={group name: partition}` overrides what the process group says.

        Raises:
            RuntimeError: the partition that a group belongs to is unknown.
        """
        known: dict[str, Groups] = {n: checked(n, g) for n, g in dict(kwargs.get("replica_groups", {})).items()}
        count = 0
        for graph in graphs_of(gm):
            for node in graph.graph.nodes:
                name = group_name(node)
                if name is None:
                    continue
                if name not in known:
                    try:
                        known[name] = checked(name, self.resolver(name))
                    except Exception as error:
                        raise RuntimeError(f"Replica groups of {node.name} (group {name!r}) are unknown: {error}") from error
                node.meta["replica_groups"] = [list(group) for group in known[name]]
                node.meta["channel_id"] = count + 1
                count += 1
        return gm, {"resolved_count": count}


def group_name(node: fx.Node) -> str | None:
    """The process group that a functional collective works in, by its schema; None for any other node."""
    target = node.target
    if node.op != "call_function" or not isinstance(target, (OpOverload, OpOverloadPacket)):
        return None
    overload = target if isinstance(target, OpOverload) else getattr(target, target.overloads()[0])
    if overload.namespace not in NAMESPACES:
        return None
    for position, formal in enumerate(overload._schema.arguments):
        if formal.name == "group_name":
            found = node.args[position] if position < len(node.args) else node.kwargs.get("group_name")
            return str(found)
    return None


def checked(name: str, groups: Sequence[Sequence[int]]) -> Groups:
    """Groups sorted by first rank, order inside a group kept.

    Raises:
        ValueError: they are no partition of ranks 0..n-1 into groups of one width.
    """
    found = tuple(sorted((tuple(int(rank) for rank in group) for group in groups), key=lambda g: g[:1]))
    ranks = sorted(rank for group in found for rank in group)
    if not found or ranks != list(range(len(ranks))):
        raise ValueError(f"the groups {[list(g) for g in found]} of {name!r} do not cover every rank once")
    if len({len(group) for group in found}) > 1:
        raise ValueError(f"the groups {[list(g) for g in found]} of {name!r} differ in width")
    return found


def resolve_process_group(name: str) -> Groups:
    """The partition that a process group of this process is part of.

    Sibling groups are known on every rank only if every rank created them in the same order, as `new_group` demands;
    the ones this process is not in are taken from a device mesh, or from the regular pattern that this group shows.

    Raises:
        RuntimeError: there is no process group, or its siblings cannot be told.
    """
    import torch.distributed as dist

    if not dist.is_available() or not dist.is_initialized():
        raise RuntimeError("torch.distributed is not initialised; pass replica_groups={name: [[ranks], ...]}")
    group = torch._C._distributed_c10d._resolve_process_group(name)  # type: ignore[arg-type]
    return partition(tuple(dist.get_process_group_ranks(group)), dist.get_world_size())


def partition(ranks: Sequence[int], world: int) -> Groups:
    """The one regular partition of the world that has `ranks` as a group.

    >>> partition((2, 3), 8)
    ((0, 1), (2, 3), (4, 5), (6, 7))
    >>> partition((1, 5), 8)
    ((0, 4), (1, 5), (2, 6), (3, 7))

    Raises:
        RuntimeError: the ranks are not evenly spaced, or the pattern does not fill the world.
    """
    size = len(ranks)
    if size == world and sorted(ranks) == list(range(world)):
        return (tuple(ranks),)
    if size == 1:
        return tuple((rank,) for rank in range(world))
    ordered = sorted(ranks)
    step = ordered[1] - ordered[0]
    regular = all(b - a == step for a, b in zip(ordered, ordered[1:], strict=False))
    block = step * size
    start = ordered[0] - ordered[0] % block
    if not regular or world % block or not start <= ordered[0] < start + step:
        raise RuntimeError(
            f"ranks {list(ranks)} of a world of {world} do not show which ranks the sibling groups have; "
            "pass replica_groups={name: [[ranks], ...]}"
        )
    order = [ordered.index(rank) for rank in ranks]
    return tuple(
        tuple(base + first + order[i] * step for i in range(size)) for base in range(0, world, block) for first in range(step)
    )
