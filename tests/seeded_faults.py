"""Faults of the compiler, for tests/test_seeded_faults.py: each is one change of it as it runs, and a program that shows it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from jaxlib.mlir.dialects import stablehlo as hlo
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue

from compiler import compilation
from compiler.analysis import memories
from compiler.analysis.conflicts import Judge
from compiler.export import hlo as export
from compiler.export.hlo_schema import Module
from compiler.frontend import recording
from compiler.lowering import addressing, builder, indexing, load_rules, windows
from compiler.lowering.registry import RULES, Call
from compiler.runtime.outputs import Outputs
from compiler.transforms import decompose, memory_state, remove_dead_values
from compiler.transforms.in_place_to_out_of_place import CallBecomesValueCall, FunctionState
from compiler.transforms.memory_state import Emitter, MemoryState
from dialects.alias import AliasEntry, Bindings, OutputSource, Plan, Table
from dialects.fx import ValueCallOp
from dialects.types import Geometry

load_rules()
Patch = pytest.MonkeyPatch

# -- programs ------------------------------------------------------------------------------------


def caches(x: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Two caches written through windows, read between and after the writes, and returned as views."""
    k[1:3].add_(x)
    before = k.sum(0)
    v.t()[0].copy_(before)
    k[0, :2].mul_(2.0)
    k[1:3].sub_(v[0])
    return k - v, k[1], v, before


def shared(whole: torch.Tensor, part: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Two arguments on one storage: a write through one is read through the other."""
    part.add_(x)
    return whole * 2.0


def conjugate(z: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """A write through a lazily conjugated view."""
    z.conj().copy_(w)
    return z * w


def swap(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Two arguments of one type are written, and a third value is made."""
    a.add_(b)
    b.mul_(a)
    return a, b - a


def positions(pool: torch.Tensor, index: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Writes and reads at places held in a tensor."""
    pool.index_copy_(0, index, x)
    pool[index - 4, index // 2] = 5.0
    return pool[index].sum(1) + x.select(1, 0)


def rounded(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """A cast, and operators that are decomposed."""
    loss = torch.nn.functional.huber_loss(x, y * 2.0, reduction="none")
    return torch.special.xlog1py(x, y * y) + loss - (x * 3).to(torch.int32).to(torch.float32)


def copied(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A copy that must stay: its source is written before it is read."""
    old = x.clone()
    x.add_(y)
    return old * 2.0, x * 3.0


def normalized(x: torch.Tensor, mean: torch.Tensor, var: torch.Tensor) -> torch.Tensor:
    """Running statistics are written by an operator that returns other things."""
    return torch.nn.functional.batch_norm(x, mean, var, training=True, momentum=0.5)


def between(column: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """A write to memory between the elements of an argument."""
    column.as_strided((3,), (2,), 1).copy_(x)
    return column[1:] + x


def _shared_arguments() -> tuple[torch.Tensor, ...]:
    memory = torch.arange(8.0)
    return memory, memory[2:6], torch.ones(4)


def _complex(*sizes: int) -> torch.Tensor:
    return torch.complex(torch.arange(float(sizes[0])), torch.ones(*sizes))


PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[torch.Tensor, ...]]]] = {
    "caches": (caches, lambda: (torch.ones(2, 4), torch.arange(16.0).view(4, 4), torch.ones(4, 4))),
    "shared": (shared, _shared_arguments),
    "conjugate": (conjugate, lambda: (_complex(3), _complex(3))),
    "swap": (swap, lambda: (torch.ones(2, 3), torch.full((2, 3), 2.0))),
    "positions": (positions, lambda: (torch.zeros(4, 3), torch.tensor([2, 0]), torch.ones(2, 3))),
    "rounded": (rounded, lambda: (torch.ones(3), torch.ones(3))),
    "copied": (copied, lambda: (torch.ones(3), torch.ones(3))),
    "between": (between, lambda: (torch.zeros(4, 2)[:, 0], torch.ones(3))),
    "normalized": (normalized, lambda: (torch.rand(4, 3), torch.zeros(3), torch.ones(3))),
}

# -- faults --------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Fault:
    """A change of the compiler, the pass it is in, and a program that shows it. `stages` are run instead of a compilation."""

    plant: Callable[[Patch], None]
    pass_name: str
    program: str
    stages: str = ""


FAULTS: dict[str, Fault] = {}


def fault(
    pass_name: str, program: str, stages: str = ""
) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    def register(plant: Callable[[Patch], None]) -> Callable[[Patch], None]:
        FAULTS[plant.__name__] = Fault(plant, pass_name, program, stages)
        return plant

    return register


