"""The decompose pass: what it leaves has a rule, computes the same, and is traced once a signature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

import compiler
from compiler.errors import UnsupportedError
from compiler.frontend.capture import capture
from compiler.frontend.importer import import_graph
from compiler.lowering import load_rules
from compiler.lowering.module import lower
from compiler.lowering.registry import RULES
from compiler.reference import run_values
from compiler.transforms.decompose import Decompose, decompose, graph_to_values
from compiler.transforms.in_place_to_out_of_place import InPlaceToOutOfPlace
from dialects.fx import ValueCallOp

load_rules()


def values(program: Callable[..., Any], arguments: Sequence[torch.Tensor]) -> ModuleOp:
    module = import_graph(capture(program, tuple(arguments))).module
    InPlaceToOutOfPlace().apply(Context(), module)
    return module


def targets(module: ModuleOp) -> list[str]:
    return [op.target.data for op in module.walk() if isinstance(op, ValueCallOp)]


def image(*shape: int) -> torch.Tensor:
    return torch.linspace(-1, 2, int(torch.tensor(shape).prod())).reshape(shape)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "views inside": (lambda x: F.pixel_unshuffle(F.pixel_shuffle(x, 2), 2), (image(1, 4, 3, 3),)),
    "indices": (lambda x: F.pad(x, (1, 1, 2, 0), mode="reflect"), (image(1, 4, 3, 3),)),
    "pooling": (lambda x: F.adaptive_avg_pool2d(x, (2, 3)), (image(1, 4, 5, 6),)),
    "bilinear": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (image(1, 4, 5, 6),)),
    "several results": (
        lambda x, m: torch.ops.aten.native_layer_norm_backward(x, x, [5], m, m, x[0], x[0], [True, True, True]),
        (image(4, 5), image(4, 1)),
    ),
    "list operands": (lambda x, y: torch._foreach_mul([x, y], [y, x]), (image(4, 5), image(4, 5))),
    "constant inside": (lambda x: F.cross_entropy(x, torch.tensor([1, 2])), (image(2, 3),)),
    "gradient": (lambda x: torch.ops.aten.gelu_backward(x, x), (image(4, 5).to(torch.bfloat16),)),
    "distances": (lambda x, y: torch.cdist(x, y, p=1.5), (image(4, 3), image(5, 3) + 0.5)),
    "pairs of rows": (lambda x: F.pdist(x), (image(4, 3) ** 2,)),
    "windows that differ": (lambda x: F.adaptive_avg_pool3d(x, (2, 3, 2)), (image(2, 5, 4, 3),)),
    "first of windows": (lambda x: F.adaptive_max_pool2d(x, (2, 3), return_indices=True), (image(2, 5, 4),)),
    "steps of a scale": (lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -8, 7), (image(4, 5),)),
    "steps of a scale in a tensor": (
        lambda x, s: torch.fake_quantize_per_tensor_affine(x, s, torch.tensor(1, dtype=torch.int32), 0, 15),
        (image(4, 5).to(torch.bfloat16), torch.tensor(0.07)),
    ),
    "steps of a scale in each row": (
        lambda x, s: torch.fake_quantize_per_channel_affine(x, s, torch.arange(4, dtype=torch.int32), 0, -8, 7),
        (image(4, 5).double(), torch.tensor([0.1, 0.2, 0.05, 1.0])),
    ),
    "steps of what is no number": (
        lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -8, 7),
        (torch.tensor([float("nan"), float("inf"), -float("inf"), 1e30]),),
    ),
    "bags": (
        lambda w: F.embedding_bag(torch.tensor([1, 0, 3]), w, torch.tensor([0, 0, 2]), mode="max"),
        (image(4, 3),),
    ),
    "bessel": (lambda x: torch.special.bessel_j0(x) + torch.special.i1e(x), (image(4, 5) * 9,)),
    "bessel of the second kind": (lambda x: torch.special.bessel_y1(x.abs() + 0.1), (image(4, 5) * 9,)),
    "modified bessel": (lambda x: torch.special.modified_bessel_k1(x.abs() + 0.1), (image(4, 5) * 9,)),
    "airy": (lambda x: torch.special.airy_ai(x), (image(4, 5) * 9,)),
    "quantiles": (lambda x: torch.special.ndtri(x), (image(4, 5).sigmoid() ** 9,)),
    "polygamma": (lambda x: torch.polygamma(3, x) + torch.polygamma(1, x), (image(4, 5) * 3.3 - 0.05,)),
    "two levels": (lambda x: torch.logaddexp2(x, x * 2), (image(2, 3),)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_only_rules_remain_and_nothing_changes(name: str) -> None:
    program, arguments = PROGRAMS[name]
    module = values(program, arguments)
    Decompose().apply(Context(), module)
    module.verify()
    assert [t for t in targets(module) if t not in RULES] == []
    lower(module)
    want = program(*arguments)
    for got, expected in zip(
        run_values(module, arguments), [want] if isinstance(want, torch.Tensor) else want, strict=True
    ):
        torch.testing.assert_close(got, expected)


def test_a_call_without_a_decomposition_stays_and_is_reported() -> None:
    module = values(lambda x: torch.linalg.ldl_factor(x)[0], (image(3, 3),))
    Decompose().apply(Context(), module)
    assert targets(module) == ["aten.linalg_ldl_factor_ex.default"]
    with pytest.raises(UnsupportedError, match=r"aten\.linalg_ldl_factor_ex\.default \("):
        lower(module)


def test_a_circle_of_decompositions_leaves_the_call() -> None:
    """gcd and its primitive each say they are made of the other; here nobody has a rule for them."""
    module = values(lambda x: torch.gcd(x, x + 1), (torch.arange(4),))
    supported = RULES.keys() - {"aten.gcd.default"}
    decompose(module, supported, graph_to_values)
    assert len([t for t in targets(module) if t not in supported]) == 1


def test_equal_calls_are_traced_once() -> None:
    traced: list[int] = []

    def counting(graph: torch.fx.GraphModule, inputs: Sequence[torch.Tensor]) -> ModuleOp:
        traced.append(len(inputs))
        return graph_to_values(graph, inputs)

    def program(x: torch.Tensor) -> torch.Tensor:
        for _ in range(5):
            x = F.pixel_unshuffle(F.pixel_shuffle(x, 2), 2)
        return x

    module = values(program, (image(1, 4, 3, 3),))
    calls = len([t for t in targets(module) if t not in RULES])
    decompose(module, RULES, counting)
    assert calls == 10
    assert traced == [1, 1]
    module.verify()


def test_rules_are_left_alone() -> None:
    module = values(lambda x: torch.softmax(x, -1) @ x, (image(3, 3),))
    before = str(module)
    Decompose().apply(Context(), module)
    assert str(module) == before


def test_every_replacement_comes_from_the_line_of_its_call() -> None:
    module = values(lambda x: F.pixel_shuffle(x, 2), (image(1, 4, 3, 3),))
    (call,) = [op for op in module.walk() if isinstance(op, ValueCallOp)]
    location = call.location
    Decompose().apply(Context(), module)
    replaced = [op for op in module.walk() if isinstance(op, ValueCallOp)]
    assert replaced and all(op.location == location for op in replaced)


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_places_of_an_image_that_are_no_numbers(mode: str, padding: str, align: bool) -> None:
    odd = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.9, 0.3, 3.0])
    given = image(1, 2, 3, 4), torch.cartesian_prod(odd, odd).view(1, 6, 6, 2)

    def program(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return F.grid_sample(x, grid, mode, padding, align)

    got = compiler.compile(program, given)(*given)
    torch.testing.assert_close(got, program(*given), rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_places_of_a_volume_that_are_no_numbers(mode: str, padding: str) -> None:
    odd = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.3])
    given = image(1, 2, 2, 3, 4), torch.cartesian_prod(odd, odd, odd).view(1, 4, 4, 4, 3)

    def program(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return torch.stack([F.grid_sample(x, grid, mode, padding, align) for align in (False, True)])

    got = compiler.compile(program, given)(*given)
    torch.testing.assert_close(got, program(*given), rtol=1e-5, atol=1e-5, equal_nan=True)
