"""A Llama decode step with a static cache, from a `.pt2` file to an HLO module that updates the caches in place.

    python examples/llama_decode.py [--layers 4] [--steps 16] [--dtype float32]

The model has random weights and is built from a config only. It is exported by transformers' own
`convert_and_export_with_cache`, saved, compiled, decoded step by step on the embedded XLA, and compared with eager.
"""

from __future__ import annotations

import argparse
import math
import re
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import compiler
from compiler.runtime.statistics import memory_stats, optimized_hlo

console = Console(width=110)


def export_llama(path: Path, *, layers: int, hidden: int, cache: int, dtype: torch.dtype) -> int:
    """Save the exported decode step; how many nodes its graph has."""
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM
    from transformers.integrations.executorch import convert_and_export_with_cache

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=1024, hidden_size=hidden, intermediate_size=2 * hidden, num_hidden_layers=layers,
        num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=2 * cache,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval().to(dtype)
    model.generation_config = GenerationConfig(
        use_cache=True, cache_implementation="static", max_length=cache,
        cache_config={"batch_size": 1, "max_cache_len": cache}, pad_token_id=0,
    )  # fmt: skip
    program = convert_and_export_with_cache(model, strict=False)
    torch.export.save(program, path)
    return len(program.graph.nodes)


def decode(
    exe: compiler.Executable, path: Path, steps: int, state: dict[str, torch.Tensor]
) -> tuple[float, bool, list[float]]:
    """Decode greedily beside eager PyTorch: largest relative difference, whether caches stayed put, seconds per call."""
    eager = torch.export.load(path).module()
    addresses = {name: tensor.data_ptr() for name, tensor in state.items()}
    token, worst, kept, seconds = torch.tensor([[1]]), 0.0, True, list[float]()
    table = Table("step", "token", "largest difference", "relative", "caches in place", title="decoding")
    with torch.no_grad(), Progress(console=console, transient=True) as progress:
        for step in progress.track(range(steps), description="decoding"):
            position = torch.tensor([step])
            want = eager(input_ids=token, cache_position=position)
            start = time.perf_counter()
            got = exe(input_ids=token, cache_position=position)
            seconds.append(time.perf_counter() - start)
            difference = (got.float() - want.float()).abs().max().item()
            relative = difference / want.float().abs().max().item()
            put = all(state[name].data_ptr() == address for name, address in addresses.items())
            in_place = put and exe.copied_bytes == 0
            worst, kept = max(worst, relative), kept and in_place
            token = want[:, -1:].argmax(-1)
            table.add_row(
                str(step), str(token.item()), f"{difference:.2e}", f"{relative:.2e}", "yes" if in_place else "NO"
            )
    console.print(table)
    return worst, kept, seconds


def cache_copies(exe: compiler.Executable, caches: dict[str, torch.Tensor]) -> int:
    """Copies as large as a cache in XLA's optimized HLO. Fusion is off for the count: XLA's CPU back end duplicates a
    cache write into the dot that reads it, which says nothing about the program."""
    sizes = {t.numel() for t in caches.values()}
    shapes = re.findall(r"= \(?\w+\[([\d,]*)\]\S* copy(?:-start)?\(", optimized_hlo(exe, fusion=False))
    return sum(math.prod(map(int, filter(None, shape.split(",")))) in sizes for shape in shapes)


def show_aliases(exe: compiler.Executable) -> None:
    table = Table("argument", "output", "parameter", "kind", "bytes", title="alias table")
    for entry in exe.alias_table:
        table.add_row(", ".join(entry.arguments), str(entry.output), str(entry.parameter), entry.kind, str(entry.bytes))
    console.print(table)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--layers", type=int, default=4)
    options.add_argument("--hidden", type=int, default=256)
    options.add_argument("--cache", type=int, default=256)
    options.add_argument("--steps", type=int, default=16)
    options.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    asked = options.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "llama.pt2"
        with console.status("exporting a Llama decode step with transformers"):
            dtype = getattr(torch, asked.dtype)
            nodes = export_llama(path, layers=asked.layers, hidden=asked.hidden, cache=asked.cache, dtype=dtype)
        with console.status("compiling"):
            exe = compiler.compile(path)
        console.print(
            f"nodes in the exported graph: {nodes}; ops imported: {exe.counts['imported']}; "
            f"ops that write: {exe.counts['writes']}, all rewritten out of place"
        )
        show_aliases(exe)
        caches = {n: t for n, t in exe.state.items() if t.dim() == 4}
        copies = cache_copies(exe, caches)
        clones = exe.ir("import").count('"aten.clone.default"')
        memory = memory_stats(exe, fusion=False)
        console.print(f"clones in the program: {clones}, left as copies of caches in XLA's optimized HLO: {copies}")
        console.print(
            f"bytes: arguments {memory.argument:,}, outputs {memory.output:,}, aliased {memory.alias:,}, "
            f"temporaries {memory.temp:,}"
        )
        worst, kept, calls = decode(exe, path, asked.steps, caches)
        table = Table("stage", "ms", "us per node", title="time")
        for stage, seconds in exe.timings.items():
            table.add_row(stage, f"{1e3 * seconds:.1f}", f"{1e6 * seconds / nodes:.0f}")
        table.add_row("first call (XLA compiles)", f"{1e3 * calls[0]:.1f}", "")
        table.add_row("a decode step (median)", f"{1e3 * statistics.median(calls[1:] or calls):.2f}", "")
        console.print(table)
        limit = 1e-5 if asked.dtype == "float32" else 3e-2
        good = worst <= limit and kept and copies == 0
        console.print(
            f"largest relative difference from eager {worst:.1e} (limit {limit:.0e}); "
            f"caches kept their addresses: {kept}; {'OK' if good else 'FAILED'}"
        )
        return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
