"""Operators at their edges: factors that depend on strides, powers beyond 63, nothing to take a median of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves

import compiler
from compiler.integrations.dynamo import fx2hlo


def assert_like_eager(program: Callable[..., Any], *inputs: torch.Tensor) -> None:
    found = tree_leaves(compiler.compile(program, inputs)(*inputs))
    torch.testing.assert_close(found, tree_leaves(program(*inputs)), equal_nan=True, check_stride=True)


MATRICES = {
    "contiguous": torch.randn(4, 4, generator=torch.Generator().manual_seed(1)),
    "batch": torch.randn(2, 3, 3, generator=torch.Generator().manual_seed(2)),
    "column-major": torch.randn(3, 3, generator=torch.Generator().manual_seed(3)).mT,
    "strided": torch.randn(3, 3, 2, generator=torch.Generator().manual_seed(4)).permute(2, 0, 1),
    "complex": torch.randn(3, 3, dtype=torch.complex64, generator=torch.Generator().manual_seed(5)),
    "f64": torch.randn(1, 5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(6)),
}


@pytest.mark.parametrize("layout", MATRICES)
@pytest.mark.parametrize("operator", [torch._linalg_det, torch._linalg_slogdet])
def test_the_factors_of_a_determinant(operator: Callable[..., object], layout: str) -> None:
    assert_like_eager(operator, MATRICES[layout])


def gradient(determinant: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    def program(x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            leaf = x.detach().requires_grad_()
            return torch.autograd.grad(determinant(leaf).sum(), leaf)[0]

    return program


@pytest.mark.parametrize("layout", ["contiguous", "batch", "column-major", "strided", "f64"])
@pytest.mark.parametrize("determinant", [torch.det, torch.logdet, lambda x: torch.linalg.slogdet(x)[1]])
def test_gradients_of_determinants(determinant: Callable[[torch.Tensor], torch.Tensor], layout: str) -> None:
    assert_like_eager(gradient(determinant), MATRICES[layout])


@pytest.mark.parametrize("layout", ["contiguous", "batch", "column-major"])
def test_gradients_of_determinants_through_torch_compile(layout: str) -> None:
    given, expected = (MATRICES[layout].clone().requires_grad_() for _ in range(2))
    torch.compile(lambda x: torch.det(x).sum(), backend=fx2hlo)(given).backward()
    torch.det(expected).sum().backward()
    torch.testing.assert_close(given.grad, expected.grad)


INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
EXPONENTS = (0, 1, 2, 3, 5, 31, 63, 64, 65, 66, 100, 127)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_powers_take_all_bits_of_the_exponent(dtype: torch.dtype) -> None:
    bases = torch.tensor([0, 1, 2, 3, 7, 11, 100], dtype=dtype)
    bases = bases if dtype is torch.uint8 else torch.cat([bases, -bases])
    exponents = torch.tensor(EXPONENTS, dtype=dtype)
    assert_like_eager(lambda x: [x**n for n in EXPONENTS], bases)
    assert_like_eager(lambda x, y: (x[:, None] ** y, torch.pow(3, y), x[2] ** y), bases, exponents)


def test_huge_and_negative_exponents() -> None:
    bases = torch.tensor([0, 1, -1, 2, 3, -3, -(1 << 63)])
    exponents = torch.tensor([1 << 40, (1 << 63) - 1, -(1 << 63), -1, -2, 3 << 30])
    assert_like_eager(lambda x, y: x[:, None] ** y, bases, exponents)
    assert_like_eager(lambda x: [x ** (2**40), x ** (2**62 + 1)], bases)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, *INTEGERS])
def test_the_median_of_nothing(dtype: torch.dtype) -> None:
    assert_like_eager(lambda x: (x.median(), x.nanmedian()), torch.empty(0, 3, dtype=dtype))


def test_the_median_of_no_rows() -> None:
    assert_like_eager(lambda x: [*x.median(1), *x.nanmedian(1)], torch.empty(0, 3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_relu_keeps_a_negative_zero(dtype: torch.dtype) -> None:
    x = torch.tensor([-0.0, 0.0, -1.0, 2.0, float("nan"), float("-inf")], dtype=dtype)
    assert_like_eager(lambda x: (torch.relu(x), torch.relu(x).signbit()[:4]), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_bounds_of_zero_keep_a_zero_as_it_is(dtype: torch.dtype) -> None:
    x = torch.tensor([-0.0, 0.0, -1.0, 2.0, float("nan"), float("-inf")], dtype=dtype)
    relu6 = torch.nn.functional.relu6
    assert_like_eager(
        lambda x: [
            (y, y.signbit()[:4]) for y in (x.clamp(min=0), x.clamp(max=-0.0), x.clamp(0, 1), x.clamp(-1, 0), relu6(x))
        ],
        x,
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("exponent", [0.5, -0.5, 2, -1, 3, 1.5])
def test_powers_of_zeros_and_infinities(dtype: torch.dtype, exponent: float) -> None:
    """A power of 0.5 is a root but for f16, where it is +0 for -0 and infinite for -inf."""
    x = torch.tensor([-0.0, 0.0, float("inf"), float("-inf"), float("nan"), -2.0, 4.0], dtype=dtype)
    assert_like_eager(lambda x: (x**exponent, (x**exponent).nan_to_num().signbit()), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "add",
    [
        lambda x: x + 0,
        lambda x: 0 + x,
        lambda x: torch.zeros(4, dtype=x.dtype).add_(x),
        lambda x: torch.zeros(8, dtype=x.dtype)[2:6] + x,
        lambda x: torch.zeros((), dtype=x.dtype) + x,
        lambda x: torch.cat([torch.zeros(2, dtype=x.dtype), torch.zeros(2, dtype=x.dtype)]) + x,
        lambda x: torch.tensor([0.0, 0.0, 0.0, 0.0], dtype=x.dtype) + x,
        lambda x: torch.zeros_like(x).addcmul_(x, torch.ones_like(x)),
        lambda x: x.unsqueeze(0).sum(0),
        lambda x: torch.stack([x, x]).sum(0),
        lambda x: x.expand(3, 4).sum(0),
        lambda x: x[0].sum(),
        lambda x: x.cumsum(0)[:2],
        lambda x: x[:1].cumsum(0),
        lambda x: x - 0,
        lambda x: 0 - x,
        lambda x: x + -0.0,
    ],
    ids=[
        "number",
        "left",
        "in place",
        "slice",
        "0-d",
        "cat",
        "list",
        "addcmul",
        "sum",
        "sum of parts",
        "sum of copies",
        "sum of 0-d",
        "cumsum",
        "cumsum of one",
        "minus",
        "from",
        "-0",
    ],
)
def test_a_negative_zero_and_a_constant_zero(add, dtype: torch.dtype) -> None:
    """XLA takes `x + 0` for `x`, which gives -0 where eager gives +0."""
    x = torch.tensor([-0.0, -0.0, 0.0, 1.5], dtype=dtype)
    assert_like_eager(lambda x: (add(x), add(x).signbit()), x)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_lcm_overflows_like_eager(dtype: torch.dtype) -> None:
    x = torch.tensor([126, 100, 0, 127, 35], dtype=dtype)
    y = torch.tensor([127, 99, 5, 126, 21], dtype=dtype)
    assert_like_eager(lambda x, y: (torch.lcm(x, y), torch.lcm(-x, y)), x, y)


def drawn(x: torch.Tensor) -> torch.Tensor:
    return x.random_(3, 10)


def test_an_overload_whose_name_is_a_keyword() -> None:
    x = torch.zeros(200)
    found = compiler.compile(drawn, (x,))(x)
    assert found.min() == 3 and found.max() == 9 and torch.equal(x, found)


def test_an_overload_whose_name_is_a_keyword_through_torch_compile() -> None:
    found = torch.compile(lambda x: (x + 1).random_(3, 10), backend=fx2hlo)(torch.zeros(200))
    assert found.min() == 3 and found.max() == 9


@pytest.mark.parametrize("dtype", [torch.float8_e5m2, torch.float8_e4m3fn, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "move",
    [
        lambda x: torch.nn.functional.pad(x, (1, 0)),
        lambda x: x.roll(1, 0),
        lambda x: torch.cat([x, x[1:]]),
        lambda x: torch.stack([x, x]),
    ],
    ids=["pad", "roll", "cat", "stack"],
)
def test_moves_keep_the_bits_of_a_nan(move, dtype):
    """XLA's CPU back end widens moves of small floats, and makes one NaN of all."""
    bits = {1: torch.uint8, 2: torch.int16}[dtype.itemsize]
    x = torch.tensor([126, 253, 127, 1, 2, 3], dtype=torch.uint8).repeat(dtype.itemsize).view(dtype)
    assert torch.equal(compiler.compile(move, (x,))(x).view(bits), move(x).view(bits))


