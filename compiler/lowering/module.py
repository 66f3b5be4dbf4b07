"""Functional IR becomes one verified StableHLO module that computes the same values, with its alias table.

Every op of `@main` is visited once, in order. A window read (`fx.extract`) is kept as a `Part` until somebody
needs its elements, so that index updates and reads can address the base directly. Whatever cannot be
lowered is collected and reported in one error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FileLineColLoc,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    NameLoc,
    NoneType,
    StringAttr,
    TensorType,
    UnitAttr,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Data, Operation, SSAValue
from xdsl.traits import Pure

from compiler.errors import CompileError, UnsupportedError
from compiler.lowering import control, load_rules, windows
from compiler.lowering.builder import Builder, make_context
from compiler.lowering.registry import RULES, THROUGH, Call, type_name
from compiler.lowering.windows import Part
from dialects.alias import Table, Window
from dialects.calls import ValueCall
from dialects.control import ValueCondOp, ValueWhileOp
from dialects.fx import Constant, ConstantOp, EmptyOp, ExtractOp, InsertOp, Operand, ReinterpretOp
from dialects.types import Geometry, element_name, row_major


def lower(module: ModuleOp, *, target: str = "xla") -> ir.Module:
    """StableHLO of `@main`. Raises one UnsupportedError that names all ops without a rule."""
    load_rules()
    main = next((op for op in module.body.ops if isinstance(op, FuncOp) and op.sym_name.data == "main"), None)
    if main is None:
        raise CompileError("the module has no function @main")
    with make_context(), ir.Location.unknown():
        builder = Builder(target)
        try:
            result = _Function(builder, main).build()
        except _DynamicSize:
            raise _dynamic_sizes(main) from None
        try:
            result.operation.verify()
        except ir.MLIRError as error:
            first = error.error_diagnostics[0] if error.error_diagnostics else None
            raise CompileError(
                f"the lowered module does not verify: {first.message if first else error}",
                location=str(first.location) if first else "",
            ) from error
        return result


class _Function:
    """The state of lowering one function."""

    def __init__(self, builder: Builder, main: FuncOp):
        self.b = builder
        self.main = main
        self.values: dict[SSAValue, ir.Value] = {}
        self.parts: dict[SSAValue, Part] = {}
        self.unsupported: list[str] = []
        self.first_refused: Operation | None = None
        self.failed: set[SSAValue] = set()
        # Attributes are shared between ops and cost more to hash than to look up by identity; the IR keeps them alive.
        self._arguments: dict[int, tuple[Attribute, Any]] = {}
        self._types: dict[int, type_name] = {}
        self._locations: dict[int, ir.Location] = {}
        self._handlers: dict[type[Operation], Callable[[Any], None]] = {
            ValueCall: self._value_call,
            ExtractOp: self._extract,
            InsertOp: self._insert,
            ReinterpretOp: self._reinterpret,
            EmptyOp: self._empty,
            ConstantOp: self._constant,
            ValueCondOp: self._control,
            ValueWhileOp: self._control,
        }

    # -- the function --------------------------------------------------------------------------

    def build(self) -> ir.Module:
        main, b = self.main, self.b
        if len(main.body.blocks) != 1:
            raise CompileError("@main must have one block")
        block = main.body.block
        operations = list(block.ops)
        last = operations[-1]
        if not isinstance(last, ReturnOp):
            raise CompileError("@main does not end in func.return")
        live = _live(operations)
        inputs = [b.tensor(*self.type(argument.type)) for argument in block.args]
        outputs = [b.tensor(*self.type(value.type)) for value in last.arguments]
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("main", ir.FunctionType.get(inputs, outputs), visibility="public")
        entry = function.add_entry_block()
        self.values.update(zip(block.args, entry.arguments, strict=True))
        with ir.InsertionPoint(entry):
            for op in live:
                self._lower(op)
            if self.unsupported:
                listing = "\n".join(f"  {line}" for line in self.unsupported)
                node, where = _source(self.first_refused or last)
                raise UnsupportedError(
                    f"{len(self.unsupported)} operation(s) cannot be lowered to StableHLO:\n{listing}",
                    location=where,
                    node=node,
                    hint="replace these operations, or register a lowering for them",
                )
            with self._location(last):
                func.return_([self.value(value) for value in last.arguments])
        table = main.attributes.get("alias.table")
        if isinstance(table, Table) and table.data:
            module.operation.attributes["mhlo.input_output_alias"] = _alias_attribute(table, len(outputs))
        return module

    # -- one operation -------------------------------------------------------------------------

    def _lower(self, op: Operation) -> None:
        if self.failed and any(operand in self.failed for operand in op.operands):
            self.failed.update(op.results)
            self._note_missing(op)
            return
        handler = self._handlers.get(ValueCall if isinstance(op, ValueCall) else type(op))
        if handler is None:
            self._refuse(op, f"{_describe(op)}: no lowering")
            return
        with self._location(op):
            try:
                handler(op)
            except UnsupportedError as error:
                self._refuse(op, f"{_describe(op)}: {error.message}")
            except CompileError as error:
                node, where = _source(op)
                raise type(error)(error.message, location=where, node=node, hint=error.hint) from error
            except (ir.MLIRError, ValueError, TypeError, IndexError, KeyError, AttributeError) as error:
                node, where = _source(op)
                raise CompileError(
                    f"lowering of {_name(op)} failed: {type(error).__name__}: {error}", location=where, node=node
                ) from error

    def _note_missing(self, op: Operation) -> None:
        """An op behind one that failed is not lowered, but the report still says when it has no rule itself."""
        if isinstance(op, ValueCall) and op.rule not in RULES:
            self.unsupported.append(_describe(op))

    def _refuse(self, op: Operation, line: str) -> None:
        self.first_refused = self.first_refused or op
        self.unsupported.append(line)
        self.failed.update(op.results)

    def _value_call(self, op: ValueCall) -> None:
        target = op.rule
        types = tuple(self.type(result.type) for result in op.results)
        if types and all(0 in shape for _, shape in types):
            # There is one value without elements, whatever computes it: amax of complex numbers, say, has no other.
            self.values.update((r, self.b.splat(0, *kind)) for r, kind in zip(op.results, types, strict=True))
            return
        rule = RULES.get(target)
        if rule is None:
            self._refuse(op, _describe(op))
            return
        operands: list[Any] = list(op.operands)
        through = THROUGH.get(target)
        part = self.parts.get(operands[0]) if through and operands else None
        if part is not None and (through == "read" or _written_back(op.results[0], part)):
            operands[1:] = [self.value(operand) for operand in operands[1:]]
            operands[0] = part
        else:
            operands = [self.value(operand) for operand in operands]
        arguments = tuple(_fill(a, operands) for a in self._decode(op.arguments))
        named = {name: _fill(self._decode(a), operands) for name, a in op.settings().items()}
        writes = op.writes.writes() or () if op.writes is not None else ()
        found = rule(self.b, Call(target, arguments, named, types, writes))
        values = [found] if isinstance(found, ir.Value | Part) else list(found)
        if len(values) != len(types):
            raise CompileError(f"the rule for {target} gives {len(values)} results, the operation has {len(types)}")
        for result, value, kind in zip(op.results, values, types, strict=True):
            if isinstance(value, Part):
                self.parts[result] = value
                continue
            if value.type != self.b.tensor(*kind):
                raise CompileError(f"the rule for {target} gives {value.type}, the program says {self.b.tensor(*kind)}")
            self.values[result] = value

    def _extract(self, op: ExtractOp) -> None:
        (base,), (result,) = op.operands, op.results
        window = cast(Window, op.properties["window"]).data
        element, shape = self.type(base.type)
        if window.sizes == shape and window == Geometry(shape, row_major(shape), 0):
            self._same(base, result)
        else:
            self.parts[result] = Part(self._stored(base), window, element, base)

    def _insert(self, op: InsertOp) -> None:
        value, *into = op.operands
        base = into[0] if into else None
        result = op.results[0]
        window = cast(Window, op.properties["window"]).data
        element, shape = self.type(result.type)
        part = self.parts.get(value)
        if part is not None and self._completes(part, window, base, (element, shape)):
            new = part.base
        elif base is None:
            new = windows.insert(self.b, self.value(value), window, None, element, shape)
        else:
            old = self._stored(base)
            stored = self.b.element(old)
            new = windows.insert(self.b, windows.bitcast(self.b, self.value(value), stored), window, old, stored, shape)
        if self.b.element(new) == element:
            self.values[result] = new
        else:  # seen as another type than it is stored as, like the base
            origin = result if base is None else self.parts[base].origin
            self.parts[result] = Part(new, Geometry(shape, row_major(shape), 0), element, origin)

    def _completes(self, part: Part, window: Geometry, base: SSAValue | None, kind: type_name) -> bool:
        """Whether inserting `part` only names the base that it is a window of."""
        if part.window != window or part.element != kind[0]:
            return False
        if base is None:
            return (self.b.element(part.base), self.b.shape(part.base)) == kind
        return part.origin is base

    def _stored(self, ssa: SSAValue) -> ir.Value:
        """A whole value, at the element type it is stored as."""
        part = self.parts.get(ssa)
        return part.base if part is not None and part.whole(self.b) else self.value(ssa)

    def _reinterpret(self, op: ReinterpretOp) -> None:
        element, shape = self.type(op.result.type)
        source, _ = self.type(op.value.type)
        part = self.parts.get(op.value)
        if not windows.same_bits(source, element):
            self.values[op.result] = windows.reinterpret(self.b, self.value(op.value), element)
        elif part is None:
            whole = Geometry(shape, row_major(shape), 0)
            self.parts[op.result] = Part(self.value(op.value), whole, element, op.value)
        elif part.whole(self.b) and self.b.element(part.base) == element:
            self.values[op.result] = part.base
        else:
            self.parts[op.result] = Part(part.base, part.window, element, part.origin)

    def _same(self, source: SSAValue, result: SSAValue) -> None:
        if source in self.parts:
            self.parts[result] = self.parts[source]
        else:
            self.values[result] = self.value(source)

    def _empty(self, op: EmptyOp) -> None:
        element, shape = self.type(op.value.type)
        self.values[op.value] = self.b.splat(0, element, shape)

    def _constant(self, op: ConstantOp) -> None:
        element, shape = self.type(op.value.type)
        self.values[op.value] = windows.constant(self.b, op.data, element, shape)

    def block(self, source: Block, arguments: Sequence[ir.Value]) -> list[ir.Value] | None:
        """Lower the ops of a region at the insertion point; what it yields, or None where that cannot be lowered."""
        self.values.update(zip(source.args, arguments, strict=True))
        *_, last = operations = list(source.ops)
        for inner in _live(operations):
            self._lower(inner)
        return None if any(v in self.failed for v in last.operands) else [self.value(v) for v in last.operands]

    def _control(self, op: ValueCondOp | ValueWhileOp) -> None:
        results = control.lower(self, op)
        if results is None:
            self.failed.update(op.results)
        else:
            self.values.update(zip(op.results, results, strict=True))

    # -- look-ups ------------------------------------------------------------------------------

    def value(self, ssa: SSAValue) -> ir.Value:
        """The MLIR value of an xDSL value; a window is read now."""
        value = self.values.get(ssa)
        if value is None:
            value = self.values[ssa] = windows.read(self.b, self.parts[ssa])
        return value

    def type(self, attribute: Attribute) -> type_name:
        found = self._types.get(id(attribute))
        if found is None:
            if not isinstance(attribute, TensorType):
                raise CompileError(f"a value has type {attribute}; lowering takes functional IR, values are tensors")
            tensor = cast("TensorType[Attribute]", attribute)
            shape = tensor.get_shape()
            if min(shape, default=0) < 0:
                raise _DynamicSize
            found = self._types[id(attribute)] = (element_name(tensor.element_type), shape)
        return found

    def _decode(self, attribute: Attribute) -> Any:
        found = self._arguments.get(id(attribute))
        if found is None:
            found = self._arguments[id(attribute)] = (
                attribute,
                decode(attribute),
            )  # alive, so that its id stays its own
        return found[1]

    def _location(self, op: Operation) -> ir.Location:
        attribute = op.location
        found = self._locations.get(id(attribute))
        if found is None:
            node, where = _source(op)
            file, _, line = where.rpartition(":")
            found = ir.Location.file(file, int(line), 0) if file else ir.Location.unknown()
            found = ir.Location.name(node, found) if node else found
            self._locations[id(attribute)] = found
        return found


def _live(operations: Sequence[Operation]) -> list[Operation]:
    """The operations whose results are needed, in order, without the return."""
    dead: set[Operation] = set()
    live: list[Operation] = []
    for op in reversed(operations[:-1]):
        used = any(use.operation not in dead for result in op.results for use in result.uses)
        if used or not (type(op) is ConstantOp or op.has_trait(Pure)):
            live.append(op)
        else:
            dead.add(op)
    live.reverse()
    return live


def _written_back(value: SSAValue, part: Part) -> bool:
    """Whether an updated window goes back to where it was read: through updates and same-width reinterpretations
    into an insert of the same window, or into the base's own type when the window is all of it."""
    pending, seen = [value], 0
    while pending and seen < 64:
        current = pending.pop()
        for use in current.uses:
            user, seen = use.operation, seen + 1
            if isinstance(user, InsertOp) and use.index == 0:
                if user.window.data == part.window and (user.base is None or user.base is part.origin):
                    return True
            elif isinstance(user, ReinterpretOp):
                if user.result.type == part.origin.type:
                    return True
                pending.append(user.result)
            elif isinstance(user, ValueCall) and use.index == 0 and THROUGH.get(user.rule) == "update":
                pending.append(user.results[0])
    return False


