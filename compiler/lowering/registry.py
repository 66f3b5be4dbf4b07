"""Lowering rules: one small function per operator overload, found in a dict.

    @lowering("aten.add.Tensor", "aten.add.Scalar")
    def add(b: Builder, call: Call) -> ir.Value: ...

A rule gets the MLIR values of the operands through `call.args` (the arguments of the overload in schema
order, operands replaced by `ir.Value`, defaults not filled in) and returns one value, or a sequence of
values for several results. Result types are `call.types`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from jaxlib.mlir import ir

    from compiler.lowering.builder import Builder
    from compiler.lowering.windows import Part

type_name = tuple[str, tuple[int, ...]]
"""Element type by MLIR spelling, and sizes."""


@dataclass(frozen=True)
class Call:
    """One value call, ready to lower.

    `args` and `kwargs` hold MLIR values for operands and Python objects for the rest: int, float, bool,
    complex, str, None, lists of these, and for a dtype the MLIR spelling of the element type.
    """

    target: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    types: tuple[type_name, ...]
    writes: tuple[int, ...] = ()
    """Operands that the overload writes, counted over its tensors; their new values are the last results."""

    def arg(self, position: int, name: str = "", default: Any = None) -> Any:
        """Positional argument `position`, or keyword `name`, or the schema's default given here."""
        if position < len(self.args):
            return self.args[position]
        return self.kwargs.get(name, default)


Rule = Callable[["Builder", Call], "ir.Value | Part | Sequence[ir.Value]"]
RULES: dict[str, Rule] = {}
"""Overload -> rule. Filled when the family modules are imported (`compiler.lowering.load_rules`)."""


THROUGH: dict[str, Literal["read", "update"]] = {}
"""Overloads whose rule takes its first operand as a `windows.Part`, a window that has not been read yet, so that
it can index the base instead. An `update` also gives a Part back: the same window on the updated base."""


def lowering(*overloads: str, through: Literal["read", "update"] | None = None) -> Callable[[Rule], Rule]:
    """Register a rule for these overloads; `through` says how it looks through a window (see THROUGH)."""

    def register(rule: Rule) -> Rule:
        for overload in overloads:
            if overload in RULES:
                raise ValueError(f"two lowering rules for {overload}")
            RULES[overload] = rule
            if through:
                THROUGH[overload] = through
        return rule

    return register
