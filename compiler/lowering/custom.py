"""Lowering rules that an embedder registers for operators of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from compiler.errors import CompileError
from compiler.lowering import load_rules
from compiler.lowering.builder import Builder
from compiler.lowering.registry import RULES, Call, Rule


def register_lowering(op: Any, rule: Rule) -> None:
    """See `compiler.register_lowering`."""
    load_rules()  # so that a rule of ours is never taken for a second registration
    for name in overload_names(op):
        if name in RULES:
            raise CompileError(f"{name} has a lowering rule already")
        RULES[name] = rule


def register_custom_call(
    op: Any, target: str, *, backend_config: str = "", frontend_attributes: Mapping[str, str] | None = None
) -> None:
    """See `compiler.register_custom_call`."""
    attributes = dict(frontend_attributes or {})

    def rule(b: Builder, call: Call) -> Sequence[ir.Value]:
        operands = [v for v in _leaves([*call.args, *call.kwargs.values()]) if isinstance(v, ir.Value)]
        first = len(call.types) - len(call.writes)
        single = len(call.types) == 1
        aliases = [
            hlo.OutputOperandAlias.get([] if single else [first + n], operand, [])
            for n, operand in enumerate(call.writes)
        ]
        made = hlo.CustomCallOp(
            [b.tensor(*kind) for kind in call.types],
            operands,
            target,
            backend_config=ir.StringAttr.get(backend_config),
            output_operand_aliases=ir.ArrayAttr.get(aliases),
        )
        if attributes:
            texts: dict[str, ir.Attribute] = {name: ir.StringAttr.get(text) for name, text in attributes.items()}
            made.operation.attributes["mhlo.frontend_attributes"] = ir.DictAttr.get(texts)
        return list(made.results)

    register_lowering(op, rule)


def overload_names(op: Any) -> list[str]:
    """`namespace.name.overload` of an overload, of every overload of a packet, or of a text that is one already."""
    import torch
    from torch._ops import OpOverload, OpOverloadPacket

    if isinstance(op, str):
        parts = op.replace("::", ".").split(".")
        if len(parts) == 3:
            return [".".join(parts)]
        packet = getattr(getattr(torch.ops, parts[0], None), parts[1], None) if len(parts) == 2 else None
        if packet is None:
            raise CompileError(
                f"there is no operator {op!r}",
                hint="import the library that defines it first; it is spelled 'namespace::name'",
            )
        return overload_names(packet)
    if isinstance(op, OpOverloadPacket):
        return [name for overload in op.overloads() for name in overload_names(getattr(op, overload))]
    if isinstance(op, OpOverload):
        return [f"{op.namespace}.{op._schema.name.split('::')[1]}.{op._overloadname}"]
    raise CompileError(
        f"{op!r} is no operator", hint="give torch.ops.namespace.name, one of its overloads, or 'namespace::name'"
    )


def _leaves(values: Any) -> list[Any]:
    if isinstance(values, (list, tuple)):
        return [leaf for item in values for leaf in _leaves(item)]
    return [values]
