"""No answer is anybody's once it is given: the factors that a compiled program finds are checked to be right, and the
program before the stage runs with these, so that all that depends on them is determined.

Factors inside branches and loops, and those of programs over handles, are not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from compiler.reference import Tensors, compute, entry
from compiler.validation.answers import FACTORIZATIONS, Answers, Factored
from compiler.validation.observe import Difference, Observation, Sharing, difference, observe
from compiler.validation.rightness import wrong
from dialects.calls import ValueCall

Run = Callable[[FuncOp, Tensors], Tensors]
Stage = Callable[[ModuleOp], "tuple[ModuleOp, Run | None]"]
"""What a stage makes of a program, and how that runs (None: PyTorch runs it)."""


class Settled(NamedTuple):
    """The first difference that a stage makes, given its own factors."""

    found: Difference | None


def settle(program: ModuleOp, arguments: Sequence[torch.Tensor], stage: Stage) -> Settled | None:
    """What a stage does to the program with the stage's own factors; None where they cannot be had."""
    calls = [op for op in entry(program).body.block.ops if isinstance(op, ValueCall)]
    calls = [op for op in calls if _name(op) in FACTORIZATIONS]
    if not calls:
        return None
    shown, own = _showing(program), len(entry(program).function_type.outputs.data)
    try:
        after, found = _observe(*stage(shown), arguments, own, Answers())
    except Exception:  # a stage that takes no outputs without a plan
        return None
    factors = list[Factored]()
    for op in calls:
        operands, results = found[: len(op.args)], found[len(op.args) :][: len(op.outs)]
        found = found[len(op.args) + len(op.outs) :]
        if said := wrong(_name(op), operands, results, op):
            return Settled(Difference(f"{op.target.data} {said}"))
        factors.append(Factored(op.target.data, tuple(operands), tuple(results)))
    runs = list[Observation]()
    for noise in (None, 0, 1, 2):
        answers = Answers(noise=None if noise is None else torch.Generator().manual_seed(noise), chosen=factors)
        try:
            runs.append(_observe(shown, None, arguments, own, answers)[0])
        except Exception:
            if noise is None:
                return None
        if len(answers.given) != len(calls):  # some are in branches or loops
            return None
    found = difference(runs[0], after, rounded=runs[1:])
    if found is not None and found.output >= own:
        found = Difference(found.text.replace(f"output {found.output}", "what a factorization is given", 1))
    return Settled(found)


def _name(op: ValueCall) -> str:
    return op.target.data.split(".")[1] if op.target.data.startswith("aten.") else ""


def _showing(program: ModuleOp) -> ModuleOp:
    """The program that also returns what its factorizations are given and what they give."""
    shown = program.clone()
    function = entry(shown)
    extra: list[SSAValue] = []
    for op in function.body.block.ops:
        if isinstance(op, ValueCall) and _name(op) in FACTORIZATIONS:
            extra += [*op.args, *op.outs]
    last = function.body.block.last_op
    assert last is not None
    last.operands = [*last.operands, *extra]
    kind = function.function_type
    function.properties["function_type"] = FunctionType.from_lists(
        [*kind.inputs.data], [*kind.outputs.data, *(value.type for value in extra)]
    )
    if function.res_attrs is not None:
        del function.properties["res_attrs"]
    return shown


def _observe(
    program: ModuleOp, run: Run | None, arguments: Sequence[torch.Tensor], own: int, answers: Answers
) -> tuple[Observation, Tensors]:
    """What a program does that returns more than its `own` results, and what it returns more."""
    extra = Tensors()

    def cut(function: FuncOp, parameters: Tensors) -> Tensors:
        with answers:
            results = (run or compute)(function, parameters)
        extra.extend(x.contiguous() for x in results[own:])
        return results[:own]

    seen = observe(program, arguments, run=cut)
    sharing = seen.sharing and (*seen.sharing, *(Sharing("fresh") for _ in extra))
    return replace(seen, outputs=(*seen.outputs, *extra), sharing=sharing), extra


__all__ = ["Run", "Settled", "Stage", "settle"]
