"""Programs whose tables tests/table_faults.py damages, and the parts of a function of values that damage is done to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from compiler.compilation import make_out_of_place
from compiler.frontend.capture import capture
from compiler.frontend.importer import import_graph
from compiler.reference import entry
from dialects.alias import AliasEntry, Binding, Bindings, OutputSource, Plan, Table

# -- programs ------------------------------------------------------------------------------------


def twins(k: torch.Tensor, v: torch.Tensor, x: torch.Tensor) -> Any:
    """Two written caches of one type, a read-only argument of that type, views of all three, and fresh results."""
    k[1:3].add_(x[:2])
    k[2:].mul_(2.0)
    v.t()[0].copy_(k[3])
    sums = k.sum(0)
    return k[1], v, x[2:], sums[1:], sums[:2], k - v


def overlapping(whole: torch.Tensor, part: torch.Tensor, alone: torch.Tensor) -> Any:
    """Two arguments on one storage, one beside it."""
    part.add_(1.0)
    alone.mul_(2.0)
    return part[1:], whole[2:4], alone[:2]


def same_objects(x: torch.Tensor, y: torch.Tensor) -> Any:
    """Outputs that are one object, and two objects on one memory."""
    x.add_(y)
    z = x * y
    return z, z, z.view(-1), x, x[0]


def lazy(z: torch.Tensor, w: torch.Tensor) -> Any:
    """Conjugated views go in and out."""
    z.conj().copy_(w)
    return (z * w).conj(), z.conj()


def between(column: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """A write to memory between the elements of an argument."""
    column.as_strided((3,), (2,), 1).copy_(x)
    return column[1:] + x


def halves(h: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """A state that travels as an integer."""
    h[1].add_(x)
    return h[0] * x


def _storage() -> Sequence[torch.Tensor]:
    memory = torch.arange(8.0)
    return memory, memory[2:6], torch.ones(4)


def _complex() -> torch.Tensor:
    return torch.complex(torch.arange(3.0), torch.ones(3))


TABLE_PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[], Sequence[torch.Tensor]]]] = {
    "twins": (twins, lambda: (torch.ones(4, 4), torch.ones(4, 4), torch.ones(4, 4))),
    "overlapping": (overlapping, _storage),
    "same objects": (same_objects, lambda: (torch.ones(2, 3), torch.ones(2, 3))),
    "lazy": (lazy, lambda: (_complex(), _complex())),
    "between": (between, lambda: (torch.zeros(4, 2)[:, 0], torch.ones(3))),
    "halves": (halves, lambda: (torch.ones(2, 3).bfloat16(), torch.ones(3).bfloat16())),
}


def forms(program: str) -> tuple[ModuleOp, ModuleOp]:
    """The program over handles, and the function of values that it becomes."""
    function, make = TABLE_PROGRAMS[program]
    before = import_graph(capture(function, make())).module
    after = before.clone()
    make_out_of_place(entry(after))
    return before, after


# -- functions of values -------------------------------------------------------------------------


def table(function: FuncOp) -> list[tuple[int, int]]:
    return [tuple(e) for e in function.attributes["alias.table"].data]  # type: ignore[attr-defined]


def set_table(function: FuncOp, entries: Sequence[tuple[int, int]]) -> None:
    function.attributes["alias.table"] = Table(tuple(AliasEntry(*e) for e in entries))


def plan(function: FuncOp) -> list[OutputSource]:
    return list(function.attributes["alias.plan"].data)  # type: ignore[attr-defined]


def set_source(function: FuncOp, number: int, source: OutputSource) -> None:
    sources = plan(function)
    sources[number] = source
    function.attributes["alias.plan"] = Plan(tuple(sources))


def bindings(function: FuncOp) -> list[Binding]:
    return list(function.attributes["alias.bindings"].data)  # type: ignore[attr-defined]


def set_binding(function: FuncOp, number: int, **fields: Any) -> None:
    bound = bindings(function)
    bound[number] = bound[number]._replace(**fields)
    function.attributes["alias.bindings"] = Bindings(tuple(bound))


def moved(source: Any, **fields: Any) -> Any:
    """A binding or an output with another window."""
    return source._replace(geometry=source.geometry._replace(**fields))


def returned(function: FuncOp) -> list[SSAValue]:
    last = function.body.block.last_op
    assert last is not None
    return list(last.operands)


def set_returned(function: FuncOp, values: Sequence[SSAValue]) -> None:
    last = function.body.block.last_op
    assert last is not None
    last.operands = values
    inputs: Sequence[Attribute] = function.function_type.inputs.data
    function.properties["function_type"] = FunctionType.from_lists(inputs, [v.type for v in values])


def output_of(function: FuncOp, argument: int) -> int:
    """The result that is the final value of an argument."""
    parameter = bindings(function)[argument].parameter
    return next(output for output, written in table(function) if written == parameter)


def final(function: FuncOp, argument: int) -> Any:
    """The op that makes the final value of an argument."""
    return returned(function)[output_of(function, argument)].owner


def change_output(function: FuncOp, kind: type[Operation], to: Attribute, properties: dict[str, Attribute]) -> None:
    """Put the final value of argument 0 into another form."""
    values, number, last = returned(function), output_of(function, 0), function.body.block.last_op
    assert last is not None
    op = kind.create(operands=[values[number]], result_types=[to], properties=properties)
    function.body.block.insert_op_before(op, last)
    values[number] = op.results[0]
    set_returned(function, values)


NOT_LAST = "which is not the last value written at byte"
