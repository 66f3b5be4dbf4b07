"""Where the newest value of every handle of a function is found: the handle's memory, and its window there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, SSAValue

from compiler.analysis.memories import Memories, Memory, Place, memory_order
from compiler.transforms.memory_state import Emitter, Key, MemoryState
from dialects.alias import OutputSource
from dialects.types import ELEMENTS, Geometry, form


class FunctionState:
    """What the patterns share while they sweep over one function, or over one region inside it: `known` memories have
    the `values` given, all others are allocated on the way."""

    def __init__(
        self, memories: Memories, arguments: Sequence[SSAValue], known: Sequence[Memory], values: Sequence[SSAValue]
    ):
        self.memories = memories
        self.arguments = list(arguments)
        self.states = {id(memory): MemoryState(memory, value) for memory, value in zip(known, values, strict=True)}
        self._keys: dict[SSAValue, Key] = {}
        self.table: list[tuple[int, Memory]] = []
        self.plan: list[OutputSource] = []

    def place(self, handle: SSAValue) -> Place:
        return self.memories.places[handle]

    def state(self, handle: SSAValue) -> MemoryState:
        return self.state_of(self.place(handle).memory)

    def state_of(self, memory: Memory) -> MemoryState:
        found = self.states.get(id(memory))
        if found is None:
            found = self.states[id(memory)] = MemoryState(memory, None)
        return found

    def key(self, handle: SSAValue) -> Key:
        found = self._keys.get(handle)
        if found is None:
            shape = form(cast("MemRefType[Attribute]", handle.type))
            found = self._keys[handle] = self.state(handle).key(shape.element, shape.window, shape.lazy)
        return found

    def window(self, handle: SSAValue) -> Geometry:
        """The window as the caller sees it: with the strides of dimensions of size one and of empty tensors."""
        shape = form(cast("MemRefType[Attribute]", handle.type))
        sizes, strides, offset = shape.window
        start = self.place(handle).memory.start // shape.size
        return Geometry(sizes, strides, 0 if 0 in sizes else offset - start)

    def read(self, handle: SSAValue, emitter: Emitter) -> SSAValue:
        return self.state(handle).read(self.key(handle), emitter)

    def write(self, handle: SSAValue, value: SSAValue, emitter: Emitter) -> None:
        state, key = self.state(handle), self.key(handle)
        state.write(key, value, _covers(state.memory, key), emitter)


def _covers(memory: Memory, key: Key) -> bool:
    """Whether the window meets every byte of the memory exactly once."""
    same_bytes = key.window.numel * ELEMENTS[key.element][1] == memory.bytes
    return same_bytes and key.window.offset == 0 and memory_order(key.window) is not None


def type_of_value(handle: SSAValue) -> Attribute:
    """The type of the elements that a handle shows."""
    return form(cast("MemRefType[Attribute]", handle.type)).value
