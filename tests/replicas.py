"""Runs an HLO module on several replicas, one CPU device each, without jax."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxlib import _jax, xla_client

from compiler.export.hlo import check_shapes

REPLICAS = 8


@functools.cache
def client() -> Any:
    # Making arrays over several devices asks for this setting, which jax usually holds.
    _jax.jax_jit.set_enable_x64_state(_jax.config.Config("enable_x64", True))
    return xla_client.make_cpu_client(num_devices=REPLICAS)


class _Type:
    """What making an array asks of a type."""

    weak_type = False

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape, self.dtype, self.ndim = shape, np.dtype(dtype), len(shape)


def run(proto: bytes, inputs: Sequence[Sequence[torch.Tensor]]) -> list[list[torch.Tensor]]:
    """Results by replica; `inputs` are the arguments of each replica."""
    devices = client().local_devices()
    options = xla_client.CompileOptions()
    options.num_replicas = options.executable_build_options.num_replicas = REPLICAS
    options.device_assignment = xla_client.DeviceAssignment.create(np.arange(REPLICAS).reshape(REPLICAS, 1))
    executable = client().compile_and_load(check_shapes(proto), xla_client.DeviceList(tuple(devices)), options)
    arrays = [_over_devices([one[n].numpy() for one in inputs], devices) for n in range(len(inputs[0]))]
    outputs = executable.execute_sharded(arrays).disassemble_into_single_device_arrays()
    return [[torch.from_numpy(np.asarray(shards[r]).copy()) for shards in outputs] for r in range(REPLICAS)]


def _over_devices(parts: list[np.ndarray], devices: Any) -> Any:
    op = xla_client.OpSharding()
    op.type = xla_client.OpSharding.Type.OTHER
    op.tile_assignment_dimensions = [REPLICAS, *[1] * (parts[0].ndim - 1)]
    op.tile_assignment_devices = list(range(REPLICAS))
    sharding = _jax.GSPMDSharding(tuple(devices), op)
    whole = (parts[0].shape[0] * REPLICAS, *parts[0].shape[1:])
    return _jax.batched_device_put(_Type(whole, parts[0].dtype), sharding, parts, list(devices))
