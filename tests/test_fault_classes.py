"""Every known fault of the passes that these replace has a test that is named after its class.

A fault is a handed case, or a measurement where it is one of cost. The right answers are in the cases; what a case asks of the
passes is judged by running it. Faults that are not wrong results:

| class | fault | test |
|---|---|---|
| no refusal | data-dependent size, resize_, t_ on an input | test_no_refusal |
| no refusal | a consumed activation returned, or read again | test_no_refusal_of_a_consumed_activation |
| needless copy | copy stored back, densifying copy that is reduced, the right one of several | test_needless_copy |
| needless copy | one full-pool scatter per write, only the last aliased | test_needless_copy_of_a_pool_per_write |
| cost | one scan over all later nodes per write | test_cost_per_write_is_constant (figures: benchmarks/scaling.py --drop-in) |
| cost | a real tensor of the state's full shape as metadata | test_cost_of_metadata_is_none |
| cost | a slice write reads and writes the whole buffer (pad and where) | test_cost_of_a_slice_write_is_the_slice |
| cost | groups, channel ids and cache keys that differ from rank to rank | test_cost_of_one_compilation_for_all_ranks |

Faults with wrong results or crashes are in FAULTS below: class -> fault -> cases.
"""

from __future__ import annotations

import pytest
import torch
from custom_ops import OPS
from fx_cases import judge
from fx_graphs import BY_ID, FX_CASES
from fx_oracle import Hand, check_clone_removal, scaling_graph
from torch._subclasses.fake_tensor import FakeTensor

from compiler.errors import CompileError
from compiler.export.hlo_reader import read_module
from compiler.integrations.fx_clones import eliminate_clones
from compiler.integrations.vllm import PassContext
from compiler.integrations.vllm_ir import InterchangeableOp, Provider
from compiler.integrations.vllm_lowering import functionalize
from compiler.integrations.vllm_neuron import CollectiveReplicaGroupsPass, cache_key, convert_fx_to_hlo, run_passes
from compiler.process_groups import partition

FAULTS: dict[str, dict[str, tuple[str, ...]]] = {
    "lost write": {
        "subscript by an integer": ("lw_row_copy", "lw_plane_index_put"),
        "views that are tuples": ("lw_unbind", "lw_chunk", "lw_split_mul"),
        "view kinds by name": ("lw_view_as", "lw_contiguous", "lw_dot_T", "lw_diagonal"),
        "writes by name": ("lw_iadd", "lw_ior_mask", "lw_torch_fn", "lw_inplace_flag"),
        "flat write, then base write": ("lw_view_then_base",),
        "a stale input counts as the result": ("lw_return_base", "lw_return_old_view"),
        "negative subscripts": ("lw_neg_row_neg_col",),
        "two layers in one pool": ("lw_two_layers_one_pool",),
        "ATen graphs": ("at_index_copy_", "at_row_assign", "at_foreach", "at_kwarg_self"),
        "kernel through a flat view": ("nk_flat_return_base",),
        "kernel result read afterwards": ("nk_then_snapshot", "nk_then_and"),
        "kernel not configured yet": ("nk_unconfigured",),
        "an operator's result that is its operand": ("cu_alias_result_written",),
    },
    "corruption": {
        "write through a transposed view": ("co_t_setitem",),
        "a returned view overwrites its input": ("co_ret_t", "co_ret_permute", "co_ret_reshape_of_t"),
        "a gather is no view": ("co_gather_write",),
        "another dtype": ("co_dtype_view_out", "co_promote_add", "co_promote_slice"),
        "mask of rows": ("co_row_mask",),
        "inputs by name": ("co_underscore_arg", "of_names_collide"),
        "one input owned twice": ("co_ret_two_views", "of_write_result_and_base", "of_list_and_write"),
        "arguments that overlap": ("er_overlapping_inputs", "er_identical_inputs"),
    },
    "stale read": {
        "views are not told": ("sr_flat_write_base_read", "sr_old_view_read"),
        "a local buffer": ("sr_local_columns", "sr_local_narrow", "nk_on_local"),
    },
    "crash": {
        "a piece is reshaped to full size": ("cr_select_col", "sr_row_meets_column", "nk_on_plane"),
        "no twin by that name": ("cr_zero", "cr_fill_row"),
        "a scalar state": ("cr_scalar_state",),
        "broadcast values": ("cr_row_broadcast", "cr_full_scalar", "cr_row_scalar_tensor"),
        "indexing rules": ("cr_ellipsis", "cr_list_index", "cr_none_index", "cr_row_part", "cr_col_index_rect", "cr_row_mask_rect",
                           "cr_strided_rows"),
        "written operands by schema": ("cu_two_writes", "cu_out_kw", "cu_reverse", "cu_list", "cu_returns_operand"),
    },
    "right before": {
        "must stay right": ("nk_two_caches", "nk_between_torch_writes", "nk_cross_aliases", "nk_pure", "of_bare_and_write",
                            "of_unused_between", "of_pass_through", "co_copy_int_src", "co_ret_fresh_after_write",
                            "sr_nested_list_read"),
    },
}  # fmt: skip

