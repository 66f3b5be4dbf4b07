"""Where results lie in memory when operands are not contiguous: the samples again with other strides, imported and not compiled."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch.testing._internal.opinfo.core import OpInfo
from torch.utils import _pytree as pytree
from xdsl.dialects.builtin import MemRefType

from compiler.errors import CompileError
from compiler.frontend.capture import capture
from compiler.frontend.importer import import_graph
from compiler.reference import entry as function_of
from dialects.types import geometry
from tools.fuzz.observe import strides_of
from tools.opinfo.samples import Sample, flowing, samples

LAYOUTS = ("transposed", "reversed", "gaps", "expanded", "channels last")


@dataclass(frozen=True)
class Checked:
    """One sample in one layout: "agreed", "refused", or how the strides differ."""

    layout: str
    sample: str
    verdict: str


def laid_out(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """The same elements (of "expanded": those of the first row) with other strides; a vector stays as it is."""
    if tensor.layout != torch.strided or tensor.dim() < 2:
        return tensor
    if layout == "transposed":
        return tensor.transpose(-1, -2).contiguous().transpose(-1, -2)
    if layout == "reversed":
        order = list(range(tensor.dim()))[::-1]
        return tensor.permute(order).contiguous().permute(order)
    if layout == "gaps":
        whole = torch.zeros(*tensor.shape[:-1], tensor.shape[-1] * 2, dtype=tensor.dtype)
        whole[..., ::2].copy_(tensor)
        return whole[..., ::2]
    if layout == "expanded":
        return tensor[:1].expand_as(tensor)
    return tensor.movedim(1, -1).contiguous().movedim(-1, 1)


def check(entry: OpInfo, dtype: torch.dtype, limit: int) -> Iterator[Checked]:
    """Every sample in every layout that eager takes; strides of dimensions of size one are not compared."""
    for sample in samples(entry, dtype, limit):
        for layout in LAYOUTS:
            moved, again = (  # an entry may write its operands
                replace(sample, tensors=tuple(laid_out(t.detach().clone(), layout) for t in sample.tensors))
                for _ in range(2)
            )
            try:
                with torch.no_grad(), flowing(), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    expected = _results(moved(*moved.tensors))
            except Exception:  # eager refuses this layout
                continue
            yield Checked(layout, str(again), _compare(again, expected))


def _results(result: object) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def _compare(sample: Sample, expected: list[torch.Tensor]) -> str:
    try:
        with torch.no_grad(), flowing(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = import_graph(capture(lambda *tensors: _results(sample(*tensors)), sample.tensors))
    except CompileError:
        return "refused"
    returned = function_of(program.module).body.block.last_op
    assert returned is not None
    for number, (value, right) in enumerate(zip(returned.operands, expected, strict=True)):
        assert isinstance(value.type, MemRefType)
        found = geometry(value.type)
        got = tuple(s for s, n in zip(found.strides, found.sizes, strict=True) if n != 1) if right.numel() else ()
        if got != strides_of(right):
            return f"result {number} has strides {got}, should be {strides_of(right)}"
    return "agreed"
