"""Results of pointwise operators lie in memory as eager's kernels lay them out."""

from __future__ import annotations

import itertools

import pytest
import torch

import compiler

_OPERATORS = {
    "copysign": torch.copysign, "floor_divide": torch.floor_divide, "heaviside": torch.heaviside,
    "ldexp": torch.ldexp, "logaddexp": torch.logaddexp, "logaddexp2": torch.logaddexp2, "xlogy": torch.xlogy,
    "logical_and": torch.logical_and, "logical_or": torch.logical_or, "logical_xor": torch.logical_xor,
    "xlog1py": torch.special.xlog1py, "pow": lambda a, b: torch.pow(2, b) + torch.pow(1, a),
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


@pytest.mark.parametrize("name", _OPERATORS)
def test_strides_are_the_kernels(name: str) -> None:
    """All layouts of two operands, of one type and of two, in one program."""
    run = _OPERATORS[name]
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
