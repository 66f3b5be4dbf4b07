"""Run value IR on the CPU client: parse the text, lower it, compile it, feed it torch tensors."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from jaxlib import _jax, xla_client
from jaxlib.mlir import ir
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.func import Func
from xdsl.parser import Parser

from compiler.lowering.module import lower
from dialects.alias import Alias
from dialects.fx import Fx

ELEMENT = {
    torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16",
    torch.float8_e4m3fn: "f8E4M3FN", torch.float8_e5m2: "f8E5M2",
    torch.int64: "i64", torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.bool: "i1",
    torch.uint64: "ui64", torch.uint32: "ui32", torch.uint16: "ui16", torch.uint8: "ui8",
    torch.complex64: "complex<f32>", torch.complex128: "complex<f64>",
}  # fmt: skip


@functools.cache
def client() -> Any:
    return xla_client.make_cpu_client()


def parse(text: str) -> ModuleOp:
    """A module from IR text; a bare body may leave out the module."""
    context = Context()
    for dialect in (Builtin, Func, Fx, Alias):
        context.load_dialect(dialect)
    module = Parser(context, text).parse_module()
    module.verify()
    return module


def type_text(tensor: torch.Tensor) -> str:
    """The value type of a tensor: `tensor<2x3xf32>`."""
    return "tensor<" + "".join(f"{size}x" for size in tensor.shape) + ELEMENT[tensor.dtype] + ">"


def execute(module: ir.Module, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Compile a StableHLO module and run it on copies of the inputs."""
    device = client().local_devices()[0]
    executable = client().compile_and_load(module, xla_client.DeviceList((device,)), xla_client.CompileOptions())
    buffers = [
        _jax.dlpack_managed_tensor_to_buffer(t.clone().contiguous().__dlpack__(), device, None, True) for t in inputs
    ]
    outputs = executable.execute_sharded(buffers).disassemble_into_single_device_arrays()
    return [torch.from_dlpack(_jax.buffer_to_dlpack_managed_tensor(shards[0])).clone() for shards in outputs]


def run(text: str, inputs: Sequence[torch.Tensor], *, target: str = "xla") -> list[torch.Tensor]:
    """Results of the function `@main` of an IR text."""
    return execute(lower(parse(text), target=target), inputs)


def function(body: str, inputs: Sequence[torch.Tensor], results: Sequence[tuple[str, torch.Tensor]]) -> str:
    """IR text of `@main` over arguments %a0, %a1, ...; `results` pairs each returned name with a tensor of its type."""
    arguments = ", ".join(f"%a{i}: {type_text(t)}" for i, t in enumerate(inputs))
    types = ", ".join(type_text(t) for _, t in results)
    names = ", ".join(name for name, _ in results)
    return f"func.func @main({arguments}) -> ({types}) {{\n{body}\nfunc.return {names} : {types}\n}}"


def call_text(target: str, arguments: str, inputs: Sequence[torch.Tensor], results: Sequence[torch.Tensor]) -> str:
    """IR text of one call: `arguments` names the inputs %a0, %a1, ... in order, each once."""
    names = [f"%r{i}" for i in range(len(results))]
    types = ", ".join(type_text(t) for t in results)
    body = f'{", ".join(names)} = fx.value_call "{target}"({arguments}) : ({", ".join(map(type_text, inputs))}) -> '
    body += types if len(results) == 1 else f"({types})"
    return function(body, inputs, list(zip(names, results, strict=True)))


def run_call(
    target: str, arguments: str, inputs: Sequence[torch.Tensor], results: Sequence[torch.Tensor], *, hlo: str = "xla"
) -> list[torch.Tensor]:
    """Lower and run one call; `results` are tensors with the types that are expected."""
    return run(call_text(target, arguments, inputs, results), inputs, target=hlo)
