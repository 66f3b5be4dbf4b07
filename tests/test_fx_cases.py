"""The handed FX cases through the Neuron passes, judged by running the original and the rewritten graph."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from fx_graphs import BY_ID, FX_CASES
from fx_oracle import FxCase
from programs import ar

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

from fx_cases import in_scope, judge

from tools.clones.generate import Maker


@pytest.mark.parametrize("case", [case for case in FX_CASES if in_scope(case)], ids=lambda case: case.id)
def test_case(case) -> None:
    verdict = judge(case)
    assert not verdict.errors
    assert verdict.kind == ("refused" if case.error == "must" else verdict.kind)


def test_cases_that_may_be_refused_and_need_not_be_are_served() -> None:
    assert judge(BY_ID["of_module_writer"]).kind == "right"


@pytest.mark.parametrize("seed", range(40))
def test_random_graph(seed: int) -> None:
    """Views, copies, in-place operators and custom ones in any order: served right, or refused with the node."""
    graph = Maker(seed, operations=8, clones=2)
    shapes = graph.shapes
    case = FxCase(f"random {seed}", "random", lambda: Maker(seed, operations=8, clones=2).hand,
                  lambda: [ar(*shape, lo=i + 1) for i, shape in enumerate(shapes)], "", "", style="hand",
                  mutated=tuple(range(len(shapes))), error="may")  # fmt: skip
    try:
        case.build()(*case.inputs())
    except RuntimeError as error:
        assert "single memory location" in str(error)  # eager refuses it too
        return
    assert judge(case).errors == []
