"""Windows on values: read, replaced and reinterpreted by XLA as PyTorch does it by strides."""

from __future__ import annotations

import math

import pytest
import torch

from compiler.errors import CompileError, UnsupportedError
from compiler.lowering.module import lower
from dialects.alias import geometry_text
from dialects.types import Geometry
from tests.hlo_runner import ELEMENT, execute, function, parse, run, type_text

CASES = [
    ((4, 6), (4, 6), (6, 1), 0),
    ((4, 6), (6, 4), (1, 6), 0),
    ((4, 6), (24,), (1,), 0),
    ((4, 6), (2, 3), (12, 2), 1),
    ((4, 6), (4, 3), (6, 2), 1),
    ((4, 4), (4,), (5,), 0),
    ((2, 4, 4), (2, 4), (16, 5), 0),
    ((10,), (3, 2), (3, 1), 2),
    ((9,), (5,), (2,), 0),
    ((8,), (4,), (2,), 1),
    ((3, 5), (3, 1, 2), (5, 0, 2), 1),
    ((2, 3, 4, 5), (12, 5), (5, 1), 60),
    ((2, 3, 4, 5), (5, 3), (1, 20), 4),
    ((6, 4), (4, 6), (6, 1), 0),
    ((7, 3), (2, 2), (9, 4), 2),
    ((5,), (), (), 3),
    ((), (1, 1), (1, 1), 0),
    ((4, 3), (0, 3), (3, 1), 0),
    ((12,), (2, 3), (5, 3), 0),
    ((8,), (2, 3), (5, 1), 0),
]
OVERLAPPING = [((4, 6), (2, 4, 6), (0, 6, 1), 0), ((10,), (4, 3), (2, 1), 0), ((3, 4), (3, 4, 2), (4, 1, 0), 0)]
DTYPES = [torch.float32, torch.bfloat16, torch.bool, torch.complex64]


