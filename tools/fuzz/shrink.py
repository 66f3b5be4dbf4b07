"""Makes a failing program smaller while it fails in the same way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tools.fuzz.generate import REFUSALS, Options, validate
from tools.fuzz.judge import Unfit
from tools.fuzz.program import Argument, Program, Step, Storage
from tools.fuzz.runner import run
from tools.fuzz.verdict import Verdict

ROUNDS = 40


def shrink(program: Program, verdict: Verdict, mode: str, options: Options) -> tuple[Program, Verdict]:
    """The smallest program found that fails with the same kind of verdict, and for the same reason when it is refused."""
    for _ in range(ROUNDS):
        candidates = [c for c in dict.fromkeys(smaller(program)) if fit(c)]
        found = _first(candidates, verdict, mode, options)
        if found is None:
            return program, verdict
        program, verdict = found
    return program, verdict


def _first(
    candidates: Sequence[Program], verdict: Verdict, mode: str, options: Options
) -> tuple[Program, Verdict] | None:
    judged = run(candidates, mode, options)
    try:
        for each in judged:
            if each.verdict.kind == verdict.kind and (verdict.kind == "wrong" or each.verdict.reason == verdict.reason):
                assert isinstance(each.item, Program)
                return each.item, each.verdict
        return None
    finally:
        judged.close()  # type: ignore[attr-defined]


def fit(program: Program) -> bool:
    """Whether a program is still a test."""
    try:
        return validate(program) == program.order_dependent
    except (Unfit, KeyError, *REFUSALS):
        return False


def smaller(program: Program) -> Iterator[Program]:
    """Candidates, the most radical first."""
    steps, outputs = program.steps, program.outputs
    if outputs:
        yield replace(program, outputs=())
    if program.packed or program.wrapped:
        yield replace(program, packed=0)
        yield replace(program, wrapped=0)
    for size in (len(steps) // 2, len(steps) // 4, 1):
        for start in range(0, len(steps), size) if size else ():
            yield from _without(program, range(start, min(start + size, len(steps))))
    for k in range(len(outputs)):
        yield replace(program, outputs=outputs[:k] + outputs[k + 1 :])
    for k in range(len(program.arguments)):
        yield from _without_argument(program, k)
    for k, argument in enumerate(program.arguments):
        yield from (_with_argument(program, k, a) for a in _simpler(argument))
    for k, storage in enumerate(program.storages):
        if storage.fill != "small":
            storages = list(program.storages)
            storages[k] = Storage(storage.dtype, storage.count, "small", storage.seed)
            yield replace(program, storages=tuple(storages))


def _without(program: Program, gone: range) -> Iterator[Program]:
    """Without some steps: with what needs them, or with another name in place of what they made."""
    lost: dict[str, str | None] = {}
    kept: list[Step] = []
    for number, step in enumerate(program.steps):
        if number in gone or any(name in lost for name in step.operands):
            lost.update(dict.fromkeys(name for name in step.results if name not in program.parameters))
        else:
            kept.append(step)
    yield replace(program, steps=tuple(kept), outputs=tuple(o for o in program.outputs if o not in lost))
    removed = program.steps[gone[0]]
    if len(gone) == 1 and removed.operands and removed.results and removed.results[0] not in program.parameters:
        rename = dict.fromkeys(removed.results, removed.operands[0])
        yield _renamed(program, program.steps[: gone[0]] + program.steps[gone[0] + 1 :], rename)


def _renamed(program: Program, steps: Sequence[Step], names: dict[str, str]) -> Program:
    return replace(
        program,
        steps=tuple(replace(s, operands=tuple(names.get(o, o) for o in s.operands)) for s in steps),
        outputs=tuple(names.get(o, o) for o in program.outputs),
    )


def _without_argument(program: Program, number: int) -> Iterator[Program]:
    name = f"a{number}"
    if any(name in step.operands for step in program.steps) or name in program.outputs:
        return
    if any(a.same_as == number for a in program.arguments):
        return
    kept = [a for k, a in enumerate(program.arguments) if k != number]
    kept = [replace(a, same_as=a.same_as - (a.same_as > number)) for a in kept]
    names = {f"a{k}": f"a{k - 1}" for k in range(number + 1, len(program.arguments))}
    used = sorted({a.storage for a in kept})
    arguments = tuple(replace(a, storage=used.index(a.storage)) for a in kept)
    storages = tuple(program.storages[k] for k in used)
    yield _renamed(replace(program, arguments=arguments, storages=storages), program.steps, names)


def _with_argument(program: Program, number: int, argument: Argument) -> Program:
    arguments = list(program.arguments)
    arguments[number] = argument
    arguments = [
        replace(argument, same_as=number, held=a.held, module=a.module) if a.same_as == number else a for a in arguments
    ]
    return replace(program, arguments=tuple(arguments))


def _simpler(argument: Argument) -> Iterator[Argument]:
    if argument.module:
        yield replace(argument, module="")
    if argument.held:
        yield replace(argument, held="", module="")
    if argument.held not in ("", "buffer"):
        yield replace(argument, held="buffer")
    if argument.same_as >= 0:
        return
    if argument.lazy:
        yield replace(argument, lazy="")
    if argument.offset:
        yield replace(argument, offset=0)
    for k, size in enumerate(argument.sizes):
        rest = argument.sizes[:k] + argument.sizes[k + 1 :], argument.strides[:k] + argument.strides[k + 1 :]
        yield replace(argument, sizes=rest[0], strides=rest[1])
        if size > 2:
            yield replace(argument, sizes=(*argument.sizes[:k], size - 1, *argument.sizes[k + 1 :]))
    strides, step = [], 1
    for size in reversed(argument.sizes):
        strides.insert(0, step)
        step *= max(size, 1)
    if tuple(strides) != argument.strides:
        yield replace(argument, strides=tuple(strides))
