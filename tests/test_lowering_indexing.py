"""Indexed reads and updates, against the same PyTorch operator run eagerly."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch

from compiler.errors import UnsupportedError
from compiler.lowering.module import lower
from tests.hlo_runner import call_text, execute, function, parse, run_call, type_text


def spell(argument: Any, inputs: list[torch.Tensor]) -> str:
    """IR spelling of an argument; tensors become the next input."""
    if isinstance(argument, torch.Tensor):
        inputs.append(argument)
        return f"%a{len(inputs) - 1}"
    if isinstance(argument, list | tuple):
        return "[" + ", ".join(spell(item, inputs) for item in argument) + "]"
    if argument is None:
        return "none"
    if isinstance(argument, str):
        return f'"{argument}"'
    return str(argument).lower() if isinstance(argument, bool) else str(argument)


def check(overload: str, *arguments: Any, target: str = "xla", **keywords: Any) -> None:
    """The lowered call gives what the eager call gives."""
    inputs: list[torch.Tensor] = []
    parts = [spell(a, inputs) for a in arguments] + [f"{k} = {spell(v, inputs)}" for k, v in keywords.items()]
    eager = functools.reduce(getattr, overload.split("."), torch.ops)
    expected = eager(*arguments, **keywords)
    found = run_call(overload, ", ".join(parts), inputs, [expected], hlo=target)[0]
    assert found.dtype == expected.dtype and found.shape == expected.shape
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


def table(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.arange(1, 1 + torch.Size(shape).numel()).reshape(shape).to(dtype)


def at(*positions: Any) -> torch.Tensor:
    return torch.tensor(list(positions) if len(positions) != 1 or isinstance(positions[0], list) else positions)


COLUMN, ROW, PAIR = at([1], [-1]), at([0, 2, -1]), at(3, -2)
INDICES = [
    [ROW[0]],
    [None, ROW[0]],
    [PAIR],
    [None, PAIR],
    [None, None, PAIR],
    [PAIR, PAIR],
    [PAIR, None, PAIR],
    [None, PAIR, PAIR],
    [None, PAIR, None, PAIR],
    [COLUMN, ROW],
    [COLUMN, None, ROW],
    [None, COLUMN, ROW],
    [at(2), None, at(1), at(0)],
    [PAIR.int(), PAIR],
    [torch.tensor(1), PAIR],
]


@pytest.mark.parametrize("indices", INDICES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_index(indices: list[torch.Tensor | None], dtype: torch.dtype) -> None:
    check("aten.index.Tensor", table(4, 5, 6, 4, dtype=dtype), indices)


@pytest.mark.parametrize("indices", INDICES, ids=str)
@pytest.mark.parametrize("target", ["xla", "neuron"])
def test_index_put(indices: list[torch.Tensor | None], target: str) -> None:
    base = table(4, 5, 6, 4)
    values = -table(*torch.ops.aten.index.Tensor(base, indices).shape)
    check("aten.index_put.default", base, indices, values, target=target)
    check("aten.index_put.default", base, indices, torch.tensor(7.0), target=target)
    check("aten.index_put.default", base.half(), indices, values.half(), True, target=target)


@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put_repeats(accumulate: bool) -> None:
    values = torch.full((4, 3), 2.0)
    check("aten.index_put.default", table(5, 3), [at(1, 1, -4, 2)], values, accumulate)
    check("aten.index_put.default", table(5, 3), [at(1, 1, -4, 2)], values[:, :1], accumulate)


def mask_of(*shape: int) -> torch.Tensor:
    return table(*shape).remainder(3) != 0


@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put_by_mask(accumulate: bool) -> None:
    base = table(4, 5, 6)
    whole, rows, middle = mask_of(4, 5, 6), mask_of(4), mask_of(5, 6)
    check("aten.index_put.default", base, [whole], torch.tensor(9.0), accumulate)
    check("aten.index_put.default", base, [whole], table(int(whole.sum())), accumulate)
    check("aten.index_put.default", base, [rows], torch.tensor(9.0), accumulate)
    check("aten.index_put.default", base, [rows], table(6), accumulate)
    check("aten.index_put.default", base, [rows], table(1, 5, 6), accumulate)
    check("aten.index_put.default", base, [rows], table(int(rows.sum()), 5, 6), accumulate)
    check("aten.index_put.default", base, [rows], table(int(rows.sum()), 5, 1), accumulate)
    check("aten.index_put.default", base, [None, middle], table(4, int(middle.sum())), accumulate)
    check("aten.index_put.default", base, [None, middle], table(int(middle.sum())), accumulate)
    check("aten.index_put.default", base, [None, middle], table(4, 1), accumulate)
    check("aten.index_put.default", base, [None, mask_of(5)], table(4, int(mask_of(5).sum()), 6), accumulate)


def test_along_one_dimension() -> None:
    for positions in (at(3, 1), at(2)):
        for dim, shape in ((0, (len(positions), 5, 6)), (1, (4, len(positions), 6)), (-1, (4, 5, len(positions)))):
            base, source = table(4, 5, 6), -table(*shape)
            for target in ("xla", "neuron"):
                check("aten.index_copy.default", base, dim, positions, source, target=target)
            check("aten.index_copy.default", base.bfloat16(), dim, positions, source.bfloat16())
            check("aten.index_add.default", base, dim, positions, source)
            check("aten.index_add.default", base, dim, positions, source, alpha=2.5)
            check("aten.index_fill.int_Scalar", base, dim, positions - 4, 0.5)
            check("aten.index_fill.int_Tensor", base, dim, positions, torch.tensor(0.5))
            check("aten.index_select.default", base, dim, positions)
            check("aten.index_reduce.default", base, dim, positions, source, "amax", include_self=False)
            check("aten.index_reduce.default", base, dim, positions, source, "mean")
    check("aten.index_select.default", table(3), 0, torch.tensor(1))
    check("aten.index_copy.default", torch.tensor(1.0), 0, torch.tensor(0), torch.tensor(2.0))
    check("aten.index_add.default", table(4, dtype=torch.int64), 0, at(1, 1, 3), table(3, dtype=torch.int64))


def test_gather_and_scatter() -> None:
    base, source = table(4, 5), -table(3, 4)
    for dim, positions in ((0, at([0, 3, 1, 2], [1, 1, 0, 0])), (1, at([4, 0], [2, 3], [1, 1]))):
        check("aten.gather.default", base, dim, positions)
        check("aten.gather.default", base.half(), dim, positions)
        check("aten.scatter_add.default", base, dim, positions, source)
        check("aten.scatter.value", base, dim, positions, 1.5)
        check("aten.scatter.reduce", base, dim, positions, source, reduce="add")
        check("aten.scatter.value_reduce", base, dim, positions, 2, reduce="multiply")
        for reduce in ("sum", "prod", "mean", "amax", "amin"):
            for include in (True, False):
                check("aten.scatter_reduce.two", base, dim, positions, source, reduce, include_self=include)
                check(
                    "aten.scatter_reduce.two", base.long(), dim, positions, source.long(), reduce, include_self=include
                )
    unique = at([0, 3, 1, 2], [1, 2, 0, 3])
    check("aten.scatter.src", base, 0, unique, source)
    check("aten.scatter.src", base, -1, unique, source)
    check("aten.gather.default", torch.tensor(5.0), 0, torch.tensor(0))
    check("aten.gather.default", base, 0, torch.zeros(0, 5, dtype=torch.int64))
    check("aten.scatter_add.default", base, 0, torch.zeros(0, 5, dtype=torch.int64), base)


def test_masks() -> None:
    base, mask = table(4, 5), mask_of(4, 5)
    check("aten.masked_fill.Scalar", base, mask, -1e9)
    check("aten.masked_fill.Scalar", base.bfloat16(), mask[0], -1)
    check("aten.masked_fill.Tensor", base[:1].contiguous(), mask, torch.tensor(2.0))
    check("aten.masked_scatter.default", base, mask, -table(30))
    check("aten.masked_scatter.default", base, mask[:, :1].contiguous(), -table(4, 5))


def test_flat_positions_and_embeddings() -> None:
    base = table(3, 4)
    check("aten.take.default", base, at([0, -1], [5, -12]))
    check("aten.put.default", base, at(0, -1, 5), table(3))
    check("aten.put.default", base, at(0, 0, 5), table(3), True)
    check("aten.embedding.default", base, at([0, 2], [1, 1]))
    check("aten.embedding.default", base.bfloat16(), at(2))
    check("aten.embedding_dense_backward.default", table(2, 2, 4), at([0, 2], [1, 2]), 3, 1, False)


def test_window_scatters() -> None:
    base = table(4, 6, 5)
    check("aten.select_scatter.default", base, table(4, 5), 1, -2)
    check("aten.slice_scatter.default", base, table(4, 2, 5), 1, 1, 3)
    check("aten.slice_scatter.default", base, table(4, 3, 5), 1, 0, 9223372036854775807, 2)
    check("aten.slice_scatter.default", base, table(4, 6, 2), -1, -2)
    check("aten.diagonal_scatter.default", base, table(5, 4), 1, 0, 1)
    check("aten.diagonal_scatter.default", base, table(6, 4), -0, 0, 2)
    check("aten.as_strided_scatter.default", base, table(3, 2), [3, 2], [7, 3], 2)
    check("aten.unfold_backward.default", table(4, 3, 5, 2), [4, 6, 5], 1, 2, 2)
    check("aten.unfold_backward.default", table(4, 5, 5, 2), [4, 6, 5], 1, 2, 1)


@pytest.mark.parametrize("overload", ["aten.index.Tensor", "aten.masked_select.default", "aten.index_put.default"])
def test_sizes_known_only_at_run_time_are_refused(overload: str) -> None:
    base, mask = table(3, 3), mask_of(3)
    arguments = {
        "aten.index.Tensor": "%a0, [%a1]", "aten.masked_select.default": "%a0, %a1",
        "aten.index_put.default": "%a0, [%a1, %a2], %a3",
    }[overload]  # fmt: skip
    inputs = [base, mask, at(0, 1), table(2)][: 4 if "put" in overload else 2]
    with pytest.raises(UnsupportedError, match="known only at run time"):
        lower(parse(call_text(overload, arguments, inputs, [base])))


# -- through windows ---------------------------------------------------------------------------


def through(base: torch.Tensor, view: torch.Tensor, update: str, others: list[torch.Tensor], carry: bool) -> str:
    """IR of: read a window of %a0 (seen as bf16 when carried as ui16), update it, put it back."""
    sizes, strides, offset = list(view.shape), list(view.stride()), view.storage_offset()
    window = f"<{sizes} strides {strides}" + (f" offset {offset}>" if offset else ">")
    stored, seen = type_text(base), type_text(view)
    outer = stored[: stored.rindex("x")] + "xui16>" if carry else stored
    inner = seen[: seen.rindex("x")] + "xui16>" if carry else seen
    kinds = ", ".join([seen, *map(type_text, others)])
    lines = [f"%0 = fx.extract %a0 {window} : {outer} -> {inner}"]
    lines += [f"%1 = fx.reinterpret %0 : {inner} -> {seen}"] if carry else []
    lines += [f"%2 = fx.value_call {update.replace('%w', '%1' if carry else '%0')} : ({kinds}) -> {seen}"]
    lines += [f"%3 = fx.reinterpret %2 : {seen} -> {inner}"] if carry else []
    lines += [f"%4 = fx.insert {'%3' if carry else '%2'} into %a0 {window} : {inner} into {outer} -> {outer}"]
    inputs = [base.view(torch.uint16) if carry else base, *others]
    return function("\n".join(lines), inputs, [("%4", inputs[0])])


@pytest.mark.parametrize("carry", [False, True])
@pytest.mark.parametrize("target", ["xla", "neuron"])
@pytest.mark.parametrize("view", ["select", "slice", "transpose", "merge", "unsqueeze"])
@pytest.mark.parametrize("count", [1, 3])
def test_an_update_of_a_window_is_one_update_of_the_base(view: str, target: str, carry: bool, count: int) -> None:
    pool = table(3, 2, 4, 5, 6, dtype=torch.bfloat16 if carry else torch.float32)
    expected = pool.clone()
    make = {
        "select": lambda p: p[1, 0], "slice": lambda p: p[2, 1, 1:4], "transpose": lambda p: p[1, 1].transpose(0, 1),
        "merge": lambda p: p[1, 0].view(20, 6), "unsqueeze": lambda p: p[1, 0].unsqueeze(1),
    }[view]  # fmt: skip
    window = make(expected)
    if view == "merge":
        indices, spelled = [at(19, 3, 7)[:count]], "[%a1]"
    elif view == "unsqueeze":
        indices, spelled = [at(3, 0, 1)[:count], at(0, 0, 0)[:count]], "[%a1, %a2]"
    else:
        indices, spelled = [at(2, 0, 1)[:count], at(-1, 2, 3)[:count]], "[%a1, %a2]"
    values = -table(*window[tuple(indices)].shape, dtype=pool.dtype)
    text = through(
        pool, make(pool), f'"aten.index_put.default"(%w, {spelled}, %a{len(indices) + 1})', [*indices, values], carry
    )
    module = lower(parse(text), target=target)
    window.index_put_(tuple(indices), values)
    inputs = [pool.view(torch.uint16) if carry else pool, *indices, values]
    found = execute(module, inputs)[0]
    assert torch.equal(found.view(pool.dtype), expected)
    printed = str(module)
    assert "stablehlo.slice" not in printed and "stablehlo.transpose" not in printed
    single = target == "xla" and count == 1
    assert printed.count("stablehlo.dynamic_update_slice") == single
    assert printed.count('"stablehlo.scatter"') == (not single)


def test_chained_updates_of_one_window_stay_on_the_base() -> None:
    pool = table(3, 4, 5)
    body = """%0 = fx.extract %a0 <[4, 5] strides [5, 1] offset 20> : tensor<3x4x5xf32> -> tensor<4x5xf32>
    %1 = fx.value_call "aten.index_put.default"(%0, [%a1], %a2)
        : (tensor<4x5xf32>, tensor<2xi64>, tensor<2x5xf32>) -> tensor<4x5xf32>
    %2 = fx.value_call "aten.index_add.default"(%1, 0, %a3, %a4)
        : (tensor<4x5xf32>, tensor<2xi64>, tensor<2x5xf32>) -> tensor<4x5xf32>
    %3 = fx.insert %2 into %a0 <[4, 5] strides [5, 1] offset 20>
        : tensor<4x5xf32> into tensor<3x4x5xf32> -> tensor<3x4x5xf32>
    %4 = fx.value_call "aten.index_select.default"(%1, 0, %a5) : (tensor<4x5xf32>, tensor<2xi64>) -> tensor<2x5xf32>"""
    inputs = [pool, at(0, 2), -table(2, 5), at(2, 2), table(2, 5), at(0, 3)]
    module = lower(parse(function(body, inputs, [("%3", pool), ("%4", inputs[2])])))
    assert "stablehlo.slice" not in str(module)
    expected = pool.clone()
    expected[1, [0, 2]] = inputs[2]
    first = expected[1].clone()
    expected[1].index_add_(0, inputs[3], inputs[4])
    found = execute(module, inputs)
    assert torch.equal(found[0], expected) and torch.equal(found[1], first[[0, 3]])


def test_a_carried_state_is_updated_as_it_is_stored() -> None:
    """bf16 state as ui16: the whole value is seen as bf16, updated, and goes back."""
    state, row = table(4, 3, dtype=torch.bfloat16), -table(1, 3, dtype=torch.bfloat16)
    body = """%0 = fx.reinterpret %a0 : tensor<4x3xui16> -> tensor<4x3xbf16>
    %1 = fx.value_call "aten.index_copy.default"(%0, 0, %a1, %a2)
        : (tensor<4x3xbf16>, tensor<1xi64>, tensor<1x3xbf16>) -> tensor<4x3xbf16>
    %2 = fx.reinterpret %1 : tensor<4x3xbf16> -> tensor<4x3xui16>"""
    inputs = [state.view(torch.uint16), at(2), row]
    module = lower(parse(function(body, inputs, [("%2", inputs[0]), ("%1", state)])))
    expected = state.index_copy(0, at(2), row)
    found = execute(module, inputs)
    assert torch.equal(found[0].view(torch.bfloat16), expected) and torch.equal(found[1], expected)
    assert str(module).count("dynamic_update_slice") == 1


def test_moves_keep_the_bits_of_nans() -> None:
    bits = torch.tensor([0x7F81, 0xFFA5, 0x7FC1, 0x0001], dtype=torch.uint16)
    state = bits.view(torch.bfloat16)
    for overload, arguments in (
        ("aten.index_copy.default", "%a0, 0, %a1, %a2"),
        ("aten.index_put.default", "%a0, [%a1], %a2"),
    ):
        inputs = [torch.zeros(4, dtype=torch.bfloat16), at(0, 1, 2, 3), state]
        found = run_call(overload, arguments, inputs, [state])[0]
        assert torch.equal(found.view(torch.uint16), bits)


def test_an_update_that_is_not_put_back_leaves_its_base_alone() -> None:
    pool = table(3, 4)
    body = """%0 = fx.extract %a0 <[4] strides [1] offset 4> : tensor<3x4xf32> -> tensor<4xf32>
    %1 = fx.value_call "aten.index_fill.int_Scalar"(%0, 0, %a1, 0.5) : (tensor<4xf32>, tensor<2xi64>) -> tensor<4xf32>
    %2 = fx.insert %1 into %a0 <[4] strides [1]> : tensor<4xf32> into tensor<3x4xf32> -> tensor<3x4xf32>"""
    found = execute(lower(parse(function(body, [pool, PAIR], [("%2", pool)]))), [pool, PAIR])[0]
    expected = pool.clone()
    expected[0] = pool[1].index_fill(0, at(3, 2), 0.5)
    assert torch.equal(found, expected)


def test_a_gather_reads_the_base_directly() -> None:
    pool = table(3, 4, 5, 6)
    body = """%0 = fx.extract %a0 <[5, 6, 4] strides [6, 1, 30] offset 240> : tensor<3x4x5x6xf32> -> tensor<5x6x4xf32>
    %1 = fx.value_call "aten.index.Tensor"(%0, [none, none, %a1])
        : (tensor<5x6x4xf32>, tensor<2xi64>) -> tensor<5x6x2xf32>"""
    inputs = [pool, PAIR]
    expected = pool[2].permute(1, 2, 0)[:, :, PAIR]
    module = lower(parse(function(body, inputs, [("%1", expected)])))
    assert torch.equal(execute(module, inputs)[0], expected)
    assert "stablehlo.slice" not in str(module) and "stablehlo.transpose" not in str(module)


@pytest.mark.parametrize("update", ["index_add", "copy"])
def test_windows_of_a_carried_state_stay_in_its_carrier(update: str) -> None:
    """bf16 state as ui16: a window of the bf16 value is updated, and the state goes back as ui16, never converted."""
    state, row = table(3, 4, 2, dtype=torch.bfloat16), -table(2, 2, dtype=torch.bfloat16)
    window = "<[4, 2] strides [2, 1] offset 8>"
    whole, inner = "tensor<3x4x2xbf16>", "tensor<4x2xbf16>"
    if update == "index_add":
        change = f"""%1 = fx.extract %0 {window} : {whole} -> {inner}
        %2 = fx.value_call "aten.index_add.default"(%1, 0, %a1, %a2)
        : ({inner}, tensor<2xi64>, tensor<2x2xbf16>) -> {inner}
        %3 = fx.insert %2 into %0 {window} : {inner} into {whole} -> {whole}"""
        expected = state.clone()
        expected[1].index_add_(0, PAIR.remainder(4), row)
    else:
        part = "<[2, 2] strides [2, 1] offset 8>"
        change = f"""%1 = fx.value_call "aten.index_select.default"(%a2, 0, %a1)
        : (tensor<2x2xbf16>, tensor<2xi64>) -> tensor<2x2xbf16>
        %3 = fx.insert %1 into %0 {part} : tensor<2x2xbf16> into {whole} -> {whole}"""
        expected = state.clone()
        expected[1, :2] = row.flip(0)
    body = f"""%0 = fx.reinterpret %a0 : tensor<3x4x2xui16> -> {whole}
    {change}
    %4 = fx.reinterpret %3 : {whole} -> tensor<3x4x2xui16>"""
    inputs = [state.view(torch.uint16), PAIR.remainder(4) if update == "index_add" else at(1, 0), row]
    module = lower(parse(function(body, inputs, [("%4", inputs[0])])))
    assert torch.equal(execute(module, inputs)[0].view(torch.bfloat16), expected)
    converted = [line for line in str(module).splitlines() if "bitcast_convert" in line and "3x4x2" in line]
    assert not converted
