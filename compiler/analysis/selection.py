"""Which copies to keep: the lightest choice that satisfies every clause.

A clause says: keep at least one of these copies, or remove at least one of those. Independent clauses are solved
apart. A problem of at most `EXACT_COPIES` copies is solved exactly by branch and bound, unless that takes more than
`SEARCH_WORK` looks at a clause. Beyond these bounds the answer is the best one found, no heavier than a greedy cover,
which is within a factor 1 + ln(clauses) of the lightest where no clause has a way out by removing.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import NamedTuple

EXACT_COPIES = 64
SEARCH_WORK = 200_000


class Clause(NamedTuple):
    """Keep one of `keep`, or remove one of `remove`."""

    keep: frozenset[int]
    remove: frozenset[int] = frozenset()


Solved = dict[frozenset[Clause], set[int]]
"""Answers to independent problems, for the next call with the same weights."""


def choose(weights: Sequence[int], clauses: Iterable[Clause], solved: Solved) -> frozenset[int]:
    """The copies to keep, by number: least total weight under all clauses."""
    kept: set[int] = set()
    for component in _components(_minimal(set(clauses))):
        problem = frozenset(component)
        if problem not in solved:
            solved[problem] = _solve(weights, component)
        kept |= solved[problem]
    return frozenset(kept)


def satisfied(clause: Clause, kept: frozenset[int] | set[int]) -> bool:
    return not clause.keep.isdisjoint(kept) or not clause.remove <= kept


def _minimal(clauses: set[Clause]) -> list[Clause]:
    """Without the clauses that a clause of one copy already implies."""
    forced = {next(iter(c.keep)) for c in clauses if len(c.keep) == 1 and not c.remove}
    return [c for c in clauses if (len(c.keep) == 1 and not c.remove) or c.keep.isdisjoint(forced)]


def _components(clauses: Sequence[Clause]) -> list[list[Clause]]:
    """Clauses that share copies, directly or through others, together."""
    parent: dict[int, int] = {}

    def find(x: int) -> int:
        while parent.setdefault(x, x) != x:
            parent[x] = parent[parent[x]]
            x = parent[x]
        return x

    for clause in clauses:
        members = [*clause.keep, *clause.remove]
        for member in members[1:]:
            parent[find(member)] = find(members[0])
    groups: dict[int, list[Clause]] = {}
    for clause in sorted(clauses, key=lambda c: (sorted(c.keep), sorted(c.remove))):
        groups.setdefault(find(next(iter(clause.keep))), []).append(clause)
    return list(groups.values())


def _solve(weights: Sequence[int], clauses: Sequence[Clause]) -> set[int]:
    best = _greedy(weights, clauses)
    if len(frozenset().union(*(c.keep | c.remove for c in clauses))) > EXACT_COPIES:
        return best
    search = _Search(weights, clauses, best)
    search.run()
    return search.best


def _greedy(weights: Sequence[int], clauses: Sequence[Clause]) -> set[int]:
    """Cover all clauses by keeping, the cheapest per clause first; then drop what is not needed."""
    members: dict[int, list[int]] = {}
    for number, clause in enumerate(clauses):
        for copy in clause.keep:
            members.setdefault(copy, []).append(number)
    missing = {copy: len(numbers) for copy, numbers in members.items()}
    open_clauses, kept = set(range(len(clauses))), list[int]()
    heap = [(weights[copy] / count, copy) for copy, count in missing.items()]
    heapq.heapify(heap)
    while open_clauses:
        cost, copy = heapq.heappop(heap)
        if missing[copy] == 0:
            continue
        if weights[copy] / missing[copy] > cost:
            heapq.heappush(heap, (weights[copy] / missing[copy], copy))
            continue
        kept.append(copy)
        for number in members[copy]:
            if number in open_clauses:
                open_clauses.remove(number)
                for other in clauses[number].keep:
                    missing[other] -= 1
    chosen = set(kept)
    by_copy: dict[int, list[Clause]] = {}
    for clause in clauses:
        for copy in clause.keep | clause.remove:
            by_copy.setdefault(copy, []).append(clause)
    for copy in reversed(kept):
        chosen.remove(copy)
        if not all(satisfied(clause, chosen) for clause in by_copy[copy]):
            chosen.add(copy)
    return chosen


class _Search:
    """Branch and bound: take an open clause, and keep its copies in turn, those before it removed for good."""

    def __init__(self, weights: Sequence[int], clauses: Sequence[Clause], best: set[int]) -> None:
        self.weights, self.best = weights, best
        self.clauses = sorted(clauses, key=lambda c: len(c.keep))
        self.limit = sum(weights[i] for i in best)
        self.looks = 0
        # Keeping a copy can break a clause with `remove` that held: then all clauses are looked at again.
        self.conditional = any(clause.remove for clause in clauses)

    def run(self) -> None:
        if len(self.clauses) > 1 or len(self.clauses[0].keep) > 1:
            self._branch(0, set(), set(), 0)

    def _bound(self, kept: set[int], removed: set[int]) -> int:
        """What any completion must still pay: disjoint open clauses, the cheapest copy of each."""
        used: set[int] = set()
        total = 0
        for clause in self.clauses:
            if clause.remove or not clause.keep.isdisjoint(kept) or not clause.keep.isdisjoint(used):
                continue
            free = clause.keep - removed
            total += min((self.weights[i] for i in free), default=0)
            used |= clause.keep
        return total

    def _branch(self, start: int, kept: set[int], removed: set[int], cost: int) -> None:
        self.looks += len(self.clauses)
        if self.looks > SEARCH_WORK or cost >= self.limit:
            return
        for position in range(start, len(self.clauses)):
            clause = self.clauses[position]
            if satisfied(clause, kept):
                continue
            if cost + self._bound(kept, removed) >= self.limit:
                return
            closed: list[int] = []
            for copy in sorted(clause.keep - removed, key=lambda i: (self.weights[i], i)):
                start = 0 if self.conditional else position
                self._branch(start, kept | {copy}, removed, cost + self.weights[copy])
                removed.add(copy)
                closed.append(copy)
            removed.difference_update(closed)
            return
        self.best, self.limit = set(kept), cost