def test_a_window_that_is_rolled_in_place_is_read_before_it_is_written():
    """XLA's CPU back end would update it in place while it still reads it, where the result is seen in another shape."""

    def program(x: torch.Tensor) -> torch.Tensor:
        column = x.diagonal(-1, 0, 2)
        column.copy_(column.roll(2, 0))
        pairs = torch.view_as_complex(x)
        pairs.copy_(pairs.flip(0))
        return x

    right, given = torch.arange(12.0).view(2, 3, 2), torch.arange(12.0).view(2, 3, 2)
    program(right)
    compiler.compile(program, (given.clone(),))(given)
    assert torch.equal(given, right)


SPECTRA: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "window": lambda s, w: torch.istft(s, 16, 4, window=w),
    "method, longer than the signal": lambda s, w: s.istft(16, 4, 16, w, length=130),
    "two-sided": lambda s, w: torch.istft(torch.cat([s, s[:, 1:8].flip(1).conj()], 1), 16, onesided=False),
    "complex": lambda s, w: torch.istft(
        torch.cat([s, s[:, 1:8]], 1), 16, window=w, return_complex=True, normalized=True
    ),
    "one signal": lambda s, w: torch.istft(s[0], 16, 16, center=False),
}


@pytest.mark.parametrize("call", SPECTRA)
def test_signals_from_spectra(call: str) -> None:
    generator = torch.Generator().manual_seed(3)
    window = torch.hann_window(16) + 0.1
    spectra = torch.stft(torch.randn(2, 100, generator=generator), 16, 4, window=window, return_complex=True)
    program = SPECTRA[call]
    assert_like_eager(program, spectra, window)
    torch.testing.assert_close(torch.compile(program, backend=fx2hlo)(spectra, window), program(spectra, window))


