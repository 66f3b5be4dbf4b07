"""FX graphs as HLO for the Neuron compiler: what the bytes say, and what they compute on the embedded XLA."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import custom_ops
import pytest
import torch
from fx_graphs import BY_ID, FX_CASES
from fx_oracle import FxCase, Hand, capture
from jaxlib import _jax
from torch.utils import _pytree as pytree

import compiler
from compiler.errors import CompileError, UnsupportedError
from compiler.export.hlo import check_shapes
from compiler.export.hlo_reader import HloModule, read_module
from compiler.integrations.vllm_neuron import cache_key, convert_fx_to_hlo, get_default_pass_manager, run_passes
from compiler.integrations.vllm_neuron.hlo import HloProgram, convert
from compiler.runtime.client import compile_hlo, device
from compiler.targets.neuron import KERNEL_TARGET, check, violations

OPS = torch.ops.aliascases
LOWERED = [
    c for c in FX_CASES if not c.category.startswith(("clone", "ir_", "device", "error", "custom_op")) and not c.error
]


def converted(case: FxCase) -> tuple[torch.fx.GraphModule, HloProgram]:
    compile_kernel = custom_ops.compile_kernel if "needs_config" in case.tags else None
    gm, metadata = get_default_pass_manager(compile_kernel).run_passes(case.build())
    return gm, convert(gm, None, metadata["aliasing_output_rewrite"]["io_map"])


def run(program: HloProgram, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Run the module on copies of the inputs it takes."""
    taken = [inputs[i].clone().contiguous() for i in program.parameters]
    buffers = [_jax.dlpack_managed_tensor_to_buffer(t.__dlpack__(), device(), None, True) for t in taken]
    outputs = compile_hlo(program.proto).execute_sharded(buffers).disassemble_into_single_device_arrays()
    return [torch.from_dlpack(_jax.buffer_to_dlpack_managed_tensor(shards[0])).clone() for shards in outputs]


def instructions(module: HloModule, opcode: str) -> list:
    return [i for c in module.computations for i in c.instructions if i.opcode == opcode]


