"""Every pass keeps what the program computes: it is run before and after on the same inputs, in both forms of the IR.

Handles run in eager PyTorch, values in eager PyTorch op by op, lowered programs on the embedded XLA. The pass that makes
the first difference is named, with a minimal program that shows it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from compiler.analysis.table_verifier import verify_tables
from compiler.errors import CompileError, ValidationError
from compiler.ir_text import to_text
from compiler.locations import source_of
from compiler.reference import entry
from compiler.validation.audit import audit
from compiler.validation.calls import calls_of, otherwise_laid_out
from compiler.validation.inputs import Arguments, arguments_of, copies
from compiler.validation.observe import (
    Comparison,
    Difference,
    Left,
    Observation,
    compare,
    difference,
    has_memory,
    observe,
    observed,
    tensor_difference,
)
from compiler.validation.reduce import Check, Failing, reduce
from compiler.validation.settled import Run, Stage, settle
from dialects.alias import Table
from dialects.calls import HandleCall, OperatorCall
from dialects.types import element_name

if TYPE_CHECKING:
    from jaxlib.mlir import ir

Transform = Callable[[ModuleOp], None]
ROUNDS = 2
"""Sets of inputs that every pass is tried on: random ones, then the examples themselves (or other random ones)."""


@dataclass
class Validator:
    """Checks the passes of one compilation.

    Attributes:
        rounds: the sets of arguments in use.
        checked: names of the passes that were checked, in order.
        undecided: operators that left something open in which a stage differed; all else was compared.
        unchecked_tables: the program does what the table verifier has no symbols for; the runs alone speak for the tables.
    """

    rounds: list[Arguments]
    checked: list[str] = field(default_factory=list)
    unchecked_tables: bool = False
    undecided: list[tuple[str, ...]] = field(default_factory=list)

    @staticmethod
    def of(module: ModuleOp, examples: Sequence[torch.Tensor | None] = (), seed: int = 0) -> Validator:
        """A validator with arguments that the program runs on.

        Args:
            examples: tensors of the program's arguments in order, where known.

        Raises:
            CompileError: the program runs on no inputs that were tried.
        """
        function, rounds, last_run = entry(module), list[Arguments](), _LastRun()
        reason: Exception | None = None
        for number in range(ROUNDS):
            last = number == ROUNDS - 1
            # Random floats near the examples; then the examples. Integers that may be indices get smaller and smaller.
            attempts = [(-1, 1)] if last and examples else [(seed + number, 4), (seed + number, 2), (seed + number, 1)]
            for seeded, integers in attempts:
                try:
                    arguments = arguments_of(function, seeded, examples, integers)
                    observe(module, arguments, last_run)
                except (CompileError, MemoryError):
                    raise
                except Exception as error:  # an index out of range, a factorisation that does not exist
                    reason = error
                    continue
                rounds.append(arguments)
                break
        if not rounds:
            raise _unfit(function, last_run.op, reason)
        return Validator(rounds)

    # -- the checks ----------------------------------------------------------------------------

    def operators(self, module: ModuleOp) -> None:
        """Operators do to memory what the imported program says of them."""
        self.checked.append("import")
        for arguments in self.rounds:
            audit(module, arguments)

    def apply(self, name: str, module: ModuleOp, transform: Transform) -> None:
        """Run a pass, and raise ValidationError if it changed what the program computes or its tables are not true."""
        before = module.clone()
        transform(module)
        self.checked.append(name)

        def stage(candidate: ModuleOp) -> tuple[ModuleOp, None]:
            after = candidate.clone()
            transform(after)
            return after, None

        self._compare(name, before, lambda m, a: _changed(m, a, transform), lambda a: observe(module, a), stage)
        if has_memory(entry(before)) and "alias.plan" in entry(module).attributes:
            try:
                self.unchecked_tables |= not verify_tables(before, module)
            except CompileError as error:
                raise ValidationError(
                    error.message, pass_name=name, location=error.location, node=error.node, hint=error.hint
                ) from None

    def same_but(
        self, number: int, name: str, before: tuple[ModuleOp, Arguments], after: tuple[ModuleOp, Arguments]
    ) -> None:
        """Two programs do the same in everything but what is left in argument `number`, which is another in each."""
        self.checked.append(name)
        try:
            one, two = (observe(*run) for run in (before, after))
        except Exception as error:
            raise ValidationError(f"makes a program that does not run: {error}", pass_name=name) from error
        if found := difference(one, two, (number,)):
            raise ValidationError(f"changes what the program computes: {found.text}", pass_name=name)

    def lowered(self, module: ModuleOp, lower: Callable[[ModuleOp], ir.Module]) -> ir.Module:
        """Lower a program of values, and raise ValidationError if XLA computes something else from it."""
        from compiler.validation.xla import run_stablehlo

        def check(candidate: ModuleOp, arguments: Sequence[torch.Tensor]) -> Difference | None:
            after = observe(candidate, arguments, run=run_stablehlo(lower(candidate)))
            return compare(candidate, arguments, after).found

        stablehlo = lower(module)
        run = run_stablehlo(stablehlo)
        self.checked.append("lower")

        def stage(candidate: ModuleOp) -> tuple[ModuleOp, Run]:
            return candidate, run_stablehlo(lower(candidate))

        self._compare("lower", module, check, lambda a: observe(module, a, run=run), stage)
        return stablehlo

    def exported(self, module: ModuleOp, stablehlo: ir.Module, hlo: bytes) -> None:
        """The HLO module is well formed, has the tables of the function, and computes what the StableHLO does."""
        from compiler.export.decoder import DecodeError, check_module
        from compiler.validation.xla import run_hlo, run_stablehlo

        self.checked.append("export")
        function = entry(module)
        try:
            interface = check_module(hlo)
            kinds = function.function_type
            for side, have, want in (
                ("parameter", interface.parameters, kinds.inputs),
                ("result", interface.results, kinds.outputs),
            ):
                told = [(element_name(t.element_type), tuple(t.get_shape())) for t in want.data]  # type: ignore[attr-defined]
                if [tuple(h) for h in have] != told:
                    raise DecodeError(f"{side}s are {list(map(str, have))}, the function says {told}")
            table = function.attributes.get("alias.table")
            want_table = sorted(tuple(e) for e in table.data) if isinstance(table, Table) else []
            if interface.aliases != want_table:
                raise DecodeError(f"the alias table is {interface.aliases}, the function says {want_table}")
        except DecodeError as error:
            raise ValidationError(f"the HLO module is wrong: {error}", pass_name="export") from None

        one, two = run_stablehlo(stablehlo), run_hlo(hlo)
        for arguments in self.rounds:
            ours, theirs = (observe(module, arguments, run=run) for run in (one, two))
            if not (found := difference(ours, theirs)):
                continue
            compared = compare(module, arguments, theirs)  # unless that is rounding; both give XLA's answers
            if compared.found or compared.undetermined:
                raise ValidationError(f"the HLO module computes something else: {found.text}", pass_name="export")

    def called(
        self,
        program: ModuleOp,
        run: Callable[[Arguments], list[torch.Tensor]],
        left: Left | None = None,
        again: bool = True,
        counted: Iterable[int] = (),
    ) -> None:
        """An executable does what the imported program does: `run` calls it on the program's arguments, in order, on memory
        that lies as XLA wants it, with the same tensors `again`, and on memory that has to be copied.

        `left` says what a caller holds after a run of the program's IR (`Program.left`). The `counted` arguments must begin where
        they do in their storages.
        """
        self.checked.append("run")

        def check(when: str, given: Arguments, own: Arguments) -> None:
            versions = [tensor._version for tensor in own]
            try:
                results = run(own)
            except CompileError:
                raise
            except Exception as error:
                raise ValidationError(f"the executable fails{when}: {error}", pass_name="run") from error
            try:
                compared = compare(program, given, observed(results, own), left)
            except (
                IndexError,
                RuntimeError,
            ):  # the position after the last one, or a division by zero, in a second call
                return
            self._tell("run", compared)
            if found := compared.found:
                raise ValidationError(f"the executable does something else{when}: {found.text}", pass_name="run")
            for n, (before, tensor, version) in enumerate(zip(given, own, versions, strict=True)):
                if tensor._version == version and tensor_difference(before, tensor, exact=True):
                    raise ValidationError(f"the executable writes argument {n} behind autograd's back", pass_name="run")

        for arguments in self.rounds:
            own = copies(arguments)
            check("", arguments, own)
            for _ in range(2 if again else 0):  # the first call keeps buffers, which the second one spends
                check(" when it is called again", copies(own), own)
            check(" on memory that is not aligned", arguments, copies(arguments, shifted=True, counted=counted))

    def _compare(
        self, name: str, before: ModuleOp, check: Check, after: Callable[[Arguments], Observation], stage: Stage
    ) -> None:
        for arguments in self.rounds:
            compared = compare(before, arguments, after(arguments))
            if compared.found is None and compared.because and (settled := settle(before, arguments, stage)):
                if settled.found is not None:
                    failing = Failing(before, arguments, settled.found)
                    raise _report(name, failing, reduce(failing, lambda m, a: _unsettled(m, a, stage)))
                continue
            self._tell(name, compared)
            if compared.found is not None:
                failing = Failing(before, arguments, compared.found)
                raise _report(name, failing, reduce(failing, check))
        if not has_memory(entry(before)):
            self._compare_calls(name, before, check, stage)

    def _compare_calls(self, name: str, before: ModuleOp, check: Check, stage: Stage) -> None:
        """The same for every call alone, on operands that the program need not reach."""
        if (found := calls_of(before)) is None:
            return
        program, rounds = found
        after, run = stage(program)
        for arguments in rounds:
            seen = observe(after, arguments, run=run)
            difference = compare(program, arguments, seen, others=otherwise_laid_out(program, arguments)).found
            if difference is not None:
                failing = reduce(Failing(program, arguments, difference), check)
                raise _report(name, failing, failing)

    def _tell(self, name: str, compared: Comparison) -> None:
        """Warn of what was not compared, once for the operators that are the reason."""
        if compared.undetermined and compared.found is None and compared.because not in self.undecided:
            self.undecided.append(compared.because)
            reason = (
                f"the answer of {' and '.join(compared.because)} is not unique"
                if compared.because
                else "an operator of the program gives other results each time it runs"
            )
            warnings.warn(
                f"validation of pass {name} compared all but what is not determined: {compared.undetermined}, and {reason}",
                stacklevel=2,
            )


class _LastRun:
    """Watches a run, to say where it ended."""

    op: Operation | None = None

    def __call__(self, op: Operation, operands: Sequence[object]) -> Callable[[Sequence[torch.Tensor]], None]:
        self.op = op
        return lambda results: None


def _unfit(function: FuncOp, op: Operation | None, reason: Exception | None) -> CompileError:
    """The error for a program that runs on no inputs that were tried; `op` ran last."""
    location, node = source_of(function if op is None else op)
    target = op.target.data if isinstance(op, OperatorCall) else "it"
    hint = "give example inputs that it runs on"
    if isinstance(op, OperatorCall) and not target.startswith(("aten.", "prims.")):
        hint += "; a custom operator may touch no more than the memory that its operands show"
    return CompileError(
        f"the program cannot be validated, it fails on random inputs: {target} fails: {type(reason).__name__}: {reason}",
        location=location,
        node=node,
        hint=hint,
    )


def check_emitted(validator: Validator, module: ModuleOp) -> None:
    """What the driver writes of a program of values, StableHLO and HLO, computes what the program says."""
    from compiler.export.hlo import to_hlo
    from compiler.lowering.module import lower

    stablehlo = validator.lowered(module, lower)
    validator.exported(module, stablehlo, to_hlo(stablehlo))


def _changed(module: ModuleOp, arguments: Sequence[torch.Tensor], transform: Transform) -> Difference | None:
    after = module.clone()
    transform(after)
    return compare(module, arguments, observe(after, arguments)).found


def _unsettled(module: ModuleOp, arguments: Sequence[torch.Tensor], stage: Stage) -> Difference | None:
    settled = settle(module, arguments, stage)
    return settled.found if settled is not None else None


def _report(name: str, failing: Failing, smallest: Failing) -> ValidationError:
    """The error for a failing pass: the difference as it is in the whole program, and the minimal program."""
    location, node = _culprit(smallest)
    text = "".join(f"    {line}\n" for line in to_text(smallest.module, generic=False, locations=False).splitlines())
    again = "" if smallest.difference.text == failing.difference.text else f"\n  there: {smallest.difference.text}"
    message = f"changes what the program computes: {_named(failing)}{again}"
    return ValidationError(message, pass_name=name, slice=text.rstrip(), location=location, node=node,
                           hint="this is a fault of the compiler; report it with this program:")  # fmt: skip


def _named(failing: Failing) -> str:
    number = failing.difference.argument
    if number < 0:
        return failing.difference.text
    function = failing.function
    attributes = function.arg_attrs.data if function.arg_attrs is not None else ()
    name = getattr(attributes[number].data.get("fx.name"), "data", "") if number < len(attributes) else ""
    bindings = function.attributes.get("alias.bindings")
    if not name and bindings is not None:
        name = bindings.data[number].name  # type: ignore[attr-defined]
    return (
        failing.difference.text.replace(f"argument {number}", f"argument {name!r}", 1)
        if name
        else failing.difference.text
    )


def _culprit(failing: Failing) -> tuple[str, str]:
    """Source and node of the last operation of a program that computes or writes, else of the last one."""
    located = [(op, source_of(op)) for op in failing.function.body.block.ops]
    located = [(op, source) for op, source in located if source[0]]
    working = [source for op, source in located if _works(op)]
    return working[-1] if working else located[-1][1] if located else ("", "")


def _works(op: Operation) -> bool:
    return not isinstance(op, HandleCall) or bool(op.effects.data)


__all__ = ["Validator", "check_emitted"]
