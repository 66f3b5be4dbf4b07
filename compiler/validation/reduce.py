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
    """The smallest program found in the time given that fails the check."""
    stop = time.monotonic() + seconds
    smallest = failing
    progress = True
    while progress and time.monotonic() < stop:
        progress = False
        for candidate in _candidates(smallest):
            if time.monotonic() >= stop:
                break
            found = _failing(candidate, check)
            if found is not None and found.size < smallest.size:
                smallest, progress = found, True
                break
    return smallest


def _failing(candidate: tuple[ModuleOp, Arguments], check: Check) -> Failing | None:
    module, arguments = candidate
    try:
        difference = check(module, arguments)
    except Exception:  # a program cut wrongly says nothing of the pass
        return None
    return None if difference is None else Failing(module, arguments, difference)


def _candidates(failing: Failing) -> Iterator[tuple[ModuleOp, Arguments]]:
    """Smaller programs, the boldest first."""
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
    count = sum(1 for _ in function.body.block.ops) - 1
    values = _recorded(failing)
    for length in _halvings(count):
        for first in range(count - length, -1, -length):
            yield _edited(failing, lambda edit, a=first, n=length: edit.cut(range(a, a + n), values))
            if not pure:
                yield _edited(failing, lambda edit, a=first, n=length: edit.pass_on(range(a, a + n)))
    if pure and outputs == 1:
        producer = last.operands[0].owner
        if isinstance(producer, Operation):
            for operand in range(len(producer.operands)):
                yield _edited(failing, lambda edit, n=operand: edit.return_operand(n))


def _halvings(count: int) -> Iterator[int]:
    length = count // 2
    while length >= 1:
        yield length
        length //= 2


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
