"""A captured program: its IR together with what the IR does not say (names, trees, real state)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    import torch
    from torch.utils._pytree import TreeSpec
    from xdsl.dialects.builtin import ModuleOp


@dataclass(frozen=True)
class Leaf:
    """One leaf of an input or output tree: tensor number `index`, or a Python constant.

    An output leaf may be the `number` in a 0-d tensor: what `item()` gives.
    """

    index: int = -1
    constant: Any = None
    number: bool = False

    @property
    def is_tensor(self) -> bool:
        return self.index >= 0


@dataclass(frozen=True)
class Argument:
    """One argument of the IR function; also on the function as attributes `fx.name` and `fx.kind`."""

    name: str
    kind: Literal["input", "parameter", "buffer", "constant", "generator"]


class Link(NamedTuple):
    """A place on the way to a tensor that the program holds, and what was there at capture: `holder[key]` or a cell."""

    name: str
    holder: Any
    key: Any
    value: object


@dataclass(frozen=True)
class Assumptions:
    """What a captured program takes for granted about the Python state around it.

    Attributes:
        ties: names of the module's state that are one tensor.
        values: plain Python values in the attributes of every submodule, by its name.
        links: where the program's held tensors were found.
    """

    ties: tuple[tuple[str, ...], ...] = ()
    values: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    links: tuple[Link, ...] = ()


class Reshaped(NamedTuple):
    """The geometry that a call leaves an argument with; `shift` counts elements from where it began before."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    shift: int


@dataclass
class Program:
    """An imported program.

    Attributes:
        module: `func.func @main` over handles. Each argument carries `alias.root`, `fx.name`, `fx.kind`.
        arguments: one per IR argument, in order: state first, then the user's tensors in tree order.
        in_tree, in_leaves: structure of `(args, kwargs)`; a tensor leaf names an IR argument.
        out_tree, out_leaves: structure of the result; a tensor leaf names a result of the IR function.
        state: real tensors of the arguments that are not inputs, by name.
        owner: the nn.Module whose tensors are looked up by name at each call, or None.
        rebound: module attributes that the program binds to a new tensor: name -> result of the IR function.
        training: training flag of every submodule at capture, by qualified name.
        assumed: what is checked about the Python state around the program at each call.
        reshaped: arguments whose metadata the program changes in place (`x.t_()`), with what they end up as.
        offsets: where in their storages those arguments must begin in whose storages the program counts from the first byte
            (`as_strided` with a `storage_offset`), in elements.
        returned: results that are such an argument itself: result -> argument.
        symbolic: names of the dynamic dimensions, empty for a static program.
    """

    module: ModuleOp
    arguments: tuple[Argument, ...]
    in_tree: TreeSpec
    in_leaves: tuple[Leaf, ...]
    out_tree: TreeSpec
    out_leaves: tuple[Leaf, ...]
    state: dict[str, torch.Tensor] = field(default_factory=dict)
    owner: torch.nn.Module | None = None
    rebound: dict[str, int] = field(default_factory=dict)
    training: dict[str, bool] = field(default_factory=dict)
    assumed: Assumptions = field(default_factory=Assumptions)
    reshaped: dict[int, Reshaped] = field(default_factory=dict)
    offsets: dict[int, int] = field(default_factory=dict)
    returned: dict[int, int] = field(default_factory=dict)
    symbolic: tuple[str, ...] = ()

    def left(
        self, results: Sequence[torch.Tensor], arguments: Sequence[torch.Tensor]
    ) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """What a caller holds after a run of the IR that gave these results: the arguments are reshaped, in place."""
        found = [arguments[self.returned[n]] if n in self.returned else tensor for n, tensor in enumerate(results)]
        for index, (sizes, strides, shift) in self.reshaped.items():
            arguments[index].as_strided_(sizes, strides, int(arguments[index].storage_offset()) + shift)
        return found, list(arguments)
