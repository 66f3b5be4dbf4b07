"""Before: handles, views and in-place ops. After: only values; nothing aliases, so nothing can be stale.

This is mem2reg for strided windows. One forward sweep keeps the newest value of every memory: a view is only a window
and costs nothing, a read extracts its window from the newest value, a write puts the window back. The function's
attributes then say which parameter holds which argument (`alias.bindings`), which result is the final value of a
written parameter (`alias.table`), and how each original output is rebuilt (`alias.plan`).

Refused, with the source line: writes whose result depends on the order in which a kernel visits elements (a window
that overlaps itself, a source that partly overlaps the destination), and ops whose memory behaviour is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, MemRefType, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from compiler.analysis.memories import analyze
from compiler.analysis.regions import Region, Relation, coincide, region, relation, self_overlaps
from compiler.errors import CompileError, UnsupportedError
from compiler.locations import source_of
from compiler.transforms.control_to_values import CondBecomesValueCond, WhileBecomesValueWhile
from compiler.transforms.function_state import FunctionState, type_of_value
from compiler.transforms.memory_state import Emitter, Key, Place, same_width
from compiler.transforms.overlapping_fill import MASKED_FILLS, fill_overlapping
from compiler.transforms.remove_dead_values import erase_dead
from dialects.alias import AliasEntry, Binding, Bindings, Effects, OutputSource, Plan, Table
from dialects.calls import HandleCall
from dialects.control import CondOp, WhileOp, YieldOp
from dialects.fx import ConstantOp, Operand, SymbolOp, operand_numbers
from dialects.types import ELEMENTS, Geometry, form, value_type


def _region(key: Key) -> Region:
    found = region(key.window, ELEMENTS[key.element][1])
    assert found is not None, "the analysis refuses dynamic shapes"
    return found


class ConstantBecomesValue:
    """Constant memory starts with a constant value."""

    def __init__(self, state: FunctionState):
        self.state = state

    def rewrite(self, op: ConstantOp, emitter: Emitter) -> None:
        value = emitter.emit(ConstantOp, [], [type_of_value(op.value)], {"data": op.data}).results[0]
        self.state.write(op.value, value, emitter)


class CallBecomesValueCall:
    """A call reads the newest windows, runs its out-of-place twin, and its writes become the newest windows."""

    def __init__(self, state: FunctionState):
        self.state = state

    def rewrite(self, op: HandleCall, emitter: Emitter) -> None:
        accesses = op.effects.data or ()
        if not accesses and all(alias.kind in ("same", "view") for alias in op.aliases.data):
            if op.aliases.data:
                return  # a view: nothing but a window
        writes = tuple(a.operand for a in accesses if a.kind == "write")
        reads = {a.operand for a in accesses if a.kind == "read"}
        if self._is_overlapping_fill(op):
            self._fill_overlapping(op, emitter)
            return
        if writes:
            self._refuse_order_dependence(op, reads, writes)
        operands = [
            self.state.read(handle, emitter) if number in reads else self._placeholder(handle, emitter)
            for number, handle in enumerate(op.operands)
        ]
        if not writes:
            types = [type_of_value(r) for r in op.results]
            call = emitter.emit(op.value_op(), operands, types, op.value_properties())
            self._bind_results(op, list(call.results), emitter)
        elif op.value is not None:
            self._call_twin(op, operands, emitter)
        else:
            self._call_on_copies(op, operands, writes, emitter)

    def _placeholder(self, handle: SSAValue, emitter: Emitter) -> SSAValue:
        """An operand whose elements nobody looks at: any value of its shape, so that nothing waits for the old one."""
        shape = form(cast("MemRefType[Attribute]", handle.type))
        return emitter.empty(shape.element, shape.window.sizes)

    def _call_twin(self, op: HandleCall, operands: list[SSAValue], emitter: Emitter) -> None:
        assert op.value is not None
        twin = op.value.data
        types = [type_of_value(op.outs[o.index] if o.kind == "result" else op.args[o.index]) for o in twin.outputs]
        operands, properties = _without(op, operands, twin.drop)
        call = emitter.emit(op.value_op(), operands, types, properties)
        for output, value in zip(twin.outputs, call.results, strict=True):
            if output.kind == "write":
                self.state.write(op.args[output.index], value, emitter)
            elif op.aliases.data[output.index].kind == "fresh":
                self.state.write(op.outs[output.index], value, emitter)

    def _call_on_copies(
        self, op: HandleCall, operands: list[SSAValue], writes: tuple[int, ...], emitter: Emitter
    ) -> None:
        """An op without a twin: its own results, then the new values of what it writes."""
        properties = op.value_properties()
        properties["writes"] = Effects(tuple(a for a in op.effects.data or () if a.kind == "write"))
        types = [type_of_value(r) for r in op.outs] + [type_of_value(op.args[w]) for w in writes]
        call = emitter.emit(op.value_op(), operands, types, properties)
        self._bind_results(op, list(call.results[: len(op.outs)]), emitter)
        for number, value in zip(writes, call.results[len(op.outs) :], strict=True):
            self.state.write(op.args[number], value, emitter)

    def _is_overlapping_fill(self, op: HandleCall) -> bool:
        """A masked fill of a window that meets elements twice, by a mask and a value that live elsewhere."""
        if op.target.data not in MASKED_FILLS:
            return False
        key, memory = self.state.key(op.operands[0]), self.state.place(op.operands[0]).memory
        elsewhere = all(self.state.place(other).memory is not memory for other in op.operands[1:])
        plain = not key.lazy and same_width(key.element, memory.element)
        return elsewhere and plain and self_overlaps(_region(key)) is True

    def _fill_overlapping(self, op: HandleCall, emitter: Emitter) -> None:
        target, mask, *rest = op.operands
        value = self.state.read(rest[0], emitter) if rest else op.arguments.data[2]
        fill_overlapping(
            self.state.state(target), self.state.key(target), self.state.read(mask, emitter), value, emitter
        )

    def _bind_results(self, op: HandleCall, values: list[SSAValue], emitter: Emitter) -> None:
        for alias, handle, value in zip(op.aliases.data, op.results, values, strict=True):
            if alias.kind == "fresh":
                self.state.write(handle, value, emitter)

    def _refuse_order_dependence(self, op: HandleCall, reads: set[int], writes: tuple[int, ...]) -> None:
        """Refuse when the result would depend on the order in which elements are visited."""
        pointwise = op.pointwise is not None
        for number in writes:
            key = self.state.key(op.args[number])
            if 0 in key.window.sizes:
                continue
            bytes_, memory = _region(key), self.state.place(op.args[number]).memory
            if number in reads or not _uniform(op, reads):
                if self_overlaps(bytes_) is not False:
                    raise _refusal(op, f"{op.target.data} writes a window that meets one element more than once")
            for other in sorted((reads | set(writes)) - {number}):
                handle = op.args[other]
                if self.state.place(handle).memory is not memory:
                    continue
                second = self.state.key(handle)
                if second[:2] == key[:2]:
                    if other in writes:
                        raise _refusal(op, f"{op.target.data} writes the same memory through two operands")
                    if not pointwise and (op.value is None or op.value.data.target == op.target.data):
                        # Nothing but the operator itself says what it does, and that is not element by element.
                        raise _refusal(op, f"{op.target.data} writes the memory that it reads as operand {other}")
                    continue
                if relation(bytes_, _region(second)) is Relation.DISJOINT:
                    continue
                if pointwise and other not in writes and _coincide(key, second):
                    continue
                raise _refusal(
                    op, f"{op.target.data} writes memory that operand {other} of the same call partly overlaps"
                )


def _uniform(op: HandleCall, reads: set[int]) -> bool:
    """Whether every element written gets one and the same value: nothing but single elements is read."""
    return all(cast("MemRefType[Attribute]", op.args[r].type).element_count() == 1 for r in reads)


def _coincide(written: Key, read: Key) -> bool:
    """Whether each byte that both windows touch belongs to the same logical element of both, after broadcasting."""
    size = ELEMENTS[written.element][1]
    if ELEMENTS[read.element][1] != size:
        return False
    shape, have = written.window.sizes, read.window.sizes
    lead = len(shape) - len(have)
    if lead < 0:
        return False
    strides = (0,) * lead + tuple(0 if n == 1 else s for n, s in zip(have, read.window.strides, strict=True))
    if any(n not in (1, m) for n, m in zip(have, shape[lead:], strict=True)):
        return False
    return coincide(written.window, Geometry(shape, strides, read.window.offset), size) is True


def _refusal(op: Operation, message: str) -> UnsupportedError:
    location, node = source_of(op)
    return UnsupportedError(
        message + ", so its result depends on the order in which elements are visited",
        location=location, node=node, hint="take a .clone() of the operand that is read, or write a tensor of its own",
    )  # fmt: skip


class ReturnGivesResults:
    """Returns the memory of fresh outputs, then the final value of every written parameter."""

    def __init__(self, state: FunctionState):
        self.state = state

    def rewrite(self, op: ReturnOp, emitter: Emitter) -> None:
        state = self.state
        results: list[SSAValue] = []
        number_of: dict[int, int] = {}
        first: dict[SSAValue, int] = {}
        for number, handle in enumerate(op.arguments):
            place, key, window = state.place(handle), state.key(handle), state.window(handle)
            if place.argument >= 0 and place.origin is state.arguments[place.argument]:
                state.plan.append(OutputSource("argument", place.argument))
            elif place.origin in first:
                state.plan.append(OutputSource("output", first[place.origin]))
            elif place.argument >= 0:
                state.plan.append(OutputSource("argument_view", place.argument, key.element, window, key.lazy))
            else:
                if id(place.memory) not in number_of:
                    number_of[id(place.memory)] = len(results)
                    results.append(state.state(handle).final(emitter))
                state.plan.append(OutputSource("result", number_of[id(place.memory)], key.element, window, key.lazy))
            first.setdefault(place.origin, number)
        for memory in state.memories.parameters:
            if memory.written and 0 not in memory.dims:
                state.table.append((len(results), memory))
                results.append(state.states[id(memory)].final(emitter))
        emitter.emit(ReturnOp, results, [])


@dataclass(frozen=True)
class InPlaceToOutOfPlace(ModulePass):
    """See the module's text.

    Options:
        carriers: written states of 16 and 8 bit floats travel as unsigned integers (docs/ir.md).
    """

    name: ClassVar[str] = "in-place-to-out-of-place"
    carriers: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.ops:
            if isinstance(inner, FuncOp) and inner.body.blocks:
                make_out_of_place(inner, carriers=self.carriers)


def make_out_of_place(function: FuncOp, *, carriers: bool = True) -> None:
    """Rewrite one function. Raises UnsupportedError and CompileError as the module's text says."""
    block = function.body.block
    if not any(isinstance(a.type, MemRefType) for a in block.args) and "alias.plan" in function.attributes:
        return  # already values
    memories = analyze(function, carriers=carriers)
    # The parameters stand in a block of their own until it is known which of them are used.
    values = Block(arg_types=[value_type(m.element, m.dims) for m in memories.parameters]).args
    state = FunctionState(memories, block.args, memories.parameters, values)
    emitted: list[Operation] = []
    sweep(block.ops, state, emitted.append)
    _finish(function, erase_dead(emitted), values, state)


