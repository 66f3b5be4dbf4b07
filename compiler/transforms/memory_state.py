"""The newest value of every memory, and reads and writes of windows on it.

A read through a window extracts it from the newest value; a write inserts a new window and makes that the newest
value. A window that was just written or read at this version is remembered, so reading it again costs nothing, and
writing the same window twice keeps the second only. Views of another element type go through `fx.reinterpret`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

from xdsl.dialects.builtin import ArrayAttr, LocationAttr, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

from compiler.analysis.memories import Memory
from dialects.alias import Window
from dialects.fx import EmptyOp, ExtractOp, InsertOp, Operand, ReinterpretOp, ValueCallOp
from dialects.types import ELEMENTS, Geometry, element_name, row_major, value_type

Place = Callable[[Operation], None]
"""Takes a new op to where it belongs: behind those before it."""


class Key(NamedTuple):
    """A window as a handle sees it: element type, geometry from the start of the memory, lazy bits."""

    element: str
    window: Geometry
    lazy: str


@functools.lru_cache(maxsize=1 << 14)
def window_attribute(window: Geometry) -> Window:
    return Window(window)


@functools.lru_cache(maxsize=1 << 14)
def canonical(window: Geometry) -> Geometry:
    """Equal windows compare equal: strides of dimensions of size one say nothing."""
    if 0 in window.sizes:
        return Geometry(window.sizes, row_major(window.sizes), 0)
    if 1 not in window.sizes:
        return window
    dense = row_major(window.sizes)
    strides = tuple(d if n == 1 else s for n, s, d in zip(window.sizes, window.strides, dense, strict=True))
    return Geometry(window.sizes, strides, window.offset)


class Emitter:
    """Creates value ops with the location of the op being rewritten, and hands each to `place`."""

    def __init__(self, place: Place, location: LocationAttr):
        self.place, self.location = place, location

    @classmethod
    def before(cls, op: Operation) -> Emitter:
        """In front of an op, wherever that is by then, with its location."""

        def place(new: Operation) -> None:
            assert op.parent is not None
            op.parent.insert_op_before(new, op)

        return cls(place, op.location)

    def emit(
        self,
        kind: type[Operation],
        operands: list[SSAValue],
        types: list[Attribute],
        properties: dict[str, Attribute] | None = None,
    ) -> Operation:
        op = kind.create(operands=operands, result_types=types, properties=properties or {}, location=self.location)
        self.place(op)
        return op

    def unary(self, target: str, value: SSAValue) -> SSAValue:
        properties: dict[str, Attribute] = {"target": StringAttr(target), "arguments": ArrayAttr([Operand(0)])}
        return self.emit(ValueCallOp, [value], [value.type], properties).results[0]

    def extract(self, base: SSAValue, window: Geometry) -> SSAValue:
        kind = value_type(element_of(base), window.sizes)
        return self.emit(ExtractOp, [base], [kind], {"window": window_attribute(window)}).results[0]

    def insert(self, value: SSAValue, base: SSAValue | None, window: Geometry, dims: tuple[int, ...]) -> SSAValue:
        kind = value_type(element_of(value), dims)
        operands = [value] if base is None else [value, base]
        return self.emit(InsertOp, operands, [kind], {"window": window_attribute(window)}).results[0]

    def reinterpret(self, value: SSAValue, element: str) -> SSAValue:
        """The same bytes as `element`; flattens where the last dimension does not divide, and pads where the whole does not."""
        source = element_of(value)
        if source == element:
            return value
        dims, before, after = shape_of(value), ELEMENTS[source][1], ELEMENTS[element][1]
        if before != after:
            if not dims or dims[-1] * before % after:
                dims = (math.prod(dims),)
                value = self.extract(value, Geometry(dims, (1,), 0))
            if dims[-1] * before % after:
                padded = (-(-dims[0] * before // after) * after // before,)
                value, dims = self.insert(value, None, Geometry(dims, (1,), 0), padded), padded
            dims = (*dims[:-1], dims[-1] * before // after)
        return self.emit(ReinterpretOp, [value], [value_type(element, dims)]).results[0]

    def empty(self, element: str, dims: tuple[int, ...]) -> SSAValue:
        return self.emit(EmptyOp, [], [value_type(element, dims)]).results[0]


def element_of(value: SSAValue) -> str:
    return element_name(value.type.element_type)  # type: ignore[attr-defined]


def shape_of(value: SSAValue) -> tuple[int, ...]:
    return value.type.get_shape()  # type: ignore[attr-defined]


def same_width(first: str, second: str) -> bool:
    """Whether a window keeps its geometry when seen as the other element type."""
    return ELEMENTS[first][1] == ELEMENTS[second][1] and ("complex" in first) == ("complex" in second)


class MemoryState:
    """The newest value of one memory.

    Attributes:
        value: all its elements in memory order, as any element type, or None while nobody has written it.
    """

    def __init__(self, memory: Memory, value: SSAValue | None):
        self.memory = memory
        self.value = value
        self.known: dict[Key, SSAValue] = {}
        self._last_insert: tuple[Geometry, str, SSAValue | None] | None = None

    def key(self, element: str, window: Geometry, lazy: str) -> Key:
        """The key of a handle whose offset counts from the start of the root."""
        offset = window.offset - self.memory.start // ELEMENTS[element][1]
        return Key(element, canonical(Geometry(window.sizes, window.strides, offset)), lazy)

    def read(self, key: Key, emitter: Emitter) -> SSAValue:
        """The elements of a window now."""
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self._extract(key, emitter)
        return found

    def _extract(self, key: Key, emitter: Emitter) -> SSAValue:
        base = self._as(key.element, emitter)
        value = base
        if not (shape_of(base) == key.window.sizes and _whole(key.window)):
            value = emitter.extract(base, key.window)
        value = emitter.reinterpret(value, key.element)
        return resolve(value, key.lazy, emitter)

    def write(self, key: Key, value: SSAValue, covers: bool, emitter: Emitter) -> None:
        """Replace a window by `value`. `covers`: the window meets every element of the memory exactly once."""
        stored = resolve(value, key.lazy, emitter)
        if covers and (self.value is None or same_width(element_of(self.value), key.element)):
            dims, base = self._dims(), None
            stored = emitter.reinterpret(
                stored, element_of(self.value) if self.value is not None else self.memory.element
            )
        else:
            base = self._as(key.element, emitter)
            stored = emitter.reinterpret(stored, element_of(base))
            dims = shape_of(base)
            if self._last_insert is not None and self._last_insert[:2] == (key.window, element_of(base)):
                base = self._last_insert[2]
        if base is None and dims == key.window.sizes and _whole(key.window):
            self.value = stored
            self._last_insert = None
        else:
            self.value = emitter.insert(stored, base, key.window, dims)
            self._last_insert = (key.window, element_of(stored), base)
        self.known = {key: value}

    def replace(self, value: SSAValue) -> None:
        """Make `value`, of the declared element type and shape, the newest one."""
        self.value, self.known, self._last_insert = value, {}, None

    def whole(self, element: str, emitter: Emitter) -> SSAValue:
        """All elements now, as wide as `element`."""
        return self._as(element, emitter)

    def final(self, emitter: Emitter) -> SSAValue:
        """The whole memory as its declared element type and shape."""
        element, dims = self.memory.element, self.memory.dims
        value = emitter.reinterpret(self._as(element, emitter), element)
        if shape_of(value) != dims:
            value = emitter.extract(value, Geometry(dims, row_major(dims), 0))
        return value

    def _as(self, element: str, emitter: Emitter) -> SSAValue:
        """The value with elements as wide as `element`; the memory keeps that form until another is asked for."""
        if self.value is None:
            self.value = emitter.empty(self.memory.element, self.memory.dims)
        if not same_width(element_of(self.value), element):
            declared = self.memory.element
            form = declared if same_width(declared, element) else element
            # Bytes of something else are more than bools.
            self.value = emitter.reinterpret(self.value, "ui8" if form == "i1" else form)
            self._last_insert = None
        return self.value

    def _dims(self) -> tuple[int, ...]:
        return self.memory.dims if self.value is None else shape_of(self.value)


def resolve(value: SSAValue, lazy: str, emitter: Emitter) -> SSAValue:
    """Apply lazy bits; each is its own inverse."""
    if "conj" in lazy:
        value = emitter.unary("aten.conj_physical.default", value)
    if "neg" in lazy:
        value = emitter.unary("aten.neg.default", value)
    return value


def _whole(window: Geometry) -> bool:
    return window.offset == 0 and window.strides == row_major(window.sizes)


__all__ = ["Emitter", "Key", "MemoryState", "canonical", "element_of", "resolve", "shape_of"]
