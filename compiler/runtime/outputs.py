"""The outputs a caller gets: its own tensors, views of them, and new tensors on the memory of HLO results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from compiler.export.elements import DTYPES
from compiler.export.signature import OutputSource, Signature, TensorType, Window
from compiler.runtime.buffers import to_torch
from compiler.runtime.views import view


class Outputs:
    """The output plan of one signature, ready to be carried out."""

    def __init__(self, signature: Signature):
        self._plan = signature.plan
        self._results = signature.results
        self._origins = tuple(b.window.offset * DTYPES[b.element].itemsize for b in signature.bindings)
        self._whole = tuple(s.kind == "result" and _is_whole(s, signature.results[s.index]) for s in signature.plan)

    def rebuild(self, tensors: Sequence[torch.Tensor], buffers: Sequence[Any], taken: set[int]) -> list[torch.Tensor]:
        """One tensor per original output. `taken` holds the addresses of memory that a new tensor must not be on."""
        outputs: list[torch.Tensor] = []
        bases: dict[int, torch.Tensor] = {}
        for source, whole in zip(self._plan, self._whole, strict=True):
            if source.kind == "argument":
                outputs.append(tensors[source.index])
            elif source.kind == "output":
                outputs.append(outputs[source.index])
            elif source.kind == "argument_view":
                base = tensors[source.index]
                start = int(base.storage_offset()) * base.dtype.itemsize - self._origins[source.index]
                outputs.append(view(base, source.element, start, source.window, source.lazy))
            elif whole and source.index not in bases:
                bases[source.index] = self._fresh(buffers[source.index], taken)
                outputs.append(bases[source.index])
            else:
                if source.index not in bases:
                    bases[source.index] = self._fresh(buffers[source.index], taken)
                outputs.append(view(bases[source.index], source.element, 0, source.window, source.lazy))
        return outputs

    @staticmethod
    def _fresh(buffer: Any, taken: set[int]) -> torch.Tensor:
        tensor = to_torch(buffer)
        address = tensor.data_ptr()
        if not address:
            return torch.empty_like(tensor)  # memory of PyTorch's own: unlike XLA's it can be resized
        if address in taken:
            return tensor.clone()
        taken.add(address)
        return tensor


def _is_whole(source: OutputSource, result: TensorType) -> bool:
    steps: list[int] = []
    step = 1
    for size in reversed(result.shape):
        steps.insert(0, step)
        step *= max(size, 1)
    return not source.lazy and source.element == result.element and source.window == Window(result.shape, tuple(steps))