def test_a_spectrum_of_the_wrong_size_is_refused() -> None:
    with pytest.raises(compiler.CompileError, match="do not fit n_fft"):
        compiler.compile(lambda s: torch.istft(s, 20), (torch.ones(9, 3, dtype=torch.complex64),))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.uint8, torch.bool, torch.int64])
def test_hashes(dtype: torch.dtype) -> None:
    x = torch.tensor([[-3, 0, 7], [1, 1, 90]]).to(dtype) * torch.tensor(1).to(dtype)

    def program(x: torch.Tensor) -> list[torch.Tensor]:
        found = [torch.hash_tensor(x), torch.hash_tensor(x, 1, keepdim=True), torch.hash_tensor(x[:, :1], (0, 1))]
        return [h.view(torch.int64) for h in found]

    assert_like_eager(program, x)


def test_a_split_at_places_in_a_tensor() -> None:
    x = torch.arange(10.0)
    assert_like_eager(lambda x: [*torch.tensor_split(x, [2, 7]), *x.tensor_split(torch.tensor(3)), *x.hsplit(2)], x)
    with pytest.raises(compiler.UnsupportedError, match="what tensor_split gives depend on the data"):
        compiler.compile(lambda x, i: torch.tensor_split(x, i), (x, torch.tensor([2])))


