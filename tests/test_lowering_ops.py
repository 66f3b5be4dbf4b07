"""Every lowering rule against eager PyTorch: many overloads, dtypes and edge values in a few compiled modules."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from jaxlib import _jax, xla_client
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import func

import compiler
from compiler.lowering import load_rules
from compiler.lowering.builder import Builder, make_context
from compiler.lowering.registry import RULES, Call
from tests.op_cases import ELEMENT, FAMILIES, TOLERANCE, Case, flat, replace

load_rules()


class Compiled:
    """All cases of a family in one module: arguments are their tensors, outputs their results."""

    def __init__(self, cases: list[Case]):
        self.results: dict[int, list[torch.Tensor] | Exception] = {}
        expected = [c.eager() for c in cases]
        inputs: list[torch.Tensor] = []
        for c in cases:
            inputs += [v for v in flat([c.args, list(c.kwargs.values())]) if isinstance(v, torch.Tensor)]
        with make_context(), ir.Location.unknown():
            b = Builder()
            module = ir.Module.create()
            with ir.InsertionPoint(module.body):
                kinds = [b.tensor(ELEMENT[v.dtype], tuple(v.shape)) for v in inputs]
                main = func.FuncOp("main", ir.FunctionType.get(kinds, []), visibility="public")
            block = main.add_entry_block()
            arguments = iter(block.arguments)
            spans: dict[int, tuple[int, int]] = {}
            outputs: list[ir.Value] = []
            with ir.InsertionPoint(block):
                for number, (c, want) in enumerate(zip(cases, expected, strict=True)):
                    args = replace(lambda v: _argument(v, arguments), c.args)
                    kwargs = replace(lambda v: _argument(v, arguments), c.kwargs)
                    types = tuple((ELEMENT[w.dtype], tuple(w.shape)) for w in want)
                    try:
                        found = RULES[c.target](b, Call(c.target, args, kwargs, types))
                        values = [found] if isinstance(found, ir.Value) else list(found)
                        assert [v.type for v in values] == [b.tensor(*kind) for kind in types]
                    except Exception as error:  # told by the case's own test
                        self.results[number] = error
                        continue
                    spans[number] = (len(outputs), len(outputs) + len(values))
                    outputs += values
                func.return_(outputs)
            main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(kinds, [v.type for v in outputs]))
            module.operation.verify()
            found = _execute(module, inputs)
        for number, (first, last) in spans.items():
            self.results[number] = found[first:last]
        self.expected = expected


def _argument(value: Any, arguments: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return next(arguments)
    return ELEMENT[value] if isinstance(value, torch.dtype) else value


def _execute(module: ir.Module, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    client = xla_client.make_cpu_client()
    device = client.local_devices()[0]
    options = xla_client.CompileOptions()
    options.env_option_overrides = [("xla_backend_optimization_level", 0)]
    executable = client.compile_and_load(module, xla_client.DeviceList((device,)), options)
    buffers = [
        _jax.dlpack_managed_tensor_to_buffer(
            v.clone(memory_format=torch.contiguous_format).__dlpack__(), device, None, True
        )
        for v in inputs
    ]
    found = executable.execute_sharded(buffers).disassemble_into_single_device_arrays()
    return [torch.from_dlpack(_jax.buffer_to_dlpack_managed_tensor(shards[0])).clone() for shards in found]


@functools.cache
def compiled(family: str) -> Compiled:
    return Compiled(FAMILIES[family])


@pytest.mark.parametrize(
    "family, number",
    [pytest.param(f, i, id=f"{i}-{c.name}") for f, cases in FAMILIES.items() for i, c in enumerate(cases)],
)
def test_agrees_with_eager(family: str, number: int) -> None:
    batch = compiled(family)
    found = batch.results[number]
    if isinstance(found, Exception):
        raise found
    for got, want in zip(found, batch.expected[number], strict=True):
        rtol, atol = FAMILIES[family][number].tolerance or TOLERANCE.get(want.dtype, (0, 0))
        torch.testing.assert_close(got, want, rtol=rtol, atol=atol, equal_nan=True, check_stride=False)


def test_conversion_to_f8_saturates_as_pytorch_does() -> None:
    numbers = [
        447.0,
        449.0,
        464.0,
        465.0,
        -465.0,
        1e9,
        float("inf"),
        -float("inf"),
        float("nan"),
        61439.0,
        61441.0,
        -0.0,
    ]

    def store(cache: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        cache.copy_(values)
        return values.to(cache.dtype)

    for element in (torch.float8_e4m3fn, torch.float8_e5m2):
        for source in (torch.float32, torch.bfloat16, torch.float16, torch.float8_e5m2, torch.int32):
            values = torch.tensor(numbers if source.is_floating_point else [500, -70000, 3]).to(source)
            ours, theirs = (torch.zeros(len(values), dtype=element) for _ in range(2))
            executable = compiler.compile(store, (ours, values))
            pairs = ((executable(ours, values), store(theirs, values)), (ours, theirs))
            for have, want in pairs:
                torch.testing.assert_close(have.float(), want.float(), rtol=0, atol=0, equal_nan=True)


def test_a_sum_of_booleans_that_xla_folds() -> None:
    """XLA computes `true + true` as true when it runs, and folds it to false."""

    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        yes = torch.ones(2, dtype=torch.bool)
        put = yes.index_put((torch.tensor([0]),), torch.tensor([True]), accumulate=True)
        return yes + yes, torch.add(yes, yes, alpha=2), put, x + yes

    x = torch.tensor([True, False])
    for got, right in zip(compiler.compile(program, (x,))(x), program(x), strict=True):
        assert torch.equal(got, right)
