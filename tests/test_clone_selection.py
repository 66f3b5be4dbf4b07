"""The choice of copies to keep: it satisfies what it was told, in any order, is lightest where it is searched, and is told little."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable

import pytest
from clone_scaling import DENSE
from xdsl.dialects.func import FuncOp

from compiler.analysis import selection
from compiler.analysis.clone_plan import plan_clones
from compiler.analysis.selection import Clause, Selection, satisfied

COPIES = 8


def _clauses(draw: random.Random) -> list[Clause]:
    """Clauses that some choice satisfies, as all copies kept does: a copy is not in both parts of one."""
    found: list[Clause] = []
    for _ in range(draw.randint(1, 14)):
        members = draw.sample(range(COPIES), draw.randint(1, 4))
        ways = draw.randint(1, len(members)) if draw.random() < 0.4 else len(members)
        found.append(Clause(frozenset(members[:ways]), frozenset(members[ways:])))
    return found


def _lightest(weights: list[int], clauses: list[Clause]) -> int:
    choices = itertools.chain.from_iterable(itertools.combinations(range(COPIES), n) for n in range(COPIES + 1))
    return min(sum(weights[i] for i in c) for c in choices if all(satisfied(clause, set(c)) for clause in clauses))


@pytest.mark.parametrize("exact", (64, 2, 0))
def test_a_choice_satisfies_all_clauses_however_they_come(exact: int, monkeypatch: pytest.MonkeyPatch):
    """Problems of up to `exact` copies are searched; with 64 the choice is a lightest one after each step."""
    monkeypatch.setattr(selection, "EXACT_COPIES", exact)
    for seed in range(400):
        draw = random.Random(seed)
        weights, clauses = [draw.randint(1, 9) for _ in range(COPIES)], _clauses(draw)
        chosen, told = Selection(weights), list[Clause]()
        while len(told) < len(clauses):
            some = clauses[len(told) : len(told) + draw.randint(1, 4)]
            told += some
            chosen.add(some)
            assert all(satisfied(clause, chosen.kept) for clause in told), seed
            if exact == 64:
                assert sum(weights[i] for i in chosen.kept) == _lightest(weights, told), seed
        before = chosen.kept
        chosen.trim()
        assert chosen.kept <= before and all(satisfied(clause, chosen.kept) for clause in told), seed


def test_of_copies_that_conflict_pairwise_the_heaviest_goes():
    pairs = [Clause(frozenset(pair)) for pair in itertools.combinations(range(60), 2)]
    chosen = Selection([100 + i % 7 for i in range(60)])
    chosen.add(pairs)
    assert len(chosen.kept) == 59 and 100 + min(set(range(60)) - chosen.kept) % 7 == 106


@pytest.mark.parametrize("name", sorted(DENSE))
def test_clauses_grow_with_the_program(name: str, monkeypatch: pytest.MonkeyPatch):
    """Copies that all conflict with each other have a clause for each two: not all are found, and in few rounds."""

    def work(operations: int) -> tuple[int, int]:
        told: list[int] = []
        add = Selection.add

        def counted(self: Selection, clauses: Iterable[Clause]) -> None:
            some = list(clauses)
            told.append(sum(len(clause.keep) for clause in some))
            add(self, some)

        with monkeypatch.context() as patch:
            patch.setattr(Selection, "add", counted)
            (function,) = DENSE[name](operations).ops
            assert isinstance(function, FuncOp)
            plan_clones(function)
        return len(told), sum(told)

    (_, small), (rounds, large) = work(400), work(1600)
    assert rounds <= 16
    assert large <= 8 * max(small, 100)
