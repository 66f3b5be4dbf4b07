"""Which memory every handle lives in, and which stretch of it becomes one HLO parameter.

A *memory* is what turns into one chain of values: the root of a fresh result, the extent of an argument (or of several that
are one tensor), or, for a root that is written and shared by several arguments, the union of their extents. One walk, linear
in the number of ops.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from xdsl.dialects.builtin import MemRefType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from compiler.analysis.regions import Region, Relation, contiguous, extent, region, relation
from compiler.errors import CompileError, UnsupportedError
from compiler.locations import source_of
from dialects.alias import TENSOR, Root
from dialects.calls import HandleCall
from dialects.control import CondOp, ControlOp, WhileOp, arguments_of
from dialects.fx import ConstantOp
from dialects.types import ELEMENTS, Form, Geometry, form, row_major

CARRIERS = {"bf16": "ui16", "f16": "ui16", "f8E4M3FN": "ui8", "f8E5M2": "ui8"}
"""Element types that travel as unsigned integers when they are written: XLA's CPU back end widens whole buffers of
these types in a scatter and canonicalises NaNs, which a move must not."""


@dataclass(eq=False)
class Memory:
    """A stretch of bytes with a value.

    Attributes:
        arguments: numbers of the original arguments that live here; empty for memory the program allocates.
        start: first byte, counted from the start of the root.
        element: element type of its value. `dims`: shape of its value, in memory order. `bytes`: size of its value.
        lowest, highest: byte extent of all handles seen so far. `widest`: bytes of an element of the widest of them.
        repeated: some of its arguments are one tensor.
        around: the first op that writes bytes of it which are no elements of its arguments.
    """

    arguments: tuple[int, ...] = ()
    start: int = 0
    element: str = ""
    dims: tuple[int, ...] = ()
    bytes: int = 0
    written: bool = False
    lowest: int = 1 << 62
    highest: int = 0
    widest: int = 1
    repeated: bool = False
    around: Operation | None = None

    def touch(self, shape: Form) -> None:
        self._join(shape.extent, shape.size)

    def join(self, other: Memory) -> None:
        """Take over the handles of another memory of the same root."""
        self._join((other.lowest, other.highest), other.widest)
        self.written |= other.written
        self.repeated |= other.repeated

    def _join(self, extent: tuple[int, int], width: int) -> None:
        if extent[0] < extent[1]:
            self.lowest, self.highest = min(self.lowest, extent[0]), max(self.highest, extent[1])
            self.widest = max(self.widest, width)


class Place(NamedTuple):
    """Where a handle lives. `argument` is the argument it was derived from, -1 for allocated memory; `origin` is the
    first handle of its geometry: itself, or what it is the `same` as."""

    memory: Memory
    argument: int
    origin: SSAValue


@dataclass
class Memories:
    """The result of the analysis: a place for every handle, the memories of arguments in parameter order, and who writes."""

    places: dict[SSAValue, Place] = field(default_factory=dict)
    parameters: list[Memory] = field(default_factory=list)
    writes: list[tuple[Operation, SSAValue]] = field(default_factory=list)


@functools.lru_cache(maxsize=1 << 14)
def memory_order(window: Geometry) -> tuple[int, ...] | None:
    """Sizes in memory order when the window is dense (every byte of its extent once), else None.

    >>> memory_order(Geometry((2, 3), (1, 2), 0))
    (3, 2)
    >>> memory_order(Geometry((2, 3), (4, 1), 0)) is None
    True
    """
    if window.strides == row_major(window.sizes) or 0 in window.sizes:
        return window.sizes
    order = sorted(range(len(window.sizes)), key=lambda i: (-window.strides[i], i))
    step = 1
    for i in reversed(order):
        if window.sizes[i] != 1 and window.strides[i] != step:
            return None
        step *= window.sizes[i]
    # Dimensions of size one keep their place beside their neighbours; only their order in the result differs.
    return tuple(window.sizes[i] for i in order)


def analyze(function: FuncOp, *, carriers: bool = True) -> Memories:
    """The memories of a function over handles.

    Raises:
        UnsupportedError: an op may return an unknown alias, has unknown effects, or a size is dynamic.
        CompileError: a view reaches outside the memory the program was given.
    """
    block = function.body.block
    _require_static(block, block.args)
    result = Memories()
    roots: dict[int, list[int]] = {}
    attributes = function.arg_attrs.data if function.arg_attrs else ()
    sizes: dict[int, int] = {}
    tensors: dict[Attribute, Memory] = {}
    for number, argument in enumerate(block.args):
        root = attributes[number].data.get("alias.root") if attributes else None
        if not isinstance(root, Root):
            raise CompileError(f"argument {number} has no alias.root attribute")
        roots.setdefault(root.data.id, []).append(number)
        sizes[root.data.id] = root.data.bytes
        same = attributes[number].data.get(TENSOR)
        memory = Memory((number,))
        if same is not None:
            memory = tensors.setdefault(same, memory)
            memory.arguments = tuple(sorted({*memory.arguments, number}))
            memory.repeated = len(memory.arguments) > 1
        own = _form(argument)
        memory.touch(own)
        if own.extent[1] > root.data.bytes:
            raise CompileError(f"argument {number} reaches byte {own.extent[1]} of a root of {root.data.bytes} bytes")
        result.places[argument] = Place(memory, number, argument)

    shared = {number: group for group in roots.values() if len(group) > 1 for number in group}
    own_extent = [_form(a).extent for a in block.args]
    limits: dict[int, tuple[int, int]] = {}
    for root, group in roots.items():
        occupied = [own_extent[n] for n in group if own_extent[n][1]] or [(0, 0)]
        for number in group:
            limits[number] = (min(low for low, _ in occupied), sizes[root])
    merged: set[int] = set()
    for op in block.ops:
        _place_results(op, result, own_extent, limits, merged)  # regions included
    for argument in block.args:
        if result.places[argument].memory.written:
            merged.add(argument.index)
    _merge(result, block.args, shared, merged)
    _note_writes_around(result, block.args)
    owners: dict[int, Place] = {}
    for place in result.places.values():
        owners.setdefault(id(place.memory), place)  # the first handle is the memory itself, the others are views of it
    bytewise = {id(result.places[handle].memory) for _, handle in result.writes if _form(handle).element != "i1"}
    for place in owners.values():
        _lay_out(place.memory, block.args, place.origin, carriers, id(place.memory) in bytewise)
    seen: dict[int, Memory] = {}
    for argument in block.args:
        memory = result.places[argument].memory
        seen.setdefault(id(memory), memory)
    result.parameters = list(seen.values())
    return result


def _require_static(owner: Block | Operation, values: Sequence[SSAValue]) -> None:
    for value in values:
        kind = value.type
        if isinstance(kind, MemRefType) and form(kind).static:
            continue
        location, node = source_of(owner) if isinstance(owner, Operation) else ("", "")
        expression = owner.properties.get("expression") if isinstance(owner, Operation) else None
        name = f"the size {expression}" if expression is not None else f"{value.name_hint or 'a tensor'} of type {kind}"
        raise UnsupportedError(
            f"{name} is known only at run time, and HLO needs static shapes",
            location=location, node=node,
            hint="capture with example inputs of fixed sizes, once per size",
        )  # fmt: skip


def _place_results(
    op: Operation,
    result: Memories,
    own: Sequence[tuple[int, int]],
    limits: dict[int, tuple[int, int]],
    merged: set[int],
) -> None:
    """Give the results of one op their places and note what it writes."""
    _require_static(op, op.results)
    if isinstance(op, ConstantOp):
        _place_fresh(op.value, result)
        return
    if isinstance(op, CondOp | WhileOp):
        _place_regions(op, result, own, limits, merged)
        return
    if not isinstance(op, HandleCall):
        return
    writes = op.effects.writes()
    if writes is None:
        location, node = source_of(op)
        message, hint = op.why_unknown()
        raise UnsupportedError(message, location=location, node=node, hint=hint)
    operands = op.operands
    for operand in writes:
        result.places[operands[operand]].memory.written = True
        result.writes.append((op, operands[operand]))
    for alias, value in zip(op.aliases.data, op.results, strict=True):
        shape = _form(value)
        reach = shape.extent
        if alias.kind == "fresh":
            place = Place(Memory(), -1, value)
        elif alias.kind == "may":
            location, node = source_of(op)
            raise UnsupportedError(
                f"whether a result of {op.target.data} shares memory with an operand is unknown",
                location=location, node=node, hint="declare the alias in the operator's schema",
            )  # fmt: skip
        else:
            source = result.places[operands[alias.operand]]
            place = source if alias.kind == "same" else Place(source.memory, source.argument, value)
            if place.argument >= 0 and reach[0] < reach[1]:
                lowest, highest = limits[place.argument]
                if reach[0] < lowest or reach[1] > highest:
                    location, node = source_of(op)
                    raise UnsupportedError(
                        f"{op.target.data} makes a view that reaches outside the tensor the program was given",
                        location=location, node=node, hint="pass the whole tensor that the view is meant to cover",
                    )  # fmt: skip
                if reach[0] < own[place.argument][0] or reach[1] > own[place.argument][1]:
                    merged.add(place.argument)
        place.memory.touch(shape)
        result.places[value] = place


def _place_regions(
    op: ControlOp,
    result: Memories,
    own: Sequence[tuple[int, int]],
    limits: dict[int, tuple[int, int]],
    merged: set[int],
) -> None:
    """Captured handles live where they do outside; carried values and results have memory of their own."""
    for block, carried, first in arguments_of(op):
        _require_static(block, block.args)
        for argument in block.args[:carried]:
            _place_fresh(argument, result)
        for argument, capture in zip(block.args[carried:], op.operands[first:], strict=True):
            result.places[argument] = result.places[capture]
        for inner in block.ops:
            _place_results(inner, result, own, limits, merged)
    for value in op.outs:
        _place_fresh(value, result)


def _place_fresh(value: SSAValue, result: Memories) -> None:
    memory = Memory()
    memory.touch(_form(value))
    result.places[value] = Place(memory, -1, value)


def _merge(result: Memories, arguments: Sequence[SSAValue], shared: dict[int, list[int]], merged: set[int]) -> None:
    """One memory for all arguments of a root that somebody writes, or views beyond one argument's own extent."""
    replaced: dict[int, Memory] = {}
    for number in sorted(merged & shared.keys()):
        group = shared[number]
        if id(result.places[arguments[number]].memory) in replaced:
            continue
        union = Memory(tuple(group))
        for other in group:
            old = result.places[arguments[other]].memory
            union.join(old)
            replaced[id(old)] = union
    if not replaced:
        return
    for value, place in result.places.items():
        if id(place.memory) in replaced:
            result.places[value] = Place(replaced[id(place.memory)], place.argument, place.origin)


