"""What a pass says about a run of it is an attribute of the module, under the name that hosts know."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from dialects.arguments import integer


def record(module: ModuleOp, name: str, count: int) -> None:
    """Note how many things a pass has dealt with; a second run of the pass says it of its own."""
    module.attributes[name] = integer(count)