WINDOWS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "function": lambda x, i: torch.narrow(x, 1, i, 3) * 2,
    "keywords": lambda x, i: x.narrow(dim=-1, start=i + 1, length=2).sum(1),
    "first dimension": lambda x, i: x[:4].narrow(0, i, 2).t().clone(),
}


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("form", ["traced", "dynamo"])
def test_windows_that_start_where_a_tensor_says(window: str, form: str) -> None:
    program, x = WINDOWS[window], torch.arange(35.0).reshape(5, 7)
    if form == "traced":
        compiled: Any = compiler.compile(program, (x, torch.tensor(0)))
    else:
        compiled = torch.compile(program, backend=fx2hlo)
    for start in (0, 2, -4):
        i = torch.tensor(start)
        torch.testing.assert_close(compiled(x, i), program(x, i))


def test_a_window_at_run_time_is_not_returned_or_written() -> None:
    for program in (lambda x, i: x.narrow(0, i, 2), lambda x, i: x.narrow(0, i, 2).zero_()):
        with pytest.raises(compiler.UnsupportedError, match="known only at run time"):
            compiler.compile(program, (torch.ones(4), torch.tensor(1)))


def test_a_product_with_a_mask_keeps_nan() -> None:
    x = torch.tensor([float("nan"), 1.0, float("inf")])
    mask = torch.tensor([False, True, False])
    assert_like_eager(lambda mask, x: (mask * x, x * mask.float(), x[:, None] * mask.float()), mask, x)


SPECIAL = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 0.0, -1.5, -0.75, 0.25, 1.25, 2.0])


@pytest.mark.parametrize(
    "function", ["gammainc", "gammaincc", "zeta", "chebyshev_polynomial_u", "legendre_polynomial_p"]
)
def test_special_functions_of_nan_and_infinities(function: str) -> None:
    """An infinite degree of a polynomial is none, and no reason to count up to it."""
    assert_like_eager(getattr(torch.special, function), SPECIAL[:, None].clone(), SPECIAL[None, :].clone())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_extremes_of_many_elements_keep_nan(dtype: torch.dtype) -> None:
    x = torch.randn(90, 90, generator=torch.Generator().manual_seed(1)).to(dtype)
    x.view(-1)[::97] = float("nan")
    assert_like_eager(lambda x: (x.amax(0), x.amin(1), x.max(), x.min(), x.max(1), x.argmin(0), x.aminmax()), x)


@pytest.mark.parametrize(
    ("dtype", "stored"),
    [(torch.bfloat16, torch.float32), (torch.float16, torch.float64), (torch.int64, torch.float64),
     (torch.float32, torch.bfloat16), (torch.int32, torch.int64)],
)  # fmt: skip
def test_out_of_another_type_takes_the_rounded_result(dtype: torch.dtype, stored: torch.dtype) -> None:
    step = {torch.int64: 1 << 53, torch.int32: 1 << 30}.get(dtype, 0.37)
    x = (torch.arange(1, 7) * step).to(dtype)

    def program(x: torch.Tensor, out: torch.Tensor) -> tuple[torch.Tensor, ...]:
        made = torch.add(x, 1, out=torch.empty(6, dtype=stored))
        torch.mul(x, x, out=out)
        return made, torch.eq(x, x[0], out=torch.empty(6, dtype=stored))

    mine, theirs = (torch.zeros(6, dtype=stored) for _ in range(2))
    found, wanted = compiler.compile(program, (x, mine))(x, mine), program(x, theirs)
    torch.testing.assert_close((*found, mine), (*wanted, theirs), rtol=0, atol=0)


def test_out_that_lies_in_the_operand_takes_the_converted_result() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        torch.exp(x.view(torch.int32)[:2], out=x[2:])
        return torch.div(x, 3, out=x.to(torch.float64))

    assert_like_eager(program, torch.ones(4))


