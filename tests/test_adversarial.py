"""Graphs written to break a rewrite (adversarial.py), through the Neuron passes: served right, and the HLO computes the same."""

from __future__ import annotations

import adversarial
import pytest
import torch
from fx_oracle import FxCase, check_rewrite
from jaxlib import _jax

from compiler.export.decoder import check_module
from compiler.integrations.vllm_neuron import run_passes
from compiler.integrations.vllm_neuron.hlo import convert
from compiler.runtime.client import compile_hlo, device

NO_HLO = {"complex_view", "int_promote"}
"""Have complex numbers and f64, which the hardware lacks."""


@pytest.mark.parametrize("case", adversarial.CASES, ids=lambda case: case.id)
def test_served(case: FxCase) -> None:
    gm, metadata = run_passes(case.build())
    found = metadata["aliasing_output_rewrite"]
    report = check_rewrite(case, gm, found["io_map"], found["original_output_count"], found["output_views"])
    assert report.errors == []
    if case.id in NO_HLO:
        return
    program = convert(gm, None, found["io_map"])
    check_module(program.proto)
    if case.id.startswith("h_") and any("backend_config" in node.kwargs for node in gm.graph.nodes):
        return  # a kernel runs on the device only
    inputs = case.inputs()
    outputs = gm(*inputs)
    wanted = [t for t in (outputs if isinstance(outputs, (tuple, list)) else [outputs]) if isinstance(t, torch.Tensor)]
    taken = [inputs[i].clone().contiguous() for i in program.parameters]
    buffers = [_jax.dlpack_managed_tensor_to_buffer(t.__dlpack__(), device(), None, True) for t in taken]
    results = (
        compile_hlo(program.proto).execute_sharded(buffers).disassemble_into_single_device_arrays() if wanted else []
    )
    for shards, want in zip(results, wanted, strict=True):
        have = torch.from_dlpack(_jax.buffer_to_dlpack_managed_tensor(shards[0]))
        torch.testing.assert_close(have, want, rtol=1e-5, atol=1e-5)
