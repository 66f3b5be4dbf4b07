"""Random programs and malformed inputs. Long runs: `make fuzz`, `make fuzz-malformed`."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from compiler.transforms.memory_state import MemoryState
from tools.fuzz import check, judge
from tools.fuzz.generate import Options, draft_with, generate, validate
from tools.fuzz.instance import Instance
from tools.fuzz.modes import CALLS, MODES
from tools.fuzz.observe import Seen, flushed, observe
from tools.fuzz.program import Argument, Program, Step, Storage
from tools.fuzz.shrink import fit, smaller

ROOT = Path(__file__).parents[1]
CORPUS = sorted((ROOT / "tests" / "corpus").glob("*.json"))

options = st.builds(Options, steps=st.integers(1, 12), order_dependent=st.just(0.0))
# Hypothesis makes the generator's own choices, and so makes a failing program smaller by itself.
programs = st.builds(lambda rng, contents: draft_with(rng, contents).program, st.randoms(), options)
quick = settings(
    max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)


def command(*arguments: object) -> str:
    """Runs in a process of its own: one that has an XLA client, as this one may, cannot be forked."""
    done = subprocess.run(
        [sys.executable, "-m", *map(str, arguments)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("mode", MODES)
def test_corpus(mode: str) -> None:
    command("tools.fuzz", "--mode", mode, "--children", 1, "--replay", *CORPUS)


COUNTS = {"compile": 220, "values": 100, "handles": 40, "roundtrip": 40, "fx": 50, "clones": 30, "validate": 20}


@pytest.mark.parametrize(("mode", "count"), COUNTS.items())
def test_fresh_programs(mode: str, count: int) -> None:
    last = command("tools.fuzz", count, "--mode", mode, "--seed", 1_000_000, "--children", 1).splitlines()[-1]
    figures = {kind: int(number) for number, kind in re.findall(r"(\d+) (\w+)", last.split(": ", 2)[2])}
    assert figures["refused"] <= count // 100, last
    assert figures.get("missed", 0) <= count // 10, last


def test_malformed_inputs() -> None:
    command("tools.fuzz.malformed", 60)


@quick
@given(programs)
def test_values(program: Program) -> None:
    verdict = check.check(program, MODES["values"])
    assert verdict.kind in ("agreed", "refused"), verdict.detail + program.script()


@quick
@given(programs)
def test_a_program_is_data(program: Program) -> None:
    assert Program.from_json(program.to_json()) == program


@quick
@given(st.integers(0, 2**31 - 1), options)
def test_a_seed_is_one_program(seed: int, contents: Options) -> None:
    assert generate(seed, contents) == generate(seed, contents)


@quick
@given(programs)
def test_eager_agrees_with_itself(program: Program) -> None:
    """Deterministic, on memory aligned or not, and as the generator has validated it."""
    assert not validate(program)
    one, other = Instance.of(program), Instance.of(program)
    for number, (world, _) in enumerate(CALLS):
        for instance in (one, other) if number else ():
            instance.renew(world, misaligned=instance is other)
        assert observe(one.step, one.arguments()).differences(observe(other.step, other.arguments())) == []


class InFloat64(TorchDispatchMode):
    """Asserts that every call gives what the same call on float64 gives."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        view = any(a.alias_info is not None and not a.alias_info.is_write for a in func._schema.arguments)
        floats = (torch.float32, torch.float16, torch.bfloat16)
        name = func._schema.name.split("::")[1]
        # Moves may carry any bits, NaNs too, and have nothing to round.
        if (
            view
            or name in judge.MOVES
            or not any(t.dtype in floats for t in tensors)
            or any(t.is_complex() for t in tensors)
        ):
            return func(*args, **kwargs)

        copies: dict[Any, torch.Tensor] = {}

        def wide(value: Any) -> Any:
            if isinstance(value, torch.Tensor):  # what is one window stays one
                key = value.data_ptr(), value.dtype, tuple(value.shape), value.stride()
                if key not in copies:
                    copies[key] = value.to(torch.float64, copy=True) if value.dtype in floats else value.clone()
                return copies[key]
            return torch.float64 if value in floats else value

        wide_args, wide_kwargs = tree_map(wide, args), tree_map(wide, kwargs)
        expected = func(*wide_args, **wide_kwargs)
        result = func(*args, **kwargs)
        for mine, theirs in zip(
            tree_leaves((result, args, kwargs)), tree_leaves((expected, wide_args, wide_kwargs)), strict=True
        ):
            if isinstance(mine, torch.Tensor):
                assert torch.equal(mine.to(theirs.dtype), theirs), str(func)
        return result


@quick
@given(programs)
def test_arithmetic_is_exact(program: Program) -> None:
    instance = Instance.of(program)
    with torch.no_grad(), InFloat64():
        instance.step()


