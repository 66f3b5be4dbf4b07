"""Copies of caches and temporary memory in XLA's optimized HLO, for every workload.

    python benchmarks/copies.py [--layers 2 8]

"copies" are counted with fusion off (XLA's CPU back end duplicates a cache write into the dot that reads it), "temp" in
both pipelines. The figures in the last column are those of the same step written by hand in JAX with donated state.
"""

from __future__ import annotations

import argparse
import math
import re

import torch
import workloads
from rich.console import Console
from rich.table import Table

import compiler
from compiler.runtime.statistics import memory_stats, optimized_hlo

BY_HAND = {("a_index_copy", 2): 136, ("a_index_copy", 8): 136, ("b_paged", 2): 32, ("b_paged", 8): 32}
"""kB of temporaries of a hand-written JAX step on XLA's CPU back end, measured with jaxlib 0.10.2."""

_COPY = re.compile(r"= \(?\w+\[([\d,]*)\]\S* copy(?:-start)?\(")


def state_copies(exe: compiler.Executable, numels: set[int], fusion: bool = False) -> int:
    """Copies in the optimized HLO with as many elements as a piece of state."""
    shapes = _COPY.findall(optimized_hlo(exe, fusion))
    return sum(math.prod(int(n) for n in shape.split(",") if n) in numels for shape in shapes)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--layers", type=int, nargs="+", default=[2, 8])
    options.add_argument("--workloads", nargs="+", default=workloads.names(), choices=workloads.names())
    asked = options.parse_args()
    table = Table("workload", "L", "aliased", "copies", "copies (fusion)", "temp kB", "temp kB (fusion)", "by hand kB")
    for name in asked.workloads:
        for layers in asked.layers:
            module, inputs = workloads.get(name, layers)
            with torch.no_grad():
                exe = compiler.compile(module, inputs)
            numels = workloads.cache_numel(name, layers)
            table.add_row(
                name, str(layers), f"{len(exe.alias_table)}/{workloads.n_mutated(name, layers)}",
                str(state_copies(exe, numels)), str(state_copies(exe, numels, fusion=True)),
                f"{memory_stats(exe, fusion=False).temp / 1e3:.1f}", f"{memory_stats(exe).temp / 1e3:.1f}",
                str(BY_HAND.get((name, layers), "")),
            )  # fmt: skip
    Console().print(table)


if __name__ == "__main__":
    main()