def test_exponentials_of_many_elements_keep_nan() -> None:
    """Their maximum may pass NaN over, as the sum does not."""
    x = torch.randn(3, 9000, generator=torch.Generator().manual_seed(1))
    x[0, 77] = x[2, 8999] = float("nan")
    x[1] = float("-inf")
    assert_like_eager(
        lambda x: (torch.softmax(x, 1), torch.log_softmax(x, 1), torch.logsumexp(x, 1), torch._safe_softmax(x, 1)), x
    )


@pytest.mark.parametrize("dtype", [torch.float8_e5m2, torch.float8_e4m3fn])
def test_writes_of_bytes_keep_the_bits_of_a_nan_beside_them(dtype: torch.dtype) -> None:
    """Of an operand with gaps, which is padded to be read, and in a scatter through a view of another type."""
    bits = torch.arange(13, dtype=torch.uint8) + 246
    x = bits.view(dtype).as_strided((2, 2, 2), (8, 2, 1), 1)

    def added(x: torch.Tensor) -> torch.Tensor:
        copy = x.clone().ravel().view(torch.int8)
        copy[2:3].add_(1)
        return copy

    def scattered(x: torch.Tensor) -> torch.Tensor:
        copy = x.clone().ravel().view(torch.int8)
        return copy.index_add_(0, torch.tensor([2]), torch.ones(1, dtype=torch.int8))

    assert_like_eager(lambda x: (added(x), scattered(x)), x)


@pytest.mark.parametrize("name", ["clamp_max_", "clamp_min_"])
def test_bounds_of_a_wider_type_in_place(name: str) -> None:
    """They are compared in the common type."""
    bounds = torch.tensor([-4, 3, 300], dtype=torch.int16)
    assert_like_eager(lambda x, y: getattr(x, name)(y), torch.tensor([1, 5, 200], dtype=torch.uint8), bounds)


FLOATS_AND_MASKS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "scaled": lambda x, mask: torch.add(x.nan_to_num(1, 2, 3), mask, alpha=torch.inf),
    "product added": lambda x, mask: torch.addcmul(x.nan_to_num(1, 2, 3), x, mask),
    "quotient added": lambda x, mask: torch.addcdiv(
        x.nan_to_num(1, 2, 3), mask, x.nan_to_num(1, 2, 3), value=torch.inf
    ),
    "weight": lambda x, mask: torch.lerp(x.nan_to_num(1, 2, 3), x, mask.float()),
    "less nothing": lambda x, mask: (mask.float() - 0) * x,
    "to the first": lambda x, mask: mask.float().pow(1) * x,
    "padded": lambda x, mask: torch.nn.functional.pad(mask.float(), (1, 1))[1:9] * x,
    "reduced": lambda x, mask: torch.stack([mask.float(), x]).prod(0),
    "contracted": lambda x, mask: mask[None].float() @ x[:, None],
}


@pytest.mark.parametrize("use", FLOATS_AND_MASKS)
def test_zeros_of_a_mask_times_infinity_are_nan(use: str) -> None:
    x = torch.tensor([torch.inf, -torch.inf, torch.nan, -2, 3, 0, torch.inf, -0.0])
    assert_like_eager(FLOATS_AND_MASKS[use], x, torch.tensor([False] * 4 + [True] * 4))


DIVISORS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "broadcast": lambda y: y[:, None].expand(4, 8),
    "reshaped": lambda y: y[:, None].expand(4, 8).reshape(8, 4).view(4, 8),
    "converted": lambda y: y.double()[:, None].expand(4, 8).float(),
    "computed": lambda y: y[:, None].expand(4, 8).abs(),
    "every other": lambda y: torch.full((8, 8), 49.0)[::2],
    "constant": lambda y: torch.full((4, 8), 48.0) + 1,
}


@pytest.mark.parametrize("divisor", DIVISORS)
def test_quotients_of_a_number_by_itself(divisor: str) -> None:
    y = torch.tensor([49.0, 41, 47, 55])
    x = DIVISORS[divisor](y).clone()
    made = DIVISORS[divisor]
    found = compiler.compile(lambda x, y: (x / made(y), torch.addcdiv(torch.zeros(4, 8), x, made(y))), (x, y))(x, y)
    assert all(torch.equal(f, torch.ones(4, 8)) for f in found)


