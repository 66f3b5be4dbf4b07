"""Losses whose one operator stands for a whole computation."""

from __future__ import annotations

from torch.nn.modules import linear_cross_entropy

from compiler.decompositions import decomposition

for _operator in (
    linear_cross_entropy._linear_cross_entropy_batch_chunked,
    linear_cross_entropy._linear_cross_entropy_batch_chunked_no_reduction,
):
    decomposition(f"torch_nn.{_operator._name}.default")(_operator._init_fn)
