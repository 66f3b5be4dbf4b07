"""Random bits: StableHLO's counter-based generator, with its state as an operand and a result."""

from __future__ import annotations

import math

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from compiler.lowering.builder import Builder
from compiler.lowering.registry import Call, lowering


@lowering("fx2hlo.random_bits.default")
def random_bits(b: Builder, call: Call) -> list[ir.Value]:
    """Bits, then the state after them. One dimension: how XLA deals words out to several is its own affair."""
    state, shape = call.args[0], call.types[0][1]
    count = math.prod(shape)
    if count == 0:
        return [b.splat(0, "i64", shape), state]
    kind = b.tensor("ui64", (2,))
    before = hlo.bitcast_convert(kind, state)
    algorithm = hlo.RngAlgorithmAttr.get("THREE_FRY")
    op = hlo.RngBitGeneratorOp(kind, b.tensor("ui64", (count,)), algorithm, before)
    after, words = op.results
    words = b.reshape(hlo.bitcast_convert(b.tensor("i64", (count,)), words), shape)
    return [words, hlo.bitcast_convert(b.tensor("i64", (2,)), after)]
