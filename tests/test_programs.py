"""Every handed program answers like eager PyTorch: directly, after a `.pt2` round trip, and by the second executor."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable

import oracle
import programs
import pytest
import replay_artifact
import torch

import compiler

RELATIVE, ABSOLUTE = 1e-5, 1e-6
"""f32 arithmetic may round differently; moves, integers and everything else are compared bitwise by the oracle."""

UNSUPPORTED: dict[str, str] = {}
"""Programs that HLO cannot express, with a piece of the message that says why."""


def differences(case: programs.Case, program: Callable[..., object]) -> list[str]:
    exact = oracle.compare(case, program)
    if not exact:
        return []
    found = oracle.compare(case, program, rtol=RELATIVE, atol=ABSOLUTE)
    # The oracle compares strides as eager reports them; those of dimensions of size one mean nothing.
    return [d for d in found if not (d.endswith("stride (layout only)") and _unit_strides_only(case, program, d))]


def _unit_strides_only(case: programs.Case, program: Callable[..., object], difference: str) -> bool:
    number = int(difference.split()[0].removeprefix("out"))
    mine, theirs = (oracle.run(oracle._Proxy(case, f))["outputs"][number] for f in (program, case.fn))
    return all(a == b for a, b, n in zip(mine["stride"], theirs["stride"], mine["shape"], strict=True) if n > 1)


def compiled(case: programs.Case) -> Callable[..., object]:
    with torch.no_grad():
        return compiler.compile(case.fn, tuple(case.make_inputs()))


@pytest.mark.parametrize("case", programs.CASES, ids=lambda c: c.id)
def test_direct(case: programs.Case) -> None:
    if case.id in UNSUPPORTED:
        with pytest.raises(compiler.UnsupportedError, match=UNSUPPORTED[case.id]):
            compiled(case)
        return
    assert differences(case, compiled(case)) == []


@pytest.mark.parametrize("case", programs.CASES, ids=lambda c: c.id)
def test_second_call(case: programs.Case) -> None:
    """Nothing is left over from the first call, and must-aliased contiguous aligned arguments keep their memory."""
    if case.id in UNSUPPORTED:
        pytest.skip("not expressible in HLO: " + UNSUPPORTED[case.id])
    executable = compiled(case)
    with torch.no_grad():
        executable(*case.make_inputs())
    assert differences(case, executable) == []


class _Wrapper(torch.nn.Module):
    def __init__(self, fn: Callable[..., object]):
        super().__init__()
        self.fn = fn

    def forward(self, *args: torch.Tensor) -> object:
        return self.fn(*args)


def exported(case: programs.Case) -> torch.export.ExportedProgram:
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.export(_Wrapper(case.fn), tuple(case.make_inputs()), strict=False)


@pytest.mark.parametrize("case", programs.CASES, ids=lambda c: c.id)
def test_pt2_round_trip(case: programs.Case, tmp_path) -> None:
    if case.id in UNSUPPORTED:
        pytest.skip("not expressible in HLO: " + UNSUPPORTED[case.id])
    try:
        program = exported(case)
        torch.export.save(program, tmp_path / "program.pt2")
    except Exception as error:  # what torch.export itself refuses is not ours to judge
        pytest.skip(f"torch.export refuses it: {type(error).__name__}")
    executable = compiler.compile(tmp_path / "program.pt2", tuple(case.make_inputs()))
    assert differences(case, executable) == []


@pytest.mark.parametrize("case", programs.CASES, ids=lambda c: c.id)
def test_replayed_artifact(case: programs.Case, tmp_path) -> None:
    """A second executor that sees only the artifact directory and jaxlib gives the same answers."""
    if case.id in UNSUPPORTED:
        pytest.skip("not expressible in HLO: " + UNSUPPORTED[case.id])
    compiled(case).save(tmp_path / "artifact")
    replay = replay_artifact.Replay(tmp_path / "artifact")
    assert differences(case, replay) == []
    loaded = compiler.load(tmp_path / "artifact")
    assert differences(case, loaded) == []


def test_judge_sees_a_lost_write() -> None:
    """The comparison itself can fail: a program that forgets one write is caught."""
    case = copy.copy(programs.BY_ID["kv_mut_and_return"])
    assert differences(case, lambda x: x) != []
