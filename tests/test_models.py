"""Models from transformers agree with eager PyTorch over a generation, and their caches are updated in place.

The tolerance is each family's own (`benchmarks/models.py` says why); every piece of state that is written is
must-aliased, nothing is copied back, and XLA makes no copy of a cache.
"""

from __future__ import annotations

import models
import pytest
import torch


@pytest.mark.parametrize("name", models.FAMILIES)
def test_generation(name: str) -> None:
    family = models.FAMILIES[name]
    torch.set_num_threads(1)
    with models.quiet():
        outcome = models.compare(family)
    assert outcome.difference <= family.tolerance
    assert outcome.copied == 0
    assert set(outcome.copies.values()) <= {0}
    assert outcome.aliased == {program: written for program, (_, written) in outcome.states.items()}
    assert any(outcome.aliased.values()) == (name not in ("bert", "vit"))


def test_the_comparison_sees_a_wrong_cache() -> None:
    """What the tests above lean on: a difference in state counts, not only one in outputs."""
    right, wrong = torch.zeros(2, 3), torch.zeros(2, 3)
    right[0, 0] = wrong[0, 0] = 1.0
    wrong[1, 2] = 0.5
    assert models.difference(right, right.clone()) == 0
    assert models.difference(wrong, right) == 0.5
    assert models.difference(wrong.half(), right) == float("inf")
    assert models.difference(torch.tensor([float("nan")]), torch.tensor([1.0])) == float("inf")