def smallest(program: Program, wanted: Callable[[Program], bool]) -> Program:
    """What shrinking comes to for a fault that every wanted program shows."""
    assert wanted(program)
    while found := next((c for c in smaller(program) if c != program and fit(c) and wanted(c)), None):
        program = found
    return program


def test_programs_with_state_and_nesting_shrink() -> None:
    def binds(program: Program) -> bool:
        return any(name in {f"a{k}" for k in program.held} for step in program.steps for name in step.results)

    found = next(p for p in map(generate, range(1000)) if binds(p) and (p.packed or p.wrapped) and len(p.steps) > 3)
    small = smallest(found, binds)
    assert (len(small.steps), len(small.held), small.outputs, small.packed, small.wrapped) == (1, 1, (), 0, 0)


def test_programs_with_regions_shrink() -> None:
    found = next(p for p in map(generate, range(1000)) if p.has_regions and len(p.steps) > 3)
    assert len(smallest(found, lambda p: p.has_regions).steps) == 1


def program_of(*texts: str) -> Program:
    arguments = (Argument(0, "f32", (4, 2), (2, 1), 0),)
    return Program(
        (Storage("f32", 8, "small", 3),), arguments, tuple(Step((), text, ("a0",)) for text in texts), ("a0",)
    )


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("{0}.div_(3)", "value"),
        ("{0}.mul_(1000000)", "value"),
        ("{0}[1:].copy_({0}[:-1])", "order"),
        ("{0}.as_strided([2, 2], [1, 1], 0).add_({0}[:2])", "order"),
        ("{0}.index_put_((torch.tensor([0, 0]),), {0}[:2].clone())", "order"),
        ("{0}.index_copy_(0, torch.tensor([1, 1]), {0}[:2].clone())", "order"),
    ],
)
def test_unfit_programs_are_rejected(text: str, kind: str) -> None:
    with pytest.raises(judge.Unfit) as caught:
        validate(program_of(text))
    assert caught.value.kind == kind


def test_only_nans_of_16_bits_in_a_scatter_are_not_compared() -> None:
    index = torch.tensor([[0], [1]])
    for dtype, bits, fits in (
        (torch.bfloat16, -2, False), (torch.bfloat16, 3, True), (torch.float16, -2, False), (torch.float16, 3, True),
    ):  # fmt: skip
        memory = torch.full((2, 2), bits, dtype=torch.int16).view(dtype)
        with contextlib.nullcontext() if fits else pytest.raises(judge.Unfit, match="a NaN of 16 bits"), judge.Judge():
            memory.scatter_(1, index, 1.0)
        with judge.Judge():
            memory.index_copy_(0, torch.tensor([0]), memory[1:].clone())


@pytest.mark.parametrize("negate", [torch.neg, torch.Tensor.neg_, lambda t: torch._foreach_neg_([t])])
def test_the_sign_of_zero_of_a_complex_negation_is_not_compared(negate: Callable[[torch.Tensor], object]) -> None:
    for kind, fits in ((torch.float32, True), (torch.complex64, False)):
        with contextlib.nullcontext() if fits else pytest.raises(judge.Unfit, match="complex negation"), judge.Judge():
            negate(torch.tensor([1, 2], dtype=kind))


def test_a_lost_write_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that forgets every second write to a part of a memory does not survive many programs."""
    write, count = MemoryState.write, iter(range(1 << 30))

    def forgetful(self: MemoryState, key: Any, value: Any, covers: bool, emitter: Any) -> None:
        if covers or next(count) % 2:
            write(self, key, value, covers, emitter)

    monkeypatch.setattr(MemoryState, "write", forgetful)
    verdicts = [check.check(generate(seed), MODES["values"]).kind for seed in range(40)]
    assert verdicts.count("wrong") >= 2


def test_a_subnormal_number_may_become_zero_and_nothing_else() -> None:
    def seen(*bits: int) -> Seen:
        return Seen(("bfloat16", (2,), (1,)), np.array(bits, np.uint16).tobytes(), "")

    assert flushed(seen(3, 0x3F80), seen(0, 0x3F80)) and flushed(seen(0x8003, 3), seen(0x8000, 3))
    assert not flushed(seen(3, 0x3F80), seen(2, 0x3F80))  # another subnormal
    assert not flushed(seen(3, 0x3F80), seen(0, 0))  # a number that is none
    assert not flushed(seen(0, 0x3F80), seen(3, 0x3F80))  # the other way round


def test_a_resize_that_fails_leaves_the_generator_what_it_had() -> None:
    """In eager the sizes have changed, while the storage has not grown."""
    assert generate(110002460, MODES["compile"].contents(Options())).steps
