"""Random numbers for the Neuron compiler: one seed, the last parameter, and nothing hidden goes in or out."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from fx_oracle import capture, leftover_inplace
from jaxlib import _jax

import compiler
from compiler.export.hlo_reader import read_module
from compiler.integrations.vllm_neuron import run_passes
from compiler.integrations.vllm_neuron.hlo import HloProgram, convert
from compiler.runtime.client import compile_hlo, device
from compiler.targets.neuron import violations
from compiler.transforms.seed_parameter import NAME


def program(x: torch.Tensor, w: torch.Tensor, cache: torch.Tensor) -> Any:
    """Drops, draws and fills, through views, in place and not."""
    y = F.dropout(x @ w, 0.5, training=True)
    cache[1].uniform_(-1, 1)
    z = torch.rand_like(y) + torch.randn(4)
    b = torch.empty_like(y).bernoulli_(0.3)
    x.normal_()
    return y, z, b, torch.randperm(6, dtype=torch.int32), x.sum()


def inputs() -> list[torch.Tensor]:
    return [torch.ones(4, 4), torch.eye(4), torch.zeros(2, 4)]


def converted() -> HloProgram:
    gm, metadata = run_passes(capture(program, inputs()), example_inputs=inputs())
    return convert(gm, inputs(), metadata["aliasing_output_rewrite"]["io_map"])


def run(hlo: HloProgram, tensors: list[torch.Tensor], seed: int) -> list[torch.Tensor]:
    given = [*(tensors[i].clone() for i in hlo.parameters), torch.tensor(seed)]
    buffers = [_jax.dlpack_managed_tensor_to_buffer(t.__dlpack__(), device(), None, True) for t in given]
    outputs = compile_hlo(hlo.proto).execute_sharded(buffers).disassemble_into_single_device_arrays()
    return [torch.from_dlpack(_jax.buffer_to_dlpack_managed_tensor(shards[0])).clone() for shards in outputs]


def test_the_passes_leave_draws_that_replay_like_the_original() -> None:
    gm = capture(program, inputs())
    mine, theirs = inputs(), inputs()
    torch.manual_seed(3)
    want = gm(*theirs)
    pure, metadata = run_passes(gm, example_inputs=inputs())
    assert leftover_inplace(pure) == []
    torch.manual_seed(3)
    got = pure(*mine)
    for one, other in zip(got, want, strict=False):
        assert torch.equal(one, other)
    found = metadata["aliasing_output_rewrite"]
    assert found["io_map"] == {5: 0, 6: 2}
    for result, argument in found["io_map"].items():
        assert torch.equal(got[result], theirs[argument])


def test_the_flat_contract_has_the_seed_last() -> None:
    hlo = converted()
    module = read_module(hlo.proto)
    assert hlo.has_rng_seed_parameter
    assert hlo.parameters == (0, 1, 2)
    assert len(module.parameters) == 4
    assert str(module.parameters[-1]) == "s64[]"
    assert {alias.parameter for alias in module.aliases} == {0, 2}
    names = {i.parameter: i.frontend["neff_input_names"] for i in module.entry.instructions if i.opcode == "parameter"}
    assert names[3] == NAME
    assert "rng-bit-generator" in {i.opcode for c in module.computations for i in c.instructions}


def test_the_seed_decides_the_numbers() -> None:
    hlo = converted()
    one, again, other = run(hlo, inputs(), 7), run(hlo, inputs(), 7), run(hlo, inputs(), 8)
    assert len(one) == 7
    for a, b in zip(one, again, strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(one[1], other[1])
    dropped, uniform, bits, order, total, x, cache = one
    assert set(dropped.unique().tolist()) <= {0.0, 2.0}
    assert set(bits.unique().tolist()) <= {0.0, 1.0}
    assert sorted(order.tolist()) == list(range(6))
    torch.testing.assert_close(total, x.sum())
    assert torch.equal(cache[0], torch.zeros(4))
    assert cache[1].abs().max() <= 1
    assert len(torch.cat([uniform.flatten(), x.flatten(), cache[1]]).unique()) == 36  # no draw repeats another


def test_a_graph_that_draws_nothing_has_no_seed() -> None:
    gm = capture(lambda x: F.dropout(x, 0.5, training=False) * 2, [torch.ones(3)])
    hlo = convert(gm, [torch.ones(3)])
    assert not hlo.has_rng_seed_parameter
    assert len(read_module(hlo.proto).parameters) == 1


def test_compile_for_neuron_takes_a_seed(tmp_path) -> None:
    exe = compiler.compile(program, inputs(), target="neuron", validate=True).manual_seed(5)
    assert str(read_module(exe.hlo_proto).parameters[-1]) == "s64[]"
    assert exe.argument_names[0] == NAME
    assert exe.state[NAME].item() == 5
    first = exe(*inputs())
    assert exe.state[NAME].item() == 6
    second = exe(*inputs())
    assert not torch.equal(first[1], second[1])
    again = exe.manual_seed(5)(*inputs())
    exe.manual_seed(5).save(tmp_path / "artifact")
    loaded = compiler.load(tmp_path / "artifact")
    for want, *others in zip(first, again, loaded(*inputs()), strict=True):
        assert all(torch.equal(want, other) for other in others)


def test_both_targets_draw_one_stream() -> None:
    """The state of the other target starts as a key, which is the seed, and zero."""
    drawn = [
        compiler.compile(lambda x: torch.rand(5) + x, (torch.zeros(5),), target=target).manual_seed(9)(torch.zeros(5))
        for target in ("xla", "neuron")
    ]
    assert torch.equal(*drawn)


@pytest.mark.parametrize("opcode", ["while", "conditional"])
def test_control_flow_is_refused_with_the_reason(opcode: str) -> None:
    from torch._higher_order_ops.while_loop import while_loop

    def loop(x: torch.Tensor) -> Any:
        return while_loop(lambda i: i.sum() < 4, lambda i: (i + 1,), (x,))

    def branch(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda: x + torch.rand(3), lambda: x * 2)

    chosen = loop if opcode == "while" else branch
    with torch.no_grad():
        found = [str(v) for v in violations(compiler.compile(chosen, (torch.ones(3),)).hlo_proto)]
        assert any(opcode in line and "control flow must be known when compiling" in line for line in found)
        with pytest.raises(compiler.UnsupportedError, match="control flow must be known"):
            compiler.compile(chosen, (torch.ones(3),), target="neuron")
