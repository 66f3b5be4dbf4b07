"""One parameter per used argument and one result per original result, each in the shape that the caller sees; a seed comes last.

The purified function takes memories and gives memories; hosts with a flat calling convention know only arguments and
results. Every result is computed as a value of its own, views of arguments included, and the alias table is the one the
host asks for. The plan then says nothing more than that result k is result k.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FunctionType, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, SSAValue

from compiler.analysis.memories import Memory, memory_order
from compiler.errors import CompileError, UnsupportedError
from compiler.transforms.memory_state import Emitter, Key, MemoryState, canonical, element_of, shape_of
from compiler.transforms.remove_dead_values import erase_dead
from dialects.alias import AliasEntry, Binding, Bindings, OutputSource, Plan, Table
from dialects.fx import ConstantOp
from dialects.types import Geometry, element_name, row_major, value_type


class FlatInterface(NamedTuple):
    """`parameters` lists the argument of each parameter, `results` the original result of each result."""

    parameters: tuple[int, ...]
    results: tuple[int, ...]


def flatten_interface(
    function: FuncOp,
    aliases: Mapping[int, int] | None = None,
    constants: Mapping[int, DenseIntOrFPElementsAttr] | None = None,
) -> FlatInterface:
    """Rewrite one purified function.

    Args:
        aliases: tensor result -> argument whose memory it must be written to.
        constants: arguments that become constants of the function, with their data in row-major order.

    Raises:
        UnsupportedError: arguments share memory that is written, or a written argument is no result.
        CompileError: an entry of `aliases` joins different types, or names an argument twice.
    """
    return _Flattener(function, dict(aliases or {}), constants or {}).run()


class _Flattener:
    def __init__(
        self, function: FuncOp, aliases: dict[int, int], constants: Mapping[int, DenseIntOrFPElementsAttr]
    ) -> None:
        self.function, self.aliases, self.constants = function, aliases, constants
        self.block = function.body.block
        self.bindings = cast(Bindings, function.attributes["alias.bindings"]).data
        self.plan = cast(Plan, function.attributes["alias.plan"]).data
        self.table = cast(Table, function.attributes["alias.table"]).data
        self.order = sorted(range(len(self.bindings)), key=lambda n: self.bindings[n].kind == "generator")
        """Arguments in the order of the parameters: a seed is the last."""
        self.owners: dict[int, list[int]] = {}
        for number, binding in enumerate(self.bindings):
            self.owners.setdefault(binding.parameter, []).append(number)
        self.states: dict[int, MemoryState] = {}
        self.given: dict[int, SSAValue] = {}

    def run(self) -> FlatInterface:
        last = self.block.last_op
        if not isinstance(last, ReturnOp) or self.block.first_op is None:
            raise CompileError("the function has no return")
        head, tail = Emitter.before(self.block.first_op), Emitter.before(last)
        old = list(self.block.args)
        self._new_block()
        for number, data in self.constants.items():
            self.given[number] = self._constant(self.bindings[number], data, head)
        for parameter, value in enumerate(old):
            owner = self._owner(parameter)
            state = self._state(owner, head, shape_of(value), element_of(value))
            assert state.value is not None
            value.replace_all_uses_with(state.value)
        results = list(last.operands)
        for output, parameter in self.table:
            owner = self._owner(parameter)
            self.states[owner] = _state_of(results[output], owner)
        outputs: list[SSAValue] = []
        for source in self.plan:
            outputs.append(self._result(source, outputs, results, tail))
        self._require_written(outputs)
        last.operands = outputs
        self.function.body.erase_block(self.replaced)
        erase_dead([self.function])
        return self._finish(outputs)

    def _new_block(self) -> None:
        """The operations in a block that takes an argument for each argument of the program that is no constant."""
        numbers = [number for number in self.order if number not in self.constants]
        bindings = [self.bindings[number] for number in numbers]
        for binding in bindings:
            if binding.around:
                raise UnsupportedError(
                    f"memory around the elements of {binding.name} is written, and here its elements are all there is",
                    hint="pass the whole tensor and take the view inside the program",
                )
        block = Block(arg_types=[value_type(b.element, b.geometry.sizes) for b in bindings])
        for op in list(self.block.ops):
            op.detach()
            block.add_op(op)
        self.replaced, self.block = self.block, block
        self.function.body.add_block(block)
        for number, binding, value in zip(numbers, bindings, block.args, strict=True):
            value.name_hint = binding.name if binding.name.isidentifier() else None
            self.given[number] = value

    def _constant(self, binding: Binding, data: DenseIntOrFPElementsAttr, emitter: Emitter) -> SSAValue:
        if binding.written:
            raise UnsupportedError(f"the constant {binding.name} is written", hint="make it an input of the program")
        kind = value_type(binding.element, binding.geometry.sizes)
        return emitter.emit(ConstantOp, [], [kind], {"data": data}).results[0]

    def _owner(self, parameter: int) -> int:
        owners = self.owners[parameter]
        if len(owners) > 1:
            names = " and ".join(self.bindings[number].name for number in owners)
            raise UnsupportedError(
                f"{names} share memory that is written or seen across both, and here each is a parameter of its own",
                hint="pass the whole tensor once and take the views inside the program",
            )
        return owners[0]

    def _state(
        self, number: int, emitter: Emitter, dims: tuple[int, ...] | None = None, element: str = ""
    ) -> MemoryState:
        """The memory of an argument; at first what the caller gives."""
        if number not in self.states:
            binding, value = self.bindings[number], self.given[number]
            window = binding.geometry
            shape = dims if dims is not None else memory_order(window) or (_reach(window),)
            if binding.lazy:
                raise UnsupportedError(
                    f"{binding.name} has lazy bits", hint="call resolve_conj() or resolve_neg() outside"
                )
            if shape != window.sizes or window.strides != row_major(window.sizes) or window.offset:
                dense = memory_order(window) == shape and not window.offset
                base = None if dense else emitter.empty(binding.element, shape)
                value = emitter.insert(value, base, window, shape)
            self.states[number] = _state_of(emitter.reinterpret(value, element or binding.element), number)
        return self.states[number]

    def _result(
        self, source: OutputSource, earlier: Sequence[SSAValue], results: Sequence[SSAValue], emitter: Emitter
    ) -> SSAValue:
        if source.kind == "output":
            return earlier[source.index]
        if source.kind == "argument":
            binding = self.bindings[source.index]
            if not binding.written:
                return self.given[source.index]
            key = Key(binding.element, canonical(binding.geometry), binding.lazy)
            return self._state(source.index, emitter).read(key, emitter)
        key = Key(source.element, canonical(source.geometry), source.lazy)
        if source.kind == "argument_view":
            return self._state(source.index, emitter).read(key, emitter)
        return _state_of(results[source.index], -1).read(key, emitter)

    def _require_written(self, outputs: Sequence[SSAValue]) -> None:
        """Every written argument is a result that goes back into it; every alias joins equal types."""
        owners: set[int] = set()
        for result, argument in self.aliases.items():
            if not 0 <= result < len(outputs) or not 0 <= argument < len(self.given):
                raise CompileError(f"alias {result}: {argument} is out of range")
            if argument in owners:
                raise CompileError(f"two results alias {self.bindings[argument].name}")
            owners.add(argument)
            have, want = outputs[result].type, self.given[argument].type
            if have != want:
                raise CompileError(
                    f"result {result} is {have}, the input {self.bindings[argument].name} it aliases {want}"
                )
        for number, binding in enumerate(self.bindings):
            if binding.written and number not in owners:
                raise UnsupportedError(
                    f"{binding.name} is written, but no result goes back into it",
                    hint="add it to the results and to the alias map, as the aliasing pass does",
                )

    def _finish(self, outputs: Sequence[SSAValue]) -> FlatInterface:
        block, aliased = self.block, set(self.aliases.values())
        numbers: dict[int, int] = {}
        for number in self.order:
            value = self.given[number]
            if number in self.constants:
                continue
            if value.first_use is None and number not in aliased:
                block.erase_arg(value)  # type: ignore[arg-type]
            else:
                numbers[number] = len(numbers)
        bindings = [
            b._replace(
                parameter=numbers.get(n, -1), written=n in aliased, around=False,
                geometry=Geometry(b.geometry.sizes, row_major(b.geometry.sizes), 0),
            )
            for n, b in enumerate(self.bindings)
        ]  # fmt: skip
        plan: list[OutputSource] = []
        for number, value in enumerate(outputs):
            kind = cast("TensorType[Attribute]", value.type)
            whole = Geometry(kind.get_shape(), row_major(kind.get_shape()), 0)
            plan.append(OutputSource("result", number, element_name(kind.element_type), whole))
        function = self.function
        function.attributes["alias.bindings"] = Bindings(tuple(bindings))
        function.attributes["alias.plan"] = Plan(tuple(plan))
        function.attributes["alias.table"] = Table(
            tuple(AliasEntry(result, numbers[argument]) for result, argument in sorted(self.aliases.items()))
        )
        function.properties["function_type"] = FunctionType.from_lists(
            [a.type for a in block.args], [v.type for v in outputs]
        )
        return FlatInterface(tuple(numbers), tuple(range(len(outputs))))


def _state_of(value: SSAValue, argument: int) -> MemoryState:
    arguments = (argument,) if argument >= 0 else ()
    return MemoryState(Memory(arguments, 0, element_of(value), shape_of(value)), value)


def _reach(window: Geometry) -> int:
    return window.offset + 1 + sum((n - 1) * s for n, s in zip(window.sizes, window.strides, strict=True))


__all__ = ["FlatInterface", "flatten_interface"]