# -- every case --------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [c for c in LOWERED if c.category != "kernel"], ids=lambda c: c.id)
def test_case_computes_what_the_graph_computes(case: FxCase) -> None:
    gm, program = converted(case)
    inputs = case.inputs()
    wanted = [leaf for leaf in pytree.tree_leaves(gm(*inputs)) if isinstance(leaf, torch.Tensor)]
    outputs = run(program, inputs)
    assert len(outputs) == len(wanted)
    for out, want in zip(outputs, wanted, strict=True):
        torch.testing.assert_close(out, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("case", [c for c in LOWERED if c.category == "kernel"], ids=lambda c: c.id)
def test_kernel_calls_declare_their_aliases(case: FxCase) -> None:
    _, program = converted(case)
    check_shapes(program.proto)
    module = read_module(program.proto)
    assert [(a.output, a.kind) for a in module.aliases] == [((k,), 2) for k in program.aliases] or len(
        module.results
    ) == 1
    calls = instructions(module, "custom-call")
    assert len(calls) == sum(n.target is custom_ops.nki_kernel_wrapper for n in case.build().graph.nodes)
    for call in calls:
        assert call.custom_call_target == KERNEL_TARGET
        assert call.frontend["has_collectives"] == "0"
    by_kernel = {f"cfg:{k.name}": k for k in custom_ops.KERNELS}
    for call in calls:
        assert len(call.aliases) == len(by_kernel[call.backend_config].aliases)


def test_a_kernels_configuration_is_kept_byte_for_byte() -> None:
    text = base64.b64encode(json.dumps({"func_name": "k", "has_collectives": True}).encode()).decode()
    h = Hand("cache", "v")
    k = h.nki(custom_ops.k_scaled_bump, 2.0, 1, *h.ins, backend_config=text)
    gm, metadata = run_passes(h.out((h.f(torch.neg, k),)).module(), example_inputs=[torch.zeros(3), torch.ones(3)])
    proto = convert_fx_to_hlo(gm, [torch.zeros(3), torch.ones(3)], metadata["aliasing_output_rewrite"]["io_map"])
    (call,) = instructions(read_module(proto), "custom-call")
    assert call.backend_config == text
    assert call.frontend["has_collectives"] == "1"
    assert call.aliases == (((), 0),)
    assert len(call.operands) == 2


# -- the interface -------------------------------------------------------------------------------------


def test_unused_inputs_are_reported_and_aliases_count_parameters() -> None:
    _, program = converted(BY_ID["of_unused_between"])
    assert program.unused_input_indices == (1,)
    assert program.parameters == (0, 2)
    assert program.aliases == {1: 1}
    (alias,) = read_module(program.proto).aliases
    assert (alias.output, alias.parameter, alias.kind) == ((1,), 1, 2)


def test_repeated_results_keep_their_numbers() -> None:
    _, program = converted(BY_ID["of_same_fresh_twice"])
    assert program.results == {0: 0, 1: 1, 2: 2}
    assert program.aliases == {2: 0}


def test_a_parameter_handed_back_is_copied_unless_aliased() -> None:
    case = BY_ID["of_pass_through"]
    gm, metadata = run_passes(case.build())
    aliased = read_module(convert_fx_to_hlo(gm, None, metadata["aliasing_output_rewrite"]["io_map"]))
    assert not instructions(aliased, "copy")
    free = convert(gm)
    assert len(instructions(read_module(free.proto), "copy")) == 1
    assert [t.tolist() for t in run(free, case.inputs())] == [t.tolist() for t in gm(*case.inputs())]
    h = Hand("x")
    single = convert(h.out(h.ins[0]).module(), [torch.ones(2)])
    assert run(single, [torch.ones(2)])[0].tolist() == [1, 1]


def test_captured_tensors_become_constants() -> None:
    h = Hand("x", table=torch.arange(100.0))
    gm = h.out((h.f(torch.add, h.ins[0], h.attr("table")),)).module()
    program = convert(gm, [torch.ones(100)])
    assert program.parameters == (0,)
    assert torch.equal(run(program, [torch.ones(100)])[0], torch.arange(100.0) + 1)


def test_names_and_source_lines() -> None:
    _, program = converted(BY_ID["cr_row_part"])
    module = read_module(program.proto)
    named = {i.parameter: i.frontend["neff_input_names"] for i in instructions(module, "parameter")}
    assert named == {0: "x", 1: "v"}
    (root,) = (i for i in module.entry.instructions if i.id == module.entry.root)
    assert root.frontend["neff_output_names"] == "output0,x"
    assert all("fx_graphs.py:" in i.source for i in instructions(module, "dynamic-update-slice"))


def test_ids_are_small_and_layouts_row_major() -> None:
    _, program = converted(BY_ID["co_t_setitem"])
    module = read_module(program.proto)
    ids = [i.id for c in module.computations for i in c.instructions]
    assert sorted(ids) == list(range(1, len(ids) + 1))
    shapes = [s for c in module.computations for i in c.instructions for s in i.shape.arrays()]
    assert all(s.minor_to_major == tuple(reversed(range(len(s.dimensions)))) for s in shapes)


def test_overlapping_written_inputs_are_refused() -> None:
    base = torch.zeros(2, 3)
    h = Hand("kv", "row")
    h.m("add_", h.ins[0], 1)
    gm = h.out((h.m("sum", h.ins[1]), h.ins[0])).module()
    with pytest.raises(UnsupportedError, match="kv and row share memory"):
        convert_fx_to_hlo(gm, [base, base[1]], {1: 0})


def test_a_write_that_goes_nowhere_is_refused() -> None:
    h = Hand("x")
    h.m("add_", h.ins[0], 1)
    gm = h.out((h.m("sum", h.ins[0]),)).module()
    with pytest.raises(UnsupportedError, match="x is written, but no result goes back into it"):
        convert_fx_to_hlo(gm, [torch.zeros(3)])


@pytest.mark.parametrize(
    ("table", "message"), [({0: 0}, "aliases"), ({7: 0}, "does not join"), ({1: 0, 2: 0}, "two results")]
)
def test_wrong_alias_maps_are_refused(table: dict, message: str) -> None:
    h = Hand("x")
    gm = h.out((h.m("sum", h.ins[0]), h.m("neg", h.ins[0]), h.m("abs", h.ins[0]))).module()
    with pytest.raises(CompileError, match=message):
        convert_fx_to_hlo(gm, [torch.zeros(3)], table)


def test_the_graph_is_left_alone() -> None:
    gm, metadata = run_passes(BY_ID["lw_unbind"].build())
    before = str(gm.graph)
    convert_fx_to_hlo(gm, None, metadata["aliasing_output_rewrite"]["io_map"])
    assert str(gm.graph) == before


# -- what the target accepts ---------------------------------------------------------------------------


def test_all_refusals_come_in_one_error_with_lines() -> None:
    def program(x, i):
        y = x.double().sin()
        return torch.fft.fft(x).real + y.float(), x.cumsum(0), i + 1

    graph = capture(program, [torch.ones(4), torch.arange(2)])
    with pytest.raises(UnsupportedError) as caught:
        convert_fx_to_hlo(graph, [torch.ones(4), torch.arange(2)])
    text = str(caught.value)
    assert "f64 is no dtype" in text
    assert "Fourier transforms" in text
    assert f"{Path(__file__).name}:" in text


def test_a_run_time_position_is_a_scatter_that_assigns() -> None:
    h = Hand("cache", "row", "position")
    cache, row, position = h.ins
    h.m("index_copy_", cache, 0, position, row)
    gm, metadata = run_passes(h.out((h.m("sum", cache),)).module(),
                              example_inputs=(inputs := [torch.zeros(8, 4), torch.ones(1, 4), torch.tensor([3])]))  # fmt: skip
    program = convert(gm, inputs, metadata["aliasing_output_rewrite"]["io_map"])
    module = read_module(program.proto)
    (scatter,) = instructions(module, "scatter")
    (body,) = (c for c in module.computations if c.id in scatter.called)
    assert body.by_id[body.root].opcode == "parameter"
    assert not instructions(module, "dynamic-update-slice")
    assert run(program, inputs)[1].tolist() == gm(*inputs)[1].tolist()


def test_the_legality_check_reads_the_whole_module() -> None:
    exe = compiler.compile(lambda x, i: x[i] * 2, [torch.ones(3, dtype=torch.float64), torch.tensor([0, 2])])
    found = [str(v) for v in violations(exe.hlo_proto)]
    assert any("f64 is no dtype" in line for line in found)
    with pytest.raises(UnsupportedError):
        check(exe.hlo_proto)


# -- operators of an embedder ------------------------------------------------------------------------------


@pytest.fixture
def rules():
    """The rules as they were, after the test."""
    from compiler.lowering import load_rules
    from compiler.lowering.registry import RULES

    load_rules()
    before = dict(RULES)
    yield RULES
    RULES.clear()
    RULES.update(before)


def test_without_a_lowering_a_custom_op_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match=r"aliascases\.two_writes\.default.*\n.*register a lowering"):
        converted(BY_ID["cu_two_writes"])


