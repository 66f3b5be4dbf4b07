"""A fixed, stratified part of PyTorch's own operator samples against eager; `python -m tools.opinfo run` runs them all."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tools.opinfo import judge, results
from tools.opinfo.__main__ import main
from tools.opinfo.check import Verdict, reason
from tools.opinfo.core_samples import CORE
from tools.opinfo.distributions import compare_draws
from tools.opinfo.runner import Unit, units
from tools.opinfo.samples import entries, samples

ROOT = Path(__file__).parents[1]
PART = 23
"""Every so many-th unit of the whole list, which goes through entries, variants and types in turn."""


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[Unit, list[Verdict]]:
    """In a process of its own: a process that has an XLA client, as this one may, cannot be forked."""
    journal = tmp_path_factory.mktemp("opinfo") / "journal.jsonl"
    command = ["run", "--part", str(PART), "--limit", "2", "--children", "1", "--journal", str(journal)]
    done = subprocess.run(
        [sys.executable, "-m", "tools.opinfo", *command], cwd=ROOT, capture_output=True, text=True, timeout=900
    )
    found = dict(results.read_journal(journal))
    bad = any(v.kind in ("wrong", "layout", "crashed") for verdicts in found.values() for v in verdicts)
    assert done.returncode == int(bad), done.stderr
    assert set(found) == set(units([*entries(), *CORE])[::PART])
    return found


@pytest.mark.slow
def test_nothing_is_wrong(verdicts: dict[Unit, list[Verdict]]) -> None:
    wrong = [(unit, v) for unit, found in verdicts.items() for v in found if v.kind in ("wrong", "crashed")]
    assert wrong == []


@pytest.mark.slow
def test_what_passed_still_passes(verdicts: dict[Unit, list[Verdict]]) -> None:
    """An entry that passes fully in docs/opinfo.json refuses nothing."""
    recorded = results.read()["entries"]
    lost = []
    for unit, found in verdicts.items():
        cell = recorded[unit.variant].get(unit.entry, {}).get(unit.dtype, {})
        if set(cell) == {"passed"} and any(v.kind == "refused" for v in found):
            lost.append((unit, found))
    assert lost == []


@pytest.mark.slow
def test_strides_of_results_where_operands_are_not_contiguous(capsys: pytest.CaptureFixture[str]) -> None:
    """A part of `make layouts`."""
    assert main(["layouts", "--part", "29", "--limit", "2"]) == 0, capsys.readouterr().out
    assert re.search(r"\b[1-9]\d* agreed, 0 differ", capsys.readouterr().out)


def test_no_entry_is_recorded_as_wrong() -> None:
    for variant, found in results.read()["entries"].items():
        states = {name: results.state(cells)[0] for name, cells in found.items()}
        assert [name for name, kind in states.items() if kind in ("wrong", "crashed")] == [], variant


def test_samples_are_reproducible_and_of_many_kinds() -> None:
    entry = entries()["sum"]
    first, second = samples(entry, torch.float32), samples(entry, torch.float32)
    assert [str(s) for s in first] == [str(s) for s in second]
    assert len({s.tensors[0].dim() for s in first}) > 1
    assert all(torch.equal(a.tensors[0], b.tensors[0]) for a, b in zip(first, second, strict=True))


def test_judge_sees_a_wrong_value_a_lost_write_and_lost_sharing() -> None:
    x = torch.arange(6.0)
    right = judge.Seen.of(x[1:], [x])
    call = judge.Call("some", (), {}, lambda: None)

    def kind(result: torch.Tensor, argument: torch.Tensor) -> str:
        return judge.compare(call, right, judge.Seen.of(result, [argument]), [torch.arange(6.0)])[0]

    other = torch.arange(6.0)
    assert kind(other[1:], other) == "passed"
    assert kind(other[1:].clone(), other) == "wrong"  # no sharing
    assert kind(other[:5], other) == "wrong"  # other values
    changed = torch.arange(6.0)
    changed[0] = 7
    assert kind(changed[1:], changed) == "wrong"  # a write that eager does not make


def test_positions_of_equal_elements_may_differ_only_where_order_is_not_promised() -> None:
    x = torch.tensor([2.0, 1.0, 1.0])
    mine, theirs = (judge.Seen.of(torch.tensor(p), [x]) for p in ([1, 2, 0], [2, 1, 0]))

    def kind(**kwargs: bool) -> str:
        return judge.compare(judge.Call("argsort", (x,), kwargs, lambda: None), mine, theirs, [x])[0]

    assert kind() == "passed"
    assert kind(stable=True) == "wrong"


@pytest.mark.parametrize(("scale", "shift", "kind"), [(1.0, 0.0, "passed"), (1.3, 0.0, "wrong"), (1.0, 0.5, "wrong")])
def test_judge_of_draws_sees_another_distribution(scale: float, shift: float, kind: str) -> None:
    def draws(scale: float, shift: float) -> Callable[[int], judge.Seen]:
        stream = torch.Generator()

        def draw(seed: int) -> judge.Seen:
            if seed >= 0:
                stream.manual_seed(seed)
            return judge.Seen.of(torch.randn(32, generator=stream) * scale + shift, [])

        return draw

    call = judge.Call("randn", (), {}, lambda: None)
    compiled = draws(scale, shift)
    assert compare_draws(call, draws(1.0, 0.0), lambda seed: compiled(seed + 100 if seed >= 0 else seed), [])[0] == kind


DYING = """
import os
from tools.opinfo import runner
from tools.opinfo.check import check

def dies(entry, name, dtype, which, limit):
    if name == "neg":
        os._exit(3)
    return check(entry, name, dtype, which, limit)

runner.check = dies
work = [runner.Unit(name, "function", "float32") for name in ("abs", "neg", "sin")]
for unit, verdicts, _ in runner.run(work, children=1, limit=1):
    print(unit.entry, *{v.kind for v in verdicts})
"""


def test_a_dying_child_is_one_verdict() -> None:
    done = subprocess.run([sys.executable, "-c", DYING], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines() == ["abs passed", "neg crashed", "sin passed"], done.stderr


def test_reasons_name_the_operators() -> None:
    from compiler.errors import UnsupportedError

    error = UnsupportedError(
        "2 operation(s) cannot be lowered to StableHLO:\n  aten.eig.default (node, f.py:3)\n  aten.x.y"
    )
    assert reason(error) == "no lowering: aten.eig.default; aten.x.y"


def test_results_round_trip(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = Unit("abs", "function", "float32")
    made = results.summarise([(unit, [Verdict("passed", overloads=("aten.abs.default",)), Verdict("refused", "why")])])
    monkeypatch.setattr(results, "FILE", tmp_path / "opinfo.json")
    results.write(made)
    assert results.read() == json.loads(json.dumps(made))
    assert results.state(made["entries"]["function"]["abs"]) == ("refused", "why")
