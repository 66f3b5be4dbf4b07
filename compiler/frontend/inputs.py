"""What capture hands to import: a graph, the tensors behind its placeholders, and the trees around it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import fx
from torch.utils._pytree import TreeSpec

from compiler.program import Assumptions, Leaf

COUNTED = "counted"
"""Mark in the metadata of a branch or loop: the call asked where in their storages its results begin."""


@dataclass(eq=False)
class Input:
    """One placeholder, or a tensor that the graph holds: a tensor, or a Python constant baked in.

    `real` is false for a tensor known by metadata only: it says nothing about storage.
    """

    name: str
    kind: Literal["input", "parameter", "buffer", "constant", "generator"]
    tensor: torch.Tensor | None
    real: bool = False
    constant: Any = None


@dataclass
class Captured:
    """A captured program.

    Attributes:
        inputs: one per placeholder, in order.
        in_leaves, out_leaves: tensor leaves name a placeholder, or a leaf of the graph's output.
        rebound: module attributes bound to a new tensor: name -> leaf of the graph's output.
        updates: writes left to the caller, by placeholder: (placeholder, leaf of the graph's output).
        training: training flags by module name.
        assumed: what must be so about the Python state around the program at each call.
        traced: it was run with its inputs, so placeholders of one tensor are named for one another. A graph that is given says
            itself which it means.
        counted: inputs and held tensors of which the call asked where in their storages they, or views of them, begin.
        held: tensors in the graph that live outside of it: their values may change between calls.
    """

    graph: fx.GraphModule
    inputs: tuple[Input, ...]
    in_tree: TreeSpec
    in_leaves: tuple[Leaf, ...]
    out_tree: TreeSpec
    out_leaves: tuple[Leaf, ...]
    owner: torch.nn.Module | None = None
    rebound: dict[str, int] = field(default_factory=dict)
    updates: tuple[tuple[int, int], ...] = ()
    training: dict[str, bool] = field(default_factory=dict)
    held: tuple[torch.Tensor, ...] = ()
    assumed: Assumptions = field(default_factory=Assumptions)
    traced: bool = False
    counted: tuple[torch.Tensor, ...] = ()


def unique(name: str, taken: set[str]) -> str:
    """`name`, made different from every name in `taken`, and added to it."""
    candidate, count = name, 1
    while candidate in taken:
        candidate, count = f"{name}_{count}", count + 1
    taken.add(candidate)
    return candidate
