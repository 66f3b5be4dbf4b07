"""The tables of a purified function are true: proved by executing both forms of the program on symbols.

Every byte of every argument is a symbol, and an operator is an unknown function (`analysis/symbolic_run.py`). After both
runs each argument must hold, and each output must be made of, the same symbols: so the last value of each written memory
reaches the output it is said to, no entry speaks of memory that nobody wrote, each parameter has one output of its type,
and every output of the program is found where the plan says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, SSAValue

from compiler.analysis.symbolic_bytes import Bytes, TooManyRuns, stretch
from compiler.analysis.symbolic_run import Handle, HandleRun, NotFollowed, ValueRun, bytes_of, steps, untrue
from compiler.analysis.symbols import Symbols
from dialects.alias import Binding, Bindings, OutputSource, Plan, Table


def verify_tables(handles: ModuleOp, values: ModuleOp) -> bool:
    """Prove the tables of every function of `values` that has become one of values since `handles`.

    Returns:
        Whether the proof covers the program. It does not cover masked writes through a window that meets an element twice,
        and memory in more pieces than `symbolic_bytes.MOST_RUNS`.

    Raises:
        CompileError: tables and results say something else than the program does to memory.
    """
    before = {op.sym_name.data: op for op in handles.ops if isinstance(op, FuncOp)}
    covered = True
    for after in values.ops:
        if isinstance(after, FuncOp) and "alias.plan" in after.attributes:
            program = before.get(after.sym_name.data)
            if program is None:
                raise untrue(f"the program has no function @{after.sym_name.data}", after)
            if "alias.plan" not in program.attributes:
                covered &= verify_function(program, after)
    return covered


def verify_function(handles: FuncOp, values: FuncOp) -> bool:
    """The same of one function."""
    for name, kind in (("alias.bindings", Bindings), ("alias.table", Table), ("alias.plan", Plan)):
        if not isinstance(values.attributes.get(name), kind):
            raise untrue(f"the function has no `{name}`", values)
    try:
        symbols = Symbols()
        memory = HandleRun(handles, symbols)
        memory.run()
        if (
            symbols.uniform
        ):  # which operators have uniform results is known now, so that their first uses are named alike
            symbols = Symbols(frozenset(symbols.uniform))
            memory = HandleRun(handles, symbols)
            memory.run()
        _Tables(memory, values, symbols).check()
    except (NotFollowed, TooManyRuns):
        return False
    return True


class _Tables:
    """Executes a function of values on the same symbols, and compares."""

    def __init__(self, memory: HandleRun, function: FuncOp, symbols: Symbols):
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
                raise untrue(f"result {number} is no output of the program and no final value of a parameter")

    def check_bindings(self) -> None:
        handles = self.memory.arguments
        if len(self.bindings) != len(handles):
            raise untrue(f"there are {len(handles)} arguments and {len(self.bindings)} bindings")
        for number, (b, handle) in enumerate(zip(self.bindings, handles, strict=True)):
            which = f"argument {b.name!r}"
            named = _name_of(self.memory.function, number)
            if named not in ("", b.name):
                raise untrue(f"{which}: argument {number} is called {named!r}")
            window = handle.window
            if (b.element, b.geometry.sizes, b.geometry.strides, b.lazy) != (
                handle.element, window.sizes, window.strides, handle.lazy
            ):  # fmt: skip
                raise untrue(f"{which} is bound as another window than it is")
            if b.parameter < 0 or 0 in window.sizes:
                continue
            if b.parameter >= len(self.parameters):
                raise untrue(f"{which} is bound to parameter {b.parameter}, and there are {len(self.parameters)}")
            place = handle.root, handle.byte - b.geometry.offset * handle.width
            known = self.place[b.parameter]
            if known is None:
                self.place[b.parameter] = place
            elif known != place:
                raise untrue(f"{which} is bound to parameter {b.parameter}, which holds other memory")

    def parameter(self, number: int) -> Bytes:
        """The bytes of a parameter, from the memory of the program; unknown ones where it is more than the program has."""
        data = self.symbols.fresh(bytes_of(self.parameters[number]))
        place = self.place[number]
        if place is None:
            return data
        root, first = place
        known = self.memory.initial[root]
        begin, end = max(first, 0), min(first + data.size, known.size)
        return data.replaced(stretch(begin - first, end - begin), known.window(stretch(begin, end - begin)))

    def run(self) -> tuple[list[Bytes], list[Attribute]]:
        block = self.function.body.block
        starts: dict[int, set[int]] = {}
        for root, first in (place for place in self.place if place is not None):
            starts.setdefault(root, set()).add(first)
        arguments = [self.parameter(n) for n in range(len(self.parameters))]
        results = ValueRun(self.symbols, self.memory.turns, starts).run(block, arguments)
        last = block.last_op
        if not isinstance(last, ReturnOp):
            raise untrue("the function does not return")
        return results, [v.type for v in last.arguments]

    # -- what must hold ------------------------------------------------------------------------

    def check_table(self, types: Sequence[Attribute]) -> None:
        outputs: set[int] = set()
        for output, parameter in self.entries:
            which = f"alias table entry {output} = {parameter}"
            if not (0 <= output < len(types) and 0 <= parameter < len(self.parameters)):
                raise untrue(f"{which}: there are {len(types)} outputs and {len(self.parameters)} parameters")
            if output in outputs or parameter in self.table:
                raise untrue(f"{which}: a second entry of the same output or parameter")
            if types[output] != self.parameters[parameter]:
                raise untrue(
                    f"{which}: the output has type {types[output]}, the parameter {self.parameters[parameter]}"
                )
            place = self.place[parameter]
            if place is None or place[0] not in self.memory.writer:
                raise untrue(f"{which}: nobody writes the memory of that parameter")
            outputs.add(output)
            self.table[parameter] = output
        for b, handle in zip(self.bindings, self.memory.arguments, strict=True):
            written = b.parameter in self.table and b.parameter >= 0
            if 0 not in handle.window.sizes and b.written != written:
                said = "written" if b.written else "not written"
                raise untrue(f"argument {b.name!r} is called {said}, and the alias table says otherwise")

    def check_finals(self, results: Sequence[Bytes]) -> None:
        """Every byte of every argument, and of the parameters around them, holds its last value."""
        memory = self.memory
        for number in range(len(self.parameters)):
            place = self.place[number]
            if place is None:
                continue
            root, first = place
            output = self.table.get(number)
            have = results[output] if output is not None else self.parameter(number)
            begin, end = max(first, 0), min(first + have.size, memory.roots[root].size)
            want = memory.roots[root].window(stretch(begin, end - begin))
            wrong = have.window(stretch(begin - first, end - begin)).differences(want)
            if wrong:
                what = f"result {output}" if output is not None else "its first value"
                names = ", ".join(repr(b.name) for b in self.bindings if b.parameter == number)
                raise untrue(
                    f"parameter {number} ({names}) ends as {what}, which is not the last value written at byte {wrong[0][0]}",
                    memory.writer.get(root),
                )
            if output is not None:
                self.check_around(number, root, begin, end)
        for b, handle in zip(self.bindings, memory.arguments, strict=True):
            if 0 in handle.window.sizes or b.parameter in self.table:
                continue
            if memory.roots[handle.root].window(handle.steps) != memory.initial[handle.root].window(handle.steps):
                raise untrue(f"argument {b.name!r} is written, and no entry of the alias table brings it its last value",
                     memory.writer.get(handle.root))  # fmt: skip

    def check_around(self, number: int, root: int, begin: int, end: int) -> None:
        """Bytes of a parameter that are no elements change only where its arguments say so."""
        bound = [(b, h) for b, h in zip(self.bindings, self.memory.arguments, strict=True) if b.parameter == number]
        if all(b.around for b, _ in bound):
            return
        # With the elements as they were, what still differs is around them.
        first, last = self.memory.initial[root], self.memory.roots[root]
        for _, handle in bound:
            last = last.replaced(handle.steps, first.window(handle.steps))
        if any(a < end and z > begin for a, z in first.differences(last)):
            name = next(b.name for b, _ in bound if not b.around)
            raise untrue(f"memory around the elements of argument {name!r} is written, and its binding does not say so",
                 self.memory.writer.get(root))  # fmt: skip

    def check_plan(self, results: Sequence[Bytes]) -> None:
        handles = self.memory.outputs
        if len(self.plan) != len(handles):
            raise untrue(f"there are {len(handles)} outputs and {len(self.plan)} entries in the output plan")
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
                        raise untrue(f"{which}: output {source.index} is no earlier one")
                    objects.append(objects[source.index])
                case _:
                    objects.append(("new", number))
            if objects[number] != first.setdefault(handle.object, ("new", number)):
                raise untrue(
                    f"{which} is {source.kind} {source.index}, which is another object than the program returns"
                )
            if source.kind in ("argument", "output"):
                continue
            window = handle.window
            if (source.element, source.geometry.sizes, source.geometry.strides, source.lazy) != (
                handle.element, window.sizes, window.strides, handle.lazy
            ):  # fmt: skip
                raise untrue(f"{which} is another window than the program returns")
            if source.kind == "argument_view":
                self.check_view(which, source, handle)
            else:
                self.check_result(which, source, handle, results, results_of)

    def check_view(self, which: str, source: OutputSource, handle: Handle) -> None:
        owner, binding = self.memory.arguments[source.index], self.bindings[source.index]
        if owner.root != handle.root:
            raise untrue(f"{which} is a view of argument {binding.name!r}, and the program returns other memory")
        start = owner.byte - binding.geometry.offset * owner.width
        if 0 in handle.window.sizes or 0 in owner.window.sizes:
            return
        if start + source.geometry.offset * handle.width != handle.byte:
            raise untrue(f"{which} starts at another byte of argument {binding.name!r} than the program's view")

    def check_result(
        self, which: str, source: OutputSource, handle: Handle, results: Sequence[Bytes], results_of: dict[int, int]
    ) -> None:
        if handle.root in self.memory.initial:
            raise untrue(f"{which} is fresh memory, and the program returns memory of an argument")
        if source.index in self.table.values():
            raise untrue(f"{which} is a window on result {source.index}, which is written into a parameter")
        if results_of.setdefault(handle.root, source.index) != source.index or (
            len(set(results_of.values())) < len(results_of)
        ):
            raise untrue(f"{which} is in result {source.index}: outputs share a result exactly when they share memory")
        if 0 in handle.window.sizes:
            return
        if source.geometry.offset != handle.window.offset:
            raise untrue(
                f"{which} starts at element {source.geometry.offset}, the program's output at {handle.window.offset}"
            )
        shown, memory = steps(source.geometry, handle.width), results[source.index]
        if shown.end > memory.size:
            raise untrue(f"{which} reaches byte {shown.end} of result {source.index}, which has {memory.size}")
        if memory.window(shown) != self.memory.roots[handle.root].window(handle.steps):
            raise untrue(
                f"{which}: result {source.index} does not hold what the program returns",
                self.memory.writer.get(handle.root),
            )


def _name_of(function: FuncOp, number: int) -> str:
    attributes = function.arg_attrs.data if function.arg_attrs is not None else ()
    name = attributes[number].data.get("fx.name") if number < len(attributes) else None
    return name.data if isinstance(name, StringAttr) else ""


__all__ = ["verify_function", "verify_tables"]
