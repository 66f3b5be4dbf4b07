"""A function of values computed by the embedded XLA: from StableHLO as it was lowered, or from the exported HLO."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from typing import Any

import torch
from jaxlib import _jax, xla_client  # pyright: ignore[reportAttributeAccessIssue]
from jaxlib.mlir import ir
from torch.utils import dlpack
from xdsl.dialects.func import FuncOp

from compiler.reference import Tensors
from compiler.runtime.buffers import to_torch
from compiler.runtime.client import compile_hlo, compile_options, cpu_client, device

Run = Callable[[FuncOp, Tensors], Tensors]
"""Computes the results of a function from its parameters."""


def run_hlo(hlo: bytes) -> Run:
    """What runs a function of values through an exported HLO module."""
    return _run(lambda: compile_hlo(hlo))


def run_stablehlo(module: ir.Module) -> Run:
    """What runs a function of values through the StableHLO it was lowered to, which XLA converts by itself."""
    stream = io.BytesIO()
    module.operation.write_bytecode(stream)
    devices = xla_client.DeviceList((device(),))
    return _run(lambda: cpu_client().compile_and_load(stream.getvalue(), devices, compile_options()))


def _run(build: Callable[[], Any]) -> Run:
    program = functools.cache(build)

    def run(function: FuncOp, parameters: Tensors) -> Tensors:
        if not function.function_type.outputs.data:
            return []  # nothing to compute: a program of results that are arguments
        buffers = [
            _jax.dlpack_managed_tensor_to_buffer(dlpack.to_dlpack(_dense(p)), device(), None, True) for p in parameters
        ]
        results: Tensors = []
        for (buffer,) in program().execute_sharded(buffers).disassemble_into_single_device_arrays():
            buffer.block_until_ready()
            results.append(to_torch(buffer).clone())
        return results

    return run


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.clone(memory_format=torch.contiguous_format)


__all__ = ["run_hlo", "run_stablehlo"]
