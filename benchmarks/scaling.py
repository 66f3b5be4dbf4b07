"""How the passes grow with the program: n pools written once each, and one pool with n writes, views and reads.

    python benchmarks/scaling.py [--sizes 100 200 400 800 1600 3200] [--drop-in] [--runs 1]

With --drop-in: the whole Neuron pipeline instead, pass by pass and then HLO, on the handed graph of n pools, each written
through two views and read after each write.

CPU time per graph node, each row as soon as it is measured; --runs 2 takes the better of two. The exponent is the slope of
log(time) over log(nodes) over the whole range: 1 is linear.
"""

from __future__ import annotations

import argparse
import gc
import math
import operator
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import fx

from compiler.frontend.capture import capture
from compiler.frontend.importer import import_graph
from compiler.lowering.module import lower
from compiler.reference import entry
from compiler.transforms.in_place_to_out_of_place import make_out_of_place

Case = tuple[fx.GraphModule, list[torch.Tensor]]


def separate_pools(n: int) -> Case:
    """n arguments; a row and then all of each is written, and it is read after each write."""
    graph = fx.Graph()
    pools = [graph.placeholder(f"pool{i}") for i in range(n)]
    row, total = graph.placeholder("row"), None
    for pool in pools:
        graph.call_method("copy_", (graph.call_method("select", (pool, 0, 1)), row))
        first = graph.call_method("sum", (pool, 0))
        graph.call_method("add_", (graph.call_method("view", (pool, -1)), 1))
        both = graph.call_function(operator.add, (first, graph.call_method("sum", (pool, 0))))
        total = both if total is None else graph.call_function(operator.add, (total, both))
    graph.output((total,))
    return fx.GraphModule({}, graph), [torch.ones(2, 4) for _ in range(n)] + [torch.ones(4)]


def one_pool(n: int) -> Case:
    """One argument with n rows; each row is written through a view, and read through another view afterwards."""
    graph = fx.Graph()
    pool, row, total = graph.placeholder("pool"), graph.placeholder("row"), None
    for i in range(n):
        graph.call_method("copy_", (graph.call_method("select", (pool, 0, i)), row))
        read = graph.call_method("sum", (graph.call_method("narrow", (pool, 0, i, 1)), 0))
        total = read if total is None else graph.call_function(operator.add, (total, read))
    graph.output((total,))
    return fx.GraphModule({}, graph), [torch.ones(n, 4), torch.ones(4)]


def measure(action: Callable[[], Any]) -> tuple[float, Any]:
    gc.collect()
    start = time.process_time()
    result = action()
    return time.process_time() - start, result


def once(case: Case) -> dict[str, float]:
    captured, times = capture(*case), {}
    times["import"], program = measure(lambda: import_graph(captured))
    times["out of place"], _ = measure(lambda: make_out_of_place(entry(program.module)))
    times["StableHLO"], _ = measure(lambda: lower(program.module))
    return times


def handed_pools(n: int) -> Case:
    """The graph that the handed oracle makes."""
    sys.path.append(str(Path(__file__).parents[1] / "tests" / "cases"))
    from fx_oracle import scaling_graph

    return scaling_graph(n)


def drop_in(case: Case) -> dict[str, float]:
    """The passes for the Neuron host, each by its name, then HLO, then the sum."""
    from compiler.integrations.vllm_neuron import convert_fx_to_hlo, get_default_pass_manager

    gm, inputs = case
    times: dict[str, float] = {}
    found: dict[str, Any] = {}
    for each in get_default_pass_manager().passes:
        times[each.name], (gm, found[each.name]) = measure(
            lambda each=each, gm=gm: each.run(gm, example_inputs=inputs, **found)
        )
    io_map = found["aliasing_output_rewrite"]["io_map"]
    times["HLO"], _ = measure(lambda: convert_fx_to_hlo(gm, inputs, io_map))
    times["all"] = sum(times.values())
    return times


def grow(make: Callable[[int], Case], run: Callable[[Case], dict[str, float]], sizes: Sequence[int], runs: int) -> None:
    """Print the time per node of each stage, the best of some runs, a row for each size as soon as it is measured."""
    nodes: list[int] = []
    times: list[dict[str, float]] = []
    warm = run(make(2))  # what is loaded and cached when first needed
    row = "".join(f"{{:>{max(len(stage), 6) + 2}}}" for stage in warm)
    print(f"{make.__name__}: us of CPU time per node", f"{'n':>8}" + row.format(*warm), sep="\n", flush=True)
    for n in sizes:
        nodes.append(len(make(n)[0].graph.nodes))
        measured = [run(make(n)) for _ in range(runs)]
        times.append({stage: min(one[stage] for one in measured) for stage in warm})
        print(f"{n:>8}" + row.format(*(f"{1e6 * t / nodes[-1]:.0f}" for t in times[-1].values())), flush=True)
    if len(sizes) > 1:
        span = math.log(nodes[-1] / nodes[0])
        slopes = [math.log(times[-1][stage] / max(times[0][stage], 1e-9)) / span for stage in warm]
        print("exponent" + row.format(*(f"{slope:.2f}" for slope in slopes)), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 200, 400, 800, 1600, 3200])
    parser.add_argument("--drop-in", action="store_true", help="the whole pipeline for the Neuron host")
    parser.add_argument("--runs", type=int, default=1, help="at each size; the best counts")
    options = parser.parse_args()
    for make in (handed_pools,) if options.drop_in else (separate_pools, one_pool):
        grow(make, drop_in if options.drop_in else once, options.sizes, options.runs)


if __name__ == "__main__":
    main()