def on_function(patch: Patch, change: Callable[[Any], None]) -> None:
    """Change the function that in-place-to-out-of-place leaves."""
    right = compilation.make_out_of_place

    def wrong(function: Any, **options: Any) -> None:
        right(function, **options)
        if "alias.plan" in function.attributes:
            change(function)

    patch.setattr(compilation, "make_out_of_place", wrong)


def entries(function: Any) -> list[tuple[int, int]]:
    return [tuple(entry) for entry in function.attributes["alias.table"].data]


def set_table(function: Any, pairs: list[tuple[int, int]]) -> None:
    function.attributes["alias.table"] = Table(tuple(AliasEntry(*pair) for pair in pairs))


@fault("in-place-to-out-of-place", "between")
def a_write_between_elements_is_not_told(patch: Patch) -> None:
    def change(function: Any) -> None:
        bindings = function.attributes["alias.bindings"].data
        function.attributes["alias.bindings"] = Bindings(tuple(b._replace(around=False) for b in bindings))

    on_function(patch, change)


def change_plan(function: Any, change: Callable[[int, OutputSource], OutputSource]) -> None:
    function.attributes["alias.plan"] = Plan(
        tuple(change(n, source) for n, source in enumerate(function.attributes["alias.plan"].data))
    )


@fault("in-place-to-out-of-place", "caches")
def a_write_through_a_view_is_dropped(patch: Patch) -> None:
    right = MemoryState.write

    def wrong(self: MemoryState, key: Any, value: SSAValue, covers: bool, emitter: Emitter) -> None:
        if covers or not self.memory.arguments or key.window.sizes != (2,):
            right(self, key, value, covers, emitter)

    patch.setattr(MemoryState, "write", wrong)


@fault("in-place-to-out-of-place", "caches")
def a_read_ignores_the_version(patch: Patch) -> None:
    right = MemoryState.write

    def wrong(self: MemoryState, key: Any, value: SSAValue, covers: bool, emitter: Emitter) -> None:
        known = dict(self.known)
        right(self, key, value, covers, emitter)
        self.known = {**known, **self.known}

    patch.setattr(MemoryState, "write", wrong)


@fault("in-place-to-out-of-place", "caches")
def an_insert_starts_one_element_late(patch: Patch) -> None:
    right = Emitter.insert

    def wrong(self: Emitter, value: SSAValue, base: Any, window: Geometry, dims: tuple[int, ...]) -> SSAValue:
        moved = Geometry(window.sizes, window.strides, window.offset + (window.sizes == (2,)))
        return right(self, value, base, moved, dims)

    patch.setattr(Emitter, "insert", wrong)


@fault("in-place-to-out-of-place", "caches")
def an_insert_has_another_stride(patch: Patch) -> None:
    right = Emitter.insert

    def wrong(self: Emitter, value: SSAValue, base: Any, window: Geometry, dims: tuple[int, ...]) -> SSAValue:
        strides = (1,) if window.strides == (4,) else window.strides
        return right(self, value, base, Geometry(window.sizes, strides, window.offset), dims)

    patch.setattr(Emitter, "insert", wrong)


@fault("in-place-to-out-of-place", "caches")
def another_window_is_taken_for_the_last_one(patch: Patch) -> None:
    right = MemoryState.write

    def wrong(self: MemoryState, key: Any, value: SSAValue, covers: bool, emitter: Emitter) -> None:
        if self._last_insert is not None:
            self._last_insert = (key.window, *self._last_insert[1:])
        right(self, key, value, covers, emitter)

    patch.setattr(MemoryState, "write", wrong)


@fault("in-place-to-out-of-place", "caches")
def a_partial_write_is_taken_to_cover_everything(patch: Patch) -> None:
    right = MemoryState.write

    def wrong(self: MemoryState, key: Any, value: SSAValue, covers: bool, emitter: Emitter) -> None:
        right(self, key, value, covers or key.window.offset == 4, emitter)

    patch.setattr(MemoryState, "write", wrong)


@fault("in-place-to-out-of-place", "conjugate")
def conj_bits_are_lost(patch: Patch) -> None:
    patch.setattr(memory_state, "resolve", lambda value, lazy, emitter: value)


@fault("in-place-to-out-of-place", "shared")
def arguments_on_one_storage_are_kept_apart(patch: Patch) -> None:
    patch.setattr(memories, "_merge", lambda *_: None)


