"""The Neuron passes one by one: metadata, names, what each does alone, errors, dumps."""

from __future__ import annotations

import copy
import logging

import custom_ops
import pytest
import torch
from fx_graphs import BY_ID
from fx_oracle import CLONE, FxCase, Hand, capture, check_rewrite, leftover_inplace, scaling_graph
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from compiler.errors import UnsupportedError
from compiler.integrations import vllm_neuron as neuron
from compiler.process_groups import partition


def served(case: FxCase, gm: fx.GraphModule, found: dict) -> None:
    report = check_rewrite(case, gm, found["io_map"], found["original_output_count"], found["output_views"])
    assert not report.errors


# -- the manager -----------------------------------------------------------------------------------


def test_metadata_by_pass_name_in_order() -> None:
    _, metadata = neuron.run_passes(BY_ID["nk_two_caches"].build(), target_device="xla")
    assert list(metadata) == [
        "device_rewriter", "nki_kernel_backend_config_pass", "aliasing_output_rewrite", "inplace_to_outofplace",
        "collective_replica_groups",
    ]  # fmt: skip
    assert metadata["device_rewriter"] == {"rewrite_count": 0}
    assert metadata["nki_kernel_backend_config_pass"] == {"kernel_call_count": 1}
    assert metadata["aliasing_output_rewrite"]["io_map"] == {1: 0, 2: 1}
    assert metadata["inplace_to_outofplace"] == {}
    assert metadata["collective_replica_groups"] == {"resolved_count": 0}


def test_dumps(tmp_path) -> None:
    neuron.run_passes(BY_ID["cr_zero"].build(), compiler_workdir=str(tmp_path))
    names = sorted(path.name for path in (tmp_path / "passes").iterdir())
    assert names[0] == "00_original.txt"
    assert names[1:] == [
        "01_after_device_rewriter.txt", "02_after_nki_kernel_backend_config_pass.txt",
        "03_after_aliasing_output_rewrite.txt", "04_after_inplace_to_outofplace.txt",
        "05_after_collective_replica_groups.txt",
    ]  # fmt: skip
    assert "zero_" in (tmp_path / "passes" / names[0]).read_text()
    assert "zero_" not in (tmp_path / "passes" / names[4]).read_text()


def test_a_dump_that_cannot_be_written_is_a_warning(tmp_path, caplog) -> None:
    (tmp_path / "file").write_text("")
    with caplog.at_level(logging.WARNING):
        neuron.run_passes(BY_ID["cr_zero"].build(), compiler_workdir=str(tmp_path / "file"))
    assert "cannot be written" in caplog.text


def test_a_failing_pass_is_named_and_its_error_is_the_cause() -> None:
    with pytest.raises(RuntimeError, match="aliasing_output_rewrite") as caught:
        neuron.run_passes(BY_ID["er_input_transposed"].build())
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert isinstance(caught.value.__cause__.__cause__, UnsupportedError)
    assert caught.value.__cause__.__cause__.node == "t_"


def test_a_foreign_pass_may_give_back_the_module_alone() -> None:
    class Foreign:
        name = "foreign"

        def run(self, gm, **kwargs):
            self.seen = kwargs
            return gm

    foreign = Foreign()
    manager = neuron.FXPassManager([neuron.DeviceRewriterPass(), foreign])
    _, metadata = manager.run_passes(BY_ID["dv_kwarg"].build(), target_device="xla")
    assert metadata == {"device_rewriter": {"rewrite_count": 2}, "foreign": {}}
    assert foreign.seen["device_rewriter"] == {"rewrite_count": 2}


@pytest.mark.parametrize(
    ("mangled", "clean"),
    [
        ("L_self_modules_layers_modules_0_modules_fc_parameters_weight_", "layers.0.fc.weight"),
        ("l_self_buffers_cache_", "cache"),
        ("L_kv_", "kv"),
        ("kv", "kv"),
    ],
)
def test_dynamo_names(mangled: str, clean: str) -> None:
    assert neuron.clean_name(mangled) == clean


def test_a_graph_that_returns_nothing_has_no_results() -> None:
    h = Hand("x")
    h.m("add_", h.ins[0], 1)
    gm, metadata = neuron.run_passes(h.out(None).module(), example_inputs=[torch.ones(3)])
    assert metadata["aliasing_output_rewrite"]["io_map"] == {0: 0}
    assert metadata["aliasing_output_rewrite"]["original_output_count"] == 0
    assert gm(torch.ones(3))[0].tolist() == [2, 2, 2]


