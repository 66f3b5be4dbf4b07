"""The embedded XLA: one CPU client per process, compile options, and compilation of checked HLO bytes."""

from __future__ import annotations

import functools
import os
from typing import Any

from jaxlib import _jax, utils, xla_client  # pyright: ignore[reportAttributeAccessIssue]

from compiler.errors import CompileError
from compiler.export.hlo import check_shapes, interface
from compiler.export.signature import check_aliases

NO_FUSION: dict[str, Any] = {"xla_disable_hlo_passes": "fusion", "xla_backend_optimization_level": 0}
"""Overrides under which the copies of a compiled program are those its alias table asks for.

CPU fusion duplicates a cache write into each of its readers, which hides whether the write is in place. For counting only:
with the pass off, the simplifier of XLA's CPU back end (jaxlib 0.10.2, `algsimp` after layout assignment) merges a transposing copy
of the updates of a 16-bit scatter into a bitcast, and the values are wrong.
"""


@functools.cache
def _home() -> int:
    """The process that the client was made in."""
    return os.getpid()


@functools.cache
def cpu_client() -> Any:
    """The CPU client of this process. Calls run in the caller's thread: a result is there when they return."""
    _home()
    if "TF_CPP_MIN_LOG_LEVEL" not in os.environ:
        utils.absl_set_min_log_level(2)  # errors only: making a client writes notices to stderr
    return xla_client.make_cpu_client(asynchronous=False)


@functools.cache
def device() -> Any:
    """The device everything runs on."""
    return cpu_client().local_devices()[0]


@functools.cache
def sharding() -> Any:
    """Placement of an array on the one device."""
    return _jax.SingleDeviceSharding(device())


def check_process() -> None:
    """CompileError in a process that was forked after XLA had started: its threads are not there, and it would wait for them."""
    if cpu_client.cache_info().currsize and os.getpid() != _home():
        raise CompileError(
            "XLA has started before this process was forked, and cannot run in it",
            hint="start the process with the method 'spawn', or fork before the first program is compiled or loaded",
        )


def compile_options(**overrides: Any) -> Any:
    """XLA's compile options; `overrides` are flags by name, with text, bool or int values."""
    options = xla_client.CompileOptions()
    options.env_option_overrides = list(overrides.items())
    return options


def compile_hlo(data: bytes, options: Any = None) -> Any:
    """Compile a serialised HLO module. Its alias table is checked first: XLA aborts the process on a bad one."""
    check_process()
    parts = interface(data)
    check_aliases(parts.aliases, parts.parameters, parts.results)
    bytecode = check_shapes(data)
    devices = xla_client.DeviceList((device(),))
    try:
        return cpu_client().compile_and_load(bytecode, devices, compile_options() if options is None else options)
    except RuntimeError as error:
        raise CompileError(f"XLA cannot compile this HLO module: {str(error).strip()}") from error
