"""Calls of ATen overloads for the lowering rules: operands of many types, with the values at which implementations differ."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import torch

ELEMENT = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "ui8",
    torch.bool: "i1",
    torch.complex64: "complex<f32>",
    torch.complex128: "complex<f64>",
}
TOLERANCE = {
    torch.float64: (1e-12, 1e-13),
    torch.float32: (3e-6, 2e-6),
    torch.float16: (2e-3, 2e-4),
    torch.bfloat16: (1.6e-2, 2e-3),
    torch.complex64: (1e-5, 1e-5),
    torch.complex128: (1e-11, 1e-12),
}
f64, f32, f16, bf16 = torch.float64, torch.float32, torch.float16, torch.bfloat16
i64, i32, i16, i8, u8, b1, c64 = (
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
    torch.complex64,
)
FLOATS = (f64, f32, f16, bf16)
nan, inf = float("nan"), float("inf")


def t(*shape: int, dtype: torch.dtype = f32, seed: int = 0, low: float = -2.0, high: float = 2.0) -> torch.Tensor:
    """Reproducible data in [low, high)."""
    generator = torch.Generator().manual_seed(seed + sum(shape))
    if dtype is b1:
        return torch.rand(shape, generator=generator) < 0.5
    if dtype.is_complex:
        return torch.complex(t(*shape, seed=seed), t(*shape, seed=seed + 1)).to(dtype)
    data = torch.rand(shape, generator=generator, dtype=f64) * (high - low) + low
    return (data.floor() if not dtype.is_floating_point else data).to(dtype)


def edge(dtype: torch.dtype) -> torch.Tensor:
    """Values at which implementations differ."""
    if dtype.is_floating_point:
        values = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.7, -3.2, 1e-3, 7.0, inf, -inf, nan]
        return torch.tensor(values, dtype=dtype)
    if dtype.is_complex:
        return torch.tensor([0, 1, -1, 1j, 2 - 3j, -0.5 + 0.25j, -2 - 1j], dtype=dtype)
    if dtype is b1:
        return torch.tensor([True, False, True, True, False])
    info = torch.iinfo(dtype)
    return torch.tensor(
        [0, 1, 2, 3, 7, 100, info.max, info.max - 1] + ([] if dtype is u8 else [info.min, -1, -2, -7]), dtype=dtype
    )


def pairs(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Every edge value against every other, as a broadcast."""
    return edge(dtype)[:, None], edge(dtype)[None, :]


@dataclass(frozen=True)
class Case:
    target: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    tolerance: tuple[float, float] | None = None

    @property
    def name(self) -> str:
        kinds = [str(v.dtype).split(".")[1] for v in flat(self.args) if isinstance(v, torch.Tensor)]
        rest = [str(v) for v in [*flat(self.args), *self.kwargs.values()] if not isinstance(v, torch.Tensor)]
        return f"{self.target.removeprefix('aten.')}-{'-'.join(kinds)}-{'-'.join(rest)}"[:110]

    def eager(self) -> list[torch.Tensor]:
        packet, overload = self.target.removeprefix("aten.").split(".")
        copy = functools.partial(replace, lambda v: v.clone() if isinstance(v, torch.Tensor) else v)
        found = getattr(getattr(torch.ops.aten, packet), overload)(*copy(self.args), **copy(self.kwargs))
        return [found] if isinstance(found, torch.Tensor) else list(found)


def case(target: str, *args: Any, tolerance: tuple[float, float] | None = None, **kwargs: Any) -> Case:
    name = target if target.count(".") else f"{target}.default"
    return Case(f"aten.{name}", args, kwargs, tolerance)


def replace(function: Any, item: Any) -> Any:
    if isinstance(item, (list, tuple)):
        return type(item)(replace(function, i) for i in item)
    if isinstance(item, dict):
        return {k: replace(function, i) for k, i in item.items()}
    return function(item)


def flat(item: Any) -> list[Any]:
    if isinstance(item, (list, tuple)):
        return [leaf for i in item for leaf in flat(i)]
    return [item]