ROUNDED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "to integers": lambda x: (x + 12582912.0) - 12582912.0,
    "from the other side": lambda x: 12582912.0 - (12582912.0 - x),
    "by a table": lambda x: (x + torch.full((6,), 12582912.0)) - torch.full((3, 2), 12582912.0).reshape(6),
    "products": lambda x: x * 1e30 * 1e30 * 1e-30 * 1e-30,
    "quotients": lambda x: x * torch.inf / 1e30 / 1e30,
}


@pytest.mark.parametrize("way", ROUNDED)
def test_constants_are_not_put_together(way: str) -> None:
    """What is added and taken away again rounds in between, and what overflows stays infinite."""
    x = torch.tensor([0.4, 1.5, -2.7, 1000.3, 1e10, 0])
    found = compiler.compile(ROUNDED[way], (x,))(x)
    torch.testing.assert_close(found, ROUNDED[way](x), rtol=0, atol=0, equal_nan=True)


ZEROS: dict[str, Callable[[], torch.Tensor]] = {
    "sum": lambda: torch.zeros(2, 4).sum(0),
    "product": lambda: torch.zeros(4) * 3,
    "difference": lambda: torch.ones(4) - 1,
    "absolute": lambda: (-torch.zeros(4)).abs(),
    "reversed": lambda: torch.zeros(4).flip(0),
    "taken": lambda: torch.zeros(9)[torch.tensor([8, 0, 3, 1])],
    "small": lambda: torch.zeros(4).to(torch.float8_e4m3fn).float(),
    "integer": lambda: torch.full((4,), -0.0).int().float(),
}


@pytest.mark.parametrize("zero", ZEROS)
def test_zeros_that_are_worked_out_make_minus_zero_plus_zero(zero: str) -> None:
    x = torch.tensor([-0.0, 0.0, 1.0, -2.0])
    programs = [
        lambda x: ZEROS[zero]() + x,
        lambda x: x - -ZEROS[zero](),
        lambda x: torch.addcmul(ZEROS[zero](), x, x.abs()),
    ]
    for program in programs:
        found = compiler.compile(program, (x,))(x)
        assert torch.equal(found.view(torch.int32), program(x).view(torch.int32))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_floats_times_powers_of_two(dtype: torch.dtype) -> None:
    """Exact where the power alone would be infinite or zero; by other floats it is one of their type."""
    limits = torch.finfo(dtype)
    x = torch.tensor([1, limits.max, limits.tiny, 3, -0.0, torch.inf, torch.nan, 0], dtype=torch.float64).to(dtype)
    exponents = torch.tensor([12, -2000, 2000, -12, 300, -300, 5, 2**31])
    assert_like_eager(lambda x, e: (torch.ldexp(x, e), torch.ldexp(x, e.sign() * 4)), x, exponents)
    assert_like_eager(lambda x, e: torch.ldexp(x, e), x, torch.tensor([0.5, 3, -1, 2, 4, 4, 4, 4], dtype=torch.float16))
    assert_like_eager(lambda x, e: x.ldexp_(e), x, exponents.clamp(-20, 20).to(torch.float64))
    assert_like_eager(lambda x, e: torch.ldexp(x[0], e.reshape(2, 4).t()), x, exponents)


def test_decomposed_operators_in_place_are_computed_in_the_common_type() -> None:
    x, y = torch.tensor([100, 6, 7, 0], dtype=torch.int8), torch.tensor([300, 4, -70, 5], dtype=torch.int16)
    assert_like_eager(lambda x, y: x.lcm_(y), x, y)
    assert_like_eager(lambda x, y: x.ldexp_(y), x.half(), y.float() / 64)


