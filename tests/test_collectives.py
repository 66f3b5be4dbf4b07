"""Collectives over replica groups: on eight devices, against the definition, and as bytes that are equal on every rank."""

from __future__ import annotations

import operator
from functools import reduce

import pytest
import replicas
import torch
import torch.distributed._functional_collectives  # registers what the operators do on fake tensors
from fx_oracle import Hand

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
    gm, metadata = run_passes(h.out((h.m("neg", h.ins[0]),)).module(), example_inputs=[x[0]], replica_groups={"g": TWOS})
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


def test_groups_are_listed_the_same_on_every_rank() -> None:
    """Whatever group a rank resolves first, the module says the whole partition, in the field that every reader knows."""
    from compiler.transforms.resolve_replica_groups import partition

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
