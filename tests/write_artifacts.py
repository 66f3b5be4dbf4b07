"""Writes artifacts of several kinds of programs as rank RANK of eight and prints what is in their files.

    python tests/write_artifacts.py DIRECTORY RANK

Run in processes with different hash seeds by tests/test_determinism.py: the lines must be the same.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent / "cases"), str(Path(__file__).parents[1])]

import custom_ops  # noqa: E402
import torch  # noqa: E402
import torch.distributed._functional_collectives  # registers what the operators do on fake tensors  # noqa: E402
from fx_graphs import BY_ID  # noqa: E402
from fx_oracle import Hand  # noqa: E402

import compiler  # noqa: E402
from compiler.integrations.vllm_neuron import CollectiveReplicaGroupsPass, cache_key, convert_fx_to_hlo, run_passes  # noqa: E402
from compiler.process_groups import partition  # noqa: E402
from compiler.validation.artifact import check_artifact  # noqa: E402

GROUPS = ((0, 4), (1, 5), (2, 6), (3, 7))


def plain(x: torch.Tensor, y: torch.Tensor) -> Any:
    return {"product": x @ y, "also": [x + 1, y]}


def cache(pool: torch.Tensor, row: torch.Tensor, position: torch.Tensor) -> Any:
    pool[1].index_copy_(0, position, row)
    return pool[1].sum(0), pool.view(-1)


def draws(x: torch.Tensor) -> Any:
    return torch.rand_like(x) + x.normal_(), torch.randperm(5)


def branches(x: torch.Tensor, y: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda: x.add(y), lambda: x * 2)


class Model(torch.nn.Module):
    """State of several kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(3))
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps += 1
        for layer in self.layers:
            x = torch.nn.functional.gelu(layer(x))
        return x


def kernel() -> torch.fx.GraphModule:
    h = Hand("cache", "row")
    written = h.nki(custom_ops.k_scaled_bump, 2.0, 1, *h.ins)
    return h.out((h.m("sum", written),)).module()


PROGRAMS: dict[str, tuple[str, Callable[[], Any], Sequence[torch.Tensor]]] = {
    "plain": ("xla", lambda: plain, [torch.ones(3, 3), torch.ones(3, 3)]),
    "model": ("xla", Model, [torch.ones(2, 4)]),
    "cache": ("neuron", lambda: cache, [torch.zeros(2, 8, 4), torch.ones(1, 4), torch.tensor([3])]),
    "kernel": ("neuron", kernel, [torch.zeros(3), torch.ones(3)]),
    "random": ("xla", lambda: draws, [torch.ones(4)]),
    "random-seed": ("neuron", lambda: draws, [torch.ones(4)]),
    "control": ("xla", lambda: branches, [torch.ones(3), torch.ones(3)]),
}


def collective(rank: int) -> bytes:
    """The bytes of a program with collectives, as a rank that sees only its own group."""
    group = next(g for g in GROUPS if rank in g)
    h = Hand("x", "y")
    (a, b), ops = h.ins, torch.ops._c10d_functional
    for value in (a, b):
        gathered = h.f(ops.wait_tensor.default, h.f(ops.all_gather_into_tensor.default, value, 2, "tp"))
        h.f(ops.all_reduce_.default, value, "sum", "tp")
    x = [torch.ones(2, 3), torch.ones(2, 3)]
    gm, metadata = run_passes(h.out((gathered,)).module(), example_inputs=x, replica_groups={"tp": GROUPS})
    gm, _ = CollectiveReplicaGroupsPass(lambda _name: partition(group, 8)).run(gm)
    io_map = metadata["aliasing_output_rewrite"]["io_map"]
    return convert_fx_to_hlo(gm, x, io_map) + cache_key(gm, x, io_map).encode()


def flat(name: str) -> bytes:
    """The bytes of a handed case through the drop-in."""
    case = BY_ID[name]
    gm, metadata = run_passes(case.build())
    io_map = metadata["aliasing_output_rewrite"]["io_map"]
    return convert_fx_to_hlo(gm, None, io_map) + cache_key(gm, case.inputs(), io_map).encode()


def main() -> None:
    directory, rank = Path(sys.argv[1]), int(sys.argv[2])
    for name, (target, make, inputs) in PROGRAMS.items():
        torch.manual_seed(0)
        with torch.no_grad():
            compiler.compile(make(), tuple(inputs), target=target).save(directory / name)
        check_artifact(directory / name)
    (directory / "collective").write_bytes(collective(rank))
    for name in ("lw_two_layers_one_pool", "nk_two_caches", "of_list_and_write"):
        (directory / name).write_bytes(flat(name))
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            print(path.relative_to(directory), hashlib.sha256(path.read_bytes()).hexdigest())


if __name__ == "__main__":
    main()
