"""Which copies to keep: the lightest choice that satisfies every clause.

A clause says: keep at least one of these copies, or remove at least one of those. Independent clauses are solved
apart. A problem of at most `EXACT_COPIES` copies is solved exactly by branch and bound, unless that takes more than
`SEARCH_WORK` looks at a clause; then the answer is the best one found, no heavier than a greedy cover, which is within a
factor 1 + ln(clauses) of the lightest where no clause has a way out by removing. A larger problem is covered greedily as
its clauses become known, so that all rounds together cost little more than a look at each clause.
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


class Selection:
    """The clauses known so far, and a choice that satisfies them.

    Attributes:
        kept: the copies to keep, by number.
        searched: the copies of problems that are solved exactly.
    """

    def __init__(self, weights: Sequence[int]) -> None:
        self._weights = weights
        self.kept: frozenset[int] = frozenset()
        self.searched: frozenset[int] = frozenset()
        self._open: list[Clause] = []  # the clauses that no forced copy satisfies
        self._known: set[Clause] = set()
        self._forced: set[int] = set()
        self._solved: dict[frozenset[Clause], set[int]] = {}
        self._large: list[tuple[set[int], list[Clause]]] = []

    def add(self, clauses: Iterable[Clause]) -> None:
        """Choose again. What is kept in a problem too large to search stays, and what is still open is covered beside it."""
        fresh = [clause for clause in dict.fromkeys(clauses) if clause not in self._known]
        if not fresh:
            return
        self._known.update(fresh)
        self._open += fresh
        self._force(next(iter(c.keep)) for c in fresh if len(c.keep) == 1 and c.remove <= self._forced)
        chosen, searched = set(self._forced), set[int]()
        self._large = []
        for members, component in _components(self._open):
            if len(members) > EXACT_COPIES:
                chosen |= _cover(self._weights, component, members & self.kept)
                self._large.append((members, component))
                continue
            problem = frozenset(component)
            if problem not in self._solved:
                self._solved[problem] = _solve(self._weights, component)
            chosen |= self._solved[problem]
            searched |= members
        self.kept, self.searched = frozenset(chosen), frozenset(searched)

    def _force(self, copies: Iterable[int]) -> None:
        """These stay in any choice: so does the one way out of a clause of which they leave no other."""
        conditional: dict[int, list[Clause]] = {}
        for clause in self._open:
            for copy in clause.remove:
                conditional.setdefault(copy, []).append(clause)
        forced, pending = self._forced, list(copies)
        while pending:
            copy = pending.pop()
            if copy in forced:
                continue
            forced.add(copy)
            pending += [
                next(iter(c.keep)) for c in conditional.get(copy, ()) if len(c.keep) == 1 and c.remove <= forced
            ]
        live = (clause for clause in self._open if clause.keep.isdisjoint(forced))
        self._open = [c if c.remove.isdisjoint(forced) else Clause(c.keep, c.remove - forced) for c in live]

    def trim(self) -> None:
        """Drop what was kept in a large problem for clauses that what was kept later satisfies too."""
        for members, component in self._large:
            kept = set(members & self.kept)
            order = sorted(kept, key=lambda copy: (self._weights[copy], copy))
            self.kept = (self.kept - kept) | _without_needless(component, kept, order)


def satisfied(clause: Clause, kept: frozenset[int] | set[int]) -> bool:
    return not clause.keep.isdisjoint(kept) or not clause.remove <= kept


def _components(clauses: Sequence[Clause]) -> list[tuple[set[int], list[Clause]]]:
    """Clauses that share copies, directly or through others, together, each time with all their copies."""
    parent: dict[int, int] = {}

    def find(x: int) -> int:
        while (above := parent.setdefault(x, x)) != x:
            parent[x] = x = parent[above]
        return x

    for keep, remove in clauses:
        first = -1
        for member in (*keep, *remove):
            root = find(member)
            first = root if first < 0 else first
            parent[root] = first
    groups: dict[int, tuple[set[int], list[Clause]]] = {}
    for member in parent:
        groups.setdefault(find(member), (set(), []))[0].add(member)
    for clause in clauses:
        groups[find(next(iter(clause.keep)))][1].append(clause)
    return list(groups.values())


def _solve(weights: Sequence[int], clauses: Sequence[Clause]) -> set[int]:
    ordered = sorted(clauses, key=lambda c: (sorted(c.keep), sorted(c.remove)))
    search = _Search(weights, ordered, _cover(weights, ordered, set()))
    search.run()
    return search.best


def _cover(weights: Sequence[int], clauses: Sequence[Clause], kept: set[int]) -> set[int]:
    """Keep more until every clause has a copy that is kept, the cheapest per clause first; then drop what is not needed."""
    unmet = [clause.keep for clause in clauses if clause.keep.isdisjoint(kept)]
    members: dict[int, list[int]] = {}
    for number, keep in enumerate(unmet):
        for copy in keep:
            members.setdefault(copy, []).append(number)
    missing = {copy: len(numbers) for copy, numbers in members.items()}
    unmet_left, more = set(range(len(unmet))), list[int]()
    heap = [(weights[copy] / count, copy) for copy, count in missing.items()]
    heapq.heapify(heap)
    while unmet_left:
        cost, copy = heapq.heappop(heap)
        if missing[copy] == 0:
            continue
        if weights[copy] / missing[copy] > cost:
            heapq.heappush(heap, (weights[copy] / missing[copy], copy))
            continue
        more.append(copy)
        for number in members[copy]:
            if number in unmet_left:
                unmet_left.remove(number)
                for other in unmet[number]:
                    missing[other] -= 1
    return _without_needless(clauses, kept.union(more), more)


def _without_needless(clauses: Sequence[Clause], kept: set[int], order: Sequence[int]) -> set[int]:
    """Drop what the clauses hold without, of `order` from its end."""
    chosen = set(kept)
    by_copy: dict[int, list[Clause]] = {copy: [] for copy in order}
    for clause in clauses:
        for copy in (*clause.keep, *clause.remove):
            if copy in by_copy:
                by_copy[copy].append(clause)
    for copy in reversed(order):
        chosen.remove(copy)
        if not all(satisfied(clause, chosen) for clause in by_copy[copy]):
            chosen.add(copy)
    return chosen


def _cliques(clauses: Sequence[Clause]) -> list[set[int]]:
    """Disjoint sets of at least three copies of which at most one may go: each two are a clause."""
    beside: dict[int, set[int]] = {}
    for keep, remove in clauses:
        if len(keep) == 2 and not remove:
            a, b = keep
            beside.setdefault(a, set()).add(b)
            beside.setdefault(b, set()).add(a)
    found: list[set[int]] = []
    for copy in sorted(beside, key=lambda i: (-len(beside[i]), i)):
        clique = next((one for one in found if one <= beside[copy]), None)
        if clique is not None:
            clique.add(copy)
        else:
            found.append({copy})
    return [clique for clique in found if len(clique) > 2]


class _Search:
    """Branch and bound: take an open clause, and keep its copies in turn, those before it removed for good."""

    def __init__(self, weights: Sequence[int], clauses: Sequence[Clause], best: set[int]) -> None:
        self.weights, self.best = weights, best
        self.clauses = sorted(clauses, key=lambda c: len(c.keep))
        self.limit = sum(weights[i] for i in best)
        self.looks = 0
        # Keeping a copy can break a clause with `remove` that held: then all clauses are looked at again.
        self.conditional = any(clause.remove for clause in clauses)
        self.cliques = _cliques(clauses)
        self.outside = [c for c in self.clauses if not any(c.keep & clique for clique in self.cliques)]

    def run(self) -> None:
        if len(self.clauses) > 1 or len(self.clauses[0].keep) > 1:
            self._branch(0, set(), set(), 0)

    def _bound(self, kept: set[int], removed: set[int]) -> int:
        """What any completion must still pay: all but one of a clique, and the cheapest copy of disjoint open clauses."""
        used: set[int] = set()
        total = 0
        for clique in self.cliques:
            free = [self.weights[i] for i in clique if i not in kept and i not in removed]
            total += sum(free) - (max(free, default=0) if clique.isdisjoint(removed) else 0)
        for clause in self.outside:
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