def sweep(ops: Iterable[Operation], state: FunctionState, place: Place) -> None:
    """Emit the value form of each op."""
    rewrites: dict[type[Operation], Callable[[Any, Emitter], None]] = {
        ConstantOp: ConstantBecomesValue(state).rewrite,
        CondOp: CondBecomesValueCond(state, sweep).rewrite,
        WhileOp: WhileBecomesValueWhile(state, sweep).rewrite,
        HandleCall: CallBecomesValueCall(state).rewrite,
        ReturnOp: ReturnGivesResults(state).rewrite,
    }
    for op in ops:
        rewrite = rewrites.get(HandleCall if isinstance(op, HandleCall) else type(op))
        if rewrite is not None:
            rewrite(op, Emitter(place, op.location))
        elif not isinstance(op, SymbolOp | YieldOp):
            location, node = source_of(op)
            raise CompileError(f"{op.name} has no out-of-place form", location=location, node=node)


def _finish(function: FuncOp, ops: Sequence[Operation], values: Sequence[SSAValue], state: FunctionState) -> None:
    """A block of `ops` whose arguments are the used parameters; bindings, table and plan on the function."""
    written = {id(memory) for _, memory in state.table}
    used = [
        (memory, value)
        for memory, value in zip(state.memories.parameters, values, strict=True)
        # One tensor given twice is a parameter even if nobody reads it: a call has to be held to it.
        if value.first_use is not None or id(memory) in written or memory.repeated
    ]
    numbers = {id(memory): number for number, (memory, _) in enumerate(used)}
    bindings = _bindings(function, state, numbers)
    block = Block(ops, arg_types=[value.type for _, value in used])
    for (_, value), parameter in zip(used, block.args, strict=True):
        value.replace_all_uses_with(parameter)
    function.body.detach_block(function.body.block)
    function.body.add_block(block)
    function.attributes["alias.bindings"] = Bindings(bindings)
    function.attributes["alias.table"] = Table(tuple(AliasEntry(k, numbers[id(m)]) for k, m in state.table))
    function.attributes["alias.plan"] = Plan(tuple(state.plan))
    function.properties.pop("arg_attrs", None)
    function.properties.pop("res_attrs", None)
    last = cast(ReturnOp, block.last_op)
    function.properties["function_type"] = FunctionType.from_lists(
        [a.type for a in block.args], [v.type for v in last.operands]
    )


