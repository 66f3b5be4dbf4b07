"""The most clones of a graph that can go, found by running the graph without each choice of them."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

from fx_oracle import FxCase, _judge, _observe, clone_nodes, drop_clones  # pyright: ignore[reportMissingImports]
from torch import fx


class BruteForce:
    """One graph, what can be seen of it, and what can be seen when clones are gone.

    A choice of clones is run once, whatever is donated; most wrong ones show in the first of two calls.

    Raises:
        RuntimeError: PyTorch does not run the graph (a view does not fit the strides, a write overlaps itself).
    """

    def __init__(self, case: FxCase):
        self.case = case
        graph = self._graph()
        self.clones = len(clone_nodes(graph))
        self._reference = {calls: _observe(graph, case.inputs, calls=calls) for calls in (1, 2)}
        self._seen: dict[tuple[tuple[int, ...], int], Any] = {}

    def _graph(self) -> fx.GraphModule:
        """The graph without metadata, which takes a run on fake tensors to make."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.case.fn().module()

    def errors(self, graph: fx.GraphModule, donated: tuple[int, ...]) -> list[str]:
        """What a caller would notice if `graph` took the place of the case's."""
        try:
            seen = _observe(graph, self.case.inputs)
        except Exception as error:  # the judge's question is whether it runs at all
            return [f"run failed: {error}"]
        return _judge(self._reference[2], seen, frozenset(donated))

    def larger(self, count: int, donated: tuple[int, ...]) -> tuple[int, ...] | None:
        """A largest choice of more than `count` clones, by ordinal, that nobody misses."""
        for size in range(self.clones, count, -1):
            for choice in itertools.combinations(range(self.clones), size):
                if self._unnoticed(choice, donated):
                    return choice
        return None

    def _unnoticed(self, choice: tuple[int, ...], donated: tuple[int, ...]) -> bool:
        for calls in (1, 2):
            if (choice, calls) not in self._seen:
                try:
                    self._seen[choice, calls] = _observe(
                        drop_clones(self._graph(), choice), self.case.inputs, calls=calls
                    )
                except Exception:  # a view that no longer fits, memory that overlaps: not a choice
                    self._seen[choice, calls] = None
            seen = self._seen[choice, calls]
            if seen is None or _judge(self._reference[calls], seen, frozenset(donated)):
                return False
        return True