CLONES: dict[str, dict[str, tuple[str, ...]]] = {
    "corruption": {
        "a clone or its source written through a view": ("cx_write_through_view", "cx_source_written_by_view"),
        "one memory for two results": ("cx_two_copies_one_written", "cx_snapshot_view"),
        "the whole read later": ("cx_qkv_read_later",),
        "source is part of an input": ("cx_source_is_input_view", "cx_source_is_input_half"),
        "source is a constant": ("cx_constant",),
        "read and written in one operator": ("cx_read_and_write_in_one_op", "cx_add_own_transpose"),
        "stale metadata": ("cx_view_of_copy_returned",),
        "lazy bits, inputs that overlap": ("cx_conj_bit", "cx_overlapping_inputs"),
    },
    "crash": {"users that are no operators": ("cc_getitem_user", "cc_method_user")},
}

NEEDLESS = ("ck_copy_back", "ck_dense_read", "ck_choose_the_right_one")


def faults(table: dict[str, dict[str, tuple[str, ...]]], chosen: str) -> pytest.MarkDecorator:
    rows = [(case, fault) for fault, cases in table[chosen].items() for case in cases]
    return pytest.mark.parametrize("name", [case for case, _ in rows], ids=[f"{fault}: {case}" for case, fault in rows])


def right(name: str) -> None:
    case = BY_ID[name]
    verdict = judge(case)
    assert verdict.errors == []
    assert verdict.kind == "right" or case.error, "only cases that may be refused are"


@faults(FAULTS, "lost write")
def test_lost_write(name: str) -> None:
    right(name)


@faults(FAULTS, "corruption")
def test_corruption(name: str) -> None:
    right(name)


@faults(FAULTS, "stale read")
def test_stale_read(name: str) -> None:
    right(name)


@faults(FAULTS, "crash")
def test_crash(name: str) -> None:
    right(name)


@faults(FAULTS, "right before")
def test_what_was_right_before(name: str) -> None:
    right(name)


def unharmed(name: str) -> int:
    """Copies removed, nothing donated; with the case's donations too what is left must be right."""
    case, gone = BY_ID[name], 0
    for donated in (case.donate, ()):
        graph = case.build()
        eliminate_clones(graph, case.inputs(), donated=donated, objective="count")
        verdict = check_clone_removal(case, graph, donated)
        assert verdict.errors == []
        gone = verdict.info["removed"]
    return gone


@faults(CLONES, "corruption")
def test_corruption_by_a_removed_copy(name: str) -> None:
    unharmed(name)


@faults(CLONES, "crash")
def test_crash_of_clone_elimination(name: str) -> None:
    unharmed(name)


@pytest.mark.parametrize("name", NEEDLESS)
def test_needless_copy(name: str) -> None:
    best = BY_ID[name].best
    assert best is not None
    assert unharmed(name) == best[1]


@pytest.mark.parametrize("name", ["er_mask_gather", "er_resize", "er_input_transposed"])
def test_no_refusal(name: str) -> None:
    verdict = judge(BY_ID[name])
    assert verdict.errors == []
    assert verdict.kind == "refused"


@pytest.mark.parametrize(("name", "activation"), [("ir_reuse", "x"), ("ir_reuse_in_output", "r")])
def test_no_refusal_of_a_consumed_activation(name: str, activation: str) -> None:
    fused = Provider("fused", OPS.fused_add_rms_norm_.default, gives=("x", "residual"))
    norm = InterchangeableOp(OPS.add_norm.default, ("x", "residual"), OPS.add_norm.maybe_inplace, (fused,))
    with pytest.raises(
        CompileError, match=rf"add_norm.* may overwrite its activation argument {activation}, but"
    ) as caught:
        functionalize(BY_ID[name].build().graph, [norm], PassContext())
    assert caught.value.node