@fault("in-place-to-out-of-place", "shared")
def a_binding_forgets_its_offset(patch: Patch) -> None:
    def change(function: Any) -> None:
        function.attributes["alias.bindings"] = Bindings(
            tuple(
                b._replace(geometry=b.geometry._replace(offset=0)) for b in function.attributes["alias.bindings"].data
            )
        )

    on_function(patch, change)


@fault("in-place-to-out-of-place", "swap")
def table_entries_are_exchanged(patch: Patch) -> None:
    def change(function: Any) -> None:
        (one, first), (two, second) = entries(function)
        set_table(function, [(one, second), (two, first)])

    on_function(patch, change)


@fault("in-place-to-out-of-place", "swap")
def a_table_entry_is_missing(patch: Patch) -> None:
    on_function(patch, lambda function: set_table(function, entries(function)[:-1]))


@fault("in-place-to-out-of-place", "caches")
def a_table_entry_is_too_many(patch: Patch) -> None:
    """`before` is written into a parameter of its type that is only read."""

    def change(function: Any) -> None:
        types = list(function.function_type.outputs.data)
        pairs = entries(function)
        reader = next(
            n
            for n, kind in enumerate(function.function_type.inputs.data)
            if n not in {parameter for _, parameter in pairs}
        )
        wanted = function.function_type.inputs.data[reader]
        last = function.body.block.last_op
        last.operands = [*last.operands, function.body.block.args[reader]]
        function.properties["function_type"] = function.function_type.from_lists(
            function.function_type.inputs.data, [*types, wanted]
        )
        set_table(function, [*pairs, (len(types), reader)])

    on_function(patch, change)


@fault("in-place-to-out-of-place", "caches")
def a_view_in_the_plan_starts_elsewhere(patch: Patch) -> None:
    def change(number: int, source: OutputSource) -> OutputSource:
        return (
            source._replace(geometry=source.geometry._replace(offset=0)) if source.kind == "argument_view" else source
        )

    on_function(patch, lambda function: change_plan(function, change))


@fault("in-place-to-out-of-place", "swap")
def an_output_is_a_copy_of_the_argument_it_was(patch: Patch) -> None:
    def change(function: Any) -> None:
        output = {parameter: number for number, parameter in entries(function)}
        data = function.attributes["alias.bindings"].data
        change_plan(function, lambda n, s: OutputSource(
            "result", output[data[s.index].parameter], data[s.index].element, data[s.index].geometry
        ) if s.kind == "argument" else s)  # fmt: skip

    on_function(patch, change)


@fault("in-place-to-out-of-place", "caches")
def an_operand_that_is_read_becomes_a_placeholder(patch: Patch) -> None:
    right = FunctionState.read

    def wrong(self: FunctionState, handle: SSAValue, emitter: Emitter) -> SSAValue:
        if self.place(handle).argument >= 0 and self.key(handle).window.sizes == (4,):
            return CallBecomesValueCall(self)._placeholder(handle, emitter)
        return right(self, handle, emitter)

    patch.setattr(FunctionState, "read", wrong)


@fault("in-place-to-out-of-place", "copied")
def a_final_value_is_the_first_one(patch: Patch) -> None:
    right = MemoryState.final
    first: dict[int, SSAValue | None] = {}
    begin = MemoryState.__init__

    def started(self: MemoryState, memory: Any, value: Any) -> None:
        begin(self, memory, value)
        first[id(self)] = value

    def wrong(self: MemoryState, emitter: Emitter) -> SSAValue:
        start = first[id(self)]
        return start if start is not None else right(self, emitter)

    patch.setattr(MemoryState, "__init__", started)
    patch.setattr(MemoryState, "final", wrong)


@fault("eliminate-clones", "copied", "eliminate-clones")
def a_clone_goes_although_its_source_is_written(patch: Patch) -> None:
    patch.setattr(Judge, "conflicts", lambda *_: [])


@fault("remove-dead-values", "caches", "remove-dead-values")
def a_call_that_writes_is_taken_for_dead(patch: Patch) -> None:
    patch.setattr(remove_dead_values, "_changes_nothing", lambda op, pure: op.name == "fx.call")


@fault("decompose", "rounded")
def a_decomposition_has_another_operator(patch: Patch) -> None:
    right = decompose._splice

    def wrong(op: ValueCallOp, function: Any) -> None:
        for inner in function.body.block.ops:
            if isinstance(inner, ValueCallOp) and inner.target.data == "aten.sub.Tensor":
                inner.properties["target"] = StringAttr("aten.add.Tensor")
        right(op, function)

    patch.setattr(decompose, "_splice", wrong)