class _DynamicSize(Exception):
    """A value's type has a size that is known only at run time."""


def _dynamic_sizes(main: FuncOp) -> UnsupportedError:
    """HLO has static shapes: name every dimension that is not."""
    found: list[str] = []
    for number, argument in enumerate(main.body.block.args):
        hint = f" ({argument.name_hint})" if argument.name_hint else ""
        found += [f"dimension {d} of argument {number}{hint}" for d in _dynamic_dimensions(argument)]
    for op in main.body.block.ops:
        found += [f"dimension {d} of a result of {_describe(op)}" for r in op.results for d in _dynamic_dimensions(r)]
    return UnsupportedError(
        "HLO needs static shapes, but these sizes are known only at run time:\n"
        + "\n".join(f"  {line}" for line in found[:20]),
        hint="capture the program with static sizes for these dimensions",
    )


def _dynamic_dimensions(value: SSAValue) -> list[int]:
    shape = value.type.get_shape() if isinstance(value.type, TensorType) else ()
    return [dimension for dimension, size in enumerate(shape) if size < 0]


# -- attributes --------------------------------------------------------------------------------


def decode(attribute: Attribute) -> Any:
    """The Python object that an argument of a call stands for; `Operand` stays, to be filled per call."""
    match attribute:
        case Operand():
            return attribute
        case NoneType():
            return None
        case IntegerAttr():
            number = attribute.value.data
            return (
                bool(number) if isinstance(attribute.type, IntegerType) and attribute.type.width.data == 1 else number
            )
        case FloatAttr():
            return attribute.value.data
        case StringAttr() | Constant():
            return attribute.data
        case ArrayAttr():
            return [decode(item) for item in attribute.data]
        case DictionaryAttr():
            return {name: decode(item) for name, item in attribute.data.items()}
        case UnitAttr():
            return True
        case Data():
            return attribute.data
    return element_name(attribute)


