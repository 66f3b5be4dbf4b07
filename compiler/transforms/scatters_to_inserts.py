"""A functional scatter of a slice (`aten.slice_scatter`) is an insert of that window into the value it goes to.

Out-of-place FX graphs write through views by such scatters, one per axis. As an insert, an update that was read from the
same window is lowered as one update of the whole value: of a pool of caches only the new rows move, not a plane.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, NoneType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue
from xdsl.passes import ModulePass

from compiler.transforms.memory_state import Emitter, canonical, element_of, shape_of
from dialects.fx import ExtractOp, Operand, ValueCallOp
from dialects.types import Geometry, row_major

TARGET = "aten.slice_scatter.default"


class _Part(NamedTuple):
    """A value that is a window of `base` with `source` at the window `inside` of base."""

    base: SSAValue
    window: Geometry
    source: SSAValue
    inside: Geometry


def scatters_to_inserts(function: FuncOp) -> None:
    """Rewrite one function of values."""
    parts: dict[SSAValue, _Part] = {}
    for op in list(function.body.block.ops):
        if isinstance(op, ValueCallOp) and op.target.data == TARGET and len(op.args) == 2 and op.keywords is None:
            _rewrite(op, parts)


def _rewrite(op: ValueCallOp, parts: dict[SSAValue, _Part]) -> None:
    into, source = op.args
    sizes = shape_of(into)
    window = _slice(sizes, row_major(sizes), 0, op.arguments.data)
    if window is None or element_of(into) != element_of(source) or shape_of(source) != window.sizes:
        return
    emitter, result = Emitter.before(op), op.outs[0]
    base, outer = _whole(into), parts.get(source)
    if outer is not None and outer.base is base and outer.window == canonical(window):
        source, window = outer.source, outer.inside
    owner = source.owner
    plain = _whole(source)
    if isinstance(owner, ExtractOp) and (reshaped := _with_dimensions(window, shape_of(plain))) is not None:
        source, window = plain, reshaped
    value = emitter.insert(source, base, canonical(window), shape_of(base))
    value = value if shape_of(base) == sizes else emitter.extract(value, Geometry(sizes, row_major(sizes), 0))
    read = into.owner
    if base is into and isinstance(read, ExtractOp):
        inside = _slice(sizes, read.window.data.strides, read.window.data.offset, op.arguments.data)
        assert inside is not None
        parts[value] = _Part(_whole(read.base), read.window.data, op.args[1], inside)
    value.name_hint = result.name_hint
    result.replace_all_uses_with(value)
    op.detach()
    op.erase()


def _slice(
    sizes: tuple[int, ...], strides: tuple[int, ...], offset: int, arguments: tuple[Attribute, ...]
) -> Geometry | None:
    """The window that a slice of a window is; None where the arguments are not known."""
    plain: list[int | None] = []
    for argument in arguments[2:]:
        if isinstance(argument, Operand) or not isinstance(argument, (IntegerAttr, NoneType)):
            return None
        plain.append(argument.value.data if isinstance(argument, IntegerAttr) else None)
    axis, start, end, step = [*plain, *(0, None, None, 1)[len(plain) :]]
    axis, step = (axis or 0) % max(len(sizes), 1), step or 1
    chosen = range(sizes[axis])[slice(start, end, step)]
    lengths, steps = list(sizes), list(strides)
    lengths[axis], steps[axis] = len(chosen), strides[axis] * step
    return Geometry(tuple(lengths), tuple(steps), offset + chosen.start * strides[axis])


def _whole(value: SSAValue) -> SSAValue:
    """The value that this one is a reshape of."""
    op = value.owner
    if isinstance(op, ExtractOp):
        window, shape = op.window.data, shape_of(op.base)
        numel = 1
        for size in shape:
            numel *= size
        count = 1
        for size in window.sizes:
            count *= size
        if count == numel and canonical(window) == canonical(Geometry(window.sizes, row_major(window.sizes), 0)):
            return _whole(op.base)
    return value


def _with_dimensions(window: Geometry, sizes: tuple[int, ...]) -> Geometry | None:
    """The window with dimensions of size one left out or put in, so that it has these sizes; None where it cannot have them."""
    kept = [(n, s) for n, s in zip(window.sizes, window.strides, strict=True) if n != 1]
    if [n for n in sizes if n != 1] != [n for n, _ in kept]:
        return None
    rest = iter(kept)
    return Geometry(sizes, tuple(1 if n == 1 else next(rest)[1] for n in sizes), window.offset)


@dataclass(frozen=True)
class ScattersToInserts(ModulePass):
    name = "scatters-to-inserts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, FuncOp):
                scatters_to_inserts(function)


__all__ = ["ScattersToInserts", "scatters_to_inserts"]
