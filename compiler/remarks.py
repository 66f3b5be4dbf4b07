"""What a pass decided and why, said so that a person can act on it: as text, JSON or YAML."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from xdsl.dialects.builtin import MemRefType, ModuleOp, StringAttr
from xdsl.ir import Operation

from compiler.locations import node_name, place
from dialects.calls import HandleCall
from dialects.types import element_bytes, geometry
from dialects.vllm_ir import ImplementedCallOp


@dataclass(frozen=True)
class Site:
    """An operation as the user knows it: operator, FX node, and `file:line` of the program ("" where not known)."""

    operator: str
    node: str = ""
    source: str = ""

    def __str__(self) -> str:
        text = self.operator + (f" ({self.node})" if self.node else "")
        return f"{text} at {self.source}" if self.source else text


@dataclass(frozen=True)
class Remark:
    """Why a copy stays.

    Attributes:
        site: the copy.
        bytes: what it moves.
        reason: the rule that keeps it, in words.
        reader: what would see a change, or None.
        writer: what would make the change, or None.
    """

    site: Site
    bytes: int
    reason: str
    reader: Site | None = None
    writer: Site | None = None

    def __str__(self) -> str:
        return f"{self.site} stays ({self.bytes} bytes): {self.reason}"


def site(op: Operation) -> Site:
    """The operation, its FX node and its source line."""
    return Site(
        op.target.data if isinstance(op, HandleCall | ImplementedCallOp) else op.name,
        node_name(op.location),
        place(op.location),
    )


KEPT = "alias.kept"
"""Attribute of a copy that stays: the reason, as text."""


def collect(module: ModuleOp) -> list[Remark]:
    """The remarks that passes have left on the operations of a module. Readers and writers are named in the reason only."""
    found: list[Remark] = []
    for op in module.walk():
        reason = op.attributes.get(KEPT)
        if isinstance(reason, StringAttr):
            kinds = [value.type for value in op.results if isinstance(value.type, MemRefType)]
            size = (
                element_bytes(kinds[0].element_type) * geometry(kinds[0]).numel
                if kinds and geometry(kinds[0]).static
                else 0
            )
            found.append(Remark(site(op), size, reason.data))
    return found


def render(remarks: Sequence[Remark], form: Literal["text", "json", "yaml"] = "text") -> str:
    """All remarks, one after the other."""
    if form == "json":
        return json.dumps([asdict(remark) for remark in remarks], indent=2)
    if form == "yaml":
        return "".join(_yaml(asdict(remark), "- ", "  ") for remark in remarks) or "[]\n"
    return "\n".join(map(str, remarks))


def _yaml(fields: dict[str, object], first: str, rest: str) -> str:
    lines: list[str] = []
    for name, value in fields.items():
        lead = rest if lines else first
        if isinstance(value, dict):
            lines.append(f"{lead}{name}:\n{_yaml(value, rest + '  ', rest + '  ')}")
        else:
            lines.append(f"{lead}{name}: {json.dumps(value)}\n")  # JSON scalars are YAML scalars
    return "".join(lines)