def test_an_operator_that_writes_what_it_reads_is_refused() -> None:
    h = Hand("x")
    h.f(torch.ops.aliascases.reverse_into.default, h.ins[0], h.ins[0])
    with pytest.raises(RuntimeError, match="writes the memory that it reads as operand"):
        neuron.run_passes(h.out((h.ins[0],)).module(), example_inputs=[torch.ones(3)])


# -- passes alone ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "lw_row_copy", "nk_two_caches", "cu_list", "of_bare_and_write", "lw_return_base", "of_tuple_and_write",
        "of_bare_tuple_and_write",
    ],
)  # fmt: skip
def test_the_aliasing_pass_leaves_the_graph_in_place(name: str) -> None:
    case = BY_ID[name]
    gm, found = neuron.AliasingOutputRewritePass().run(case.build())
    args, reference = case.inputs(), case.inputs()
    outs, wanted = gm(*args), case.build()(*reference)
    wanted = wanted if isinstance(wanted, (tuple, list)) else (wanted,)
    for out, want in zip(outs, wanted, strict=False):
        torch.testing.assert_close(out, want)
    for result, position in found["io_map"].items():
        torch.testing.assert_close(outs[result], reference[position])
    assert found["original_output_count"] == len(wanted)


@pytest.mark.parametrize("name", ["lw_unbind", "nk_flat_return_base", "cu_two_writes", "of_write_result_and_base"])
def test_the_out_of_place_pass_alone_says_what_it_added(name: str) -> None:
    case = BY_ID[name]
    gm, found = neuron.InPlaceToOutOfPlacePass().run(case.build())
    if not found:  # every written input was a result already
        found = neuron.AliasingOutputRewritePass().run(case.build())[1]
    served(case, gm, found)


def test_writing_nodes_know_their_input_and_new_nodes_are_named_after_it() -> None:
    gm = BY_ID["lw_two_layers_one_pool"].build()
    neuron.AliasingOutputRewritePass().run(gm)
    pool = next(node for node in gm.graph.nodes if node.op == "placeholder")
    roots = [node.meta["root_input"] for node in gm.graph.nodes if "root_input" in node.meta]
    assert roots == [pool, pool]
    neuron.InPlaceToOutOfPlacePass().run(gm)
    output = next(node for node in gm.graph.nodes if node.op == "output")
    assert output.args[0][1].name.startswith(f"{pool.name}_modified")


def test_two_states_of_one_call_are_named_apart() -> None:
    gm, _ = neuron.run_passes(BY_ID["nk_two_caches"].build())
    output = next(node for node in gm.graph.nodes if node.op == "output")
    assert [node.name for node in output.args[0]][1:] == ["kc_modified", "vc_modified"]


def test_new_nodes_have_fake_metadata_and_stack_traces() -> None:
    gm, _ = neuron.run_passes(BY_ID["cr_row_part"].build())
    for node in gm.graph.nodes:
        if node.op == "call_function":
            assert "example_value" in node.meta
            assert "stack_trace" in node.meta


def test_a_returned_view_is_described() -> None:
    case = BY_ID["co_ret_t"]
    gm, metadata = neuron.run_passes(case.build())
    found = metadata["aliasing_output_rewrite"]
    assert found["output_views"] == {0: (0, (3, 3), (1, 3), 0)}
    served(case, gm, found)


# -- kernels -----------------------------------------------------------------------------------------


def test_kernel_configuration_counts_positions_over_all_arguments() -> None:
    case = BY_ID["nk_unconfigured"]
    gm, found = neuron.NkiKernelWriteBackendConfigPass(custom_ops.compile_kernel).run(case.build())
    (node,) = (n for n in gm.graph.nodes if n.target is custom_ops.nki_kernel_wrapper)
    assert node.kwargs["operand_output_aliases"] == case.extra["full_position_aliases"]
    assert node.kwargs["backend_config"] == case.extra["backend_config"]
    assert found == {"kernel_call_count": 1}


