"""Before: any program. After: no pure op is left whose results nobody uses."""

from __future__ import annotations

from xdsl.ir import Block

from dialects.fx import ConstantOp, EmptyOp, ExtractOp, InsertOp, ReinterpretOp, ValueCallOp

_PURE = (ValueCallOp, ExtractOp, InsertOp, ReinterpretOp, EmptyOp, ConstantOp)


def erase_dead_values(block: Block) -> int:
    """Erase unused pure value ops in one backward sweep; how many went."""
    count = 0
    for op in reversed(list(block.ops)):
        if type(op) in _PURE and all(result.first_use is None for result in op.results):
            block.erase_op(op)
            count += 1
    return count
