"""Kernel calls as operations of their own: what they hold, what they write, and the custom call they become."""

from __future__ import annotations

import base64
import json
import operator
from types import SimpleNamespace
from typing import Any

import custom_ops
import pytest
import torch
from fx_oracle import Hand
from torch._C import DispatchKey
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensorMode
from xdsl.context import Context

import compiler
import compiler.integrations.vllm_neuron as neuron
from compiler.errors import CompileError, UnsupportedError
from compiler.export.hlo_reader import read_module
from compiler.frontend.capture import capture
from compiler.frontend.importer import import_graph
from compiler.frontend.kernels import READERS, KernelCall, read_kernel
from compiler.reference import run_handles, run_values
from compiler.transforms.in_place_to_out_of_place import InPlaceToOutOfPlace
from compiler.transforms.write_nki_backend_config import write_nki_backend_config
from compiler.validation.validator import Validator
from compiler.verify import verify
from dialects import nki

CONFIGURATION = base64.b64encode(json.dumps({"kernel": "k.klir", "has_collectives": True}).encode()).decode()


def imported(gm, *inputs):
    return import_graph(capture(gm, list(inputs))).module


def kernels_of(module):
    return [op for op in module.walk() if isinstance(op, nki.KernelCall)]


def rows(count: int = 4) -> torch.Tensor:
    return torch.arange(count * 3.0).reshape(count, 3)


# -- what the operation holds ------------------------------------------------------------------------


def test_a_call_holds_all_that_the_wrapper_was_given() -> None:
    h = Hand("c", "v")
    kwargs = custom_ops.kernel_kwargs(
        custom_ops.k_scaled_bump, (2.0, 1, *h.ins), backend_config=CONFIGURATION, constant_args_key=7, grid=(2, 1)
    )
    gm = h.out((h.g.call_function(custom_ops.nki_kernel_wrapper, (), kwargs),)).module()
    (op,) = kernels_of(imported(gm, rows(), rows()))
    assert isinstance(op, nki.CallOp)
    assert op.kernel_idx.value.data == custom_ops.k_scaled_bump.kernel_idx
    assert op.grid.data == (2, 1)
    assert op.backend_config.data == CONFIGURATION
    assert op.operand_output_aliases.data == ((2, 0),)
    assert op.stored == ((0, 0),)
    assert op.arg_names is not None
    assert [n.data for n in op.arg_names.data] == ["a0", "a1", "a2", "a3"]
    assert op.constant_args_key is not None
    assert op.constant_args_key.value.data == 7
    assert op.has_collectives is not None
    assert (op.effects.reads(), op.effects.writes()) == ((0, 1), (0,))
    assert [alias.kind for alias in op.aliases.data] == ["same"]


def sum_of_all(cache: torch.Tensor, pair: Any, table: Any, config: Any, *rest: Any) -> torch.Tensor:
    return cache.add_(pair[0] * pair[1] + table[1][0] + config.bias)


def test_lists_tuples_and_configuration_objects_among_the_arguments() -> None:
    """Tensors are found wherever they are; what the IR cannot spell is named by its type."""
    custom_ops.register_kernel("sum_of_all", {0: 0})(sum_of_all)
    h = Hand("c", "a", "b", "d")
    c, a, b, d = h.ins
    config = SimpleNamespace(bias=1.0)
    args = (c, [a, b], ({"x": 1}["x"], (d,)), config, "row", None, True, torch.float32)
    gm = h.out((h.nki(sum_of_all, *args), h.m("sum", c))).module()
    module = imported(gm, rows(), rows(), rows(), rows())
    (op,) = kernels_of(module)
    assert '(%c, [%a, %b], [1, [%d]], @"object:SimpleNamespace", "row", none, true, f32)' in str(module)
    assert op.effects.writes() == (0,)
    InPlaceToOutOfPlace(carriers=False).apply(Context(), module)
    verify(module)
    assert [len(op.args) for op in kernels_of(module)] == [4]


# -- what it writes: eager on handles, against values ------------------------------------------------


def through_a_view(h: Hand, c: Any, v: Any) -> Any:
    h.nki(custom_ops.k_bump, h.m("select", c, 0, 1), h.m("select", v, 0, 0))
    return (h.m("sum", c),)


def result_written_in_place(h: Hand, c: Any, v: Any) -> Any:
    k = h.nki(custom_ops.k_bump, c, v)
    h.m("mul_", k, 3.0)
    return (h.m("neg", c),)


def two_in_a_row(h: Hand, c: Any, v: Any) -> Any:
    k = h.nki(custom_ops.k_bump, c, v)
    return (h.nki(custom_ops.k_scaled_bump, 2.0, 1, k, v), h.m("neg", c))