def test_needless_copy_of_a_pool_per_write() -> None:
    """Four writes to one pool are one chain of updates, whose end alone is aliased."""
    h = Hand("pool", "rows", "slots")
    pool, rows, slots = h.ins
    for plane in range(4):
        h.m("index_copy_", h.m("select", pool, 0, plane), 0, slots, rows)
    inputs = [torch.zeros(4, 16, 8), torch.ones(2, 8), torch.tensor([3, 5])]
    gm, metadata = run_passes(h.out((h.m("sum", pool),)).module(), example_inputs=inputs)
    module = read_module(convert_fx_to_hlo(gm, inputs, metadata["aliasing_output_rewrite"]["io_map"]))
    scatters = [i for i in module.entry.instructions if i.opcode == "scatter"]
    assert len(scatters) == 4
    for before, after in zip(scatters, scatters[1:], strict=False):
        assert after.operands[0] == before.id
    (alias,) = module.aliases
    assert module.entry.by_id[module.entry.root].operands[alias.output[0]] == scatters[-1].id


def test_cost_per_write_is_constant() -> None:
    """Nodes that a write becomes do not grow with the number of later nodes."""
    made = []
    for pools in (20, 80):
        gm, inputs = scaling_graph(pools)
        gm, _ = run_passes(gm, example_inputs=inputs)
        made.append(len(gm.graph.nodes) / pools)
    assert made[1] <= made[0]


def test_cost_of_metadata_is_none() -> None:
    """A cache of a terabyte is rewritten: whatever is known about a node is known from fake tensors."""
    h = Hand("pool", "row")
    h.m("copy_", h.f(torch.select, h.m("view", h.ins[0], -1, 1 << 10), 0, 7), h.ins[1])
    gm = h.out((h.m("numel", h.ins[0]),)).module()
    with torch._subclasses.fake_tensor.FakeTensorMode():
        fakes = [torch.empty(1 << 18, 1 << 20), torch.empty(1 << 10)]
    for node, fake in zip(gm.graph.nodes, fakes, strict=False):
        node.meta["example_value"] = fake
    gm, metadata = run_passes(gm)
    assert metadata["aliasing_output_rewrite"]["io_map"] == {1: 0}
    values = [node.meta["example_value"] for node in gm.graph.nodes if "example_value" in node.meta]
    assert len(values) > 4
    assert all(isinstance(value, FakeTensor) for value in values)


def test_cost_of_a_slice_write_is_the_slice() -> None:
    h = Hand("cache", "row")
    h.m("copy_", h.m("narrow", h.ins[0], 0, 3, 1), h.ins[1])
    inputs = [torch.zeros(64, 8), torch.ones(1, 8)]
    gm, metadata = run_passes(h.out((h.m("numel", h.ins[0]),)).module(), example_inputs=inputs)
    module = read_module(convert_fx_to_hlo(gm, inputs, metadata["aliasing_output_rewrite"]["io_map"]))
    opcodes = {i.opcode for i in module.entry.instructions}
    assert "dynamic-update-slice" in opcodes
    assert not opcodes & {"select", "pad", "concatenate", "copy"}


def test_cost_of_one_compilation_for_all_ranks() -> None:
    """Eight ranks that each see their own group, with counters of their own, write one module under one key."""
    made = set()
    for rank in range(8):
        group = tuple(range(4 * (rank // 4), 4 * (rank // 4) + 4))
        h = Hand("x")
        gm = h.out((h.f(torch.ops._c10d_functional.all_reduce.default, h.ins[0], "sum", "tp"),)).module()
        gm, _ = CollectiveReplicaGroupsPass(lambda _name, group=group: partition(group, 8)).run(gm)
        x = [torch.full((2,), float(rank))]
        made.add((convert_fx_to_hlo(gm, x), cache_key(gm, x)))
    assert len(made) == 1


def test_every_handed_fault_is_here() -> None:
    named = {case for table in (FAULTS, CLONES) for rows in table.values() for cases in rows.values() for case in cases}
    named |= {"er_mask_gather", "er_resize", "er_input_transposed", *NEEDLESS}
    assert named <= set(BY_ID)
    faults = {
        case.id
        for case in FX_CASES
        if case.category in ("lost_write", "crash", "kernel", "error", "stale_read", "corrupt")
    }
    missing = faults - named - {"nk_scalar_before_tensor"}
    assert not missing
