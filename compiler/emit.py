"""What `compiler-opt -t` can write. Everything below StableHLO loads jaxlib, the rest does not."""

from __future__ import annotations

import json
from typing import Any

from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.dialects.func import FuncOp

from compiler.errors import CompileError
from compiler.locations import place_of
from dialects.alias import Binding, Bindings, OutputSource, Plan, Table
from dialects.calls import HandleCall
from dialects.types import Geometry


def has_handles(module: ModuleOp) -> bool:
    """Whether the module speaks of memory anywhere."""
    for op in module.walk():
        if isinstance(op, HandleCall):
            return True
        values = op.function_type.inputs.data if isinstance(op, FuncOp) else tuple(r.type for r in op.results)
        if any(isinstance(kind, MemRefType) for kind in values):
            return True
    return False


def emit(module: ModuleOp, target: str) -> str | bytes:
    """The module in one of the forms of `compiler.pipeline.TARGETS` other than mlir."""
    if has_handles(module):
        raise CompileError(
            f"target {target} needs a program of values, and this one still has memory",
            location=place_of(module),
            hint="run in-place-to-out-of-place first, or give no -p at all",
        )
    if target == "aliases-json":
        return json.dumps(aliases(module), indent=2) + "\n"
    from compiler.lowering.module import lower

    lowered = lower(module)
    if target == "stablehlo":
        return str(lowered)
    from compiler.export.hlo import hlo_text, to_hlo

    proto = to_hlo(lowered)
    return proto if target == "hlo-proto" else hlo_text(proto)


def aliases(module: ModuleOp) -> dict[str, Any]:
    """What the function says about memory, as plain data."""
    for op in module.body.block.ops:
        bindings = op.attributes.get("alias.bindings")
        if isinstance(op, FuncOp) and isinstance(bindings, Bindings):
            table, plan = op.attributes.get("alias.table"), op.attributes.get("alias.plan")
            return {
                "arguments": [_binding(b) for b in bindings.data],
                "alias_table": [e._asdict() for e in table.data] if isinstance(table, Table) else [],
                "outputs": [_output(o) for o in plan.data] if isinstance(plan, Plan) else [],
            }
    raise CompileError("no function has `alias.bindings`: nothing is known of its memory", location=place_of(module))


def _binding(b: Binding) -> dict[str, Any]:
    parameter = b.parameter if b.parameter >= 0 else None
    window = _window(b.element, b.geometry)
    return {
        "name": b.name,
        "kind": b.kind,
        "parameter": parameter,
        "written": b.written,
        "lazy": b.lazy,
        "window": window,
    }


def _output(source: OutputSource) -> dict[str, Any]:
    entry: dict[str, Any] = {"kind": source.kind, "index": source.index}
    if source.kind in ("argument_view", "result"):
        entry["window"] = _window(source.element, source.geometry)
        entry["lazy"] = source.lazy
    return entry


def _window(element: str, window: Geometry) -> dict[str, Any]:
    sizes, strides = list(window.sizes), list(window.strides)
    return {"element": element, "sizes": sizes, "strides": strides, "offset": window.offset}