# fmt: off
def elementwise_cases() -> list[Case]:
    cases = []
    unary = [
        "sin", "cos", "tan", "tanh", "exp", "expm1", "sigmoid", "sqrt", "rsqrt", "log", "log1p", "log2",
        "log10", "exp2", "erf", "erfc", "atan", "sinh", "cosh", "asinh", "floor", "ceil", "round", "trunc",
        "frac", "abs", "neg", "sign", "reciprocal", "isnan", "isinf", "isfinite", "isposinf", "isneginf",
        "signbit", "sgn", "square", "relu", "gelu", "silu", "softplus", "mish", "leaky_relu", "elu",
        "hardtanh", "hardswish", "hardsigmoid", "nan_to_num", "logical_not", "angle",
    ]
    for name in unary:
        # Eager gelu(inf) is NaN or inf, by how the loop was vectorised.
        cases += [case(name, edge(d) if name != "gelu" else edge(d)[:13]) for d in FLOATS]
        cases.append(case(name, t(37, seed=3, low=-4, high=4)))
    for name in ("asin", "acos", "atanh", "erfinv"):
        cases += [case(name, t(23, dtype=d, low=-1, high=1), tolerance=(1e-5, 1e-5) if d is f32 else None) for d in FLOATS]
    cases += [case("acosh", t(23, low=1, high=9)), case("lgamma", t(23, low=0.1, high=9), tolerance=(1e-5, 1e-5)),
              case("digamma", t(23, low=0.1, high=9), tolerance=(1e-5, 1e-5))]
    for name in ("sin", "exp", "sqrt", "rsqrt", "sigmoid", "erf", "log1p", "reciprocal", "isnan", "isinf", "isfinite", "atan"):
        cases += [case(name, edge(d)) for d in (i64, i32, u8, b1)]
    for name in ("abs", "neg", "sign", "floor", "ceil", "trunc", "round", "bitwise_not", "relu", "square", "signbit", "sgn"):
        cases += [case(name, edge(d)) for d in (i64, i32, i16, i8, u8)]
    cases += [case(n, edge(b1)) for n in ("bitwise_not", "logical_not", "sign", "signbit")]
    cases += [case(n, edge(c64)) for n in ("abs", "neg", "exp", "sin", "cos", "angle", "conj_physical", "sgn", "square",
                                           "isnan", "isinf", "isfinite", "sqrt", "reciprocal", "tanh")]

    arithmetic = ["add.Tensor", "sub.Tensor", "mul.Tensor", "maximum", "minimum", "remainder.Tensor", "fmod.Tensor"]
    for name in [*arithmetic, "div.Tensor", "atan2", "fmax", "fmin", "floor_divide", "copysign.Tensor", "hypot", "logaddexp"]:
        cases += [case(name, *pairs(d)) for d in FLOATS]
    for name in arithmetic + ["fmax", "floor_divide", "bitwise_and.Tensor", "bitwise_or.Tensor", "bitwise_xor.Tensor", "div.Tensor"]:
        for d in (i64, i32, u8):
            left, right = pairs(d)
            if name[:3] in ("rem", "fmo", "flo"):  # no division by zero, no smallest by -1: both end the process
                left, right = left[left[:, 0] != torch.iinfo(d).min], right[:, 1:]
            cases.append(case(name, left, right))
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        cases += [case(f"{name}.Tensor", *pairs(d)) for d in (*FLOATS, i64, u8, b1)]
        cases += [case(f"{name}.Scalar", edge(f32), 0.5), case(f"{name}.Scalar", edge(i64), 2),
                  case(f"{name}.Scalar", edge(i32), 0.5)]
    for name in ("eq", "ne"):
        cases.append(case(f"{name}.Tensor", *pairs(c64)))
    for name in ("logical_and", "logical_or", "logical_xor"):
        cases += [case(name, *pairs(d)) for d in (f32, i64, b1)]
        cases.append(case(name, edge(f32)[:5], edge(b1)))
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        cases += [case(f"{name}.Tensor", *pairs(b1)), case(f"{name}.Scalar", edge(i64), 6)]
    shifts = torch.tensor([0, 1, 3, 7, 31, 40, 63], dtype=i64)
    for name in ("bitwise_left_shift", "bitwise_right_shift", "__lshift__", "__rshift__"):
        cases += [case(f"{name}.Tensor", edge(d)[:, None], shifts[None].to(d)) for d in (i64, i32, u8)]
    cases.append(case("bitwise_right_shift.Tensor_Scalar", edge(i32), 2))
    for left, right in ((f32, f64), (bf16, f32), (f16, bf16), (i32, f32), (u8, i8), (u8, i64), (b1, f32), (b1, i32), (i64, f16)):
        small_left, small_right = t(5, dtype=left, low=0, high=5), t(5, dtype=right, low=1, high=6, seed=1)
        for name in ("add.Tensor", "mul.Tensor", "div.Tensor", "maximum", "lt.Tensor", "pow.Tensor_Tensor"):
            cases.append(case(name, small_left, small_right))
        cases += [case("add.Tensor", small_left, small_right[0]), case("mul.Tensor", small_left[1], small_right)]
    for d in (f32, bf16, f16, i32, u8, i64, b1):
        x = t(7, dtype=d, low=0, high=5)
        cases += [case(n, x, 3) for n in ("add.Tensor", "mul.Tensor", "div.Tensor", "add.Scalar", "mul.Scalar", "div.Scalar")]
        cases += [case(n, x, 0.1) for n in ("add.Tensor", "mul.Tensor", "div.Tensor", "pow.Tensor_Scalar")]
        if d is not b1:
            cases += [case(n, x, 3) for n in ("sub.Tensor", "rsub.Scalar", "remainder.Scalar", "fmod.Scalar", "floor_divide.Scalar")]
            cases.append(case("pow.Tensor_Scalar", x, 3))
            cases += [case("add.Tensor", x, x, alpha=2), case("sub.Tensor", x, x, alpha=3), case("clamp", x, 1, 3),
                      case("clamp_min", x, 2), case("clamp_max", x, 2)]
    cases += [case("add.Tensor", edge(b1), edge(b1)), case("mul.Tensor", edge(b1), edge(b1)),
              case("add.Tensor", edge(f32), edge(f32), alpha=0.5)]
    cases += [case(n, *pairs(c64)) for n in ("add.Tensor", "sub.Tensor", "mul.Tensor")]
    cases += [case("div.Tensor", edge(c64), 2 + 1j), case("mul.Tensor", edge(f32)[:13], 1 + 2j),
              case("add.Tensor", edge(c64), t(7)),
              case("mul.Tensor", edge(c64), 2.5), case("pow.Tensor_Scalar", edge(c64)[1:], 2)]
    for mode in (None, "floor", "trunc"):
        cases += [case("div.Tensor_mode", *pairs(d), rounding_mode=mode) for d in FLOATS]
        left, right = pairs(i32)
        left = left[left[:, 0] != torch.iinfo(i32).min]
        cases += [case("div.Tensor_mode", left, right[:, 1:], rounding_mode=mode),
                  case("div.Scalar_mode", t(9, low=-9, high=9), 0.7, rounding_mode=mode),
                  case("div.Tensor_mode", t(9, dtype=i64, low=-9, high=9), 2.0, rounding_mode=mode)]
    for exponent in (0, 1, 2, 3, 4, 0.5, -0.5, -1, -2, 2.5, -3):
        cases += [case("pow.Tensor_Scalar", edge(d), exponent) for d in (f32, bf16)]
        if exponent in (0, 1, 2, 3, 4):
            cases += [case("pow.Tensor_Scalar", edge(d), exponent) for d in (i64, i32, u8)]
    cases += [case("pow.Tensor_Tensor", *pairs(f32)),
              case("pow.Tensor_Tensor", edge(i64)[:, None], torch.tensor([0, 1, 2, 3, 5])[None]),
              case("pow.Tensor_Tensor", torch.tensor([1, -1, 2, -3, 5]), torch.tensor([-1, -3, -2, -1, 2])),
              case("pow.Scalar", 2, t(9)), case("pow.Scalar", 2, torch.arange(9)),
              case("pow.Scalar", 0.5, torch.arange(9))]
    for d in (f32, bf16):
        cases += [case("lerp.Scalar", t(6, dtype=d), t(6, dtype=d, seed=1), w) for w in (0.3, 0.8, -1.0)]
        cases.append(case("lerp.Tensor", t(6, dtype=d), t(6, dtype=d, seed=1), t(6, dtype=d, seed=2)))
        cases += [case(n, t(6, dtype=d), t(2, 6, dtype=d), t(6, dtype=d, seed=2), value=0.5) for n in ("addcmul", "addcdiv")]
    cases += [case("addcmul", t(6, dtype=i64), t(6, dtype=i64, seed=1), t(6, dtype=i64, seed=2), value=3)]
    bounds = torch.tensor([nan, 0.0, 1.0, -inf, inf])
    cases += [case("clamp.Tensor", edge(f32)[:, None], bounds, bounds.flip(0)),
              case("clamp.Tensor", edge(f32)[:, None], None, bounds),
              case("clamp", edge(f32), -1.0, None), case("clamp", edge(f32), 2.0, 1.0),
              case("clamp_min.Tensor", edge(f32), torch.tensor(0.0)),
              case("clamp", t(5, dtype=i64), -0.5, 1.5), case("clamp.Tensor", t(5, dtype=i32), t(5), t(5, seed=1))]
    flags = edge(b1)
    cases += [case("where.self", flags, t(5), t(5, seed=1)), case("where.self", flags, t(3, 5), torch.tensor(1)),
              case("where.self", flags[:, None], t(5, dtype=bf16), t(1, dtype=f32)),
              case("where.self", flags, t(5, dtype=i32), t(5, dtype=i64)),
              case("where.self", flags, t(5, dtype=f16), torch.tensor(2.0, dtype=f64))]
    cases += [case("nan_to_num", edge(d), 1.0, 5.0, -5.0) for d in FLOATS]
    cases += [case("round.decimals", t(9, high=90), decimals=d) for d in (0, 2, -1)]
    cases += [case("gelu", edge(d), approximate="tanh") for d in FLOATS]
    cases += [case("softplus", t(9, high=9), 2.0, 4.0), case("leaky_relu", edge(f32), 0.2),
              case("elu", edge(f32), 1.5, 1.1, 0.9),
              case("hardtanh", edge(f32), -0.5, 2.0), case("threshold", edge(f32), 0.5, 9.0),
              case("hardshrink", edge(f32)), case("softshrink", edge(f32)),
              case("_prelu_kernel", edge(f32), torch.tensor([0.3])), case("glu", t(3, 4)),
              case("glu", t(4, 3, dtype=bf16), 0), case("log_sigmoid_forward", edge(f32)[:13]),
              case("heaviside", edge(f32), torch.tensor(0.5)), case("xlogy.Tensor", *pairs(f32)),
              case("xlogy.Scalar_Other", edge(f32), 2.0),
              case("complex", t(4), t(4, seed=1)), case("polar", t(4), t(4, seed=1)), case("real", t(4, dtype=c64)),
              case("imag", t(4, dtype=c64)),
              case("view_as_real", t(2, 3, dtype=c64)), case("view_as_complex", t(3, 2))]
    return cases