def on_a_copy_that_is_read_later(h: Hand, c: Any, v: Any) -> Any:
    k = h.nki(custom_ops.k_bump, h.m("clone", c), v)
    return (k, h.m("neg", c))


def halves_swapped(h: Hand, c: Any, v: Any) -> Any:
    pair = h.nki(custom_ops.k_swap, c, v)
    h.m("add_", h.f(operator.getitem, pair, 0), 10.0)
    return (h.m("neg", c), h.m("neg", v))


@pytest.mark.parametrize(
    "program", [through_a_view, result_written_in_place, two_in_a_row, on_a_copy_that_is_read_later, halves_swapped]
)
def test_writes_of_kernels_persist(program) -> None:
    h = Hand("c", "v")
    module = imported(h.out(program(h, *h.ins)).module(), rows(), rows() + 1)
    before = module.clone()
    validator = Validator.of(module, [rows(), rows() + 1])
    validator.operators(module)
    validator.apply(
        "in-place-to-out-of-place", module, lambda m: InPlaceToOutOfPlace(carriers=False).apply(Context(), m)
    )
    assert not validator.unchecked_tables
    one, two = [rows(), rows() + 1], [rows(), rows() + 1]
    want, got = run_handles(before, one), run_values(module, two)
    for a, b in zip([*want, *one], [*got, *two], strict=True):
        torch.testing.assert_close(a, b)
    assert all(isinstance(op, nki.ValueCallOp) for op in kernels_of(module))


# -- the custom call ---------------------------------------------------------------------------------


def custom_calls(proto: bytes):
    return [i for c in read_module(proto).computations for i in c.instructions if i.opcode == "custom-call"]


@pytest.mark.parametrize(("configuration", "talks"), [(CONFIGURATION, "1"), ("e30=", "0"), ("not base64 {", "0")])
def test_the_configuration_arrives_byte_for_byte(configuration: str, talks: str) -> None:
    h = Hand("c", "v")
    kwargs = custom_ops.kernel_kwargs(custom_ops.k_scaled_bump, (2.0, 1, *h.ins), backend_config=configuration)
    h.g.call_function(custom_ops.nki_kernel_wrapper, (), kwargs)
    compiled = compiler.compile(h.out((h.m("neg", h.ins[0]),)).module(), [rows(), rows()], target="neuron")
    text = compiled.stablehlo if isinstance(compiled.stablehlo, str) else compiled.stablehlo()
    assert "@AwsNeuronCustomNativeKernel(" in text
    assert f"backend_config = {json.dumps(configuration)}" in text
    assert f'has_collectives = "{talks}"' in text
    assert (
        "#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>"
        in text
    )


# -- configuring -------------------------------------------------------------------------------------


def unconfigured():
    h = Hand("c", "v")
    h.nki(custom_ops.k_scaled_bump, 3.0, 0, *h.ins, aliases={})
    h.nki(custom_ops.k_scaled_bump, 3.0, 0, *h.ins, aliases={})
    return h.out((h.m("neg", h.ins[0]),)).module()


def test_a_kernel_that_was_not_compiled_may_do_anything() -> None:
    module = imported(unconfigured(), rows(), rows())
    assert [op.effects.data for op in kernels_of(module)] == [None, None]
    with pytest.raises(UnsupportedError, match="kernel nki_kernel_wrapper has no configuration yet"):
        InPlaceToOutOfPlace().apply(Context(), module)


def test_configuring_in_the_ir_compiles_once_and_says_what_is_written() -> None:
    module, calls = imported(unconfigured(), rows(), rows()), []

    def kernel_compiler(kernel_idx, args, grid):
        calls.append(
            (kernel_idx, grid, [a if isinstance(a, (int, float)) else (a.dtype, a.shape, a.stride()) for a in args])
        )
        return "e30=", {0: 0}

    assert write_nki_backend_config(module, kernel_compiler) == 2
    spec = ("f32", (4, 3), (3, 1))
    assert calls == [(custom_ops.k_scaled_bump.kernel_idx, [1], [3.0, 0, spec, spec])]
    verify(module)
    assert [op.operand_output_aliases.data for op in kernels_of(module)] == [((2, 0),)] * 2
    assert [op.effects.writes() for op in kernels_of(module)] == [(0,)] * 2


def test_compile_takes_a_kernel_compiler() -> None:
    seen: list[Any] = []

    def kernel_compiler(kernel_idx, args):
        seen.append([type(a).__name__ for a in args])
        return custom_ops.compile_kernel(kernel_idx, args)

    compiled = compiler.compile(unconfigured(), [rows(), rows()], target="neuron", kernel_compiler=kernel_compiler)
    assert seen == [["float", "int", "Tensor", "Tensor"]]
    assert "nki.value_call" in compiled.ir("functional")
    with pytest.raises(UnsupportedError, match="no configuration yet"):
        compiler.compile(unconfigured(), [rows(), rows()], target="neuron")


