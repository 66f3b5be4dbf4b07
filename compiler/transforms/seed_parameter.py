"""A program that draws random numbers has one s64 seed as its last parameter, and no hidden state goes in or out.

For targets whose runtime hands over a seed with every call: key and counter of the generator (`compiler.random_bits`)
start as the seed and zero, and what they are after the last draw is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FunctionType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute
from xdsl.passes import ModulePass

from compiler.errors import CompileError
from compiler.transforms.memory_state import Emitter
from dialects.alias import AliasEntry, Bindings, Plan, Table
from dialects.fx import ConstantOp
from dialects.types import Geometry, value_type

NAME = "rng.seed"
"""Name of the argument that takes the place of the hidden state."""

_SCALAR = Geometry((), (), 0)


def add_seed_parameter(function: FuncOp) -> int | None:
    """Rewrite one purified function.

    Returns:
        Number of the argument that is the seed now; None for a program that draws nothing, which stays as it is.
    """
    bindings = list(cast(Bindings, function.attributes["alias.bindings"]).data)
    number = next((n for n, b in enumerate(bindings) if b.kind == "generator" and b.parameter >= 0), None)
    if number is None:
        return None
    block, gone = function.body.block, bindings[number].parameter
    last = block.last_op
    if not isinstance(last, ReturnOp) or block.first_op is None:
        raise CompileError("the function has no return")
    old = block.args[gone]
    emitter = Emitter.before(block.first_op)
    seed = block.insert_arg(value_type("i64", ()), len(block.args))
    seed.name_hint = "rng_seed"
    kind = cast("TensorType[Attribute]", old.type)
    zeros = DenseIntOrFPElementsAttr.from_list(kind, [0, 0])  # type: ignore[arg-type]
    start = emitter.emit(ConstantOp, [], [kind], {"data": zeros}).results[0]
    old.replace_all_uses_with(emitter.insert(seed, start, _SCALAR, (2,)))
    block.erase_arg(old)

    table = cast(Table, function.attributes["alias.table"]).data
    dropped = {entry.output for entry in table if entry.parameter == gone}
    kept = [n for n in range(len(last.operands)) if n not in dropped]
    output_of = {before: now for now, before in enumerate(kept)}
    last.operands = [last.operands[n] for n in kept]

    def parameter(before: int) -> int:
        return before - 1 if before > gone else before

    bindings = [b._replace(parameter=parameter(b.parameter)) for b in bindings]
    bindings[number] = bindings[number]._replace(
        name=NAME, parameter=len(block.args) - 1, geometry=_SCALAR, written=False
    )
    plan = cast(Plan, function.attributes["alias.plan"]).data
    function.attributes["alias.bindings"] = Bindings(tuple(bindings))
    function.attributes["alias.plan"] = Plan(
        tuple(s._replace(index=output_of[s.index]) if s.kind == "result" else s for s in plan)
    )
    function.attributes["alias.table"] = Table(
        tuple(AliasEntry(output_of[o], parameter(p)) for o, p in table if o not in dropped)
    )
    function.properties["function_type"] = FunctionType.from_lists(
        [a.type for a in block.args], [v.type for v in last.operands]
    )
    return number


@dataclass(frozen=True)
class SeedParameter(ModulePass):
    """Applies to every purified function of a module."""

    name = "seed-parameter"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, FuncOp) and "alias.bindings" in function.attributes:
                add_seed_parameter(function)


__all__ = ["NAME", "SeedParameter", "add_seed_parameter"]
