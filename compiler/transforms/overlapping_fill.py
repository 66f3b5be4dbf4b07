"""A masked fill through a window that meets elements more than once.

Its result depends on no order: an element becomes the value if the mask holds at any of the places that are it. So the
mask is gathered back onto the memory (how often is each element hit?), and the memory is filled where it was hit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr, i32
from xdsl.ir import Attribute, SSAValue

from compiler.transforms.memory_state import Emitter, Key, MemoryState, element_of, shape_of
from dialects.fx import Operand, ValueCallOp, boolean, integer
from dialects.types import Geometry, row_major, value_type

MASKED_FILLS = frozenset({"aten.masked_fill_.Scalar", "aten.masked_fill_.Tensor"})
"""Writers of one value where a mask holds. No schema says so: the value does not depend on the place."""


def fill_overlapping(
    state: MemoryState, key: Key, mask: SSAValue, value: SSAValue | Attribute, emitter: Emitter
) -> None:
    """Fill the elements of a window where `mask` (which broadcasts to it) holds anywhere, with a number or a 0-d value.

    The window has no lazy bits, and an element type as wide as that of the memory.
    """

    def call(target: str, arguments: Sequence[Attribute], operands: list[SSAValue], kind: Attribute) -> SSAValue:
        properties = {"target": StringAttr(target), "arguments": ArrayAttr(arguments)}
        return emitter.emit(ValueCallOp, operands, [kind], properties).results[0]

    base = state.whole(key.element, emitter)
    stored, dims, count = element_of(base), shape_of(base), math.prod(shape_of(base))
    sizes = key.window.sizes
    spread = [integer(size) for size in sizes]
    hits = call("aten.expand.default", [Operand(0), ArrayAttr(spread)], [mask], value_type("i1", sizes))
    counts = emitter.emit(
        ValueCallOp, [hits], [value_type("i32", sizes)],
        {"target": StringAttr("aten._to_copy.default"), "arguments": ArrayAttr([Operand(0)]),
         "keywords": DictionaryAttr({"dtype": i32})},
    ).results[0]  # fmt: skip
    places = call("aten.arange.default", [integer(count)], [], value_type("i64", (count,)))
    where = emitter.extract(places, key.window)
    none = emitter.empty("i32", (count,))
    total = call(
        "aten.index_put.default", [Operand(0), ArrayAttr([Operand(1)]), Operand(2), boolean(True)],
        [none, where, counts], value_type("i32", (count,)),
    )  # fmt: skip
    hit = call("aten.ne.Scalar", [Operand(0), integer(0)], [total], value_type("i1", (count,)))
    flat = emitter.reinterpret(emitter.extract(base, Geometry((count,), (1,), 0)), key.element)
    kind = value_type(key.element, (count,))
    if isinstance(value, SSAValue):
        filled = call("aten.masked_fill.Tensor", [Operand(0), Operand(1), Operand(2)], [flat, hit, value], kind)
    else:
        filled = call("aten.masked_fill.Scalar", [Operand(0), Operand(1), value], [flat, hit], kind)
    filled = emitter.reinterpret(filled, stored)
    state.replace(emitter.extract(filled, Geometry(dims, row_major(dims), 0)))
