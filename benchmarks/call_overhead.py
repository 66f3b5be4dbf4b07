"""What a call costs: a step over n arguments of which a third is written in place, beside eager PyTorch, in turn.

python benchmarks/call_overhead.py [--arguments 10 100 300]
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
from rich.console import Console
from rich.table import Table

import compiler


def step(*tensors: torch.Tensor) -> torch.Tensor:
    total = tensors[0] * 1
    for number, tensor in enumerate(tensors):
        if number % 3 == 0:
            tensor.add_(1)
        else:
            total = total + tensor
    return total


def aligned(count: int) -> list[torch.Tensor]:
    """Tensors whose memory starts on a 64-byte boundary, so that nothing is copied."""
    tensors = [torch.zeros(64 + 16) for _ in range(count)]
    starts = [(-t.data_ptr() // 4) % 16 for t in tensors]
    return [t[start : start + 64] for t, start in zip(tensors, starts, strict=True)]


def median(seconds: list[float]) -> str:
    return f"{1e6 * statistics.median(seconds):.0f}"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--arguments", type=int, nargs="+", default=[10, 100, 300])
    options.add_argument("--calls", type=int, default=300)
    asked = options.parse_args()
    table = Table("arguments", "written", "call us", "eager us", "copied back bytes", title="median time of one call")
    for count in asked.arguments:
        tensors = aligned(count)
        with torch.no_grad():
            exe = compiler.compile(step, tensors)
            ours, eager = [], []
            for _ in range(asked.calls):
                start = time.perf_counter()
                exe(*tensors)
                middle = time.perf_counter()
                step(*tensors)
                ours.append(middle - start)
                eager.append(time.perf_counter() - middle)
        table.add_row(str(count), str(len(exe.alias_table)), median(ours), median(eager), str(exe.copied_bytes))
    Console().print(table)


if __name__ == "__main__":
    main()