@fault("decompose", "rounded")
def a_decomposition_has_its_operands_exchanged(patch: Patch) -> None:
    right = decompose._parameters
    patch.setattr(decompose, "_parameters", lambda function: right(function)[::-1])


@fault("lower", "swap")
def a_rule_exchanges_its_operands(patch: Patch) -> None:
    right = RULES["aten.sub.Tensor"]

    def wrong(b: Any, call: Call) -> Any:
        return right(b, dataclasses.replace(call, args=call.args[::-1]))

    patch.setitem(RULES, "aten.sub.Tensor", wrong)


@fault("lower", "positions")
def negative_positions_are_clamped(patch: Patch) -> None:
    patch.setattr(indexing, "_wrap", lambda b, index, size: b.convert(index, "i64"))


@fault("lower", "positions")
def positions_are_one_too_small(patch: Patch) -> None:
    right = indexing._wrap
    patch.setattr(indexing, "_wrap", lambda b, index, size: right(b, index, size - 1))


@fault("lower", "rounded")
def a_cast_rounds_where_it_should_cut(patch: Patch) -> None:
    right = builder.Builder.convert

    def wrong(self: Any, value: Any, element: str) -> Any:
        return right(self, hlo.round_nearest_even(value) if element == "i32" else value, element)

    patch.setattr(builder.Builder, "convert", wrong)


@fault("lower", "caches")
def a_window_is_put_back_one_element_early(patch: Patch) -> None:
    right = windows.insert

    def wrong(b: Any, value: Any, window: Geometry, base: Any, element: str, shape: tuple[int, ...]) -> Any:
        return right(b, value, window._replace(offset=max(window.offset - 1, 0)), base, element, shape)

    patch.setattr(windows, "insert", wrong)


@fault("lower", "positions")
def a_scatter_has_its_dimensions_exchanged(patch: Patch) -> None:
    right = addressing.scatter

    def wrong(b: Any, base: Any, columns: Any, axes: Any, *rest: Any) -> Any:
        return right(b, base, columns[::-1], axes, *rest)

    patch.setattr(addressing, "scatter", wrong)


def on_proto(patch: Patch, change: Callable[[Any], None]) -> None:
    """Change the HLO module after export has repaired and verified it."""
    right = export.to_hlo

    def wrong(*args: Any, **options: Any) -> bytes:
        module = Module.FromString(right(*args, **options))
        change(module)
        return module.SerializeToString()

    patch.setattr(compilation, "to_hlo", wrong)


@fault("export", "swap")
def alias_entries_of_the_hlo_are_exchanged(patch: Patch) -> None:
    def change(module: Any) -> None:
        one, two = module.input_output_alias.entries
        one.parameter_number, two.parameter_number = two.parameter_number, one.parameter_number

    on_proto(patch, change)


@fault("export", "swap")
def operands_of_the_hlo_are_exchanged(patch: Patch) -> None:
    def change(module: Any) -> None:
        for instruction in module.computations[-1].instructions:
            if instruction.opcode == "subtract":
                instruction.operand_ids[:] = list(instruction.operand_ids)[::-1]

    on_proto(patch, change)


@fault("export", "caches")
def a_layout_of_the_hlo_is_column_major(patch: Patch) -> None:
    def change(module: Any) -> None:
        module.computations[-1].instructions[-1].shape.tuple_shapes[0].layout.minor_to_major[:] = [0, 1]

    on_proto(patch, change)


@fault("export", "swap")
def an_alias_of_the_hlo_is_a_may_alias(patch: Patch) -> None:
    def change(module: Any) -> None:
        module.input_output_alias.entries[0].kind = 1

    on_proto(patch, change)


@fault("run", "caches")
def a_view_is_rebuilt_at_another_place(patch: Patch) -> None:
    right = Outputs.__init__

    def wrong(self: Outputs, signature: Any) -> None:
        right(self, signature)
        self._plan = tuple(
            s._replace(window=s.window._replace(offset=0)) if s.kind == "argument_view" else s for s in self._plan
        )

    patch.setattr(Outputs, "__init__", wrong)


@fault("import", "normalized")
def a_write_of_the_schema_is_overlooked(patch: Patch) -> None:
    def forgetful(op: Any, known: Callable[..., Any] = recording.facts) -> Any:
        found = known(op)
        if "batch_norm" not in found.name:
            return found
        silent = tuple(dataclasses.replace(p, writes=False) for p in found.parameters)
        return dataclasses.replace(found, parameters=silent, twin=None)

    patch.setattr(recording, "facts", forgetful)
