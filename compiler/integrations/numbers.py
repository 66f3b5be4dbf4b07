"""Numbers that change between calls of a Dynamo graph: one executable serves all their values where that can be.

Dynamo hands over a Python float that has changed as a 0-d f64 tensor, of which the graph takes `item()`; a float that the
forward part of a split graph computes comes to the backward part as it is. Both are arguments here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
from torch import fx

from compiler.frontend.scalars import TAKES

_ITEM = "item"


class Numbers:
    """A graph by where numbers come into it.

    Attributes:
        places: the arguments that are numbers.
        graph: takes those as Python numbers.
        computed: whether it takes numbers out of other tensors as well.
    """

    def __init__(self, gm: fx.GraphModule) -> None:
        graph, known = fx.Graph(), {}
        graph.output(graph.graph_copy(gm.graph, known))
        placeholders = [node for node in graph.nodes if node.op == "placeholder"]
        self.places = frozenset(i for i, node in enumerate(placeholders) if _is_number(node))
        for place in self.places:
            for taken in list(placeholders[place].users):
                taken.replace_all_uses_with(placeholders[place])
                graph.erase_node(taken)
        self.graph = fx.GraphModule(gm, graph) if self.places else gm
        self.computed = any(_takes(node) for node in graph.nodes)

    def values(self, args: Sequence[Any]) -> list[Any]:
        """The arguments with Python numbers at the places."""
        return [_plain(value) if place in self.places else value for place, value in enumerate(args)]

    def tensors(self, args: Sequence[Any]) -> list[Any]:
        """The arguments with 0-d tensors at the places."""
        return [
            torch.tensor(float(value), dtype=torch.float64)
            if place in self.places and not isinstance(value, torch.Tensor)
            else value
            for place, value in enumerate(args)
        ]

    def taking_tensors(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """`run`, a function of numbers at the places, as one of 0-d tensors."""

        def taken(*args: Any) -> Any:
            return run(*(value.item() if place in self.places else value for place, value in enumerate(args)))

        return taken


def exact(value: Any) -> Hashable:
    """Equal for the same number only: 0.0 is not -0.0, and a NaN is itself."""
    return struct.pack("d", value) if isinstance(value, float) else value


def _is_number(node: fx.Node) -> bool:
    if isinstance(node.meta.get("val"), torch.SymFloat):
        return True
    example = node.meta.get("example_value", node.meta.get("val"))
    scalar = isinstance(example, torch.Tensor) and not example.dim() and example.dtype is torch.float64
    return scalar and bool(node.users) and all(_takes(user) for user in node.users)


def _takes(node: fx.Node) -> bool:
    return node.target in TAKES or (node.op == "call_method" and node.target == _ITEM)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, torch.Tensor) else float(value)


__all__ = ["Numbers", "exact"]