def _bindings(function: FuncOp, state: FunctionState, numbers: dict[int, int]) -> tuple[Binding, ...]:
    attributes = function.arg_attrs.data if function.arg_attrs else ()
    bindings: list[Binding] = []
    for number, handle in enumerate(state.arguments):
        data = attributes[number].data
        name, kind = data.get("fx.name"), data.get("fx.kind")
        memory, key = state.place(handle).memory, state.key(handle)
        bindings.append(
            Binding(
                name.data if isinstance(name, StringAttr) else f"argument{number}",
                kind.data if isinstance(kind, StringAttr) else "input",
                numbers.get(id(memory), -1),
                key.element,
                state.window(handle),
                memory.written and id(memory) in numbers,
                key.lazy,
                memory.around is not None and id(memory) in numbers,
            )
        )
    return tuple(bindings)


def _without(
    op: HandleCall, operands: list[SSAValue], drop: tuple[str, ...]
) -> tuple[list[SSAValue], dict[str, Attribute]]:
    """Operands and properties of a call without some of its keyword arguments."""
    properties = op.value_properties()
    if not drop or op.keywords is None:
        return operands, properties
    kept = {name: value for name, value in op.keywords.data.items() if name not in drop}
    gone = {n for name in drop if name in op.keywords.data for n in operand_numbers(op.keywords.data[name])}
    renumbered = {old: new for new, old in enumerate(n for n in range(len(operands)) if n not in gone)}
    properties["arguments"] = ArrayAttr([_renumber(a, renumbered) for a in op.arguments.data])
    properties.pop("keywords")
    if kept:
        properties["keywords"] = DictionaryAttr({name: _renumber(v, renumbered) for name, v in kept.items()})
    return [v for n, v in enumerate(operands) if n not in gone], properties


def _renumber(argument: Attribute, numbers: dict[int, int]) -> Attribute:
    if isinstance(argument, Operand):
        return Operand(numbers[argument.data])
    if isinstance(argument, ArrayAttr):
        return ArrayAttr([_renumber(item, numbers) for item in argument.data])
    return argument


__all__ = ["InPlaceToOutOfPlace", "make_out_of_place"]