def test_a_window_is_configured_before_import() -> None:
    """The result was imported as fresh memory, in which views of it were placed."""
    h = Hand("c", "v")
    h.nki(custom_ops.k_bump, h.m("t", h.ins[0]), h.m("t", h.ins[1]), aliases={})
    module = imported(h.out((h.m("neg", h.ins[0]),)).module(), rows(), rows())
    with pytest.raises(UnsupportedError, match="result 0 lives in operand 0.*imported as fresh memory"):
        write_nki_backend_config(module, lambda _idx, _args: ("e30=", {0: 0}))


@pytest.mark.parametrize(("table", "message"), [({2: 0}, "names tensor 2 of 2"), ({0: 3}, "result 3")])
def test_wrong_tables_of_a_kernel_compiler(table, message) -> None:
    module = imported(unconfigured(), rows(), rows())
    with pytest.raises(CompileError, match=message):
        write_nki_backend_config(module, lambda _idx, _args: ("e30=", table))
        verify(module)


# -- another toolkit ---------------------------------------------------------------------------------


class TileCall(HigherOrderOperator):
    """Some other toolkit's operator: outputs come first, and are written."""

    def __init__(self) -> None:
        super().__init__("tile_call")

    def __call__(self, outs: Any, ins: Any, *, program: str, scale: float) -> Any:
        return super().__call__(outs, ins, program=program, scale=scale)


tile_call = TileCall()
for key in (DispatchKey.AutogradCPU, DispatchKey.AutogradMeta):
    tile_call.fallthrough(key)


@tile_call.py_impl(DispatchKey.CompositeExplicitAutograd)
def _eager(outs: Any, ins: Any, *, program: str, scale: float) -> Any:
    return tuple(out.add_(sum(ins) * scale) for out in outs)


@tile_call.py_impl(FakeTensorMode)
def _fake(mode: Any, outs: Any, ins: Any, *, program: str, scale: float) -> Any:
    return tuple(torch.empty_like(out) for out in outs)


def tiles(target: Any, args: Any, kwargs: Any) -> KernelCall | None:
    """The adapter, as in docs/neuron.md."""
    if target is not tile_call:
        return None
    outs, ins = args
    return KernelCall(
        args=(*ins, *outs),
        aliases={number: len(ins) + number for number in range(len(outs))},
        backend_config=kwargs["program"],
        settings={"scale": kwargs["scale"]},
    )


def tile_program():
    h = Hand("c", "v")
    call = h.g.call_function(tile_call, ((h.m("select", h.ins[0], 0, 1),), [h.m("select", h.ins[1], 0, 0)]),
                             {"program": CONFIGURATION, "scale": 2.0})  # fmt: skip
    h.m("mul_", h.f(operator.getitem, call, 0), 3.0)
    return h.out((h.m("neg", h.ins[0]),)).module()


def test_a_second_toolkit_needs_ten_lines() -> None:
    gm = tile_program()
    assert read_kernel(READERS, tile_call, (), {}) is None
    compiled = compiler.compile(gm, [rows(), rows()], target="neuron", kernels=(tiles,))
    assert 'nki.value_call "higher_order.tile_call"' in compiled.ir("functional")
    assert "scale = 2.0" in compiled.ir("functional")
    (call,) = custom_calls(compiled.hlo_proto)
    assert call.backend_config == CONFIGURATION
    assert call.aliases == (((), 1),)
    with pytest.raises(UnsupportedError, match="tile_call has no form in the IR"):
        compiler.compile(gm, [rows(), rows()], target="neuron")


def input_of(node: Any) -> str:
    return node.name if node.op == "placeholder" else input_of(node.args[0])


def test_a_second_toolkit_in_the_drop_in() -> None:
    """The pure graph has the host's own call, with values where the tensors were."""
    gm, found = neuron.run_passes(tile_program(), example_inputs=[rows(), rows()], kernels=(tiles,))
    assert found["aliasing_output_rewrite"]["io_map"] == {1: 0}
    (node,) = (n for n in gm.graph.nodes if n.target is tile_call)
    ((out,), (source,)) = node.args
    assert [input_of(n) for n in (out, source)] == ["c", "v"]
    assert node.kwargs == {"program": CONFIGURATION, "scale": 2.0}
    proto = neuron.convert_fx_to_hlo(gm, [rows(), rows()], {1: 0}, kernels=(tiles,))
    assert len(custom_calls(proto)) == 1