def test_one_compilation_per_kernel_and_signature() -> None:
    h = Hand("cache", "v")
    for _ in range(3):
        h.nki(custom_ops.k_bump, *h.ins, aliases={})
    gm = h.out((h.m("sum", h.ins[0]),)).module()
    for node, value in zip(gm.graph.nodes, (torch.zeros(3), torch.ones(3)), strict=False):
        node.meta["val"] = value
    calls = []

    def compiler(kernel_idx, args):
        calls.append(kernel_idx)
        return custom_ops.compile_kernel(kernel_idx, args)

    _, found = neuron.NkiKernelWriteBackendConfigPass(compiler).run(gm)
    assert found == {"kernel_call_count": 3}
    assert len(calls) == 1


def test_a_kernel_without_configuration_is_refused() -> None:
    with pytest.raises(RuntimeError, match="backend configuration.*no kernel compiler"):
        neuron.run_passes(BY_ID["nk_unconfigured"].build())


def test_an_alias_entry_for_a_scalar_is_refused() -> None:
    h = Hand("cache", "v")
    h.nki(custom_ops.k_scaled_bump, 2.0, 1, *h.ins, aliases={0: 0})
    gm = h.out((h.m("sum", h.ins[0]),)).module()
    with pytest.raises(RuntimeError, match="argument 0, which is no tensor"):
        neuron.AliasingOutputRewritePass().run(gm, example_inputs=[torch.zeros(3), torch.ones(3)])


# -- devices -----------------------------------------------------------------------------------------


def test_devices_in_every_place() -> None:
    h = Hand("x")
    (x,) = h.ins
    a = h.m("cuda", x)
    a = h.m("cpu", a)
    a = h.m("to", a, "cuda:1", torch.float32)
    a = h.m("to", a, torch.device("cuda"), non_blocking=True)
    a = h.f(torch.ops.aten._to_copy.default, a, device="cpu")
    b = h.f(torch.ops.aten.zeros.default, [2], device=torch.device("cuda", 0))
    c = h.m("to", b, torch.float64)
    gm, found = neuron.DeviceRewriterPass().run(h.out((a, b, c)).module(), target_device="meta")
    assert found == {"rewrite_count": 6}
    assert all(out.device.type == "meta" for out in gm(torch.zeros(2)))


def test_the_device_that_a_factory_mentions_survives() -> None:
    h = Hand("x")
    z = h.f(torch.zeros, 2, device="cuda")
    h.m("add_", z, h.ins[0])
    gm = h.out((z,)).module()
    gm, _ = neuron.run_passes(gm, target_device="xla", example_inputs=[torch.zeros(2)])
    (zeros,) = (n for n in gm.graph.nodes if n.target is torch.ops.aten.zeros.default)
    assert zeros.kwargs["device"] == "xla"
    assert not leftover_inplace(gm)


# -- groups, tables, cost ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ranks", "world", "groups"),
    [
        ((0, 1, 2, 3), 8, ((0, 1, 2, 3), (4, 5, 6, 7))),
        ((4, 5, 6, 7), 8, ((0, 1, 2, 3), (4, 5, 6, 7))),
        ((1, 5), 8, ((0, 4), (1, 5), (2, 6), (3, 7))),
        ((1, 0), 4, ((1, 0), (3, 2))),
        ((2,), 3, ((0,), (1,), (2,))),
    ],
)
def test_one_group_shows_the_partition(ranks, world, groups) -> None:
    assert partition(ranks, world) == groups


@pytest.mark.parametrize(("ranks", "world"), [((0, 1, 3), 6), ((0, 1, 2), 8), ((1, 2), 4)])
def test_irregular_groups_are_refused(ranks, world) -> None:
    with pytest.raises(UnsupportedError, match="replica_groups="):
        partition(ranks, world)


@pytest.mark.parametrize(("kind", "way_out"), [("branch", "choose with torch.where"), ("loop", "unroll the loop")])
def test_control_flow_is_refused_with_a_way_out(kind: str, way_out: str) -> None:
    def branch(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x * 2, (x,))

    def loop(x: torch.Tensor) -> torch.Tensor:
        return torch.while_loop(lambda x: x.sum() < 9, lambda x: (x + 1,), (x,))[0]

    gm = capture(branch if kind == "branch" else loop, [torch.ones(3)])
    with pytest.raises(RuntimeError, match=f"a {kind} on values known only at run time") as caught:
        neuron.run_passes(gm)
    error: BaseException | None = caught.value
    while error is not None and not isinstance(error, UnsupportedError):
        error = error.__cause__
    assert error is not None and way_out in error.hint and "compiler.compile" in error.hint
    assert "test_vllm_neuron.py:" in error.location


