"""The handed clone cases: how many copies go, beside the stored best number and the rule in use elsewhere, and whether what runs is right.

python benchmarks/clone_cases.py [--objective count] [CASE ...]
"""

from __future__ import annotations

import argparse
import operator
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import fx

sys.path[:0] = [str(Path(__file__).parents[1] / "tests" / "cases"), str(Path(__file__).parents[1])]

from fx_graphs import FX_CASES  # noqa: E402
from fx_oracle import FxCase, check_clone_removal, clone_nodes, writes_operand  # noqa: E402
from programs import CASES  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from compiler.integrations.fx_clones import eliminate_clones  # noqa: E402


@dataclass(frozen=True)
class Task:
    """A case with some inputs donated, and the most clones that can go."""

    case: FxCase
    donated: tuple[int, ...]
    best: int


def tasks() -> Iterator[tuple[Task, Task]]:
    """Every clone case, nothing donated and then what the case says (every input of a program)."""
    for case in FX_CASES:
        if case.category.startswith("clone"):
            assert case.best is not None
            yield Task(case, (), case.best[1]), Task(case, case.donate, case.best[2])
    for program in CASES:
        if program.clones is not None:
            case = FxCase(program.id, program.category, program.fn, program.make_inputs, "", "", style="make_fx")
            every = tuple(range(len(case.inputs())))
            yield Task(case, (), program.clones.not_donated), Task(case, every, program.clones.donated)


def incumbent(graph: fx.GraphModule, donated: tuple[int, ...]) -> None:
    """The simple rule in use elsewhere: one node at a time, direct users only.

    Raises:
        AssertionError, AttributeError: what that rule does not expect: two writers, users that are no operator overload.
    """
    order = {node: i for i, node in enumerate(graph.graph.nodes)}
    inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
    given_up = {inputs[i] for i in donated}
    output = next(node for node in graph.graph.nodes if node.op == "output")
    for node in clone_nodes(graph):
        assert node.op == "call_function" and node.args
        source = node.args[0]
        assert not any(user.op == "call_method" or user.target is operator.getitem for user in node.users)
        if node.meta["val"].stride() != source.meta["val"].stride():
            continue
        writers = [user for user in node.users if user.op != "output" and writes_operand(user)]
        assert len(writers) <= 1
        if writers and (
            any(order[u] > order[writers[0]] for u in source.users) or (source in inputs and source not in given_up)
        ):
            continue
        if not writers and output in node.users and (output in source.users or source.op == "placeholder"):
            continue
        node.replace_all_uses_with(source)
        graph.graph.erase_node(node)
    graph.recompile()


@dataclass(frozen=True)
class Result:
    """How many clones went (None: it crashed), and whether what is left is right when run."""

    removed: int | None
    right: bool

    def __str__(self) -> str:
        return "crash" if self.removed is None else str(self.removed) if self.right else f"{self.removed} wrong"


def judged(task: Task, graph: fx.GraphModule) -> Result:
    verdict = check_clone_removal(task.case, graph, task.donated)
    return Result(verdict.info.get("removed"), not verdict.errors)


def ours(task: Task, objective: str = "bytes") -> Result:
    graph = task.case.build()
    eliminate_clones(graph, task.case.inputs(), donated=task.donated, objective=objective)  # type: ignore[arg-type]
    return judged(task, graph)


def simple(task: Task) -> Result:
    graph = task.case.build()
    try:
        incumbent(graph, task.donated)
    except (AssertionError, AttributeError):
        return Result(None, False)
    return judged(task, graph)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--objective", choices=("bytes", "count"), default="bytes")
    options.add_argument("cases", nargs="*", help="case names; all by default")
    asked = options.parse_args()
    warnings.simplefilter("ignore")
    table = Table(
        "case", "clones", "ours", "best", "simple rule", "ours, donated", "best, donated", "simple rule, donated"
    )
    wrong = below = figures = rule_wrong = rule_below = 0
    for pair in tasks():
        if asked.cases and pair[0].case.id not in asked.cases:
            continue
        cells: list[str] = []
        for task in pair:
            mine, theirs = ours(task, asked.objective), simple(task)
            cells += [str(mine), str(task.best), str(theirs)]
            figures += 1
            wrong += not mine.right
            below += mine.right and mine.removed != task.best
            rule_wrong += not theirs.right
            rule_below += theirs.right and theirs.removed != task.best
        table.add_row(pair[0].case.id, str(len(clone_nodes(pair[0].case.build()))), *cells)
    Console(width=140).print(table)
    print(
        f"{figures} figures: ours {wrong} wrong, {below} not the best, {figures - wrong - below} the best; "
        f"the simple rule {rule_wrong} wrong or crashed, {rule_below} not the best, {figures - rule_wrong - rule_below} the best"
    )
    return bool(wrong or below)


if __name__ == "__main__":
    with torch.no_grad():
        sys.exit(main())
