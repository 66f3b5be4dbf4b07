"""Handles and values as xDSL types: `memref` is a strided window on a storage, `tensor` is a value.

A handle's type says everything about its geometry: sizes, strides and offset (in elements of its own
element type, the offset counted from the start of its root storage), element type, and the lazy
conj/neg bits in the memory space. A missing layout means row-major at offset 0.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BFloat16Type,
    ComplexType,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    MemRefType,
    NoneAttr,
    Signedness,
    StridedLayoutAttr,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

DYNAMIC = -1
"""A size, stride or offset that is known only at run time."""

_UNSIGNED = Signedness.UNSIGNED
ELEMENTS: dict[str, tuple[Attribute, int]] = {
    "f64": (Float64Type(), 8),
    "f32": (Float32Type(), 4),
    "f16": (Float16Type(), 2),
    "bf16": (BFloat16Type(), 2),
    "f8E4M3FN": (Float8E4M3FNType(), 1),
    "f8E5M2": (Float8E5M2Type(), 1),
    "i64": (IntegerType(64), 8),
    "i32": (IntegerType(32), 4),
    "i16": (IntegerType(16), 2),
    "i8": (IntegerType(8), 1),
    "ui64": (IntegerType(64, _UNSIGNED), 8),
    "ui32": (IntegerType(32, _UNSIGNED), 4),
    "ui16": (IntegerType(16, _UNSIGNED), 2),
    "ui8": (IntegerType(8, _UNSIGNED), 1),
    "i1": (IntegerType(1), 1),
    "complex<f32>": (ComplexType(Float32Type()), 8),
    "complex<f64>": (ComplexType(Float64Type()), 16),
}
"""MLIR spelling of every element type -> the xDSL type and its size in bytes in memory (bool: one byte)."""

_NAMES: dict[Attribute, str] = {attribute: name for name, (attribute, _) in ELEMENTS.items()}


class Geometry(NamedTuple):
    """A strided window: all three in elements, the offset from the start of the root storage."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    @property
    def static(self) -> bool:
        """Whether no number is DYNAMIC (no size or stride of a real tensor is negative)."""
        return self.offset >= 0 and min(self.sizes, default=0) >= 0 and min(self.strides, default=0) >= 0

    @property
    def numel(self) -> int:
        return math.prod(self.sizes)


@functools.lru_cache(maxsize=1 << 14)
def row_major(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a contiguous tensor; a zero size counts as one, as in PyTorch. DYNAMIC spreads outwards."""
    strides: list[int] = []
    step = 1
    for size in reversed(sizes):
        strides.append(step)
        step = DYNAMIC if step == DYNAMIC or size == DYNAMIC else step * max(size, 1)
    return tuple(reversed(strides))


def element_name(element: Attribute) -> str:
    """MLIR spelling of an element type; KeyError for a type outside ELEMENTS."""
    return _NAMES[element]


def element_bytes(element: Attribute) -> int:
    """Bytes of one element in memory."""
    name = _NAMES.get(element)
    if name is None:
        raise VerifyException(f"{element} is no element type of this IR")
    return ELEMENTS[name][1]


@functools.lru_cache(maxsize=1 << 16)
def handle_type(
    element: str, sizes: tuple[int, ...], strides: tuple[int, ...], offset: int = 0, lazy: str = ""
) -> MemRefType:
    """The interned type of a handle. `lazy` is "", "conj", "neg" or "conj,neg"."""
    layout = (
        NoneAttr()
        if offset == 0 and strides == row_major(sizes)
        else StridedLayoutAttr([None if s == DYNAMIC else s for s in strides], None if offset == DYNAMIC else offset)
    )
    space = StringAttr(lazy) if lazy else NoneAttr()
    return MemRefType(ELEMENTS[element][0], _to_xdsl(sizes), layout, space)


@functools.lru_cache(maxsize=1 << 16)
def value_type(element: str, sizes: tuple[int, ...]) -> TensorType:
    """The interned type of a value."""
    return TensorType(ELEMENTS[element][0], _to_xdsl(sizes))


def _to_xdsl(sizes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(DYNAMIC_INDEX if s == DYNAMIC else s for s in sizes) if DYNAMIC in sizes else sizes


class Form(NamedTuple):
    """What a handle type says, in numbers.

    `size` is the bytes of one element, `static` says whether no number of the window is DYNAMIC, `extent` is the first byte
    and one past the last byte of a static window ((0, 0) when it is empty or not static), `value` the type of the elements
    that the handle shows.
    """

    element: str
    size: int
    window: Geometry
    lazy: str
    static: bool
    extent: tuple[int, int]
    value: TensorType


def form(handle: MemRefType) -> Form:
    """The form of a handle type; VerifyException for a type no handle can have.

    Kept on the type itself: looking it up by value would hash the whole type for every question asked.
    """
    found = handle.__dict__.get("_form")
    if found is None:
        size, window = element_bytes(handle.element_type), _geometry(handle)
        element, static = _NAMES[handle.element_type], window.static
        reach = extent(window, size) if static else (0, 0)
        found = Form(element, size, window, lazy_bits(handle), static, reach, value_type(element, window.sizes))
        object.__setattr__(handle, "_form", found)
    return found


def extent(window: Geometry, size: int) -> tuple[int, int]:
    """First byte and one past the last byte of a static window on elements of `size` bytes; (0, 0) when empty."""
    if 0 in window.sizes:
        return 0, 0
    last = window.offset + sum((n - 1) * s for n, s in zip(window.sizes, window.strides, strict=True))
    return window.offset * size, (last + 1) * size


def geometry(handle: MemRefType) -> Geometry:
    """Sizes, strides and offset of a handle type."""
    return form(handle).window


def _geometry(handle: MemRefType) -> Geometry:
    sizes = tuple(DYNAMIC if s == DYNAMIC_INDEX else s for s in handle.get_shape())
    if isinstance(handle.layout, StridedLayoutAttr):
        told, offset = tuple(handle.layout.get_strides()), handle.layout.get_offset()
        if len(told) != len(sizes):
            raise VerifyException(f"a handle with {len(sizes)} sizes has {len(told)} strides")
        if any(number is not None and number < 0 for number in (*told, offset)):
            raise VerifyException("a stride or an offset of a handle is negative")
        strides = tuple(DYNAMIC if s is None else s for s in told)
        return Geometry(sizes, strides, DYNAMIC if offset is None else offset)
    if not isinstance(handle.layout, NoneAttr):
        raise VerifyException(f"the layout of a handle is strided<...>, not {handle.layout}")
    return Geometry(sizes, row_major(sizes), 0)


def lazy_bits(handle: MemRefType) -> str:
    """ "conj", "neg", "conj,neg" or "": what is applied to the bytes when the handle is read."""
    return handle.memory_space.data if isinstance(handle.memory_space, StringAttr) else ""