def test_a_registered_lowering_gives_the_new_values_of_written_operands(rules) -> None:
    def two_writes(b, call):
        from jaxlib.mlir.dialects import stablehlo as hlo

        x, y = call.args
        assert call.writes == (0, 1)
        one, three = (b.splat(n, b.element(x), b.shape(x)) for n in (1, 3))
        return hlo.add(x, one), hlo.multiply(y, three)

    compiler.register_lowering(OPS.two_writes, two_writes)
    case = BY_ID["cu_two_writes"]
    gm, program = converted(case)
    for out, want in zip(run(program, case.inputs()), gm(*case.inputs()), strict=True):
        assert torch.equal(out, want)


def test_a_registered_lowering_serves_compile_too(rules) -> None:
    def scale(b, call):
        from jaxlib.mlir.dialects import stablehlo as hlo

        return [
            hlo.multiply(call.args[0], b.splat(call.arg(1, "s", 2.0), b.element(call.args[0]), b.shape(call.args[0])))
        ]

    compiler.register_lowering("aliascases::scale_", scale)
    x = torch.arange(4.0)
    exe = compiler.compile(lambda x: (OPS.scale_(x[1:]), x.sum())[1], [x.clone()])
    assert exe(x).item() == 12.0
    assert x.tolist() == [0, 2, 4, 6]


def test_a_registered_custom_call_aliases_what_it_writes(rules) -> None:
    compiler.register_custom_call(OPS.rows_write, "AwsNeuronCustomOp", backend_config="rows")
    h = Hand("cache", "rows", "slots")
    h.f(OPS.rows_write.default, *h.ins)
    inputs = [torch.zeros(4, 2), torch.ones(1, 2), torch.tensor([2])]
    gm, metadata = run_passes(h.out((h.m("sum", h.ins[0]),)).module(), example_inputs=inputs)
    module = read_module(convert_fx_to_hlo(gm, inputs, metadata["aliasing_output_rewrite"]["io_map"]))
    (call,) = instructions(module, "custom-call")
    assert (call.custom_call_target, call.backend_config, call.aliases) == ("AwsNeuronCustomOp", "rows", (((), 0),))


