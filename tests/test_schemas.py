"""Schemas to effects and twins: honest schemas, silent writers, and twins that are what they claim."""

from __future__ import annotations

import pytest
import torch

from compiler.frontend.schemas import draws_now, expands, facts, metadata_twin, writes_now

A = torch.ops.aten


def effects(op) -> dict[str, str]:
    return {p.name: "r" * p.reads + "w" * p.writes for p in facts(op).parameters if p.tensor}


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (A.add_.Tensor, {"self": "rw", "other": "r"}),
        (A.copy_.default, {"self": "w", "src": "r"}),
        (A.zero_.default, {"self": "w"}),
        (A.mm.out, {"self": "r", "mat2": "r", "out": "w"}),
        (A.index_put_.default, {"self": "rw", "indices": "r", "values": "r"}),
        (A.slice.Tensor, {"self": ""}),
        (A.empty_like.default, {"self": ""}),
        (A._foreach_add_.List, {"self": "rw", "other": "r"}),
        (
            A.native_batch_norm.default,
            {"input": "r", "weight": "r", "bias": "r", "running_mean": "rw", "running_var": "rw"},
        ),
    ],
    ids=str,
)
def test_effects(op, expected) -> None:
    assert effects(op) == expected


@pytest.mark.parametrize(
    ("op", "target", "outputs", "drop"),
    [
        (A.add_.Tensor, "aten.add.Tensor", (("write", "self"),), ()),
        (A.copy_.default, "aten.copy.default", (("write", "self"),), ()),
        (A.zero_.default, "aten.zero.default", (("write", "self"),), ()),
        (A.fill_.Tensor, "aten.fill.Tensor", (("write", "self"),), ()),
        (A.pow_.Scalar, "aten.pow.Tensor_Scalar", (("write", "self"),), ()),
        (A.floor_divide_.Tensor, "aten.floor_divide.default", (("write", "self"),), ()),
        (A.add.out, "aten.add.Tensor", (("write", "out"),), ("out",)),
        (A.max.dim_max, "aten.max.dim", (("write", "max"), ("write", "max_values")), ("max", "max_values")),
        (
            A.native_batch_norm.default,
            "aten._native_batch_norm_legit_functional.default",
            (("result", 0), ("result", 1), ("result", 2), ("write", "running_mean"), ("write", "running_var")),
            (),
        ),
    ],
    ids=str,
)
def test_twins(op, target, outputs, drop) -> None:
    twin = facts(op).twin
    assert twin is not None
    assert (twin.target, twin.outputs, twin.drop) == (target, outputs, drop)


def overloads():
    """Every ATen overload that can be called."""
    for name in dir(A):
        packet = getattr(A, name)
        if isinstance(packet, torch._ops.OpOverloadPacket):
            yield from (getattr(packet, overload) for overload in packet.overloads())


def test_every_twin_is_pure_and_takes_the_same_arguments() -> None:
    found = 0
    for op in overloads():
        known = facts(op)
        if known.twin is None:
            continue
        found += 1
        namespace, name, overload = known.twin.target.split(".")
        twin = getattr(getattr(getattr(torch.ops, namespace), name), overload)
        assert not any(p.writes for p in facts(twin).parameters), op
        mine = [p.name for p in known.parameters if p.name not in known.twin.drop]
        theirs = [p.name for p in facts(twin).parameters]
        assert theirs[: len(mine)] == mine, op
        assert len(twin._schema.returns) == len(known.twin.outputs), op
    assert found > 500


def test_in_place_twins_compute_what_the_op_writes() -> None:
    x = torch.rand(3, 4) + 0.5
    for op, rest in [
        (A.add_.Tensor, (x,)),
        (A.pow_.Scalar, (2,)),
        (A.clamp_.default, (0.6, 0.9)),
        (A.relu_.default, ()),
    ]:
        twin = facts(op).twin
        assert twin is not None
        _, name, overload = twin.target.split(".")
        written = x.clone()
        op(written, *rest)
        assert torch.equal(getattr(getattr(A, name), overload)(x, *rest), written)


def test_silent_writers_write_in_training_only() -> None:
    known = facts(A.native_batch_norm.default)
    assert known.silent
    statistics = {"running_mean": object(), "running_var": object()}
    assert writes_now(known, {"training": True, **statistics})
    assert not writes_now(known, {"training": False, **statistics})
    assert not writes_now(known, {"training": True, "running_mean": None, "running_var": None})


def test_batch_norm_with_out_operands_has_the_twin_of_one_without() -> None:
    twin = facts(A._native_batch_norm_legit.out).twin
    assert twin is not None
    assert twin.target == "aten._native_batch_norm_legit_functional.default"
    assert [name for _, name in twin.outputs] == ["out", "save_mean", "save_invstd", "running_mean", "running_var"]


def test_random_ops_draw_unless_dropout_is_off() -> None:
    assert draws_now(facts(A.rand.default), {})
    assert draws_now(facts(A.native_dropout.default), {"p": 0.5, "train": True})
    assert not draws_now(facts(A.native_dropout.default), {"p": 0.5, "train": False})
    assert not draws_now(facts(A.add.Tensor), {})


def test_lists_expand_and_reads_of_lists_do_not() -> None:
    assert expands(A._foreach_mul_.Scalar)
    assert expands(A._foreach_add.List)
    assert not expands(A.cat.default)
    assert not expands(A.split.Tensor)


def test_metadata_twins_are_views() -> None:
    assert metadata_twin(A.transpose_.default) is A.transpose.int
    assert metadata_twin(A.resize_.default) is None
