"""Regions over memory become regions over values: each memory a region touches is an argument, each it writes a result."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from xdsl.dialects.builtin import DenseArrayBase, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from compiler.analysis.memories import Memory
from compiler.errors import UnsupportedError
from compiler.locations import source_of
from compiler.transforms.function_state import FunctionState, type_of_value
from compiler.transforms.memory_state import Emitter, Place
from dialects.control import CondOp, ControlOp, ValueCondOp, ValueWhileOp, WhileOp, YieldOp, arguments_of, block_effects
from dialects.fx import integer

Sweep = Callable[[Iterable[Operation], FunctionState, Place], None]
"""Emits the value form of each op, in order."""


@dataclass(frozen=True)
class _Touched:
    """The memories that the regions of an op read or write, with their values before the op."""

    memories: tuple[Memory, ...]
    written: tuple[Memory, ...]
    values: list[SSAValue]


def _touched(op: ControlOp, state: FunctionState, emitter: Emitter) -> _Touched:
    accesses = op.effects.data
    if accesses is None:
        location, node = source_of(op)
        raise UnsupportedError(
            f"a region of {op.name} does not say what it reads and writes", location=location, node=node,
            hint="give the operators in it schemas with write marks",
        )  # fmt: skip
    written = {id(state.place(op.operands[a.operand]).memory) for a in accesses if a.kind == "write"}
    first = next(iter(arguments_of(op)))[2]
    touched: dict[int, Memory] = {}
    for access in accesses:
        if access.operand >= first:
            memory = state.place(op.operands[access.operand]).memory
            touched[id(memory)] = memory
    memories = tuple(sorted(touched.values(), key=lambda m: id(m) not in written))  # written ones first
    values = [state.state_of(memory).final(emitter) for memory in memories]
    return _Touched(memories, tuple(m for m in memories if id(m) in written), values)


def _region_of_values(
    block: Block, carried: int, touched: _Touched, outer: FunctionState, results: bool, sweep: Sweep
) -> Region:
    """The region over values of a block over handles: arguments are the carried values, then the touched memories' values.

    It yields what the region over handles yields, and with `results` the new values of the written memories.
    Carried values come first, then written memories: with `results` of a loop both are carried from turn to turn.
    """
    handles, first, last = block.args[:carried], block.first_op, block.last_op
    assert first is not None and last is not None
    new = Block(arg_types=[*map(type_of_value, handles), *(value.type for value in touched.values)])
    state = FunctionState(outer.memories, (), touched.memories, new.args[carried:])
    start = Emitter(new.add_op, first.location)
    for handle, value in zip(handles, new.args, strict=False):
        state.write(handle, value, start)
    sweep(block.ops, state, new.add_op)
    emitter = Emitter(new.add_op, last.location)
    yielded = [state.read(value, emitter) for value in last.operands]
    if results:
        yielded += [state.state_of(memory).final(emitter) for memory in touched.written]
    new.add_op(YieldOp.create(operands=yielded, location=last.location))
    return Region(new)


class CondBecomesValueCond:
    """The branches become functions of the memories they touch; what one of them writes is a result of both."""

    def __init__(self, state: FunctionState, sweep: Sweep):
        self.state, self.sweep = state, sweep

    def rewrite(self, op: CondOp, emitter: Emitter) -> None:
        state = self.state
        predicate = state.read(op.predicate, emitter)
        touched = _touched(op, state, emitter)
        types = [*map(type_of_value, op.outs), *(v.type for v in touched.values[: len(touched.written)])]
        regions = [_region_of_values(block, 0, touched, state, True, self.sweep) for block, *_ in arguments_of(op)]
        count = len(touched.written)
        properties: dict[str, Attribute] = {"updates": integer(count)} if count else {}
        operands = [predicate, *touched.values]
        new = ValueCondOp.create(
            operands=operands, result_types=types, properties=properties, regions=regions, location=op.location
        )
        emitter.place(new)
        _bind(op, list(new.results), touched, state, emitter)


class WhileBecomesValueWhile:
    """The loop carries the values of the memories it writes beside its own; those it only reads stay as they are."""

    def __init__(self, state: FunctionState, sweep: Sweep):
        self.state, self.sweep = state, sweep

    def rewrite(self, op: WhileOp, emitter: Emitter) -> None:
        state = self.state
        initial = [state.read(value, emitter) for value in op.carried]
        touched = _touched(op, state, emitter)
        (condition, carried, _), (body, _, _) = list(arguments_of(op))
        if block_effects(condition)[1]:
            location, node = source_of(op)
            raise UnsupportedError("the condition of a loop writes memory", location=location, node=node,
                                   hint="write in the body")  # fmt: skip
        count = len(touched.written)
        carrying = [*initial, *touched.values[:count]]
        captures = touched.values[count:]
        regions = [
            _region_of_values(condition, carried, touched, state, False, self.sweep),
            _region_of_values(body, carried, touched, state, True, self.sweep),
        ]
        new = ValueWhileOp.create(
            operands=[*carrying, *captures],
            result_types=[v.type for v in carrying],
            properties={"operandSegmentSizes": DenseArrayBase.from_list(i32, [len(carrying), len(captures)])},
            regions=regions,
            location=op.location,
        )
        emitter.place(new)
        _bind(op, list(new.results), touched, state, emitter)


def _bind(op: ControlOp, values: list[SSAValue], touched: _Touched, state: FunctionState, emitter: Emitter) -> None:
    """Results are fresh memory; what was written has a new value."""
    for handle, value in zip(op.outs, values, strict=False):
        state.write(handle, value, emitter)
    for memory, value in zip(touched.written, values[len(op.outs) :], strict=True):
        state.state_of(memory).replace(value)
