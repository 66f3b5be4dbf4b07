"""Results lie in memory as eager's kernels lay them out."""

from __future__ import annotations

import itertools
from random import Random

import pytest
import torch

import compiler

_functional = torch.nn.functional
_POINTWISE = {
    "copysign": torch.copysign, "floor_divide": torch.floor_divide, "heaviside": torch.heaviside,
    "ldexp": torch.ldexp, "logaddexp": torch.logaddexp, "logaddexp2": torch.logaddexp2, "xlogy": torch.xlogy,
    "logical_and": torch.logical_and, "logical_or": torch.logical_or, "logical_xor": torch.logical_xor,
    "xlog1py": torch.special.xlog1py, "pow": lambda a, b: torch.pow(2, b) + torch.pow(1, a),
    "floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "float_power": lambda a, b: torch.float_power(2, b),
    "threshold_backward": lambda a, b: torch.ops.aten.threshold_backward(a, b, 0.5),
    "logit_backward": lambda a, b: torch.ops.aten.logit_backward(a, b, 0.1),
    "native_dropout_backward": lambda a, b: torch.ops.aten.native_dropout_backward(a, b.bool(), 2.0),
}  # fmt: skip


def _operand(layout: str, dtype: torch.dtype) -> torch.Tensor:
    shapes = {
        "contiguous": lambda: torch.ones(2, 3, 4), "permuted": lambda: torch.ones(4, 3, 2).permute(2, 1, 0),
        "gaps": lambda: torch.ones(4, 3, 4).permute(2, 1, 0)[::2], "expanded": lambda: torch.ones(2, 1, 4).expand(2, 3, 4),
        "column": lambda: torch.ones(1, 4, 3).mT, "number": lambda: torch.ones(()),
    }  # fmt: skip
    made = shapes[layout]()
    # The type is changed before the layout, so that the second keeps it.
    return torch.empty(0, dtype=dtype).set_(
        torch.ones(48, dtype=dtype).untyped_storage(), 0, made.shape, made.stride()
    )  # fmt: skip


_LAYOUTS = ("contiguous", "permuted", "gaps", "expanded", "column", "number")


