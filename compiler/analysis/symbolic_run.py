"""Both forms of a program, executed on symbols: what memory holds at the end, and what results are made of.

A view selects symbols, a write replaces them, and an operator is an unknown function: called twice with the same symbols
it gives the same new ones. A branch chooses byte by byte between the ends of both regions. A loop is an unknown function of
its first state and of what one turn makes of any state; bytes that no turn changes are no part of that state. Nothing
here is shared with the pass that writes the tables: no memories, no versions, no regions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple, cast

from xdsl.dialects.builtin import ArrayAttr, MemRefType, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from compiler.analysis.symbolic_bytes import Bytes, Steps
from compiler.analysis.symbolic_loops import MOST_ORDERS, Loop, LoopMemory, Piece, Starts, Turns
from compiler.analysis.symbols import CONJ, NEG, Symbols
from compiler.errors import CompileError
from compiler.locations import source_of
from dialects.alias import Root
from dialects.calls import HandleCall, ValueCall
from dialects.control import CondOp, ValueCondOp, ValueWhileOp, WhileOp, YieldOp
from dialects.fx import ConstantOp, EmptyOp, ExtractOp, InsertOp, Operand, ReinterpretOp
from dialects.types import ELEMENTS, Geometry, element_name, geometry, lazy_bits

_FLAGS = {"aten.conj_physical.default": CONJ, "aten.neg.default": NEG}
"""The operators that values spell lazy bits with; each is its own inverse."""


class NotFollowed(Exception):
    """What the program does has no meaning on symbols."""


# -- handles -------------------------------------------------------------------------------------


class Handle(NamedTuple):
    """A window on a root, and the tensor object that the handle is (`same` results are their operand)."""

    root: int
    window: Geometry
    element: str
    lazy: str
    object: SSAValue

    @property
    def width(self) -> int:
        return ELEMENTS[self.element][1]

    @property
    def byte(self) -> int:
        return self.window.offset * self.width

    @property
    def steps(self) -> Steps:
        return steps(self.window, self.width)


class HandleRun:
    """Executes a program over handles.

    Attributes:
        initial, roots: the bytes of each root before and after.
        writer: the last operation that wrote each root.
    """

    def __init__(self, function: FuncOp, symbols: Symbols):
        self.function, self.symbols, self.turns = function, symbols, Turns(symbols)
        self.handles: dict[SSAValue, Handle] = {}
        self.writer: dict[int, Operation] = {}
        self.initial = {root: symbols.fresh(size) for root, size in sorted(_root_sizes(function).items())}
        self.roots = dict(self.initial)
        self._allocated = 0
        for number, argument in enumerate(function.body.block.args):
            self.handles[argument] = _handle(argument, _root_of(function, number), argument)
        self.arguments = [self.handles[a] for a in function.body.block.args]
        self.outputs: list[Handle] = []

    def run(self) -> None:
        last = self.block(self.function.body.block)
        self.outputs = [self.handles[v] for v in last.operands]

    def block(self, block: Block) -> Operation:
        """Run a block up to its terminator."""
        for op in block.ops:
            if isinstance(op, HandleCall):
                self.call(op)
            elif isinstance(op, ConstantOp):
                handle = self.allocate(op.value)
                self.store(handle, _constant(op, self.symbols, handle.window.sizes, handle.width))
            elif isinstance(op, CondOp):
                self.cond(op)
            elif isinstance(op, WhileOp):
                self.loop(op)
            elif isinstance(op, ReturnOp | YieldOp):
                return op
            else:
                raise untrue(f"{op.name} has no meaning on handles", op)
        raise untrue("a block does not end")

    def allocate(self, value: SSAValue) -> Handle:
        self._allocated += 1
        handle = _handle(value, -self._allocated, value)
        self.roots[handle.root] = self.symbols.fresh(handle.steps.end)
        self.handles[value] = handle
        return handle

    def load(self, handle: Handle) -> Bytes:
        return self.roots[handle.root].window(self.inside(handle)).flagged(_lazy_flags(handle.lazy))

    def store(self, handle: Handle, value: Bytes) -> None:
        stored = value.flagged(_lazy_flags(handle.lazy))
        self.roots[handle.root] = self.roots[handle.root].replaced(self.inside(handle), stored)

    def inside(self, handle: Handle) -> Steps:
        """The bytes of a handle, which its root has."""
        found, size = handle.steps, self.roots[handle.root].size
        if found.end > size:
            raise untrue(f"a window reaches byte {found.end} of memory with {size}")
        return found

    def call(self, op: HandleCall) -> None:
        accesses = op.effects.data
        if accesses is None:
            raise untrue(f"{op.target.data} has unknown effects", op)
        reads = {a.operand for a in accesses if a.kind == "read"}
        writes = [a.operand for a in accesses if a.kind == "write"]
        given = [self.handles[v] for v in op.args]
        for number, (alias, result) in enumerate(zip(op.aliases.data, op.outs, strict=True)):
            if alias.kind == "same":
                self.handles[result] = given[alias.operand]
            elif alias.kind == "view":
                self.handles[result] = _handle(result, given[alias.operand].root, result)
            elif alias.kind == "may":
                raise untrue(f"whether result {number} of {op.target.data} is memory of an operand is unknown", op)
        if not accesses and op.outs and all(alias.kind in ("same", "view") for alias in op.aliases.data):
            return
        contents = [
            self.load(h) if n in reads else _empty(self.symbols, h.element, h.window.sizes) for n, h in enumerate(given)
        ]
        target, keywords, mark = op.target.data, op.settings(), tuple[int, ...]()
        outputs: list[tuple[str, int]] = [("result", n) for n in range(len(op.outs))]
        if writes and op.value is not None:
            target, outputs = op.value.data.target, [(o.kind, o.index) for o in op.value.data.outputs]
            keywords = {name: value for name, value in keywords.items() if name not in op.value.data.drop}
        elif writes:
            outputs += [("write", w) for w in writes]
            mark = tuple(writes)
        shown = [_shown(c, h.element, h.window.sizes) for c, h in zip(contents, given, strict=True)]
        key = _call_key(target, op.arguments, keywords, shown, mark)
        flag = _FLAGS.get(target)
        for position, (kind, index) in enumerate(outputs):
            if kind == "result" and op.aliases.data[index].kind != "fresh":
                continue
            handle = self.allocate(op.outs[index]) if kind == "result" else given[index]
            if kind == "write":
                self.writer[handle.root] = op
                if handle.steps.meets_twice():
                    # Only results that are the same everywhere have a meaning there.
                    if any(given[n].window.numel != 1 for n in reads):
                        raise NotFollowed(f"{op.target.data} writes a window that meets one element more than once")
                    self.symbols.uniform.add((key, position))
            if flag is not None:
                self.store(handle, contents[0].flagged(flag))
            else:
                self.store(handle, self.symbols.of((key, position), handle.window.numel, handle.width))

    # -- regions -------------------------------------------------------------------------------

    def enter(self, block: Block, handles: Sequence[Handle]) -> list[Bytes]:
        """Run a region on handles; what it yields."""
        self.handles.update(zip(block.args, handles, strict=True))
        return [self.load(self.handles[v]) for v in self.block(block).operands]

    def cond(self, op: CondOp) -> None:
        condition, before = self.load(self.handles[op.predicate]).name, dict(self.roots)
        captures = [self.handles[c] for c in op.captures]
        yielded: list[list[Bytes]] = []
        ends: list[dict[int, Bytes]] = []
        for region in (op.then, op.otherwise):
            self.roots = dict(before)
            yielded.append(self.enter(region.block, captures))
            ends.append(self.roots)
        self.roots = {root: self.symbols.choice(condition, *(end[root] for end in ends)) for root in before}
        for result, one, two in zip(op.outs, *yielded, strict=True):
            self.store(self.allocate(result), self.symbols.choice(condition, one, two))

    def loop(self, op: WhileOp) -> None:
        turns, before = self.turns, dict(self.roots)
        first = [self.load(self.handles[v]) for v in op.carried]
        captures = [self.handles[c] for c in op.captures]
        captured = list(dict.fromkeys(c.root for c in captures))
        memories = tuple(LoopMemory(root, before[root]) for root in captured)
        turns.depth += 1
        loop = Loop(turns.depth, tuple(v.name for v in first), memories)
        turns.loops.setdefault((turns.depth, loop.carried), []).append(loop)
        begin = {root: turns.memory(n, before[root].size, 0, before[root].size) for n, root in enumerate(captured)}
        for _ in range(2):  # the second time only what a turn changes is unknown at its start
            self.roots = before | begin
            carried = [self.allocate(a) for a in op.body.block.args[: len(first)]]
            again = [self.allocate(a) for a in op.condition.block.args[: len(first)]]
            for number, handles in enumerate(zip(carried, again, strict=True)):
                for handle in handles:
                    self.store(handle, turns.carried(number, first[number].size))
            (goes_on,) = self.enter(op.condition.block, [*again, *captures])
            after = self.enter(op.body.block, [*carried, *captures])
            pieces = [Piece(n, 0, before[r].size, before[r], begin[r], self.roots[r]) for n, r in enumerate(captured)]
            begin = {captured[p.number]: p.before.mixed(p.changed(), p.begin) for p in pieces}
        key = turns.key(goes_on, first, after, pieces)
        self.roots = before | {captured[p.number]: turns.afterwards(key, p) for p in pieces}
        turns.depth -= 1
        for number, result in enumerate(op.outs):
            handle = self.allocate(result)
            self.store(handle, turns.result(key, number, first[number].size))


# -- values --------------------------------------------------------------------------------------


class ValueRun:
    """Executes a function of values on the symbols of a run over handles.

    Args:
        turns: the loops of that run.
        starts: bytes of each root at which a parameter begins.
    """

    def __init__(self, symbols: Symbols, turns: Turns, starts: Starts):
        self.symbols, self.turns, self.starts = symbols, turns, starts

    def run(self, block: Block, arguments: Sequence[Bytes]) -> list[Bytes]:
        """What a block returns or yields."""
        values: dict[SSAValue, Bytes] = dict(zip(block.args, arguments, strict=True))
        for op in block.ops:
            if isinstance(op, ReturnOp | YieldOp):
                return [values[v] for v in op.operands]
            computed = self.compute(op, [values[v] for v in op.operands])
            for result, value in zip(op.results, computed, strict=True):
                if value.size != bytes_of(result.type):
                    raise untrue(f"a value of type {result.type} is made of {value.size} bytes", op)
                values[result] = value
        raise untrue("a block does not end")

    def compute(self, op: Operation, operands: list[Bytes]) -> list[Bytes]:
        match op:
            case ExtractOp():
                return [operands[0].window(_fitting(op, op.window.data, width_of(op.base.type), operands[0].size))]
            case InsertOp():
                size = bytes_of(op.result.type)
                base = operands[1] if len(operands) > 1 else self.symbols.fresh(size)
                return [base.replaced(_fitting(op, op.window.data, width_of(op.result.type), size), operands[0])]
            case ReinterpretOp():
                return [operands[0]]
            case EmptyOp():
                return [_empty(self.symbols, *_kind(op.value))]
            case ConstantOp():
                return [_constant(op, self.symbols, _kind(op.value)[1], width_of(op.value.type))]
            case ValueCall():
                return self.call(op, operands)
            case ValueCondOp():
                condition = operands[0].name
                ends = [self.run(region.block, operands[1:]) for region in (op.then, op.otherwise)]
                return [self.symbols.choice(condition, one, two) for one, two in zip(*ends, strict=True)]
            case ValueWhileOp():
                return self.loop(op, operands)
            case _:
                raise untrue(f"{op.name} has no meaning on values", op)

    def call(self, op: ValueCall, operands: list[Bytes]) -> list[Bytes]:
        if (flag := _FLAGS.get(op.target.data)) is not None:
            return [operands[0].flagged(flag)]
        shown = [_shown(value, *_kind(v)) for value, v in zip(operands, op.args, strict=True)]
        mark = tuple(op.writes.writes() or ()) if op.writes is not None else ()
        key = _call_key(op.target.data, op.arguments, op.settings(), shown, mark)
        return [
            self.symbols.of((key, n), math.prod(_kind(result)[1]), width_of(result.type))
            for n, result in enumerate(op.results)
        ]

    def loop(self, op: ValueWhileOp, operands: list[Bytes]) -> list[Bytes]:
        depth = self.turns.depth + 1
        found: list[Bytes] | None = None
        failure: CompileError | None = None
        self.turns.depth = depth
        for own, places, loop in islice(self.turns.pairings(operands[: len(op.carried)], self.starts), MOST_ORDERS):
            try:
                known, found = self.turn(op, operands, own, places, loop)
                if known:
                    break
            except CompileError as error:  # a loop inside is none of the program's when this one is that loop
                failure = error
            self.turns.depth = depth
        self.turns.depth = depth - 1
        if found is None:
            if failure is not None:
                raise failure
            raise untrue("a loop carries other values than the program's, or other memory", op)
        return found

    def turn(
        self, op: ValueWhileOp, operands: list[Bytes], own: int, places: Sequence[tuple[int, int]], loop: Loop
    ) -> tuple[bool, list[Bytes]]:
        """The results as those of a loop of the program; whether that loop does in a turn what this one does."""
        turns, carried, captures = self.turns, operands[: len(op.carried)], operands[len(op.carried) :]
        values = [turns.carried(n, v.size) for n, v in enumerate(carried[:own])]
        sizes = [loop.memories[number].before.size for number, _ in places]
        begin = [
            turns.memory(number, size, first, value.size)
            for (number, first), size, value in zip(places, sizes, carried[own:], strict=True)
        ]
        for _ in range(2):
            (goes_on,) = self.run(op.condition.block, [*values, *begin, *captures])
            after = self.run(op.body.block, [*values, *begin, *captures])
            pieces = [
                Piece(*place, size, *p)
                for place, size, *p in zip(places, sizes, carried[own:], begin, after[own:], strict=True)
            ]
            begin = [p.before.mixed(p.changed(), p.begin) for p in pieces]
        key = turns.key(goes_on, carried[:own], after[:own], pieces)
        known = not own or self.symbols.knows((key, "carried", 0))
        if not own:
            known = any(self.symbols.knows((key, "memory", p.number)) for p in pieces)
        results = [turns.result(key, n, v.size) for n, v in enumerate(carried[:own])]
        return known, results + [turns.afterwards(key, p) for p in pieces]


# -- the IR --------------------------------------------------------------------------------------


def steps(window: Geometry, width: int) -> Steps:
    """The bytes of a window on elements of `width` bytes."""
    return Steps(window.offset * width, window.sizes, tuple(s * width for s in window.strides), width)


def width_of(kind: Attribute) -> int:
    return ELEMENTS[element_name(kind.element_type)][1]  # type: ignore[attr-defined]


def bytes_of(kind: Attribute) -> int:
    """Bytes of a value."""
    return math.prod(cast("TensorType[Attribute]", kind).get_shape()) * width_of(kind)


def untrue(message: str, op: Operation | None = None) -> CompileError:
    """The error for tables that say something else than the program."""
    location, node = source_of(op) if op is not None else ("", "")
    return CompileError(f"the alias tables are not true: {message}", location=location, node=node)


def _fitting(op: Operation, window: Geometry, width: int, size: int) -> Steps:
    found = steps(window, width)
    if found.first < 0 or min(found.strides, default=0) < 0 or found.end > size:
        raise untrue(f"a window reaches byte {found.end} of memory with {size}", op)
    return found


def _kind(value: SSAValue) -> tuple[str, tuple[int, ...]]:
    kind = cast("TensorType[Attribute]", value.type)
    return element_name(kind.element_type), tuple(kind.get_shape())


def _shown(value: Bytes, element: str, sizes: tuple[int, ...]) -> Any:
    """An operand as an operator sees it."""
    return element, sizes, value.name


def _empty(symbols: Symbols, element: str, sizes: tuple[int, ...]) -> Bytes:
    return symbols.of(("empty", element, sizes), math.prod(sizes), ELEMENTS[element][1])


def _constant(op: ConstantOp, symbols: Symbols, sizes: Sequence[int], width: int) -> Bytes:
    return symbols.of(("constant", op.data.type, op.data.data), math.prod(sizes), width)


def _lazy_flags(bits: str) -> int:
    return (CONJ if "conj" in bits else 0) | (NEG if "neg" in bits else 0)


def _call_key(
    target: str, arguments: ArrayAttr[Attribute], keywords: dict[str, Attribute], operands: Sequence[Any], mark: Any
) -> Any:
    """What an operator's results depend on. `mark` tells forms of one overload apart."""

    def render(argument: Attribute) -> Any:
        if isinstance(argument, Operand):
            return operands[argument.data]
        if isinstance(argument, ArrayAttr):
            return tuple(render(item) for item in argument.data)
        return argument

    named = tuple((name, render(value)) for name, value in sorted(keywords.items()))
    return target, tuple(render(a) for a in arguments.data), named, mark


def _root_of(function: FuncOp, number: int) -> int:
    root = function.arg_attrs.data[number].data.get("alias.root") if function.arg_attrs is not None else None
    if not isinstance(root, Root):
        raise untrue(f"argument {number} has no root")
    return root.data.id


def _root_sizes(function: FuncOp) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for number in range(len(function.body.block.args)):
        root = _root_of(function, number)
        assert function.arg_attrs is not None
        sizes[root] = cast(Root, function.arg_attrs.data[number].data["alias.root"]).data.bytes
    return sizes


def _handle(value: SSAValue, root: int, identity: SSAValue) -> Handle:
    kind = value.type
    if not isinstance(kind, MemRefType) or not geometry(kind).static:
        raise untrue(f"a value of type {kind} is no handle of static shape")
    return Handle(root, geometry(kind), element_name(kind.element_type), lazy_bits(kind), identity)


__all__ = [
    "Handle", "HandleRun", "NotFollowed", "ValueRun", "bytes_of", "steps", "untrue",
]  # fmt: skip
