"""`python -m tools.clones N`: N random graphs, nothing and some inputs donated, against the best choice of clones there is.

Prints every graph that is wrong, every one where a larger choice exists with the reason, and a summary. The exit code says whether
none is wrong and at most one in a hundred misses the best.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
import warnings
from dataclasses import dataclass

import torch
from fx_oracle import clone_nodes  # pyright: ignore[reportMissingImports]
from torch import fx

from compiler.integrations.fx_clones import CloneReport, eliminate_clones
from tools.clones.brute_force import BruteForce
from tools.clones.generate import random_case
from tools.clones.wild import wild_case

UNDECLARED = {torch.ops.aliascases.reverse_into.default: ("dst",)}
"""What the graphs' own operators overwrite; their schemas say "written"."""


@dataclass(frozen=True)
class Outcome:
    """One graph with some inputs donated: `errors`, or `larger`, a choice of more clones than were removed, and why."""

    donated: tuple[int, ...]
    removed: int
    errors: list[str]
    larger: tuple[int, ...] | None
    reason: str

    def __str__(self) -> str:
        if self.errors:
            return f"donated {self.donated}: WRONG: {'; '.join(self.errors)}"
        assert self.larger is not None
        return f"donated {self.donated}: {self.removed} gone, {len(self.larger)} could (ordinals {list(self.larger)}): {self.reason}"


def compare(force: BruteForce, donated: tuple[int, ...]) -> Outcome:
    """Eliminate clones, judge what is left, and look for a larger choice."""
    graph = force.case.build()
    nodes = clone_nodes(graph)
    report = eliminate_clones(graph, force.case.inputs(), donated=donated, objective="count")
    removed = len(nodes) - len(clone_nodes(graph))
    errors = force.errors(graph, donated)
    larger = None if errors else force.larger(removed, donated)
    reason = "" if larger is None else _reason(force, donated, report, [nodes[i] for i in larger])
    return Outcome(donated, removed, errors, larger, reason)


def _reason(force: BruteForce, donated: tuple[int, ...], report: CloneReport, wanted: list[fx.Node]) -> str:
    """Why the larger choice is out of reach: checked where a declaration would make it possible, else what the remarks say."""
    graph = force.case.build()
    eliminate_clones(graph, force.case.inputs(), donated=donated, objective="count", overwrites=UNDECLARED)
    if force.clones - len(clone_nodes(graph)) == len(wanted) and not force.errors(graph, donated):
        operators = ", ".join(f"{op} overwrites {' and '.join(names)}" for op, names in UNDECLARED.items())
        return f"no schema can say that {operators} without a look at it; declared (`overwrites=`), {len(wanted)} go"
    names = {node.name for node in wanted}
    return "; ".join(str(remark) for remark in report.kept if remark.site.node in names)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="clones", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("count", nargs="?", type=int, default=1000, help="number of graphs that PyTorch runs")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first graph")
    parser.add_argument("--operations", type=int, default=12, help="most operations of a graph")
    parser.add_argument("--clones", type=int, default=5, help="most clones of a graph")
    parser.add_argument(
        "--wild", action="store_true", help="graphs of everything that can share memory; misses are allowed there"
    )
    parser.add_argument(
        "--overlapping",
        action="store_true",
        help="some clones are of windows that overlap themselves and are written in part; misses are allowed there",
    )
    options = parser.parse_args()
    make = wild_case if options.wild else functools.partial(random_case, overlapping=options.overlapping)
    warnings.simplefilter("ignore")
    start, seed = time.process_time(), options.seed
    done = clones = removed = 0
    wrong: set[int] = set()
    missed: set[int] = set()
    while done < options.count:
        case = make(seed, options.operations, options.clones)
        try:
            force = BruteForce(case)
        except RuntimeError:  # a view does not fit the strides, a write overlaps itself: no graph for PyTorch
            seed += 1
            continue
        done += 1
        for donated in sorted({(), case.donate}):
            outcome = compare(force, donated)
            clones, removed = clones + force.clones, removed + outcome.removed
            if outcome.errors or outcome.larger is not None:
                (wrong if outcome.errors else missed).add(seed)
                print(f"seed {seed}, {outcome}", flush=True)
        seed += 1
        if sys.stderr.isatty():
            print(f"\r{done} graphs", end="", file=sys.stderr)
    seconds = time.process_time() - start
    print(
        f"{done} graphs (seeds {options.seed} to {seed - 1}): {len(wrong)} wrong, {done - len(wrong) - len(missed)} equal to the best, "
        f"{len(missed)} below it; {removed} of {clones} clones gone; {seconds:.0f} s of one core, {seconds / done * 1000:.0f} ms a graph"
    )
    return 1 if wrong or (len(missed) > done // 100 and not (options.wild or options.overlapping)) else 0


if __name__ == "__main__":
    sys.exit(main())
