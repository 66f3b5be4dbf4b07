"""No operation is left that changes nothing and whose results nobody uses.

Pure value operations go, and on handles: views and fresh results that nobody looks at, and constants. A call that
writes, that has unknown effects, or that has no result (an assertion) stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.traits import Pure

from dialects.calls import HandleCall
from dialects.control import CondOp, WhileOp
from dialects.fx import ConstantOp


def _changes_nothing(op: Operation, pure: dict[type[Operation], bool]) -> bool:
    if isinstance(op, HandleCall | CondOp | WhileOp):
        # A call without results is there for something the schema does not say.
        return op.effects.writes() == () and bool(op.results)
    kind = type(op)
    if kind not in pure:
        pure[kind] = kind is ConstantOp or op.has_trait(Pure, value_if_unregistered=False)
    return pure[kind]


def erase_dead(ops: Sequence[Operation], pure: dict[type[Operation], bool] | None = None) -> list[Operation]:
    """Erase the dead operations among `ops` and inside them; the others, in order.

    One walk from the end, so that a chain of dead operations goes at once. `pure` remembers what op types are.
    """
    pure = {} if pure is None else pure
    live: list[Operation] = []
    for op in reversed(ops):
        if _changes_nothing(op, pure) and all(result.first_use is None for result in op.results):
            if op.parent is not None:
                op.detach()
            op.erase()
            continue
        live.append(op)
        for region in op.regions:
            for block in region.blocks:
                erase_dead(list(block.ops), pure)
    live.reverse()
    return live


@dataclass(frozen=True)
class RemoveDeadValues(ModulePass):
    name = "remove-dead-values"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        erase_dead([op])
