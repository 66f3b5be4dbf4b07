"""How each ATen overload reaches StableHLO: by a rule or as a view (direct), by simpler operators (decomposed), or not."""

from __future__ import annotations

import functools
from typing import Any

import torch

from compiler.errors import CompileError
from compiler.frontend.scalars import TAKES
from compiler.frontend.schemas import facts, overload_name
from compiler.lowering import load_rules
from compiler.lowering.registry import RULES
from compiler.torch_types import overload

METADATA_ONLY = "direct: sizes and types only"


def core(results: dict[str, Any]) -> dict[str, str]:
    """Every overload that PyTorch tags as core ATen."""
    found: dict[str, str] = {}
    for name in sorted(dir(torch.ops.aten)):
        packet = getattr(torch.ops.aten, name)
        if not isinstance(packet, torch._ops.OpOverloadPacket):
            continue
        for kind in packet.overloads():
            op = getattr(packet, kind)
            if torch.Tag.core in op.tags:
                found[overload_name(op)] = status(overload_name(op), results)
    return found


def status(name: str, results: dict[str, Any]) -> str:
    """ "direct: ...", "decomposed" (a sample that reaches it passed), "refused: reason" or "not tried: ..."."""
    try:
        op = overload(name)
    except CompileError:
        return "not tried"
    if not isinstance(op, torch._ops.OpOverload):
        return "not tried"
    load_rules()
    known = facts(op)
    if op in TAKES:
        return "direct: the number is a 0-d tensor; no size, index or branch may depend on it"
    if torch.Tag.data_dependent_output in op.tags and "Tensor" not in str(op._schema.returns):
        return "refused: it takes a Python value from the data of a tensor"
    if op._schema.returns and all("Tensor" not in str(r.type) for r in op._schema.returns):
        return METADATA_ONLY
    if name in RULES:
        return "direct: rule"
    if any(alias for alias in known.returns) and not any(p.writes for p in known.parameters):
        return "direct: view"
    run, passed = results["overloads"].get(name, (0, 0))
    twin = known.twin
    if twin is not None and twin.target in RULES:
        return f"direct: writes {twin.target}"
    if passed:
        return "decomposed"
    if not run:
        return "not tried: no sample reaches its decomposition" if _simpler(name) else "not tried"
    return f"refused: {_reasons(results).get(name, 'no rule and no decomposition')}"


@functools.cache
def _implementations() -> Any:
    from compiler.transforms import decompose

    return decompose._implementation


def _simpler(name: str) -> bool:
    """Whether there are simpler operators for an overload."""
    return _implementations()(name) is not None


def _reasons(results: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for entries in results["entries"].values():
        for cells in entries.values():
            for cell in cells.values():
                for reason in cell.get("refused", {}):
                    for part in reason.removeprefix("no lowering: ").split("; "):
                        name = part.split(":")[0]
                        if name.startswith("aten."):
                            found.setdefault(name, part.partition(": ")[2] or "no rule and no decomposition")
    return found
