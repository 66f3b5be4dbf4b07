"""From an op's location back to the FX node and the user's source line."""

from __future__ import annotations

from xdsl.dialects.builtin import FileLineColLoc, NameLoc
from xdsl.ir import Attribute, Operation


def source_of(op: Operation) -> tuple[str, str]:
    """`("file:line", "node")` of an op; either is "" when unknown."""
    return describe(op.location)


def describe(location: Attribute) -> tuple[str, str]:
    node = ""
    if isinstance(location, NameLoc):
        node, location = location.desc.data, location.location
    if isinstance(location, FileLineColLoc):
        return f"{location.filename.data}:{location.line.data}", node
    return "", node