def _note_writes_around(result: Memories, arguments: Sequence[SSAValue]) -> None:
    """Find writes that reach bytes which are no elements of arguments: between them, or beside them."""
    judged: set[tuple[int, Region]] = set()
    for op, handle in result.writes:
        memory = result.places[handle].memory
        written = _bytes_of(handle)
        if not memory.arguments or memory.around is not None or written.empty or (id(memory), written) in judged:
            continue
        judged.add((id(memory), written))
        elements = [_bytes_of(arguments[number]) for number in memory.arguments]
        if not any(relation(own, written) in (Relation.CONTAINS, Relation.EQUAL) for own in elements):
            if not _covered(extent(written), elements):
                memory.around = op


def _covered(stretch: tuple[int, int], elements: Sequence[Region]) -> bool:
    """Whether arguments without gaps cover a stretch of bytes."""
    reached, end = stretch
    for first, last in sorted(extent(own) for own in elements if not own.empty and contiguous(own)):
        if first <= reached < last:
            reached = last
    return reached >= end


def _bytes_of(value: SSAValue) -> Region:
    shape = _form(value)
    found = region(shape.window, shape.size)
    assert found is not None, "dynamic shapes have been refused"
    return found


def _lay_out(
    memory: Memory, arguments: Sequence[SSAValue], origin: SSAValue, carriers: bool, bytewise: bool
) -> None:  # fmt: skip
    """Choose start, element type and shape of a memory's value; `bytewise`: written as another type than bool."""
    _shape(memory, arguments, origin, carriers, bytewise)
    memory.bytes = math.prod(memory.dims) * ELEMENTS[memory.element][1]