def test_logarithms_of_complex_zero() -> None:
    """Its parts are compared alone: no complex number with an infinite part is close to another."""
    x = torch.tensor([0, -0.0, 1j, -2, 3 - 4j])
    assert_like_eager(lambda x: (torch.view_as_real(x.log2()), torch.view_as_real(x.log10())), x)


def test_absolute_values_of_complex_infinities() -> None:
    x = torch.complex(*torch.cartesian_prod(*[torch.tensor([torch.nan, torch.inf, -torch.inf, 1.0])] * 2).unbind(1))
    assert_like_eager(lambda x: (x.abs(), x.view(-1, 1).norm(dim=1)), x)


def test_differences_of_complex_infinities_are_nan() -> None:
    x = torch.complex(torch.tensor([-0.0, torch.inf, 3.0, -0.0]), torch.tensor([-0.0, 1.0, -torch.inf, torch.nan]))
    assert_like_eager(lambda x: ((x - x).isnan(), (x - (x + 0)).isnan(), torch.sub(x, x, alpha=1).isnan()), x)


def test_the_trigamma_function_of_infinity() -> None:
    assert_like_eager(lambda x: torch.polygamma(1, x), torch.tensor([torch.inf, 1.5, 0.25, torch.nan]))


@pytest.mark.parametrize("name", ["i0", "special_i1", "special_modified_bessel_i0", "special_modified_bessel_k0",
                                  "special_bessel_j0", "special_bessel_j1", "special_bessel_y0", "special_airy_ai"])  # fmt: skip
def test_bessel_functions_of_infinity(name: str) -> None:
    assert_like_eager(getattr(torch.ops.aten, name).default, torch.tensor([torch.inf, torch.nan, 0, 1.5, 20]))


@pytest.mark.parametrize("stored", [torch.int8, torch.float16, torch.float64, torch.complex64])
def test_what_untagged_operators_store_is_converted_when_it_is_computed(stored: torch.dtype) -> None:
    """Division of complex numbers has no floor: XLA does not survive it."""
    y, out = torch.tensor([1, 2, -3], dtype=torch.int64), torch.zeros(3, dtype=stored)
    x = torch.tensor([7, -8, 300], dtype=torch.int32 if stored == torch.int8 else torch.bfloat16)
    assert_like_eager(lambda x, y, out: torch.floor_divide(x, y, out=out), x, y, out)
    if stored == torch.float64:
        half = torch.tensor([1.1, -2.25, 0.1, 2.5], dtype=torch.float16)
        assert_like_eager(lambda x, out: torch.ops.aten.glu.out(x, -1, out=out), half, torch.zeros(2, dtype=stored))
    if stored != torch.int8:
        assert_like_eager(lambda x, out: torch.threshold(x, 2, 2.5, out=out), torch.tensor([1, 2, 3]), out)
    square = torch.zeros(3, 3, dtype=stored)
    assert_like_eager(lambda x, y, out: torch.addr(out.to(x.dtype), x, y.to(x.dtype), out=out), x, y, square)


BF16 = (
    torch.tensor([0x7FC1, 0x3F81, -63, 0x3F80, 0x4003, 0x7FFF, 0, -1, 0x7FC5], dtype=torch.int16)
    .view(torch.bfloat16)
    .reshape(3, 3)
)
CHOICES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "where": lambda x: torch.where(torch.eye(3) > 0, x, x.flip(0)),
    "triangle": lambda x: x.tril(),
    "diagonal": lambda x: torch.diag_embed(x),
    "loop": lambda x: torch.ops.higher_order.while_loop(
        lambda i, a: i < 3, lambda i, a: (i + 1, a.flip(0)), (torch.tensor(0), x), ()
    )[1],
    "shifted": lambda x: (lambda c: (c[1:].copy_(c[:2].clone()), c)[1])(x.t().clone()),
}


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_elements_that_are_chosen_keep_their_bits(choice: str, dtype: torch.dtype) -> None:
    assert_like_eager(lambda x: CHOICES[choice](x).view(torch.int16), BF16.view(torch.int16).view(dtype))
