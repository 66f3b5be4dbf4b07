"""A function of values computed by the embedded XLA: lowered, exported and run, as an executable would be."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxlib import _jax  # pyright: ignore[reportAttributeAccessIssue]
from torch.utils import dlpack
from xdsl.dialects.func import FuncOp

from compiler.reference import Tensors
from compiler.runtime.buffers import to_torch
from compiler.runtime.client import compile_hlo, device


def run_hlo(hlo: bytes) -> Callable[[FuncOp, Tensors], Tensors]:
    """What runs a function of values through this HLO module."""

    def run(function: FuncOp, parameters: Tensors) -> Tensors:
        if not function.function_type.outputs.data:
            return []  # nothing to compute: a program of results that are arguments
        program = compile_hlo(hlo)
        buffers = [
            _jax.dlpack_managed_tensor_to_buffer(dlpack.to_dlpack(_dense(p)), device(), None, True)  # pyright: ignore[reportPrivateImportUsage]
            for p in parameters
        ]
        outputs = program.execute_sharded(buffers).disassemble_into_single_device_arrays()
        results: Tensors = []
        for (buffer,) in outputs:
            buffer.block_until_ready()
            results.append(to_torch(buffer).clone())
        return results

    return run


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.clone(memory_format=torch.contiguous_format)


__all__ = ["run_hlo"]
