"""Stage times per FX node, and how they grow: from a captured graph to an HLO module.

    python benchmarks/stages.py [--workload a_index_copy] [--layers 2 8 32] [--repeat 3]

`run_decompositions()` on the same graph runs in the same process as the yardstick. Times are CPU time of this process,
the best of a few repeats. The exponent is the slope of log(time) over log(nodes) between the two largest sizes.
"""

from __future__ import annotations

import argparse
import copy
import gc
import math
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
import workloads
from rich.console import Console
from rich.table import Table
from xdsl.context import Context

from compiler.export.hlo import to_hlo
from compiler.frontend.capture import capture
from compiler.frontend.importer import import_graph
from compiler.lowering.module import lower
from compiler.reference import entry
from compiler.transforms.decompose import Decompose
from compiler.transforms.in_place_to_out_of_place import make_out_of_place
from compiler.verify import verify

OURS = ("import", "out of place", "decompose", "verify", "StableHLO")


def measure(action: Callable[[], Any]) -> tuple[float, Any]:
    gc.collect()
    start = time.process_time()
    result = action()
    return time.process_time() - start, result


def once(program: torch.export.ExportedProgram) -> tuple[int, dict[str, float]]:
    """One compilation: nodes of the captured graph, seconds per stage."""
    captured = capture(program)
    nodes = len(captured.graph.graph.nodes)
    times: dict[str, float] = {}
    times["import"], imported = measure(lambda: import_graph(captured))
    function = entry(imported.module)
    times["out of place"], _ = measure(lambda: make_out_of_place(function))
    times["decompose"], _ = measure(lambda: Decompose().apply(Context(), imported.module))
    times["verify"], _ = measure(lambda: verify(imported.module))
    times["StableHLO"], lowered = measure(lambda: lower(imported.module))
    times["HLO"], _ = measure(lambda: to_hlo(lowered))
    return nodes, times


def row(workload: str, layers: int, repeat: int) -> tuple[int, dict[str, float]]:
    module, inputs = workloads.get(workload, layers)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(module, inputs, strict=False)
    runs = [once(program) for _ in range(repeat)]
    best = {stage: min(times[stage] for _, times in runs) for stage in runs[0][1]}
    best["ours to StableHLO"] = sum(best[s] for s in OURS)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            best["run_decompositions"], _ = measure(lambda: copy.copy(program).run_decompositions())
        except Exception as error:  # the yardstick itself refuses some programs
            best["run_decompositions"] = math.nan
            Console(stderr=True).print(f"run_decompositions refuses {workload}: {type(error).__name__}")
    return runs[0][0], best


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--workload", default="a_index_copy", choices=workloads.names())
    options.add_argument("--layers", type=int, nargs="+", default=[2, 8, 32])
    options.add_argument("--repeat", type=int, default=3)
    asked = options.parse_args()
    rows = [row(asked.workload, layers, asked.repeat) for layers in asked.layers]
    table = Table("stage", *(f"L={n} ({nodes} nodes)" for n, (nodes, _) in zip(asked.layers, rows, strict=True)),
                  "exponent", title=f"{asked.workload}: us of CPU time per FX node")  # fmt: skip
    for stage in rows[0][1]:
        cells = [f"{1e6 * times[stage] / nodes:.0f}" for nodes, times in rows]
        exponent = ""
        if len(rows) > 1:
            (small, before), (large, after) = rows[-2:]
            exponent = f"{math.log(after[stage] / before[stage]) / math.log(large / small):.2f}"
        table.add_row(stage, *cells, exponent)
    Console().print(table)


if __name__ == "__main__":
    main()