def _fill(argument: Any, operands: Sequence[Any]) -> Any:
    """A decoded argument with the operands in place."""
    if type(argument) is Operand:
        return operands[argument.data]
    if type(argument) is list:
        return [_fill(item, operands) for item in argument]
    if type(argument) is dict:  # the only mapping among arguments is a complex number
        return complex(argument["real"], argument["imag"])
    return argument


def _alias_attribute(table: Table, outputs: int) -> ir.Attribute:
    """`mhlo.input_output_alias`; a single result is no tuple, so its output index is empty."""
    i64 = ir.IntegerType.get_signless(64)
    entries: list[ir.Attribute] = []
    for output, parameter in table.data:
        alias = {
            "kind": ir.StringAttr.get("must_alias"),
            "parameter_index": ir.DenseI64ArrayAttr.get([]),
            "parameter_number": ir.IntegerAttr.get(i64, parameter),
        }
        index = [output] if outputs > 1 else []
        entries.append(
            ir.DictAttr.get({"alias": ir.DictAttr.get(alias), "output_index": ir.DenseI64ArrayAttr.get(index)})
        )
    return ir.ArrayAttr.get(entries)


# -- messages ----------------------------------------------------------------------------------


def _source(op: Operation) -> tuple[str, str]:
    """FX node and `file:line` of an op; "" for what its location does not say."""
    location, node = op.location, ""
    if isinstance(location, NameLoc):
        node, inner = location.desc.data, location.location
        location = inner
    if isinstance(location, FileLineColLoc):
        return node, f"{location.filename.data}:{location.line.data}"
    return node, ""


def _name(op: Operation) -> str:
    return op.target.data if isinstance(op, ValueCall) else op.name


def _describe(op: Operation) -> str:
    where = ", ".join(part for part in _source(op) if part)
    return f"{_name(op)} ({where})" if where else _name(op)
