"""Calls of hand-written Neuron kernels: one custom call each, with the configuration the kernel compiler made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from compiler.errors import UnsupportedError
from compiler.lowering.builder import Builder
from compiler.lowering.registry import Call, lowering

TARGET = "AwsNeuronCustomNativeKernel"


@lowering("nki.value_call")
def kernel(b: Builder, call: Call) -> Sequence[ir.Value]:
    """The tensor operands only; every aliased result is declared, so that the compiler need not copy the operand."""
    if b.target != "neuron":
        raise UnsupportedError("a hand-written Neuron kernel runs on Neuron only")
    numbers: dict[int, int] = {}
    operands: list[ir.Value] = []
    for position, value in enumerate(call.args):
        if isinstance(value, ir.Value):
            numbers[position] = len(operands)
        operands += _values(value)
    single = len(call.types) == 1
    aliases = [
        hlo.OutputOperandAlias.get([] if single else [result], numbers[position], [])
        for position, result in call.kwargs["operand_output_aliases"]
    ]
    op = hlo.CustomCallOp(
        [b.tensor(*kind) for kind in call.types],
        operands,
        TARGET,
        backend_config=ir.StringAttr.get(call.kwargs["backend_config"]),
        output_operand_aliases=ir.ArrayAttr.get(aliases),
    )
    collectives = "1" if "has_collectives" in call.kwargs else "0"
    op.operation.attributes["mhlo.frontend_attributes"] = ir.DictAttr.get(
        {"has_collectives": ir.StringAttr.get(collectives)}
    )
    return list(op.results)


def _values(value: Any) -> Iterator[ir.Value]:
    if isinstance(value, ir.Value):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _values(item)