def shaping_cases() -> list[Case]:
    x, y = t(3, 4), t(3, 4, dtype=i64, low=-9, high=9)
    cases = [case(n, x) for n in ("clone", "lift_fresh_copy", "alias_copy", "detach_copy", "t_copy")]
    for source in (edge(f32)[:13], edge(bf16)[:13], edge(f64)[:13], edge(i64)[:6], edge(u8), edge(b1), edge(c64)):
        cases += [case("_to_copy", source, dtype=d) for d in (f64, f32, f16, bf16, b1, c64)]
        if not source.is_complex():
            cases += [case("_to_copy", source.clamp(0, 100) if source.dtype is not b1 else source, dtype=d) for d in (i64, i32, i8, u8)]
    cases += [case("copy", x, y[0]), case("copy", y, x), case("copy", x, torch.tensor(2.5, dtype=f64)),
              case("copy", t(2, dtype=b1), t(2))]
    cases += [case(n, x, s) for n in ("view", "view_copy", "_unsafe_view", "reshape") for s in ([4, 3], [2, -1])]
    cases += [case("permute", t(2, 3, 4), [2, 0, -2]), case("transpose.int", t(2, 3, 4), -1, 0), case("t", x),
              case("unsqueeze", x, -1), case("squeeze", t(1, 3, 1)),
              case("squeeze.dim", t(1, 3, 1), 0), case("squeeze.dims", t(1, 3, 1), [0, 1]),
              case("expand", t(3, 1), [2, -1, 4]), case("select.int", x, 1, -1),
              case("slice.Tensor", x, 1, 1, 9223372036854775807, 2), case("slice.Tensor", x, 0, -2, -1),
              case("slice.Tensor", x, 0, 2, 1), case("slice.Tensor", x),
              case("split.Tensor", t(5, 2), 2), case("split_with_sizes", x, [1, 3], 1), case("unbind.int", x, -1),
              case("split_copy.Tensor", t(5, 2), 3),
              case("view.dtype", x, i32), case("view.dtype", t(2, 4, dtype=i64), i32),
              case("view.dtype", t(2, 4), f64)]
    cases += [case("cat", [x, y]), case("cat", [x, t(3, 2)], -1), case("cat", [torch.empty(0), x], 1),
              case("cat", [x]), case("cat", [t(2, dtype=bf16), t(2, dtype=f16)]),
              case("stack", [x, x]), case("stack", [x, x], -1), case("stack", [torch.tensor(1.0), torch.tensor(2.0)]),
              case("repeat", x, [2, 1, 3]), case("repeat", x, [1, 0]), case("roll", x, [1], [0]),
              case("roll", x, [-1, 2], [1, 0]), case("roll", x, [5]), case("flip", x, [0, -1]),
              case("flip", torch.tensor(2.0), []), case("constant_pad_nd", x, [1, 2, 0, 3], 1.5),
              case("constant_pad_nd", x, [-1, 2]), case("constant_pad_nd", y, [1, 1], 3),
              case("constant_pad_nd", t(3, dtype=b1), [1, 1], True), case("broadcast_tensors", [t(3, 1), t(4)]),
              case("meshgrid", [t(3), t(4)]),
              case("native_dropout", x, 0.5, False)]
    cases += [case(n, t(2, 3, 4, dtype=d), k) for n in ("tril", "triu") for d, k in ((f32, 0), (i64, 1), (b1, -1))]
    cases += [case("full", [2, 3], 1.5), case("full", [], 3, dtype=bf16), case("full", [2], 1 + 2j),
              case("full", [2], 300, dtype=i64), case("full", [2], True), case("full", [2], inf),
              case("full_like", y, 7), case("zeros", [2]), case("ones", [2, 2], dtype=i32), case("zeros_like", x),
              case("ones_like", y), case("new_full", x, [2], 3.0),
              case("new_zeros", y, [2]), case("new_ones", x, [2]), case("scalar_tensor", 2.5),
              case("scalar_tensor", 3, dtype=i64), case("eye", 3), case("eye.m", 2, 4, dtype=i64),
              case("fill.Scalar", x, 2), case("fill.Scalar", y, 2.7), case("fill.Tensor", x, torch.tensor(3)),
              case("zero", x), case("arange", 5), case("arange", 5.5), case("arange.start", 2, 7),
              case("arange.start_step", 1, 2, 0.3), case("arange.start_step", 9, 1, -3), case("arange.start", 0.5, 4),
              case("arange", 5, dtype=bf16), case("arange", 3, dtype=f64),
              case("arange.start_step", 0.0, 6.0, 2, dtype=i32),
              case("div.Tensor", torch.arange(1.0, 200), torch.arange(1.0, 200)[:, None]), case("linspace", 0, 1, 7),
              case("linspace", -3.0, 2.5, 1), case("linspace", 1, 9, 5, dtype=f64), case("tril_indices", 3, 4, 1),
              case("triu_indices", 3, 4)]
    return cases


