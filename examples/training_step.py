"""A training step as one program: loss, gradient, and an update with momentum that writes every tensor where it is.

    python examples/training_step.py

The same network also trains through `torch.compile(backend="fx2hlo")` with any of PyTorch's optimizers; `benchmarks/training.py`
compares both with eager PyTorch.
"""

from __future__ import annotations

import torch
from torch import nn

import compiler

torch.manual_seed(0)
network = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))
parameters = {name: parameter.detach().clone() for name, parameter in network.named_parameters()}
momenta = {name: torch.zeros_like(parameter) for name, parameter in parameters.items()}


def step(
    parameters: dict[str, torch.Tensor], momenta: dict[str, torch.Tensor], x: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    def loss(parameters: dict[str, torch.Tensor]) -> torch.Tensor:
        return nn.functional.cross_entropy(torch.func.functional_call(network, parameters, (x,)), labels)

    gradients, value = torch.func.grad_and_value(loss)(parameters)
    for name, parameter in parameters.items():
        momenta[name].mul_(0.9).add_(gradients[name])
        parameter.sub_(momenta[name], alpha=0.05)
    return value


x = torch.randn(256, 2)
labels = (x[:, 0] * x[:, 1] > 0).long()
exe = compiler.compile(step, (parameters, momenta, x, labels))
places = [tensor.data_ptr() for tensor in (*parameters.values(), *momenta.values())]
for number in range(200):
    value = exe(parameters, momenta, x, labels)
    if number % 50 == 0 or number == 199:
        print(f"step {number:3}: loss {value.item():.4f}")
in_place = places == [tensor.data_ptr() for tensor in (*parameters.values(), *momenta.values())]
print(
    f"{len(exe.alias_table)} must-alias entries; every tensor where it was: {in_place}; bytes copied back: {exe.copied_bytes}"
)
