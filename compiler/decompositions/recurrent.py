"""Recurrent layers, step by step: the fused kernels of a host have no other form."""

from __future__ import annotations

import torch
from torch import Tensor

from compiler.decompositions import decomposition

_LSTM = 2


@decomposition("mkldnn_rnn_layer.default")
def mkldnn_rnn_layer(
    x: Tensor, of_input: Tensor, of_hidden: Tensor, input_bias: Tensor, hidden_bias: Tensor, hx: Tensor, cx: Tensor,
    reverse: bool, batch_sizes: list[int], mode: int, hidden_size: int, num_layers: int, has_biases: bool,
    bidirectional: bool, batch_first: bool, train: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """One layer of an LSTM in one direction; nothing is kept for a backward pass."""
    if mode != _LSTM or batch_sizes:
        raise NotImplementedError("only LSTM layers on padded sequences")
    h, c = hx.reshape(hx.shape[-2:]), cx.reshape(cx.shape[-2:])
    from_input = torch.nn.functional.linear(x, of_input, input_bias if has_biases else None)
    outputs: list[Tensor] = []
    for step in reversed(range(len(x))) if reverse else range(len(x)):
        gates = from_input[step] + torch.nn.functional.linear(h, of_hidden, hidden_bias if has_biases else None)
        i, f, g, o = gates.chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        outputs.append(h)
    sequence = torch.stack(outputs[::-1] if reverse else outputs)
    return sequence, h.reshape(hx.shape), c.reshape(cx.shape), torch.empty((0,), dtype=torch.uint8)