def test_tables_come_from_schemas() -> None:
    assert {"view", "diagonal", "unbind", "mT", "contiguous"} <= neuron.ALIASING_METHODS
    assert "clone" not in neuron.ALIASING_METHODS
    assert {"slice", "split_with_sizes", "as_strided"} <= neuron.ALIASING_ATEN_OPS
    assert {"add_", "copy_", "index_put_", "zero_"} <= neuron.INPLACE_METHODS
    assert not neuron.INPLACE_METHODS & neuron.ALIASING_METHODS


def test_a_graph_of_many_states_stays_small() -> None:
    """Nodes per write do not grow with the number of states."""
    sizes = []
    for n in (10, 40):
        gm, inputs = scaling_graph(n)
        gm, metadata = neuron.run_passes(gm, example_inputs=inputs)
        assert metadata["aliasing_output_rewrite"]["io_map"] == {1 + i: i for i in range(n)}
        assert not leftover_inplace(gm)
        sizes.append(len(gm.graph.nodes) / n)
    assert sizes[1] < sizes[0] * 1.05


def test_no_copies_are_added() -> None:
    gm, _ = neuron.run_passes(BY_ID["lw_two_layers_one_pool"].build())
    assert not [node for node in gm.graph.nodes if node.target is CLONE]


def test_graphs_as_torch_compile_hands_them_to_a_backend() -> None:
    """Parameters and buffers lifted to inputs, real tensors as examples, nothing functional: served like eager."""
    tables: list[dict] = []

    def backend(gm: fx.GraphModule, example_inputs: list[torch.Tensor]):
        pure, metadata = neuron.run_passes(gm, target_device="cpu", example_inputs=example_inputs)
        found = metadata["aliasing_output_rewrite"]
        tables.append(found)
        neuron.convert_fx_to_hlo(pure, example_inputs, found["io_map"])
        assert not leftover_inplace(pure)

        def serve(*args: torch.Tensor) -> list:
            results = list(pure(*args))
            for result, position in found["io_map"].items():
                args[position].copy_(results[result])
                results[result] = args[position]
            return results[: found["original_output_count"]]

        return serve

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = torch.nn.Linear(4, 4)
            self.register_buffer("cache", torch.zeros(2, 8, 4))
            self.register_buffer("steps", torch.zeros((), dtype=torch.int32))

        def forward(self, x: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
            k = self.fc(x)
            self.cache[0].index_copy_(0, slots, k)
            self.cache[1, slots] = k * 2
            self.steps += 1
            return self.cache.sum(0) * self.steps

    torch.manual_seed(0)
    layer = Layer()
    reference = Layer()
    reference.load_state_dict(layer.state_dict())
    torch._dynamo.reset()
    run = torch.compile(layer, backend=backend, dynamic=False)
    with torch.no_grad():
        for start in (0, 3):
            x, slots = torch.randn(2, 4), torch.tensor([start, start + 1])
            torch.testing.assert_close(run(x, slots), reference(x, slots))
    for (name, mine), theirs in zip(layer.named_buffers(), reference.buffers(), strict=True):
        torch.testing.assert_close(mine, theirs, msg=name)
    (found,) = tables
    assert len(found["io_map"]) == 2


def test_a_graph_that_counts_in_the_storage_of_an_input_needs_the_input_at_its_begin() -> None:
    graph = make_fx(lambda x: x.as_strided([2], [1], 3) * 2)(torch.arange(12.0))
    served, _ = neuron.run_passes(copy.deepcopy(graph), example_inputs=[torch.arange(12.0)])
    assert pytree.tree_leaves(served(torch.arange(12.0)))[0].tolist() == [6, 8]
    with pytest.raises(RuntimeError, match="begins at element 2 of it"):
        neuron.run_passes(graph, example_inputs=[torch.arange(12.0)[2:]])


def test_an_input_without_elements_keeps_its_order_of_dimensions() -> None:
    x = torch.empty(0).as_strided((2, 0), (1, 4))
    graph = make_fx(lambda x: x > x.diagonal(-1, 1, 0), tracing_mode="real")(x)
    served, _ = neuron.run_passes(graph, example_inputs=[x])
    assert pytree.tree_leaves(served(x))[0].shape == (2, 0)