def sample(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    numbers = torch.arange(math.prod(shape)).reshape(shape)
    return numbers % 3 == 0 if dtype == torch.bool else numbers.to(dtype)


@pytest.mark.parametrize(("shape", "sizes", "strides", "offset"), CASES + OVERLAPPING)
def test_extract(shape: tuple[int, ...], sizes: tuple[int, ...], strides: tuple[int, ...], offset: int) -> None:
    base = sample(shape, torch.float32)
    expected = base.as_strided(sizes, strides, offset)
    window = geometry_text(Geometry(sizes, strides, offset))
    text = function(
        f"%0 = fx.extract %a0 <{window}> : {type_text(base)} -> {type_text(expected)}", [base], [("%0", expected)]
    )
    assert torch.equal(run(text, [base])[0], expected)


@pytest.mark.parametrize(("shape", "sizes", "strides", "offset"), CASES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_insert(
    shape: tuple[int, ...], sizes: tuple[int, ...], strides: tuple[int, ...], offset: int, dtype: torch.dtype
) -> None:
    base, value = sample(shape, dtype), sample(sizes, dtype)
    value = ~value if dtype == torch.bool else value + 100
    expected = base.clone()
    expected.as_strided(sizes, strides, offset).copy_(value)
    window = geometry_text(Geometry(sizes, strides, offset))
    kind = type_text(base)
    body = f"%0 = fx.insert %a1 into %a0 <{window}> : {type_text(value)} into {kind} -> {kind}"
    assert torch.equal(run(function(body, [base, value], [("%0", base)]), [base, value])[0], expected)


@pytest.mark.parametrize(("shape", "sizes", "strides", "offset"), OVERLAPPING)
def test_insert_where_the_window_overlaps_itself(
    shape: tuple[int, ...], sizes: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> None:
    base, value = sample(shape, torch.float32), torch.full(sizes, 7.0)
    expected = base.clone()
    expected.as_strided(sizes, strides, offset).fill_(7.0)
    window = geometry_text(Geometry(sizes, strides, offset))
    body = f"%0 = fx.insert %a1 into %a0 <{window}> : {type_text(value)} into {type_text(base)} -> {type_text(base)}"
    assert torch.equal(run(function(body, [base, value], [("%0", base)]), [base, value])[0], expected)


def test_insert_that_covers_everything_needs_no_base() -> None:
    value = sample((6, 4), torch.float32)
    expected = value.t().contiguous()
    body = f"%0 = fx.insert %a0 <[6, 4] strides [1, 6]> : {type_text(value)} -> {type_text(expected)}"
    assert torch.equal(run(function(body, [value], [("%0", expected)]), [value])[0], expected)


@pytest.mark.parametrize(
    ("source", "result"),
    [
        (torch.float32, torch.int32), (torch.bfloat16, torch.int16), (torch.float32, torch.uint8),
        (torch.uint8, torch.float32), (torch.complex64, torch.float32), (torch.float32, torch.complex64),
        (torch.bool, torch.uint8), (torch.uint8, torch.bool), (torch.bool, torch.int32),
        (torch.complex64, torch.float64),
        (torch.float64, torch.complex64), (torch.complex64, torch.complex128), (torch.int64, torch.bfloat16),
        (torch.float8_e4m3fn, torch.bfloat16),
    ],
    ids=str,
)  # fmt: skip
def test_reinterpret(source: torch.dtype, result: torch.dtype) -> None:
    bits = torch.tensor([[0, 1, 0, 1] * 8, [1, 1, 0, 0] * 8], dtype=torch.uint8)
    value = (bits if torch.bool in (source, result) else bits * 61).view(source)
    expected = value.view(result)
    text = function(
        f"%0 = fx.reinterpret %a0 : {type_text(value)} -> {type_text(expected)}", [value], [("%0", expected)]
    )
    assert torch.equal(run(text, [value])[0].view(torch.uint8), expected.view(torch.uint8))


def test_constants_and_empty() -> None:
    ints, halves = torch.tensor([[1, -2], [3, 4]]), torch.full((3,), 2.5, dtype=torch.float16)
    body = """%0 = fx.constant dense<[[1, -2], [3, 4]]> : tensor<2x2xi64> : tensor<2x2xi64>
    %1 = fx.constant dense<2.5> : tensor<3xf16> : tensor<3xf16>
    %2 = fx.constant dense<[true, false]> : tensor<2xi1> : tensor<2xi1>
    %3 = fx.empty : tensor<2xf32>"""
    results = [("%0", ints), ("%1", halves), ("%2", torch.tensor([True, False])), ("%3", torch.zeros(2))]
    for (_, expected), found in zip(results, run(function(body, [], results), []), strict=True):
        assert torch.equal(found, expected)


def test_alias_table_and_dead_operations() -> None:
    base, row = torch.zeros(4, 3), torch.ones(1, 3)
    text = function(
        """%0 = fx.insert %a1 into %a0 <[1, 3] strides [3, 1] offset 6>
        : tensor<1x3xf32> into tensor<4x3xf32> -> tensor<4x3xf32>
        %1 = fx.extract %a0 <[3] strides [1]> : tensor<4x3xf32> -> tensor<3xf32>""",
        [base, row],
        [("%0", base)],
    ).replace(" {\n", " attributes {alias.table = #alias.table<0 = 0>} {\n", 1)
    module = lower(parse(text))
    assert "output_index = array<i64>" in str(module) and "must_alias" in str(module)
    assert "stablehlo.slice" not in str(module)
    assert execute(module, [base, row])[0][2].tolist() == [1, 1, 1]


def test_every_unsupported_operation_is_named_once_and_together() -> None:
    x = torch.zeros(2)
    text = function(
        """%0 = fx.value_call "my.first.default"(%a0) : (tensor<2xf32>) -> tensor<2xf32> loc("n1"("model.py":7:0))
        %1 = fx.value_call "my.second.default"(%0) : (tensor<2xf32>) -> tensor<2xf32>""",
        [x],
        [("%1", x)],
    )
    with pytest.raises(UnsupportedError) as error:
        lower(parse(text))
    assert "my.first.default (n1, model.py:7)" in error.value.message and "my.second.default" in error.value.message


def test_dynamic_dimensions_are_named() -> None:
    text = "func.func @main(%x: tensor<2x?xf32>) -> (tensor<2x?xf32>) { func.return %x : tensor<2x?xf32> }"
    with pytest.raises(UnsupportedError, match="dimension 1 of argument 0"):
        lower(parse(text))


def test_locations_reach_the_module() -> None:
    text = function(
        '%0 = fx.extract %a0 <[2] strides [1] offset 1> : tensor<4xf32> -> tensor<2xf32> loc("view"("model.py":12:0))\n'
        "%1 = fx.insert %0 into %a0 <[2] strides [1]> : tensor<2xf32> into tensor<4xf32> -> tensor<4xf32> "
        'loc("write"("model.py":13:0))',
        [torch.zeros(4)],
        [("%1", torch.zeros(4))],
    )
    printed = lower(parse(text)).operation.get_asm(enable_debug_info=True)
    assert '"write"' in printed and '"model.py":13:0' in printed


def test_lowering_refuses_handles() -> None:
    with pytest.raises(CompileError, match="values are tensors"):
        lower(parse("func.func @main(%x: memref<2xf32>) -> (memref<2xf32>) { func.return %x : memref<2xf32> }"))


def test_element_table_is_complete() -> None:
    assert len(set(ELEMENT.values())) == len(ELEMENT)