def reduction_cases() -> list[Case]:
    cases = []
    for d in (*FLOATS, i64, i32, u8, b1):
        x = t(3, 4, 5, dtype=d, low=-3 if d is not u8 else 0, high=4)
        cases += [case("sum", x), case("sum.dim_IntList", x, [1]), case("sum.dim_IntList", x, [0, -1], True),
                  case("sum.dim_IntList", x, None), case("sum.dim_IntList", x, []),
                  case("sum", x, dtype=f32), case("prod", x), case("prod.dim_int", x, 1), case("amax", x, [1]),
                  case("amin", x, [0, 2], True), case("max", x), case("min", x),
                  case("any", x), case("any.dim", x, 1), case("any.dims", x, [0, 1]), case("all", x),
                  case("all.dim", x, -1, True), case("count_nonzero", x), case("count_nonzero.dim_IntList", x, [1]),
                  case("max.dim", x, 1), case("min.dim", x, -1, True)]
        if d is not b1:
            cases += [case("argmax", x), case("argmax", x, 1), case("argmin", x, 0, True), case("aminmax", x),
                      case("aminmax", x, dim=1, keepdim=True), case("cumsum", x, 1), case("cumprod", x, -1),
                      case("cummax", x, 1), case("cummin", x, 0)]
        if d.is_floating_point:
            cases += [case("mean", x), case("mean.dim", x, [0, 1], True), case("var.correction", x, [1]),
                      case("var.correction", x, [1], correction=0, keepdim=True), case("var.dim", x, [0]),
                      case("std.correction", x),
                      case("std.dim", x, [0], False), case("var_mean.correction", x, [2], correction=0),
                      case("std_mean.correction", x, [2]), case("logsumexp", x, [1]),
                      case("logsumexp", x, [0, 1], True),
                      case("linalg_vector_norm", x), case("linalg_vector_norm", x, 1, [0]),
                      case("linalg_vector_norm", x, inf, [1], True), case("linalg_vector_norm", x, -inf),
                      case("linalg_vector_norm", x, 0), case("linalg_vector_norm", x, 3, [2]),
                      case("norm.Scalar", x), case("norm.ScalarOpt_dim", x, 2, [1]), case("nansum", x),
                      case("logcumsumexp", x, 1)]
    e = edge(f32)
    rows = torch.stack([e, e.flip(0), e.roll(5), torch.where(e.isnan(), 0.0, e)])
    for name in ("argmax", "argmin", "max.dim", "min.dim", "cumsum", "cummax", "cummin", "logcumsumexp", "median.dim"):
        cases.append(case(name, rows, 1))
    cases += [case(n, rows) for n in ("max", "min", "sum", "amax", "any", "all", "argmax", "nansum")]
    cases += [case("sum.dim_IntList", t(2, 3, dtype=c64), [1]), case("mean", t(2, 3, dtype=c64)),
              case("linalg_vector_norm", t(2, 3, dtype=c64)), case("sum", torch.empty(0)),
              case("mean", torch.empty(0)),
              case("var.correction", t(1)), case("sum", torch.tensor(3.0)), case("max", torch.tensor(3)),
              case("cumsum", torch.tensor(3), 0), case("logsumexp", torch.full((2, 3), -inf), [1]),
              case("sum.dim_IntList", torch.tensor(3.0), [0]), case("argmax", torch.tensor(3)),
              case("mean.dim", t(2, 3, dtype=i64), [1], dtype=f32), case("sum", t(5, dtype=bf16), dtype=f64)]
    # order
    ints = t(3, 9, dtype=i64, low=-4, high=5)
    for d in (f32, bf16, i64, u8, b1):
        x = t(3, 9, dtype=d, low=0, high=5)
        cases += [case("sort.stable", x, stable=True, dim=1),
                  case("sort.stable", x, stable=True, dim=0, descending=True)]
    cases += [case("sort", rows, 1), case("sort", t(3, 9), -1, True),
              case("sort.stable", rows, stable=True, dim=1, descending=True),
              case("argsort.stable", ints, stable=True), case("argsort", t(9)), case("sort", torch.tensor(2.0)),
              case("topk", t(3, 9), 4), case("topk", t(3, 9), 2, 0, False), case("topk", t(9, dtype=bf16), 3),
              case("kthvalue", t(3, 9), 4), case("median.dim", t(3, 8), 1), case("median", t(3, 8)), case("median", edge(f32)),
              case("searchsorted.Tensor", torch.tensor([1, 3, 5]), torch.tensor([[0, 1, 2], [5, 6, 3]])),
              case("searchsorted.Tensor", torch.tensor([[1., 3], [0, 2]]), torch.tensor([[0., 1, 2], [2, nan, 3]]), right=True),
              case("bucketize.Tensor", torch.tensor([[0., 1, nan], [5, 6, 3]]), torch.tensor([1., 3, 5]))]
    return cases


