"""Collectives over replica groups: on eight devices, against the definition, and as bytes that are equal on every rank."""

from __future__ import annotations

import operator
import os
import subprocess
import sys
from functools import reduce

import pytest
import replicas
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional  # registers what the operators do on fake tensors
from fx_oracle import Hand

import compiler
from compiler.errors import CompileError, UnsupportedError
from compiler.export.hlo_reader import read_module
from compiler.integrations.vllm_neuron import CollectiveReplicaGroupsPass, convert_fx_to_hlo, run_passes

C = torch.ops._c10d_functional
FOURS = [[0, 1, 2, 3], [4, 5, 6, 7]]
TWOS = [[0, 4], [1, 5], [2, 6], [3, 7]]
PARTITIONS = pytest.mark.parametrize("groups", [FOURS, TWOS], ids=["two groups of 4", "four groups of 2"])


def inputs(rows: int = 8, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    return [(torch.arange(rows * 3).reshape(rows, 3) % 5 + rank + 1).to(dtype) for rank in range(8)]


def run(groups, op, *args, x=None, wait=True):
    """The results of `op(x, *args, "g")` on each of eight ranks, from the bytes."""
    x = inputs() if x is None else x
    h = Hand("x")
    value = h.f(op, h.ins[0], *args, "g")
    gm = h.out((h.f(C.wait_tensor.default, value) if wait else value,)).module()
    gm, metadata = run_passes(gm, example_inputs=[x[0]], replica_groups={"g": groups})
    assert metadata["collective_replica_groups"] == {"resolved_count": 1}
    proto = convert_fx_to_hlo(gm, [x[0]])
    return [outs[0] for outs in replicas.run(proto, [[one] for one in x])]


def members(groups, rank):
    return next(group for group in groups if rank in group)


REDUCTIONS = {
    "sum": lambda xs: sum(xs),
    "avg": lambda xs: sum(xs) / len(xs),
    "product": lambda xs: reduce(operator.mul, xs),
    "min": lambda xs: reduce(torch.minimum, xs),
    "max": lambda xs: reduce(torch.maximum, xs),
}


@PARTITIONS
@pytest.mark.parametrize("name", REDUCTIONS)
def test_all_reduce(groups, name) -> None:
    x = inputs()
    for rank, out in enumerate(run(groups, C.all_reduce.default, name)):
        torch.testing.assert_close(out, REDUCTIONS[name]([x[r] for r in members(groups, rank)]))


@PARTITIONS
@pytest.mark.parametrize(("name", "combine"), [("band", operator.and_), ("bor", operator.or_)])
def test_bitwise_all_reduce(groups, name, combine) -> None:
    x = inputs(dtype=torch.int32)
    for rank, out in enumerate(run(groups, C.all_reduce.default, name, x=x)):
        assert torch.equal(out, reduce(combine, [x[r] for r in members(groups, rank)]))


@PARTITIONS
def test_all_gather(groups) -> None:
    x = inputs(2)
    for rank, out in enumerate(run(groups, C.all_gather_into_tensor.default, len(groups[0]), x=x)):
        assert torch.equal(out, torch.cat([x[r] for r in members(groups, rank)]))


@PARTITIONS
def test_reduce_scatter(groups) -> None:
    x, size = inputs(), len(groups[0])
    for rank, out in enumerate(run(groups, C.reduce_scatter_tensor.default, "sum", size)):
        group = members(groups, rank)
        torch.testing.assert_close(out, sum(x[r] for r in group).chunk(size)[group.index(rank)])


@PARTITIONS
def test_all_to_all(groups) -> None:
    x, size = inputs(), len(groups[0])
    for rank, out in enumerate(run(groups, C.all_to_all_single.default, [8 // size] * size, [8 // size] * size)):
        group = members(groups, rank)
        assert torch.equal(out, torch.cat([x[r].chunk(size)[group.index(rank)] for r in group]))


@PARTITIONS
def test_broadcast(groups) -> None:
    x = inputs(2)
    for rank, out in enumerate(run(groups, C.broadcast.default, 1, x=x)):
        assert torch.equal(out, x[members(groups, rank)[1]])


def test_coalesced_and_keyword_groups() -> None:
    x = inputs(2)
    h = Hand("x", "y")
    pair = h.f(C.all_reduce_coalesced.default, list(h.ins), "sum", group_name="g")
    one = h.f(C.wait_tensor.default, h.f(operator.getitem, pair, 1))
    gm = h.out((one, h.f(operator.getitem, pair, 0))).module()
    gm, metadata = run_passes(gm, example_inputs=[x[0], x[0]], replica_groups={"g": FOURS})
    assert metadata["collective_replica_groups"] == {"resolved_count": 1}
    outs = replicas.run(convert_fx_to_hlo(gm, [x[0], x[0]]), [[a, a * 10] for a in x])
    torch.testing.assert_close(outs[5][0], sum(x[4:]) * 10)
    torch.testing.assert_close(outs[5][1], sum(x[4:]))


def test_an_in_place_collective_writes_its_input() -> None:
    x = inputs(2)
    h = Hand("x")
    h.f(C.all_reduce_.default, h.ins[0], "sum", "g")
    gm, metadata = run_passes(
        h.out((h.m("neg", h.ins[0]),)).module(), example_inputs=[x[0]], replica_groups={"g": TWOS}
    )
    assert metadata["aliasing_output_rewrite"]["io_map"] == {1: 0}
    outs = replicas.run(convert_fx_to_hlo(gm, [x[0]], {1: 0}), [[a] for a in x])
    torch.testing.assert_close(outs[1][1], x[1] + x[5])


@pytest.mark.parametrize(
    ("op", "args", "message"),
    [
        (C.all_to_all_single.default, ([3, 1, 2, 2], [3, 1, 2, 2]), "uneven parts"),
        (C.all_reduce.default, ("bxor",), "no reduction 'bxor'"),
        (C.all_gather_into_tensor.default, (2,), "speaks of 2 ranks"),
    ],
)
def test_refused(op, args, message) -> None:
    with pytest.raises(CompileError, match=message):
        run(FOURS, op, *args)


@pytest.mark.parametrize(("op", "args"), [(C.all_reduce.default, ()), (C.reduce_scatter_tensor.default, (4,))])
@pytest.mark.parametrize("name", ["band", "bor"])
def test_bits_of_floats_are_not_reduced(op, args, name) -> None:
    with pytest.raises(UnsupportedError, match="over ranks is one of bits, and the elements are f32; reduce integers"):
        run(FOURS, op, name, *args)


def test_uneven_rows_are_not_scattered() -> None:
    with pytest.raises(CompileError, match="evenly|scattered|divi"):
        run(FOURS, C.reduce_scatter_tensor.default, "sum", 4, x=inputs(6))


def test_unknown_ranks_are_refused() -> None:
    h = Hand("x")
    gm = h.out((h.f(C.all_reduce.default, h.ins[0], "sum", "g"),)).module()
    with pytest.raises(RuntimeError, match=r"group 'g'.*replica_groups="):
        CollectiveReplicaGroupsPass().run(gm)
    with pytest.raises(UnsupportedError, match="ranks of process group 'g' are not known"):
        convert_fx_to_hlo(gm, [torch.ones(2)])


@pytest.mark.parametrize("groups", [[[0, 1], [3, 4]], [[0, 1, 2], [3]], []])
def test_partitions_that_are_none_are_refused(groups) -> None:
    h = Hand("x")
    gm = h.out((h.f(C.all_reduce.default, h.ins[0], "sum", "g"),)).module()
    with pytest.raises(RuntimeError, match="cover every rank once|differ in width"):
        CollectiveReplicaGroupsPass().run(gm, replica_groups={"g": groups})


@pytest.mark.parametrize(
    "table",
    [{"g": "01"}, {"g": ["01"]}, {"g": [[True, False]]}, {"g": [[0.0, 1.0]]}, {"g": None}, {"g": [0, 1]}, [[0, 1]]],
)
def test_tables_of_something_else_are_refused(table) -> None:
    h = Hand("x")
    gm = h.out((h.f(C.all_reduce.default, h.ins[0], "sum", "g"),)).module()
    said = r"no (list of lists of ranks|table of process groups)\n  instead: give for each group the partition"
    with pytest.raises(RuntimeError, match=said):
        CollectiveReplicaGroupsPass().run(gm, replica_groups=table)
    with pytest.raises(CompileError, match=said):
        convert_fx_to_hlo(gm, [torch.ones(2)], replica_groups=table)


def test_groups_are_listed_the_same_on_every_rank() -> None:
    """Whatever group a rank resolves first, the module says the whole partition, in the field that every reader knows."""
    from compiler.process_groups import partition

    protos = set()
    for rank in range(8):
        h = Hand("x")
        gm = h.out((h.f(C.all_reduce, h.ins[0], "sum", "g"),)).module()
        own = tuple(members(TWOS, rank))
        gm, _ = CollectiveReplicaGroupsPass(lambda _name, own=own: partition(own, 8)).run(gm)
        protos.add(convert_fx_to_hlo(gm, [torch.ones(2)]))
    (proto,) = protos
    (op,) = (i for c in read_module(proto).computations for i in c.instructions if i.opcode == "all-reduce")
    assert op.replica_groups == tuple(map(tuple, TWOS))
    assert not op.newer_fields


# -- permutations ------------------------------------------------------------------------------------


def exchange(size: int, destinations: list[int], position: int, rows: int) -> tuple[list[int], list[int]]:
    """What PyTorch makes of a permutation for the rank at `position`: rows received, rows sent."""
    received, sent = [0] * size, [0] * size
    sent[destinations[position]] = rows
    received[destinations.index(position)] = rows
    return received, sent


@PARTITIONS
@pytest.mark.parametrize("backwards", [False, True])
def test_permute(groups, backwards) -> None:
    """Every rank has another graph, all ranks the same program."""
    size, x = len(groups[0]), inputs(2)
    destinations = [(n + (-1 if backwards else 1)) % size for n in range(size)]
    protos = set()
    for position in range(size):
        h = Hand("x")
        value = h.f(C.all_to_all_single.default, h.ins[0], *exchange(size, destinations, position, 2), "g")
        gm, _ = run_passes(h.out((value,)).module(), example_inputs=[x[0]], replica_groups={"g": groups})
        protos.add(convert_fx_to_hlo(gm, [x[0]], permutations={"g": [destinations]}))
    (proto,) = protos
    for rank, (out,) in enumerate(replicas.run(proto, [[one] for one in x])):
        group = members(groups, rank)
        assert torch.equal(out, x[group[destinations.index(group.index(rank))]])


def test_a_permutation_nobody_knows_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="which permutation of 4 ranks.*is not clear"):
        run(FOURS, C.all_to_all_single.default, *exchange(4, [1, 2, 3, 0], 0, 8))


def test_parts_that_are_even_here_only_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="uneven parts"):
        run(TWOS, C.all_to_all_single.default, [4, 4], [5, 3])


# -- a live process group ----------------------------------------------------------------------------


@pytest.fixture
def world():
    """Joins a world of eight whose other ranks only seem to be there."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    def join(rank: int) -> None:
        if dist.is_initialized():
            dist.destroy_process_group()
        dist.init_process_group("fake", rank=rank, world_size=8, store=FakeStore())

    yield join
    if dist.is_initialized():
        dist.destroy_process_group()


def ring_program(group):
    def program(x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        total = functional.all_reduce(x, "sum", group)
        cache.add_(functional.all_gather_tensor(x, 0, group)[:8])
        return total + functional.permute_tensor(x, [1, 0], group)

    return program


def test_groups_of_a_live_process_group(world) -> None:
    """Eight ranks, each of which knows its own pair: one program."""
    protos, graphs = set(), set()
    for rank in range(8):
        world(rank)
        pairs = [dist.new_group(pair, use_local_synchronization=False) for pair in TWOS]
        own = next(pg for pg, pair in zip(pairs, TWOS, strict=True) if rank in pair)
        compiled = compiler.compile(ring_program(own), [torch.ones(8), torch.zeros(8)], target="neuron")
        protos.add(compiled.hlo_proto)
        graphs.add(compiled.ir("functional"))
        assert "groups<[0, 4], [1, 5], [2, 6], [3, 7]>" in compiled.ir("functional")
    assert len(protos) == len(graphs) == 1
    x = [torch.arange(8.0) + 10 * rank for rank in range(8)]
    outs = replicas.run(protos.pop(), [[one, torch.zeros(8)] for one in x])
    for rank in range(8):
        low, high = members(TWOS, rank)
        results = {tuple(o.tolist()) for o in outs[rank]}
        assert tuple((x[low] + x[high] + x[high if rank == low else low]).tolist()) in results
        assert tuple(x[low].tolist()) in results


def test_groups_that_do_not_show_their_siblings(world) -> None:
    world(0)
    odd = dist.new_group([0, 1, 3])
    h = Hand("x")
    gm = h.out((h.f(C.all_reduce.default, h.ins[0], "sum", odd.group_name),)).module()
    with pytest.raises(UnsupportedError, match=r"ranks \[0, 1, 3\] of a world of 8 do not show.*all_reduce"):
        convert_fx_to_hlo(gm, [torch.ones(2)])
    with pytest.raises(RuntimeError, match="do not show which ranks"):
        CollectiveReplicaGroupsPass().run(gm)


def test_names_that_no_process_group_has(world) -> None:
    world(0)
    h = Hand("x")
    gm = h.out((h.f(C.all_reduce.default, h.ins[0], "sum", "nobody"),)).module()
    with pytest.raises(UnsupportedError, match="ranks of process group 'nobody' are not known"):
        convert_fx_to_hlo(gm, [torch.ones(2)])


# -- numbers -----------------------------------------------------------------------------------------

NUMBERED = """
import torch, torch.distributed._functional_collectives
import compiler
C = torch.ops._c10d_functional

def program(x, y):
    a = C.wait_tensor(C.all_reduce(x, "sum", "dp"))
    b, c = C.all_reduce_coalesced([a, y], "max", "tp")
    return C.all_gather_into_tensor(b, 2, "tp"), C.reduce_scatter_tensor(c, "sum", 4, "dp")

groups = {"tp": [[0, 1], [2, 3], [4, 5], [6, 7]], "dp": [[0, 2, 4, 6], [1, 3, 5, 7]]}
compiled = compiler.compile(program, [torch.ones(8), torch.ones(8)], target="neuron", replica_groups=groups)
print(compiled.hlo_proto.hex())
"""


def test_channels_are_the_same_in_every_process() -> None:
    """In program order, whatever a process's hash of text is."""
    found = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", NUMBERED], env=environment, capture_output=True, text=True, check=True
        )
        found.append(bytes.fromhex(done.stdout.strip()))
    assert found[0] == found[1]
    instructions = [i for c in read_module(found[0]).computations for i in c.instructions]
    assert sorted(i.channel_id for i in instructions if i.channel_id) == [1, 2, 3, 4, 5]


def test_a_collective_that_stores_its_result() -> None:
    x = inputs(2)
    h = Hand("x", "out")
    value = h.f(C.all_gather_into_tensor_out.default, h.ins[0], 4, "g", out=h.ins[1])
    h.f(C.wait_tensor.default, value)
    gm = h.out((h.m("neg", h.ins[1]),)).module()
    gm, metadata = run_passes(gm, example_inputs=[x[0], torch.zeros(8, 3)], replica_groups={"g": FOURS})
    assert metadata["aliasing_output_rewrite"]["io_map"] == {1: 1}
    outs = replicas.run(convert_fx_to_hlo(gm, [x[0], torch.zeros(8, 3)], {1: 1}), [[a, torch.zeros(8, 3)] for a in x])
    assert torch.equal(outs[6][1], torch.cat(x[4:]))
    assert torch.equal(outs[6][0], -torch.cat(x[4:]))
