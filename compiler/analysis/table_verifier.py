"""The tables of a purified function are true: proved by executing both forms of the program on symbols, byte by byte.

Every byte of every argument is a symbol. A view selects symbols, a write replaces them, and an operator is an unknown
function: called twice with the same symbols it gives the same new ones. After both runs each argument must hold, and each
output must be made of, the same symbols. Nothing here is shared with the pass that writes the tables: no memories, no
versions, no regions. Conj and neg are flags on a symbol, because lazy bits come and go in pairs.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn, cast

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray
from xdsl.dialects.builtin import ArrayAttr, MemRefType, ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue

from compiler.errors import CompileError
from compiler.locations import source_of
from dialects.alias import Binding, Bindings, OutputSource, Plan, Root, Table
from dialects.calls import HandleCall, ValueCall
from dialects.control import CondOp, WhileOp
from dialects.fx import ConstantOp, EmptyOp, ExtractOp, InsertOp, Operand, ReinterpretOp
from dialects.types import ELEMENTS, Geometry, element_name, geometry, lazy_bits

Bytes = NDArray[np.int64]
"""One symbol per byte; of a value: in row-major order, with the bytes of an element as the last dimension."""

CONJ, NEG = 1 << 61, 1 << 62
_FLAGS = {"aten.conj_physical.default": CONJ, "aten.neg.default": NEG}
"""The operators that values spell lazy bits with; each is its own inverse."""

LIMIT = 1 << 26
"""The most bytes of memory that are followed: a symbol takes eight times the memory of what it stands for."""


def verify_tables(handles: ModuleOp, values: ModuleOp) -> None:
    """Raise CompileError unless the tables and results of `values` say what the program `handles` does to memory."""
    before, after = _main(handles), _main(values)
    for name, kind in (("alias.bindings", Bindings), ("alias.table", Table), ("alias.plan", Plan)):
        if not isinstance(after.attributes.get(name), kind):
            _fail(f"the function has no `{name}`")
    symbols = _Symbols()
    _Memory(before, symbols).run()  # finds the operators whose results are uniform, so that the second run knows them
    symbols.keys.clear()
    memory = _Memory(before, symbols)
    memory.run()
    _Tables(memory, after, symbols).check()


def followed(handles: ModuleOp) -> bool:
    """Whether the proof covers what the program is made of: loops and branches have no symbols yet."""
    return not any(isinstance(op, CondOp | WhileOp) for op in _main(handles).body.block.ops)


def followed_bytes(handles: ModuleOp) -> int:
    """Bytes of memory that `verify_tables` follows; compare with LIMIT."""
    function = _main(handles)
    total = sum(size for size in _root_sizes(function).values())
    for op in function.body.block.ops:
        for result in op.results:
            if isinstance(result.type, MemRefType):
                total += geometry(result.type).numel * _width(result.type)
    return total


# -- symbols -------------------------------------------------------------------------------------


@dataclass
class _Symbols:
    """Names for unknown bytes: equal keys have equal symbols."""

    keys: dict[Any, int] = field(default_factory=dict)
    uniform: set[Any] = field(default_factory=set)
    used: int = 1

    def fresh(self, count: int) -> Bytes:
        first, self.used = self.used, self.used + count
        return np.arange(first, first + count, dtype=np.int64)

    def of(self, key: Any, sizes: Sequence[int], width: int) -> Bytes:
        """The bytes of a value with this origin. Of a uniform one all elements are equal."""
        count = math.prod(sizes) * width
        first = self.keys.get(key)
        if first is None:
            first = self.keys[key] = self.used
            self.used += count
        if key in self.uniform:
            return np.broadcast_to(np.arange(first, first + width, dtype=np.int64), (*sizes, width)).copy()
        return np.arange(first, first + count, dtype=np.int64).reshape(*sizes, width)


def _digest(value: Bytes, element: str) -> tuple[str, tuple[int, ...], bytes]:
    data = np.ascontiguousarray(value)
    return element, data.shape, hashlib.blake2b(data.tobytes(), digest_size=16).digest()


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


def _window(flat: Bytes, window: Geometry, width: int) -> Bytes:
    """A writable view of the bytes of a window on memory."""
    if 0 in window.sizes:
        return np.empty((*window.sizes, width), dtype=np.int64)
    last = window.offset + sum((n - 1) * s for n, s in zip(window.sizes, window.strides, strict=True))
    if window.offset < 0 or min(window.strides, default=0) < 0 or (last + 1) * width > flat.size:
        _fail(f"a window reaches byte {(last + 1) * width} of memory with {flat.size}")
    strides = (*(s * width * 8 for s in window.strides), 8)
    return as_strided(flat[window.offset * width :], (*window.sizes, width), strides)


# -- handles -------------------------------------------------------------------------------------


class _Handle(NamedTuple):
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


class _Memory:
    """Executes a program over handles."""

    def __init__(self, function: FuncOp, symbols: _Symbols):
        self.function, self.symbols = function, symbols
        self.handles: dict[SSAValue, _Handle] = {}
        self.roots: dict[int, Bytes] = {}
        self.writer: dict[int, Operation] = {}
        sizes = _root_sizes(function)
        self.initial = {root: symbols.fresh(size) for root, size in sorted(sizes.items())}
        self.roots = {root: data.copy() for root, data in self.initial.items()}
        for number, argument in enumerate(function.body.block.args):
            self.handles[argument] = _handle(argument, _root_of(function, number), argument)
        self.arguments = [self.handles[a] for a in function.body.block.args]
        self.outputs: list[_Handle] = []

    def run(self) -> None:
        for op in self.function.body.block.ops:
            if isinstance(op, HandleCall):
                self.call(op)
            elif isinstance(op, ConstantOp):
                handle = self.allocate(op.value)
                self.store(handle, _constant(op, self.symbols, handle.window.sizes, handle.width))
            elif isinstance(op, ReturnOp):
                self.outputs = [self.handles[v] for v in op.arguments]

    def allocate(self, value: SSAValue) -> _Handle:
        handle = _handle(value, -1 - len(self.roots), value)
        window = handle.window
        reach = 0 if 0 in window.sizes else 1 + window.offset + sum(
            (n - 1) * s for n, s in zip(window.sizes, window.strides, strict=True)
        )  # fmt: skip
        self.roots[handle.root] = self.symbols.fresh(reach * handle.width)
        self.handles[value] = handle
        return handle

    def load(self, handle: _Handle) -> Bytes:
        return _window(self.roots[handle.root], handle.window, handle.width) ^ _lazy_flags(handle.lazy)

    def store(self, handle: _Handle, value: Bytes) -> None:
        _window(self.roots[handle.root], handle.window, handle.width)[...] = value ^ _lazy_flags(handle.lazy)

    def call(self, op: HandleCall) -> None:
        accesses = op.effects.data
        if accesses is None:
            _fail(f"{op.target.data} has unknown effects", op)
        reads = {a.operand for a in accesses if a.kind == "read"}
        writes = [a.operand for a in accesses if a.kind == "write"]
        given = [self.handles[v] for v in op.args]
        for number, (alias, result) in enumerate(zip(op.aliases.data, op.outs, strict=True)):
            if alias.kind == "same":
                self.handles[result] = given[alias.operand]
            elif alias.kind == "view":
                self.handles[result] = _handle(result, given[alias.operand].root, result)
            elif alias.kind == "may":
                _fail(f"whether result {number} of {op.target.data} is memory of an operand is unknown", op)
        if not accesses and op.outs and all(alias.kind in ("same", "view") for alias in op.aliases.data):
            return
        contents = [
            self.load(h)
            if n in reads
            else self.symbols.of(("empty", h.element, h.window.sizes), h.window.sizes, h.width)
            for n, h in enumerate(given)
        ]
        target, keywords, mark = op.target.data, op.settings(), tuple[int, ...]()
        outputs: list[tuple[str, int]] = [("result", n) for n in range(len(op.outs))]
        if writes and op.value is not None:
            target, outputs = op.value.data.target, [(o.kind, o.index) for o in op.value.data.outputs]
            keywords = {name: value for name, value in keywords.items() if name not in op.value.data.drop}
        elif writes:
            outputs += [("write", w) for w in writes]
            mark = tuple(writes)
        key = _call_key(
            target, op.arguments, keywords, [_digest(c, h.element) for c, h in zip(contents, given, strict=True)], mark
        )
        flag = _FLAGS.get(target)
        for position, (kind, index) in enumerate(outputs):
            if kind == "result" and op.aliases.data[index].kind != "fresh":
                continue
            handle = self.allocate(op.outs[index]) if kind == "result" else given[index]
            if kind == "write":
                self.writer[handle.root] = op
                if _meets_twice(handle.window):
                    # Only results that are the same everywhere have a meaning there.
                    self.symbols.uniform.add((key, position))
            if flag is not None:
                self.store(handle, contents[0] ^ flag)
            else:
                self.store(handle, self.symbols.of((key, position), handle.window.sizes, handle.width))


def _meets_twice(window: Geometry) -> bool:
    for size, stride in zip(window.sizes, window.strides, strict=True):
        if size > 1 and stride == 0:
            return True
    if 0 in window.sizes:
        return False
    places = np.zeros(1, dtype=np.int64)
    for size, stride in zip(window.sizes, window.strides, strict=True):
        places = (places[:, None] + np.arange(size) * stride).reshape(-1)
    return np.unique(places).size < places.size


# -- values --------------------------------------------------------------------------------------


class _Tables:
    """Executes a function of values on the same symbols, and compares."""

    def __init__(self, memory: _Memory, function: FuncOp, symbols: _Symbols):
        self.memory, self.function, self.symbols = memory, function, symbols
        attributes = cast(dict[str, Any], function.attributes)
        self.bindings: tuple[Binding, ...] = attributes["alias.bindings"].data
        self.table: dict[int, int] = {}
        self.plan: tuple[OutputSource, ...] = attributes["alias.plan"].data
        self.entries: tuple[tuple[int, int], ...] = attributes["alias.table"].data
        self.parameters = [cast("TensorType[Attribute]", a.type) for a in function.body.block.args]
        self.place: list[tuple[int, int] | None] = [None] * len(self.parameters)
        """Root and first byte of the memory of each parameter."""

    def check(self) -> None:
        self.check_bindings()
        results, types = self.run()
        self.check_table(types)
        self.check_finals(results)
        self.check_plan(results)
        used = {s.index for s in self.plan if s.kind == "result"} | {output for output, _ in self.entries}
        for number in range(len(results)):
            if number not in used:
                _fail(f"result {number} is no output of the program and no final value of a parameter")

    def check_bindings(self) -> None:
        handles = self.memory.arguments
        if len(self.bindings) != len(handles):
            _fail(f"there are {len(handles)} arguments and {len(self.bindings)} bindings")
        for number, (b, handle) in enumerate(zip(self.bindings, handles, strict=True)):
            which = f"argument {b.name!r}"
            named = _name_of(self.memory.function, number)
            if named not in ("", b.name):
                _fail(f"{which}: argument {number} is called {named!r}")
            window = handle.window
            if (b.element, b.geometry.sizes, b.geometry.strides, b.lazy) != (
                handle.element, window.sizes, window.strides, handle.lazy
            ):  # fmt: skip
                _fail(f"{which} is bound as another window than it is")
            if b.parameter < 0 or 0 in window.sizes:
                continue
            if b.parameter >= len(self.parameters):
                _fail(f"{which} is bound to parameter {b.parameter}, and there are {len(self.parameters)}")
            place = handle.root, handle.byte - b.geometry.offset * handle.width
            known = self.place[b.parameter]
            if known is None:
                self.place[b.parameter] = place
            elif known != place:
                _fail(f"{which} is bound to parameter {b.parameter}, which holds other memory")

    def parameter(self, number: int, memory: dict[int, Bytes]) -> Bytes:
        """The bytes of a parameter, from the memory of the program; unknown ones where it is more than the program has."""
        kind = self.parameters[number]
        width = _width(kind)
        data = self.symbols.fresh(math.prod(kind.get_shape()) * width)
        place = self.place[number]
        if place is not None:
            root, first = place
            known = memory[root][max(first, 0) : first + data.size]
            data[max(-first, 0) : max(-first, 0) + known.size] = known
        return data.reshape(*kind.get_shape(), width)

    def run(self) -> tuple[list[Bytes], list[Attribute]]:
        block = self.function.body.block
        values: dict[SSAValue, Bytes] = {a: self.parameter(n, self.memory.initial) for n, a in enumerate(block.args)}
        for op in block.ops:
            if isinstance(op, ReturnOp):
                return [values[v] for v in op.arguments], [v.type for v in op.arguments]
            for result, value in zip(op.results, self.compute(op, [values[v] for v in op.operands]), strict=True):
                kind = cast("TensorType[Attribute]", result.type)
                if value.size != math.prod(kind.get_shape()) * _width(kind):
                    _fail(f"a value of type {kind} is made of {value.size} bytes", op)
                values[result] = value.reshape(*kind.get_shape(), _width(kind))
        raise _untrue("the function does not return")

    def compute(self, op: Operation, operands: list[Bytes]) -> list[Bytes]:
        kinds = [cast("TensorType[Attribute]", r.type) for r in op.results]
        match op:
            case ExtractOp():
                return [_window(operands[0].reshape(-1), op.window.data, _width(op.base.type)).copy()]
            case InsertOp():
                count = math.prod(kinds[0].get_shape()) * _width(kinds[0])
                flat = operands[1].reshape(-1).copy() if len(operands) > 1 else self.symbols.fresh(count)
                _window(flat, op.window.data, _width(kinds[0]))[...] = operands[0]
                return [flat]
            case ReinterpretOp():
                return [operands[0]]
            case EmptyOp():
                element, sizes = element_name(kinds[0].element_type), tuple(kinds[0].get_shape())
                return [self.symbols.of(("empty", element, sizes), sizes, _width(kinds[0]))]
            case ConstantOp():
                return [_constant(op, self.symbols, kinds[0].get_shape(), _width(kinds[0]))]
            case ValueCall():
                if (flag := _FLAGS.get(op.target.data)) is not None:
                    return [operands[0] ^ flag]
                elements = [element_name(cast("TensorType[Attribute]", v.type).element_type) for v in op.args]
                digests = [_digest(v, e) for v, e in zip(operands, elements, strict=True)]
                mark = tuple(op.writes.writes() or ()) if op.writes is not None else ()
                key = _call_key(op.target.data, op.arguments, op.settings(), digests, mark)
                return [self.symbols.of((key, n), tuple(k.get_shape()), _width(k)) for n, k in enumerate(kinds)]
            case _:
                raise _untrue(f"{op.name} has no meaning on values", op)

    # -- what must hold ------------------------------------------------------------------------

    def check_table(self, types: Sequence[Attribute]) -> None:
        outputs: set[int] = set()
        for output, parameter in self.entries:
            which = f"alias table entry {output} = {parameter}"
            if not (0 <= output < len(types) and 0 <= parameter < len(self.parameters)):
                _fail(f"{which}: there are {len(types)} outputs and {len(self.parameters)} parameters")
            if output in outputs or parameter in self.table:
                _fail(f"{which}: a second entry of the same output or parameter")
            if types[output] != self.parameters[parameter]:
                _fail(f"{which}: the output has type {types[output]}, the parameter {self.parameters[parameter]}")
            place = self.place[parameter]
            if place is None or place[0] not in self.memory.writer:
                _fail(f"{which}: nobody writes the memory of that parameter")
            outputs.add(output)
            self.table[parameter] = output
        for b, handle in zip(self.bindings, self.memory.arguments, strict=True):
            written = b.parameter in self.table and b.parameter >= 0
            if 0 not in handle.window.sizes and b.written != written:
                said = "written" if b.written else "not written"
                _fail(f"argument {b.name!r} is called {said}, and the alias table says otherwise")

    def check_finals(self, results: Sequence[Bytes]) -> None:
        """Every byte of every argument, and of the parameters around them, holds its last value."""
        memory = self.memory
        for number in range(len(self.parameters)):
            place = self.place[number]
            if place is None:
                continue
            root, first = place
            output = self.table.get(number)
            have = (
                results[output].reshape(-1)
                if output is not None
                else self.parameter(number, memory.initial).reshape(-1)
            )
            want = memory.roots[root][max(first, 0) : first + have.size]
            have = have[max(-first, 0) : max(-first, 0) + want.size]
            wrong = np.flatnonzero(have != want)
            if wrong.size:
                what = f"result {output}" if output is not None else "its first value"
                names = ", ".join(repr(b.name) for b in self.bindings if b.parameter == number)
                _fail(
                    f"parameter {number} ({names}) ends as {what}, which is not the last value written at byte {wrong[0]}",
                    memory.writer.get(root),
                )
            if output is not None:
                self.check_around(number, root, max(first, 0), want.size)
        for b, handle in zip(self.bindings, memory.arguments, strict=True):
            if 0 in handle.window.sizes:
                continue
            final = _window(memory.roots[handle.root], handle.window, handle.width)
            initial = _window(memory.initial[handle.root], handle.window, handle.width)
            if b.parameter not in self.table and not np.array_equal(final, initial):
                _fail(f"argument {b.name!r} is written, and no entry of the alias table brings it its last value",
                      memory.writer.get(handle.root))  # fmt: skip

    def check_around(self, number: int, root: int, first: int, count: int) -> None:
        """Bytes of a parameter that are no elements change only where its arguments say so."""
        elements = np.zeros_like(self.memory.roots[root])
        bound = [(b, h) for b, h in zip(self.bindings, self.memory.arguments, strict=True) if b.parameter == number]
        for _, handle in bound:
            _window(elements, handle.window, handle.width)[...] = 1
        changed = (self.memory.roots[root] != self.memory.initial[root]) & (elements == 0)
        for b, _ in bound:
            if changed[first : first + count].any() and not b.around:
                _fail(f"memory around the elements of argument {b.name!r} is written, and its binding does not say so",
                      self.memory.writer.get(root))  # fmt: skip

    def check_plan(self, results: Sequence[Bytes]) -> None:
        handles = self.memory.outputs
        if len(self.plan) != len(handles):
            _fail(f"there are {len(handles)} outputs and {len(self.plan)} entries in the output plan")
        objects: list[Any] = []
        first: dict[SSAValue, Any] = {a.object: ("argument", n) for n, a in enumerate(self.memory.arguments)}
        results_of: dict[int, int] = {}
        for number, (source, handle) in enumerate(zip(self.plan, handles, strict=True)):
            which = f"output plan entry {number}"
            match source.kind:
                case "argument":
                    objects.append(("argument", source.index))
                case "output":
                    if source.index >= number:
                        _fail(f"{which}: output {source.index} is no earlier one")
                    objects.append(objects[source.index])
                case _:
                    objects.append(("new", number))
            if objects[number] != first.setdefault(handle.object, ("new", number)):
                _fail(f"{which} is {source.kind} {source.index}, which is another object than the program returns")
            if source.kind in ("argument", "output"):
                continue
            window = handle.window
            if (source.element, source.geometry.sizes, source.geometry.strides, source.lazy) != (
                handle.element, window.sizes, window.strides, handle.lazy
            ):  # fmt: skip
                _fail(f"{which} is another window than the program returns")
            if source.kind == "argument_view":
                self.check_view(which, source, handle)
            else:
                self.check_result(which, source, handle, results, results_of)

    def check_view(self, which: str, source: OutputSource, handle: _Handle) -> None:
        owner, binding = self.memory.arguments[source.index], self.bindings[source.index]
        if owner.root != handle.root:
            _fail(f"{which} is a view of argument {binding.name!r}, and the program returns other memory")
        start = owner.byte - binding.geometry.offset * owner.width
        if 0 in handle.window.sizes or 0 in owner.window.sizes:
            return
        if start + source.geometry.offset * handle.width != handle.byte:
            _fail(f"{which} starts at another byte of argument {binding.name!r} than the program's view")

    def check_result(
        self, which: str, source: OutputSource, handle: _Handle, results: Sequence[Bytes], results_of: dict[int, int]
    ) -> None:
        if handle.root in self.memory.initial:
            _fail(f"{which} is fresh memory, and the program returns memory of an argument")
        if source.index in self.table.values():
            _fail(f"{which} is a window on result {source.index}, which is written into a parameter")
        if results_of.setdefault(handle.root, source.index) != source.index or (
            len(set(results_of.values())) < len(results_of)
        ):
            _fail(f"{which} is in result {source.index}: outputs share a result exactly when they share memory")
        if 0 in handle.window.sizes:
            return
        if source.geometry.offset != handle.window.offset:
            _fail(f"{which} starts at element {source.geometry.offset}, the program's output at {handle.window.offset}")
        have = _window(results[source.index].reshape(-1), source.geometry, handle.width)
        want = _window(self.memory.roots[handle.root], handle.window, handle.width)
        if not np.array_equal(have, want):
            _fail(
                f"{which}: result {source.index} does not hold what the program returns",
                self.memory.writer.get(handle.root),
            )


# -- the IR --------------------------------------------------------------------------------------


def _main(module: ModuleOp) -> FuncOp:
    for op in module.ops:
        if isinstance(op, FuncOp) and op.sym_name.data == "main":
            return op
    raise _untrue("the module has no function @main")


def _root_of(function: FuncOp, number: int) -> int:
    root = function.arg_attrs.data[number].data.get("alias.root") if function.arg_attrs is not None else None
    if not isinstance(root, Root):
        _fail(f"argument {number} has no root")
    return root.data.id


def _name_of(function: FuncOp, number: int) -> str:
    name = function.arg_attrs.data[number].data.get("fx.name") if function.arg_attrs is not None else None
    return name.data if isinstance(name, StringAttr) else ""


def _root_sizes(function: FuncOp) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for number in range(len(function.body.block.args)):
        root = _root_of(function, number)
        assert function.arg_attrs is not None
        sizes[root] = cast(Root, function.arg_attrs.data[number].data["alias.root"]).data.bytes
    return sizes


def _handle(value: SSAValue, root: int, identity: SSAValue) -> _Handle:
    kind = value.type
    if not isinstance(kind, MemRefType) or not geometry(kind).static:
        _fail(f"a value of type {kind} is no handle of static shape")
    return _Handle(root, geometry(kind), element_name(kind.element_type), lazy_bits(kind), identity)


def _width(kind: Attribute) -> int:
    return ELEMENTS[element_name(kind.element_type)][1]  # type: ignore[attr-defined]


def _lazy_flags(bits: str) -> int:
    return (CONJ if "conj" in bits else 0) | (NEG if "neg" in bits else 0)


def _constant(op: ConstantOp, symbols: _Symbols, sizes: Sequence[int], width: int) -> Bytes:
    return symbols.of(("constant", op.data.type, op.data.data), tuple(sizes), width)


def _fail(message: str, op: Operation | None = None) -> NoReturn:
    raise _untrue(message, op)


def _untrue(message: str, op: Operation | None = None) -> CompileError:
    location, node = source_of(op) if op is not None else ("", "")
    return CompileError(f"the alias tables are not true: {message}", location=location, node=node)


__all__ = ["LIMIT", "followed_bytes", "verify_tables"]