def layer_cases() -> list[Case]:
    cases = []
    for d in FLOATS:
        loose = (5e-2, 2e-2) if d in (f16, bf16) else None  # eager rounds between the steps of these
        a, m, v = t(3, 4, dtype=d), t(4, 5, dtype=d), t(4, dtype=d)
        batch, other = t(2, 3, 4, dtype=d), t(2, 4, 5, dtype=d)
        cases += [case("mm", a, m), case("bmm", batch, other), case("addmm", t(5, dtype=d), a, m),
                  case("addmm", t(3, 5, dtype=d), a, m, beta=0.5, alpha=2),
                  case("addmm", torch.full((5,), nan, dtype=d), a, m, beta=0),
                  case("baddbmm", t(2, 3, 5, dtype=d), batch, other, alpha=0.5),
                  case("addbmm", t(3, 5, dtype=d), batch, other, tolerance=loose), case("mv", a, v),
                  case("addmv", t(3, dtype=d), a, v), case("dot", v, v),
                  case("linear", batch, t(6, 4, dtype=d), t(6, dtype=d)), case("linear", v, t(6, 4, dtype=d)),
                  case("matmul", batch, m), case("matmul", batch, other), case("matmul", v, m), case("matmul", a, v),
                  case("matmul", batch[:, None], other)]
        x = t(2, 6, 5, dtype=d, low=-3, high=5)
        w, c = t(5, dtype=d), t(5, dtype=d, seed=1)
        cases += [case("_softmax", x, -1, False), case("_softmax", x, 1, False), case("_log_softmax", x, 2, False),
                  case("native_layer_norm", x, [5], w, c, 1e-5),
                  case("native_layer_norm", x, [6, 5], None, None, 1e-5),
                  case("native_group_norm", x, t(6, dtype=d), t(6, dtype=d, seed=1), 2, 6, 5, 3, 1e-5),
                  case("native_group_norm", x, None, None, 2, 6, 5, 2, 1e-5),
                  case("_fused_rms_norm", x, [5], w, 1e-6), case("_fused_rms_norm", x, [5], None, None)]
        if d is not f16:
            s, var = t(6, dtype=d), t(6, dtype=d, low=0.5, high=2)
            cases += [case("_native_batch_norm_legit_functional", x, s, s, s, var, True, 0.1, 1e-5),
                      case("_native_batch_norm_legit_functional", x, s, s, s, var, False, 0.1, 1e-5),
                      case("_native_batch_norm_legit_no_training", x, s, None, s, var, 0.1, 1e-5),
                      case("_native_batch_norm_legit.no_stats", x, s, s, True, 0.1, 1e-5),
                      case("native_batch_norm", x, s, s, s, var, False, 0.1, 1e-5)]
        image = t(2, 4, 7, 6, dtype=d)
        bias = t(4, dtype=d)
        cases += [case("convolution", image, t(4, 4, 3, 3, dtype=d), bias, [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
                  case("convolution", image, t(4, 2, 3, 2, dtype=d), None, [2, 1], [1, 0], [1, 2], False, [0, 0], 2),
                  case("convolution", image, t(4, 1, 3, 3, dtype=d), bias, [1], [1], [1], False, [0], 4),
                  case("convolution", image, t(4, 2, 3, 2, dtype=d), bias[:2], [2, 3], [1, 0], [1, 2], True, [1, 0], 1, tolerance=loose),
                  case("convolution", image, t(4, 3, 3, 2, dtype=d), None, [2, 1], [1, 1], [1, 1], True, [0, 0], 2, tolerance=loose),
                  case("convolution", t(2, 4, 9, dtype=d), t(6, 4, 3, dtype=d), None, [2], [1], [1], False, [0], 1)]
        cases += [case("max_pool2d_with_indices", image, [3, 2], [2, 2], [1, 0]),
                  case("max_pool2d_with_indices", image, [2], [], [0], [2]),
                  case("max_pool2d_with_indices", image[0], [2, 2], [3, 3], [1], [1], True)]
        cases += [case("avg_pool2d", image, [3, 2], [2, 2], [1, 0]), case("avg_pool2d", image, [3], [2], [1], True),
                  case("avg_pool2d", image, [3], [2], [1], False, False),
                  case("avg_pool2d", image[0], [2, 2], [], [0], False, True, 3)]
    cases += [case("mm", t(3, 4, dtype=i64), t(4, 5, dtype=i64)), case("mm", t(3, 4, dtype=c64), t(4, 5, dtype=c64)),
              case("dot", t(4, dtype=i32), t(4, dtype=i32)),
              case("_int_mm", t(17, 8, dtype=i8), t(8, 8, dtype=i8)),
              case("vdot", t(4, dtype=c64), t(4, dtype=c64, seed=3)),
              case("addr", t(3, 4), t(3), t(4), alpha=2),
              case("_softmax", torch.tensor(2.0), 0, False),
              case("_safe_softmax", torch.tensor([[-inf, -inf], [1.0, -inf]]), -1),
              case("convolution", t(1, 2, 4, 4, 4), t(3, 2, 2, 2, 2), None, [1, 1, 1], [0, 0, 0], [1, 1, 1], False, [0, 0, 0], 1),
              case("max_pool2d_with_indices", torch.full((1, 3, 3), -inf), [2, 2], [1, 1], [1, 1]),
              case("max_pool2d_with_indices", torch.tensor([[[1, nan, 2], [nan, 0, 3.0]]]), [2, 2], [1, 1])]
    for d in (f64, f32):
        image, loose = t(2, 4, 7, 6, dtype=d), (1e-5, 1e-5) if d is f32 else None
        mask = [True, True, True]
        for weight, out, more in (
            (t(4, 4, 3, 3, dtype=d), t(2, 4, 7, 6, dtype=d), ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)),
            (t(6, 2, 3, 2, dtype=d), t(2, 6, 4, 4, dtype=d), ([2, 1], [1, 0], [1, 2], False, [0, 0], 2)),
            (t(4, 3, 3, 2, dtype=d), t(2, 6, 13, 5, dtype=d), ([2, 1], [1, 1], [1, 1], True, [0, 0], 2)),
            (t(4, 2, 3, 2, dtype=d), t(2, 2, 14, 18, dtype=d), ([2, 3], [1, 0], [1, 2], True, [1, 0], 1)),
        ):
            cases.append(case("convolution_backward", out, image, weight, [out.shape[1]], *more, mask, tolerance=loose))
        cases += [
            case("avg_pool2d_backward", t(2, 4, 4, 3, dtype=d), image, [3, 2], [2, 2], [1, 0], False, True, None),
            case("avg_pool2d_backward", t(2, 4, 4, 4, dtype=d), image, [3, 3], [2, 2], [1, 1], True, False, None),
            case("avg_pool2d_backward", t(2, 4, 3, 3, dtype=d), image, [2, 2], [], [0, 0], False, True, 3),
        ]
        q, k, v = t(2, 4, 5, 8, dtype=d), t(2, 4, 7, 8, dtype=d, seed=1), t(2, 4, 7, 8, dtype=d, seed=2)
        bias = t(2, 1, 5, 7, dtype=d, seed=3)
        forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        for causal, extra in ((False, {}), (True, {}), (False, {"attn_mask": bias, "scale": 0.3})):
            out, saved = forward(q, k, v, 0.0, causal, **extra)
            name = "_scaled_dot_product_flash_attention_for_cpu_backward"
            cases.append(case(name, t(2, 4, 5, 8, dtype=d, seed=5), q, k, v, out, saved, 0.0, causal, tolerance=loose, **extra))
    signal = t(3, 6, 8, dtype=c64)
    for scaling in (0, 1, 2):
        cases += [
            case("_fft_c2c", signal, [1, 2], scaling, True),
            case("_fft_c2c", signal, [0], scaling, False),
            case("_fft_r2c", t(3, 6, 7), [0, 2], scaling, True),
            case("_fft_r2c", t(3, 6), [1], scaling, False),
            case("_fft_c2r", torch.fft.rfft(t(3, 6, 8, dtype=f64)), [1, 2], scaling, 8),
        ]
    ends, stacked = torch.tensor([2, 2, 5, 8], dtype=i32), t(4, 8, 16, dtype=bf16)
    cases += [case("_grouped_mm", t(8, 8, dtype=bf16), stacked, ends), case("_grouped_mm", t(4, 8, 8, dtype=bf16), stacked)]
    for d in (f64, f32, bf16, f16):
        q, k, v = t(2, 4, 5, 8, dtype=d), t(2, 4, 7, 8, dtype=d, seed=1), t(2, 4, 7, 8, dtype=d, seed=2)
        mask = t(2, 1, 5, 7, dtype=d, seed=3)
        allowed = t(5, 7, dtype=b1)
        allowed[2] = False
        close = (1e-5, 1e-5) if d is f32 else None
        cases += [case("_scaled_dot_product_flash_attention_for_cpu", q, k, v, tolerance=close),
                  case("_scaled_dot_product_flash_attention_for_cpu", q, k, v, 0.0, True, tolerance=close),
                  case("_scaled_dot_product_flash_attention_for_cpu", q, k, v, 0.0, False, attn_mask=mask, scale=0.3, tolerance=close),
                  case("_scaled_dot_product_attention_math", q, k, v, mask, tolerance=close),
                  case("_scaled_dot_product_attention_math", q, k, v, allowed, 0.0, False, None, scale=0.7, tolerance=close),
                  case("_scaled_dot_product_attention_math", q, k, v, None, 0.0, True, tolerance=close),
                  case("_scaled_dot_product_attention_math", q, k[:, :2], v[:, :2], enable_gqa=True, tolerance=close),
                  case("scaled_dot_product_attention", q, k, v, allowed, tolerance=close),
                  case("scaled_dot_product_attention", q, k[:, :2], v[:, :2], None, 0.0, True, enable_gqa=True, tolerance=close),
                  case("scaled_dot_product_attention", q[0, 0], k[0, 0], v[0, 0], tolerance=close)]
    return cases

# fmt: on


def empty_cases() -> list[Case]:
    """No elements, and 0-d operands."""
    none, zero = t(0, 3), torch.tensor(1.5)
    cases = [
        case(n, none)
        for n in ("relu", "gelu", "sum", "clone", "any", "all", "prod", "tril", "count_nonzero", "linalg_vector_norm")
    ]
    for dim in (0, 1):
        cases += [case(n, none, dim) for n in ("cumsum", "sort", "cummax")]
        cases += [case(n, none, [dim]) for n in ("sum.dim_IntList", "mean.dim", "logsumexp", "flip")]
        cases.append(case("_softmax", none, dim, False))
    cases += [
        case("topk", t(4), 0),
        case("arange", 0),
        case("arange.start_step", 0, 0, 0.5),
        case("eye", 0),
        case("full", [0, 2], 3.0),
        case("mm", t(3, 0), t(0, 2)),
        case("mm", t(0, 3), t(3, 2)),
        case("addmm", t(2), t(3, 0), t(0, 2)),
        case("bmm", t(0, 3, 2), t(0, 2, 4)),
        case("convolution", t(0, 2, 5), t(3, 2, 3), None, [1], [0], [1], False, [0], 1),
        case("native_layer_norm", none, [3], t(3), t(3), 1e-5),
        case("add.Tensor", none, t(1)),
        case("cat", [none, t(2, 3)]),
        case("where.self", t(0, 1, dtype=b1), none, zero),
        case("stack", [none, none]),
        case("repeat", none, [2, 2]),
        case("roll", none, [1], [0]),
        case("constant_pad_nd", none, [0, 0, 1, 0], 2.0),
        case("var.correction", none, [1]),
        case("max.dim", none, 1),
        case("argmax", none, 1),
        case("view", none, [3, 0]),
        case("split.Tensor", none, 2, 1),
        case("view.dtype", none, i32),
    ]
    cases += [case(n, zero, 0) for n in ("cumsum", "cumprod", "cummax", "sort", "max.dim", "argmax")]
    cases += [
        case(n, zero) for n in ("sum", "mean", "amax", "var.correction", "sort", "argmin", "median", "clone", "t")
    ]
    cases += [
        case("_log_softmax", zero, 0, False),
        case("add.Tensor", zero, torch.tensor(2)),
        case("topk", zero, 1),
        case("roll", zero, [1]),
        case("repeat", zero, [2, 3]),
        case("expand", zero, [2, 3]),
        case("linalg_vector_norm", zero, 3),
    ]
    return cases


def linear_algebra_cases() -> list[Case]:
    square = t(3, 4, 4) + 3 * torch.eye(4)
    positive = square @ square.mT
    factors, pivots, _ = torch.linalg.lu_factor_ex(square)
    reflections, taus = torch.geqrf(t(5, 3))
    return [
        case("linalg_cholesky_ex", positive),
        case("linalg_cholesky_ex", positive, upper=True),
        case("cholesky", positive),
        case("linalg_solve_triangular", square, t(3, 4, 2), upper=True),
        case("triangular_solve", t(4, 2), square[0]),
        case("linalg_solve_triangular", square, t(2, 4), upper=False, left=False, unitriangular=True),
        case("linalg_lu_factor_ex", square),
        case("linalg_lu_factor_ex", t(2, 5, 3)),
        case("linalg_lu_factor_ex", t(3, 5)),
        case("linalg_lu_factor_ex", torch.zeros(3, 3)),
        case("linalg_lu_factor_ex", t(3, 3, dtype=c64)),
        case("lu_unpack", factors, pivots),
        case("geqrf", t(5, 3)),
        case("geqrf", t(2, 3, 5)),
        case("geqrf", torch.eye(3)),
        case("linalg_householder_product", reflections, taus),
        case("linalg_householder_product", t(4, 0), t(0)),
    ]


def creation_cases() -> list[Case]:
    first, last, whole = torch.tensor(-1.3), torch.tensor(2.6, dtype=f64), torch.tensor(4)
    between = [(".Tensor_Tensor", first, last), (".Tensor_Scalar", whole, -2.5), (".Scalar_Tensor", 0.7, whole)]
    return [case("logspace", *ends, base, dtype=d) for d in (f32, f64, i64, bf16)
            for ends, base in (((0, 2, 4), 10.0), ((1, 1.2, 2), 10.0), ((-2, 1, 5), 2.0), ((3, 0, 1), 10.0))] + [
            case(f"linspace{kind}", *ends, steps, dtype=d) for d in (f32, f64, i64, bf16, c64)
            for kind, *ends in between for steps in (0, 1, 2, 7)] + [
            case(f"logspace{kind}", *ends, steps, 2.0, dtype=d, tolerance=(2e-2, 2e-2) if d is bf16 else None)
            for d in (f32, f64, i64, bf16) for kind, *ends in between for steps in (0, 1, 6)] + [
            case("linspace", 0.7, 5.5, 4, dtype=i64)]  # fmt: skip


def narrow_cases() -> list[Case]:
    """Where 16-bit floats are rounded between the steps of an operator: to the bit."""
    cases = []
    for d in (bf16, f16):
        x, y = t(256, dtype=d, low=-30, high=30), t(256, dtype=d, seed=1, low=-30, high=30)
        whole = t(256, dtype=i64, seed=2, low=-1000, high=1000)
        others = (y, whole, torch.tensor(777), torch.tensor(0.3), torch.tensor(0.3, dtype=f64), 0.3, 7)
        for name in (
            "add.Tensor",
            "sub.Tensor",
            "mul.Tensor",
            "div.Tensor",
            "floor_divide",
            "remainder.Tensor",
            "fmod.Tensor",
        ):
            numbers = 2 if name[:3] in ("add", "sub", "mul", "div") else 0
            cases += [case(name, x, other) for other in others[: 5 + numbers]]
            cases += [case(name, other, x) for other in others[1:5]]
        cases += [case(name, x, other, alpha=0.3) for name in ("add.Tensor", "sub.Tensor") for other in (y, whole)]
        cases += [case("div.Tensor_mode", x, y, rounding_mode=mode) for mode in ("floor", "trunc")]
        cases += [case("div.Tensor_mode", whole, y, rounding_mode="floor"), case("rsqrt", x.abs())]
        cases += [case("xlogy.Tensor", x, y.abs()), case("atan2", whole, x), case("hypot", x, whole)]
    return [Case(c.target, c.args, c.kwargs, (0.0, 0.0)) for c in cases]


def special_cases() -> list[Case]:
    grid = torch.linspace(-4.3, 20, 31)
    degrees = torch.arange(-1, 9).to(f32)[:, None]
    names = [f"{kind}chebyshev_polynomial_{letter}" for kind in ("", "shifted_") for letter in "tuvw"]
    names += ["hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"]
    return [
        *(case(f"special_{name}", torch.linspace(-1.25, 1.25, 8), degrees, tolerance=(1e-4, 1e-4)) for name in names),
        case("special_zeta", torch.tensor([1.5, 2.0, 3.0, 7.0, 1.0, 0.5])[:, None], grid, tolerance=(1e-5, 1e-5)),
        case("igamma", torch.tensor([0.0, 0.3, 2.0, 30.0])[:, None], grid.abs(), tolerance=(1e-5, 1e-6)),
        case("igammac", torch.tensor([0.0, 0.3, 2.0, 30.0])[:, None], grid.abs(), tolerance=(1e-5, 1e-6)),
        case("gcd", torch.tensor([0, 12, -18, 7, 2**40])[:, None], torch.tensor([0, 8, -27, 2**20])),
        case("digamma", torch.tensor([0.0, -0.0, 1.0, 2.5, -1.0])), case("digamma", torch.tensor([0, 1, -2])),
        case("nextafter", torch.tensor([0.0, 1.0, inf, -1.0]), torch.tensor([1.0, 0.0, 0.0, nan])),
        case("searchsorted.Tensor", torch.tensor([3.0, 1.0, 2.0]), torch.tensor([1.5, 3.0]), sorter=torch.tensor([1, 2, 0])),
    ]  # fmt: skip


FAMILIES = {
    "linear algebra": linear_algebra_cases(),
    "creation": creation_cases(),
    "narrow": narrow_cases(),
    "special": special_cases(),
    "elementwise": elementwise_cases(),
    "shaping": shaping_cases(),
    "reduction": reduction_cases(),
    "layer": layer_cases(),
    "empty": empty_cases(),
}