def _shape(
    memory: Memory, arguments: Sequence[SSAValue], origin: SSAValue, carriers: bool, bytewise: bool
) -> None:  # fmt: skip
    owners = [arguments[number] for number in memory.arguments] or [origin]
    elements = {_form(o).element for o in owners}
    element = min(elements, key=lambda e: (ELEMENTS[e][1], e == "i1", e))
    if element == "i1" and (len(elements) > 1 or bytewise):
        element = "ui8"  # the bytes of others have more bits than a bool keeps
    if memory.arguments and memory.written and carriers:
        element = CARRIERS.get(element, element)
    size = ELEMENTS[element][1]
    low, high = (memory.lowest, memory.highest) if memory.highest else (0, 0)
    if not memory.arguments:
        low = 0
    memory.start = low // memory.widest * memory.widest  # so that every handle begins at a whole element of its own
    memory.element = element
    for owner in owners:  # the shape of the first handle that is all of it
        shape = _form(owner)
        ordered = memory_order(shape.window)
        if ordered is not None and shape.size == size and shape.extent == (low, high) == (memory.start, high):
            memory.dims = ordered
            return
    count = -(-(high - memory.start) // size)
    memory.dims = (count,)


def _form(value: SSAValue) -> Form:
    return form(cast("MemRefType[Attribute]", value.type))
