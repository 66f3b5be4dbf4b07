"""Where an op comes from, in the form that messages use."""

from __future__ import annotations

from xdsl.dialects.builtin import CallSiteLoc, FileLineColLoc, FusedLoc, NameLoc
from xdsl.ir import Attribute, Operation


def place(location: Attribute) -> str:
    """`file:line:col` (`file:line` for column 0) of the innermost file position, or ""."""
    match location:
        case FileLineColLoc():
            column = f":{location.column.data}" if location.column.data else ""
            return f"{location.filename.data}:{location.line.data}{column}"
        case NameLoc():
            return place(location.location)
        case CallSiteLoc():
            return place(location.callee)
        case FusedLoc():
            inner = getattr(location.locations, "data", ())
            return next((found for part in inner if (found := place(part))), "")
        case _:
            return ""


def node_name(location: Attribute) -> str:
    """The FX node an op came from, or ""."""
    return location.desc.data if isinstance(location, NameLoc) else ""


def place_of(op: Operation) -> str:
    """The position of an op, or of the nearest op around it that has one."""
    current: Operation | None = op
    while current is not None:
        if found := place(current.location):
            return found
        current = current.parent_op()
    return ""


def source_of(op: Operation) -> tuple[str, str]:
    """`("file:line", "node")` of an op; either is "" when unknown."""
    return place_of(op), node_name(op.location)
