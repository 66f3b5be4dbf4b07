"""What operations of all dialects may say about themselves, beside the traits of xDSL."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.traits import OpTrait


@dataclass(frozen=True)
class RulesOfTypes(OpTrait):
    """The rules of the operation speak of nothing but the types of its operands and results, and its properties.

    Then what holds for one operation holds for all that have the same.
    """


__all__ = ["RulesOfTypes"]
