"""The handed FX cases through the Neuron passes, judged by running the original and the rewritten graph."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from fx_graphs import BY_ID, FX_CASES

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

from fx_cases import in_scope, judge


@pytest.mark.parametrize("case", [case for case in FX_CASES if in_scope(case)], ids=lambda case: case.id)
def test_case(case) -> None:
    verdict = judge(case)
    assert not verdict.errors
    assert verdict.kind == ("refused" if case.error == "must" else verdict.kind)


def test_cases_that_may_be_refused_and_need_not_be_are_served() -> None:
    assert judge(BY_ID["of_module_writer"]).kind == "right"
