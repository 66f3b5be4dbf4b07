"""What a node of the graph does, in terms of slots: the tensors it is given first, then every result in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree
from xdsl.ir import Attribute, Operation

from compiler.frontend.forms import Form
from dialects.fx import CallOp


@dataclass(frozen=True)
class Slot:
    """A tensor in the structure a node returns."""

    index: int


@dataclass(frozen=True)
class Made:
    """A result of a step: fresh memory of `bytes` bytes, or (`source` >= 0) memory of that slot.

    `form` is None for a result that is the `source` itself, wherever that lies.
    """

    form: Form | None
    source: int
    bytes: int


@dataclass(frozen=True)
class Step:
    """One operation to emit, of type `op`; `written` holds the slots it writes, `types` the types of results that are no
    handles."""

    properties: dict[str, Attribute]
    operands: tuple[int, ...]
    made: tuple[Made, ...]
    written: tuple[int, ...] = ()
    op: type[Operation] = CallOp
    types: tuple[Attribute, ...] = ()


@dataclass(frozen=True)
class Expansion:
    """What a node does: steps, the structure it returns, and the operands that become other handles (operand, slot)."""

    steps: tuple[Step, ...]
    output: Any
    rebound: tuple[tuple[int, int], ...]
    copied: bool = False
    """The result is a copy where eager PyTorch has a view at a place known only at run time."""
    tensors: tuple[torch.Tensor | None, ...] = ()
    """In a program with symbolic sizes: the fake tensor of each slot, for the nodes to come."""
    placed: tuple[tuple[int, int], ...] = ()
    """Slots that lie in a storage of their own where another one does in its storage."""
    counted: tuple[int, ...] = ()
    """Slots in whose storages the node counts from the first byte, as `as_strided` with a `storage_offset` does."""

    def holds_anywhere(self, operands: int) -> bool:
        """Whether nothing in it depends on where in memory the operands lie: no view of them, no place, and no number."""
        given = [True] * operands
        for step in self.steps:
            for made in step.made:
                inherited = made.source >= 0 and given[made.source]
                if inherited and made.form is not None:
                    return False
                given.append(inherited)
        return (
            not self.rebound
            and not self.placed
            and not self.counted
            and all(type(leaf) is Slot for leaf in pytree.tree_leaves(self.output))
        )


__all__ = ["Expansion", "Made", "Slot", "Step"]