@pytest.mark.parametrize("name", _POINTWISE)
def test_pointwise_strides_are_the_kernels(name: str) -> None:
    """All layouts of two operands, of one type and of two, in one program."""
    run = _POINTWISE[name]
    f32, u8 = torch.float32, torch.uint8
    gradient = name.endswith("backward")  # of the type of what it is the gradient of
    types = [(f32, f32)] if gradient else [(u8, f32), (u8, u8)]
    pairs = [(_operand(a, p), _operand(b, q)) for p, q in types for a, b in itertools.product(_LAYOUTS, _LAYOUTS)]

    def eager(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor | None:
        try:
            return run(a, b)
        except (RuntimeError, NotImplementedError):  # not for these types
            return None

    served = [pair for pair in pairs if eager(*pair) is not None]
    assert len(served) >= len(pairs) // 3

    def program(*flat: torch.Tensor) -> list[torch.Tensor]:
        return [run(a, b) for a, b in zip(flat[::2], flat[1::2], strict=True)]

    flat = tuple(t for pair in served for t in pair)
    found = compiler.compile(program, flat)(*flat)
    for expected, result, (a, b) in zip(program(*flat), found, served, strict=True):
        what = (a.stride(), a.dtype, b.stride(), b.dtype)
        assert (result.dtype, result.stride()) == (expected.dtype, expected.stride()), what
        assert torch.equal(result, expected), what


def _zeros(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros(x.shape[1])


_FORMATTED = {
    "batch_norm in training": lambda x: _functional.batch_norm(x, _zeros(x), _zeros(x) + 1, training=True),
    "batch_norm": lambda x: _functional.batch_norm(x, _zeros(x), _zeros(x) + 1, _zeros(x) + 2, _zeros(x)),
    "batch_norm without statistics": lambda x: _functional.batch_norm(x, None, None, training=True),
    "nll_loss": lambda x: _functional.nll_loss(x, x[:, 0].long() % 4, reduction="none"),
    "channel_shuffle": lambda x: _functional.channel_shuffle(x, 2),
    "nearest": lambda x: _functional.interpolate(x, scale_factor=2.0, mode="nearest"),
    "nearest-exact": lambda x: _functional.interpolate(x, scale_factor=2.0, mode="nearest-exact"),
    "max_pool1d": lambda x: _functional.max_pool1d(x, 2) if x.dim() == 3 else x,
    "max_unpool2d": lambda x: (
        _functional.max_unpool2d(x, torch.arange(x[0, 0].numel()).view(x[0, 0].shape).expand_as(x), (2, 2))
        if x.dim() == 4
        else x
    ),
    "native_batch_norm_backward": lambda x: torch.ops.aten.native_batch_norm_backward(
        x * 2, x, None, None, None, _zeros(x), _zeros(x) + 1, True, 1e-5, [True, False, False]
    )[0],
}


@pytest.mark.parametrize("name", _FORMATTED)
def test_memory_formats_are_the_kernels(name: str) -> None:
    """Images and signals whose channels come last, and others that are permuted, with and without gaps."""
    whole = torch.arange(2.0 * 4 * 6 * 8).view(2, 4, 6, 8)
    signals = [whole[..., 0].contiguous(), whole[..., 0].mT.contiguous().mT, whole[:, :, :, 0].permute(2, 1, 0)[::3]]
    images = [
        whole, whole.contiguous(memory_format=torch.channels_last), whole.mT.contiguous().mT,
        torch.cat([whole, whole]).contiguous(memory_format=torch.channels_last)[::2],
    ]  # fmt: skip
    inputs = (*signals, *images)

    def program(*inputs: torch.Tensor) -> list[torch.Tensor]:
        return [_FORMATTED[name](x) for x in inputs]

    found = compiler.compile(program, inputs)(*inputs)
    for x, result, expected in zip(inputs, found, program(*inputs), strict=True):
        assert result.stride() == expected.stride(), x.stride()
        assert torch.allclose(result, expected, atol=1e-5), x.stride()


def test_normal_numbers_around_tensors_are_contiguous() -> None:
    mean = torch.zeros(4, 3, dtype=torch.float64).mT

    def program(mean: torch.Tensor, std: torch.Tensor) -> list[torch.Tensor]:
        return [torch.normal(mean, std), torch.normal(1.0, std), torch.normal(mean, 1.0)]

    std = torch.ones(2, 3, 1).expand(2, 3, 4)
    found = compiler.compile(program, (mean, std))(mean, std)
    assert [(x.stride(), x.dtype) for x in found] == [(x.stride(), x.dtype) for x in program(mean, std)]


_LIKE = {
    "log_sigmoid": lambda x: torch.ops.aten.log_sigmoid_forward(x),
    "index_fill": lambda x: x.index_fill(1, torch.tensor([0]), 2.0),
    "cross_entropy": lambda x: _functional.binary_cross_entropy(x * 0 + 0.5, x.clamp(0, 1).contiguous(), reduction="none"),
    "cross_entropy_on_average": lambda x: _functional.binary_cross_entropy(x * 0 + 0.5, x.clamp(0, 1)),
    "cross_entropy_in_sum": lambda x: _functional.binary_cross_entropy(x * 0 + 0.5, x.clamp(0, 1), reduction="sum"),
    "dropout": lambda x: torch.ops.aten.native_dropout(x, 0.5, False),
    "complex": lambda x: torch.complex(x, x.contiguous()),
    "polar": lambda x: torch.polar(x, x.contiguous()),
    "product_of_types": lambda x: x.bfloat16()[:, :1] * x.double(),
}  # fmt: skip


@pytest.mark.parametrize("name", _LIKE)
def test_strides_of_one_operand(name: str) -> None:
    run = _LIKE[name]
    operands = [_operand(layout, torch.float32) for layout in _LAYOUTS if layout != "number"]

    def program(*tensors: torch.Tensor) -> list[object]:
        return [run(x) for x in tensors]

    got, want = compiler.compile(program, tuple(operands))(*operands), program(*operands)
    for layout, one, other in zip(_LAYOUTS, got, want, strict=False):
        found = zip(*((v if isinstance(v, tuple) else (v,)) for v in (one, other)), strict=True)
        assert all(a.stride() == b.stride() for a, b in found), layout


def _strided(shape: list[int], dtype: torch.dtype, random: Random) -> torch.Tensor:
    """Dimensions in any order, with gaps, and some that do not move or overlap."""
    strides, step = [0] * len(shape), 1
    for d in random.sample(range(len(shape)), len(shape)):
        strides[d] = random.choice((0, 1, 2, 8)) if random.random() < 0.2 else step
        step *= shape[d] + 2 * (random.random() < 0.2)
    return torch.zeros(4000, dtype=dtype).as_strided(shape, strides)


def _indexed(random: Random) -> tuple[torch.Tensor, list[torch.Tensor | None]]:
    source = _strided([random.choice((1, 1, 2, 3)) for _ in range(random.randint(1, 4))], torch.float32, random)
    common = [random.choice((1, 2, 3)) for _ in range(random.randint(0, 3))]
    indices: list[torch.Tensor | None] = []
    for _ in range(random.randint(1, source.dim())):
        own = [1 if random.random() < 0.3 else n for n in common[random.randint(0, len(common)) :]]
        indices.append(
            None if random.random() < 0.4 else _strided(own, random.choice((torch.int64, torch.int32)), random)
        )
    return source, indices if any(i is not None for i in indices) else [_strided(common, torch.int64, random)]


@pytest.mark.parametrize("seed", range(4))
def test_indices_decide_on_the_order_of_dimensions(seed: int) -> None:
    random = Random(seed)
    pairs = [_indexed(random) for _ in range(40)]

    def program(*_: object) -> list[torch.Tensor]:
        return [torch.ops.aten.index.Tensor(source, indices) for source, indices in pairs]

    got = compiler.compile(program, ())()
    assert [t.stride() for t in got] == [t.stride() for t in program()]
