"""A program that fails a check, made as small as it goes: one output, and no operation that the fault does not need.

An operation goes when nobody uses its results, when it only passes on memory of an operand, or by becoming an argument
that has the value it had. Whatever is tried must fail the check again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, MemRefType, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from compiler.memory_rules import extent
from compiler.reference import entry
from compiler.validation.inputs import Arguments, copies
from compiler.validation.observe import Difference, has_memory, observe
from dialects.alias import Root, RootData
from dialects.calls import HandleCall
from dialects.fx import ConstantOp
from dialects.types import element_bytes, geometry

Check = Callable[[ModuleOp, Sequence[torch.Tensor]], Difference | None]
"""Runs a program before and after the pass; None when both agree. It leaves the program and the arguments alone."""

SECONDS = 20.0
_PURIFIED = ("alias.bindings", "alias.table", "alias.plan")


@dataclass(frozen=True)
class Failing:
    """A program, arguments it fails on, and how."""

    module: ModuleOp
    arguments: Arguments
    difference: Difference

    @property
    def function(self) -> FuncOp:
        return entry(self.module)

    @property
    def size(self) -> tuple[int, int, int, int]:
        """Operations, tables, arguments and outputs: what is to become less, in this order."""
        last = self.function.body.block.last_op
        assert last is not None
        tables = sum(name in self.function.attributes for name in _PURIFIED)
        return sum(1 for _ in self.function.body.block.ops), tables, len(self.arguments), len(last.operands)


def reduce(failing: Failing, check: Check, seconds: float = SECONDS) -> Failing:
    """The smallest program that fails the check, as far as it is found in the time given, of this process alone."""
    stop = time.process_time() + seconds
    smallest = failing

    def tried(candidates: Iterator[tuple[ModuleOp, Arguments]]) -> bool:
        """Whether one of the candidates is smaller and fails; it is the smallest then."""
        nonlocal smallest
        for candidate in candidates:
            if time.process_time() >= stop:
                return False
            found = _failing(candidate, check)
            if found is not None and found.size < smallest.size:
                smallest = found
                return True
        return False

    while tried(_with_less_interface(smallest)):
        pass
    if not has_memory(smallest.function):
        tried(_first_to_differ(smallest, check))
    progress = True
    while progress:
        progress = tried(_with_less_interface(smallest)) or tried(_with_an_earlier_output(smallest))
        length = _count(smallest) // 2
        while length >= 1:
            if tried(_without_some(smallest, length)):
                progress = True
                length = min(length, _count(smallest) // 2)
            else:
                length //= 2
    return smallest


def _count(failing: Failing) -> int:
    """Operations but for the return."""
    return failing.size[0] - 1


def _failing(candidate: tuple[ModuleOp, Arguments], check: Check) -> Failing | None:
    module, arguments = candidate
    try:
        difference = check(module, arguments)
    except Exception:  # a program cut wrongly says nothing of the pass
        return None
    return None if difference is None else Failing(module, arguments, difference)


def _with_less_interface(failing: Failing) -> Iterator[tuple[ModuleOp, Arguments]]:
    """Without tables, or with one output."""
    function = failing.function
    last = function.body.block.last_op
    assert last is not None
    outputs = len(last.operands)
    wanted = [failing.difference.output] if failing.difference.output >= 0 else []
    pure = not has_memory(function)
    if pure and any(name in function.attributes for name in _PURIFIED):
        yield from _without_plan(failing, outputs)
    if outputs > len(wanted):
        yield _edited(failing, lambda edit: edit.keep_outputs(wanted))


def _with_an_earlier_output(failing: Failing) -> Iterator[tuple[ModuleOp, Arguments]]:
    """With an operand of what gives the output in its place."""
    last = failing.function.body.block.last_op
    assert last is not None
    if not has_memory(failing.function) and len(last.operands) == 1:
        producer = last.operands[0].owner
        if isinstance(producer, Operation):
            for operand in range(len(producer.operands)):
                yield _edited(failing, lambda edit, n=operand: edit.return_operand(n))


def _without_some(failing: Failing, length: int) -> Iterator[tuple[ModuleOp, Arguments]]:
    """Without so many operations in a row, the last ones first."""
    values, pure = _recorded(failing), not has_memory(failing.function)
    for first in range(_count(failing) - length, -1, -length):
        yield _edited(failing, lambda edit, a=first: edit.cut(range(a, a + length), values))
        if not pure:
            yield _edited(failing, lambda edit, a=first: edit.pass_on(range(a, a + length)))


def _first_to_differ(failing: Failing, check: Check) -> Iterator[tuple[ModuleOp, Arguments]]:
    """The first operation on values whose results differ, with the operations before it that it takes to show that."""
    whole = _failing(_edited(failing, lambda edit: edit.return_everything()), check)
    if whole is None or whole.difference.output < 0:
        return
    ops = list(failing.function.body.block.ops)[:-1]
    number = [n for n, op in enumerate(ops) for _ in op.results][whole.difference.output]
    numbers, values = {op: n for n, op in enumerate(ops)}, _recorded(failing)
    needed, edge = {number}, [ops[number]]
    while edge:
        others = [n for n in range(len(ops)) if n not in needed]
        yield _edited(failing, lambda edit, others=others: edit.end_at(number, others, values))
        edge = [
            owner
            for op in edge
            for owner in (operand.owner for operand in op.operands)
            if isinstance(owner, Operation) and numbers[owner] not in needed
        ]
        needed |= {numbers[op] for op in edge}


def _without_plan(failing: Failing, outputs: int) -> Iterator[tuple[ModuleOp, Arguments]]:
    """The bare function of its parameters; the values that parameters had are those the program gave them."""
    captured: list[torch.Tensor] = []

    def spy(function: FuncOp, parameters: list[torch.Tensor]) -> list[torch.Tensor]:
        captured.extend(p.clone() for p in parameters)
        from compiler.reference import compute

        return compute(function, parameters)

    try:
        observe(failing.module, failing.arguments, run=spy)
    except Exception:
        return
    for kept in ([n] for n in range(outputs)):
        module = failing.module.clone()
        for name in _PURIFIED:
            entry(module).attributes.pop(name, None)
        edit = _Edit(module, list(captured))
        edit.keep_outputs(kept)
        yield edit.finish()


def _recorded(failing: Failing) -> dict[int, list[torch.Tensor]]:
    """The results of every operation, as they were when it had run."""
    numbers = {op: n for n, op in enumerate(failing.function.body.block.ops)}
    values: dict[int, list[torch.Tensor]] = {}

    def watch(op: Operation, operands: Sequence[Any]) -> Callable[[Sequence[torch.Tensor]], None]:
        def done(results: Sequence[torch.Tensor]) -> None:
            if not isinstance(op, HandleCall) or all(alias.kind == "fresh" for alias in op.aliases.data):
                values[numbers[op]] = copies(results)

        return done

    try:
        observe(failing.module, failing.arguments, watch)
    except Exception:
        return {}
    return values


def _edited(failing: Failing, change: Callable[[_Edit], None]) -> tuple[ModuleOp, Arguments]:
    edit = _Edit(failing.module.clone(), list(failing.arguments))
    change(edit)
    return edit.finish()


class _Edit:
    """Changes of one clone of a program; `finish` drops what became useless and makes the types agree."""

    def __init__(self, module: ModuleOp, arguments: Arguments):
        self.module, self.arguments = module, arguments
        self.function = entry(module)
        self.block = self.function.body.block
        self.ops = list(self.block.ops)
        attributes = self.function.arg_attrs
        self.attributes = (
            list(attributes.data) if attributes is not None else [DictionaryAttr({})] * len(self.block.args)
        )

    def keep_outputs(self, numbers: Sequence[int]) -> None:
        last = self.block.last_op
        assert isinstance(last, ReturnOp)
        last.operands = [last.operands[n] for n in numbers]

    def return_operand(self, number: int) -> None:
        last = self.block.last_op
        assert last is not None
        producer = last.operands[0].owner
        assert isinstance(producer, Operation)
        last.operands = [producer.operands[number]]

    def return_everything(self) -> None:
        """Return the results of all operations in order."""
        last = self.block.last_op
        assert last is not None
        last.operands = [result for op in self.ops[:-1] for result in op.results]

    def end_at(self, number: int, others: Sequence[int], values: dict[int, list[torch.Tensor]]) -> None:
        """Return the results of one operation, with the `others` cut."""
        last = self.block.last_op
        assert last is not None
        last.operands = list(self.ops[number].results)
        self.cut(others, values)

    def pass_on(self, numbers: Sequence[int]) -> None:
        """Remove in-place operations that are not needed: their results are their operands."""
        for number in reversed(numbers):
            op = self.ops[number]
            if isinstance(op, HandleCall) and all(alias.kind == "same" for alias in op.aliases.data):
                for alias, result in zip(op.aliases.data, op.outs, strict=True):
                    result.replace_all_uses_with(op.args[alias.operand])
                self.block.erase_op(op)

    def cut(self, numbers: Sequence[int], values: dict[int, list[torch.Tensor]]) -> None:
        """Operations become arguments where something later uses their results."""
        for number in reversed(numbers):
            op = self.ops[number]
            if all(result.first_use is None for result in op.results):
                continue
            if number not in values or (isinstance(op, HandleCall) and any(a.kind != "fresh" for a in op.aliases.data)):
                continue
            if isinstance(op, ConstantOp):
                continue
            for result, value in zip(op.results, values[number], strict=True):
                result.replace_all_uses_with(self._argument(result, value))

    def _argument(self, result: SSAValue, value: torch.Tensor) -> SSAValue:
        argument = self.block.insert_arg(result.type, len(self.block.args))
        argument.name_hint = result.name_hint
        data: dict[str, Any] = {}
        if isinstance(result.type, MemRefType):
            used = {a.data["alias.root"].data.id for a in self.attributes if "alias.root" in a.data}  # type: ignore[attr-defined]
            size = extent(geometry(result.type), element_bytes(result.type.element_type))
            root = RootData(max(used, default=-1) + 1, size)
            data = {"alias.root": Root(root), "fx.name": StringAttr(f"cut{root.id}"), "fx.kind": StringAttr("input")}
        self.attributes.append(DictionaryAttr(data))
        self.arguments.append(value)
        return argument

    def finish(self) -> tuple[ModuleOp, Arguments]:
        op = self.block.last_op
        while op is not None:
            before = op.prev_op
            unused = all(result.first_use is None for result in op.results)
            writes = isinstance(op, HandleCall) and op.effects.writes() != ()
            if not isinstance(op, ReturnOp) and unused and not writes:
                self.block.erase_op(op)
            op = before
        if not any(name in self.function.attributes for name in _PURIFIED):
            for argument in reversed(list(self.block.args)):
                if argument.first_use is None:
                    del self.attributes[argument.index], self.arguments[argument.index]
                    self.block.erase_arg(argument)
        last = self.block.last_op
        assert last is not None
        self.function.properties["function_type"] = FunctionType.from_lists(
            [a.type for a in self.block.args], [v.type for v in last.operands]
        )
        if self.function.arg_attrs is not None:
            self.function.properties["arg_attrs"] = ArrayAttr(self.attributes)
        self.function.properties.pop("res_attrs", None)
        return self.module, self.arguments


__all__ = ["Check", "Failing", "reduce"]
