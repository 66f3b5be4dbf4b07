"""After the pass every collective says which ranks work together, for all ranks of the world and the same on each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from torch import fx
from torch._ops import OpOverload, OpOverloadPacket

from compiler.errors import CompileError
from compiler.frontend.collectives import NAMESPACES
from compiler.integrations.vllm_neuron.devices import graphs_of
from compiler.process_groups import checked, partitions, resolve_process_group
from dialects.collective import Partition

GroupResolver = Callable[[str], Partition]
"""Group name -> the partition of the world into groups like this one."""


class CollectiveReplicaGroupsPass:
    """Stores `meta["replica_groups"]`, a full partition of the world, on every functional collective."""

    name: ClassVar[str] = "collective_replica_groups"
    recompiles: ClassVar[bool] = True

    def __init__(self, resolver: GroupResolver | None = None) -> None:
        self.resolver = resolver or resolve_process_group

    def run(self, gm: fx.GraphModule, **kwargs: Any) -> tuple[fx.GraphModule, dict[str, Any]]:
        """Annotate in place. `replica_groups={group name: partition}` overrides what the process group says.

        Raises:
            RuntimeError: the partition that a group belongs to is unknown, or what is given is none.
        """
        try:
            known = partitions(kwargs.get("replica_groups"))
        except CompileError as error:
            raise RuntimeError(f"Replica groups cannot be read: {error}") from error
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
                        raise RuntimeError(
                            f"Replica groups of {node.name} (group {name!r}) are unknown: {error}"
                        ) from error
                node.meta["replica_groups"] = [list(group) for group in known[name]]
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
            return str(getattr(found, "group_name", found))  # newer PyTorch passes the group itself
    return None


def groups_in(gm: fx.GraphModule) -> dict[str, list[list[int]]]:
    """The partitions that the pass has stored, by group name."""
    found: dict[str, list[list[int]]] = {}
    for graph in graphs_of(gm):
        for node in graph.graph.nodes:
            name = group_name(node)
            if name is not None and "replica_groups" in node.meta:
                found[name] = node.meta["replica_groups"]
    return found