def test_a_second_lowering_is_refused(rules) -> None:
    with pytest.raises(CompileError, match="has a lowering rule already"):
        compiler.register_lowering(torch.ops.aten.neg.default, lambda b, call: call.args[0])


@pytest.mark.parametrize("name", ["nope::x", "aten::nope", "nope", "a::b::c::d"])
def test_a_lowering_of_no_operator_is_refused(name: str) -> None:
    with pytest.raises(CompileError, match=f"there is no operator '{name}'\n  instead: import the library"):
        compiler.register_lowering(name, lambda b, call: call.args[0])


# -- inputs that share memory ------------------------------------------------------------------------------


def test_inputs_that_share_written_memory_are_refused() -> None:
    """The graph was made pure for inputs that are apart; of these, one has bytes of the other."""
    h = Hand("a", "b")
    h.m("add_", *h.ins)
    gm, metadata = run_passes(h.out((h.m("sum", h.ins[1]),)).module(), example_inputs=[torch.ones(3), torch.ones(3)])
    io_map, base = metadata["aliasing_output_rewrite"]["io_map"], torch.arange(6.0)
    for inputs in ([base[:3], base[2:5]], [base[2:5], base[:3]], [base[:3], base[:3]]):
        with pytest.raises(UnsupportedError, match="inputs a and b share memory and a result is written to a"):
            convert_fx_to_hlo(gm, inputs, io_map)
        assert convert_fx_to_hlo(gm, inputs)  # nothing is written
    assert convert_fx_to_hlo(gm, [base[:3], base[3:]], io_map)


# -- target "neuron" of compile, and cache keys --------------------------------------------------------------


def test_compile_for_neuron_writes_the_command_line(tmp_path) -> None:
    def step(cache, row, position):
        cache.index_copy_(0, position, row)
        return cache.sum(0)

    arguments = [torch.zeros(8, 4), torch.ones(1, 4), torch.tensor([3], dtype=torch.int32)]
    exe = compiler.compile(step, arguments, target="neuron")
    exe.save(tmp_path / "artifact")
    assert (
        "neuronx-cc compile --framework XLA model.hlo_module.pb"
        in (tmp_path / "artifact" / "neuronx-cc.txt").read_text()
    )
    compiler.load(tmp_path / "artifact")
    module = read_module(exe.hlo_proto)
    assert {i.opcode for i in module.entry.instructions} & {"scatter", "dynamic-update-slice"} == {"scatter"}
    (root,) = (i for i in module.entry.instructions if i.id == module.entry.root)
    assert root.frontend["neff_output_names"] == "output0,cache"
    assert exe(*arguments).tolist() == [1, 1, 1, 1]


def test_compile_for_neuron_refuses_what_the_hardware_lacks() -> None:
    with pytest.raises(UnsupportedError, match="f64 is no dtype of the hardware"):
        compiler.compile(lambda x: x * 2, [torch.ones(3, dtype=torch.float64)], target="neuron")


def kernel_graph(config: str, constant_args_key: int = -1, names=("cache", "v")) -> torch.fx.GraphModule:
    h = Hand(*names)
    k = h.nki(custom_ops.k_bump, *h.ins, backend_config=config, constant_args_key=constant_args_key)
    return h.out((k,)).module()


def test_a_cache_key_holds_what_changes_the_program_only() -> None:
    x = [torch.zeros(3), torch.ones(3)]
    key = cache_key(kernel_graph("a"), x, {0: 0})
    assert key == cache_key(kernel_graph("a", 7, ("kv", "w")), [torch.ones(3), torch.ones(3)], {0: 0})
    base = torch.zeros(6)
    different = [
        cache_key(kernel_graph("b"), x, {0: 0}),
        cache_key(kernel_graph("a"), x),
        cache_key(kernel_graph("a"), [torch.zeros(3), torch.ones(3).double()], {0: 0}),
        cache_key(kernel_graph("a"), [base[:3], base[3:]], {0: 0}),
        cache_key(kernel_graph("a"), x, {0: 0}, {"lnc": 1}),
    ]
    assert len({key, *different}) == 6


def test_a_cache_key_holds_captured_tensors() -> None:
    keys = set()
    for value in (1.0, 2.0, 2.0):
        h = Hand("x", table=torch.full((3,), value))
        keys.add(cache_key(h.out((h.f(torch.add, h.ins[0], h.attr("table")),)).module(), [torch.ones(3)]))
    assert len(keys) == 2
