"""Models whose state moves: outputs and state agree with eager over three steps, and XLA copies no piece of state."""

from __future__ import annotations

import copy

import pytest
import torch
import workloads
from copies import state_copies

import compiler

NO_COPIES = [n for n in workloads.names() if n[0] in "abde"]


def close(got: torch.Tensor, want: torch.Tensor) -> bool:
    if not want.dtype.is_floating_point:
        return torch.equal(got, want)
    scale = max(want.abs().max().item(), 1.0)
    return torch.allclose(got, want, rtol=1e-5, atol=1e-5 * scale)


@pytest.mark.parametrize("layers", [2, 8])
@pytest.mark.parametrize("name", workloads.names())
def test_three_steps(name: str, layers: int) -> None:
    module, inputs = workloads.get(name, layers)
    twin, twin_inputs = copy.deepcopy(module), tuple(t.clone() for t in inputs)
    with torch.no_grad():
        exe = compiler.compile(module, inputs)
        for step in range(3):
            got, want = exe(*inputs), twin(*twin_inputs)
            assert close(got, want), f"step {step}: {(got - want).abs().max()}"
            for (key, mine), theirs in zip(module.state_dict().items(), twin.state_dict().values(), strict=True):
                assert close(mine, theirs), f"step {step}: state {key}"
            for mine, theirs in zip(inputs, twin_inputs, strict=True):
                assert close(mine, theirs), f"step {step}: an argument"
    written = workloads.n_mutated(name, layers)
    assert len(exe.alias_table) == written
    if name in NO_COPIES:
        assert state_copies(exe, workloads.cache_numel(name, layers)) == 0


def test_capture_leaves_the_module_as_it_was() -> None:
    module, inputs = workloads.get("d_bn", 2)
    before = {k: v.clone() for k, v in module.state_dict().items()}
    with torch.no_grad():
        compiler.compile(module, inputs)
    assert all(torch.equal(v, before[k]) for k, v in module.state_dict().items())
