"""Float arithmetic is done step by step, with eager's roundings, overflows and NaNs, whatever XLA would merge."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import compiler

PROGRAMS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "quotient_of_a_quotient": lambda x, y: x / x / x,
    "quotient_by_a_quotient": lambda x, y: x / (x / y),
    "quotients": lambda x, y: (x / y) / (y / x),
    "quotient_by_a_root": lambda x, y: x / y.rsqrt(),
    "rounded_by_a_sum": lambda x, y: (y + 2.0**53) - 2.0**53,
    "sum_of_a_sum": lambda x, y: ((y + 1) + 2.0**60) - 2.0**60,
    "products_with_constants": lambda x, y: (x * 1e200) * 1e-200,
    "quotients_by_constants": lambda x, y: (x / 1e-200) / 1e200,
    "logarithm_of_an_exponential": lambda x, y: torch.log(torch.exp(y * 300)),
    "logarithm_of_a_power": lambda x, y: torch.log(x**2),
    "root_of_a_square": lambda x, y: (x * x).sqrt(),
    "power_of_a_power": lambda x, y: (x**3.0) ** 0.25,
    "product_of_exponentials": lambda x, y: (y * 300).exp() * (y * -300).exp(),
    "square_of_a_root": lambda x, y: x.sqrt() * x.sqrt(),
    "root_of_a_product_of_parts": lambda x, y: torch.stack([x, x]).prod(0).sqrt(),
    "root_of_a_contraction": lambda x, y: torch.bmm(x.view(-1, 1, 1), x.view(-1, 1, 1)).sqrt(),
    "root_of_a_choice": lambda x, y: torch.where(y > 0, x * x, x * x).sqrt(),
    "logarithm_of_a_part": lambda x, y: torch.stack([(y * 300).exp(), x])[0].log(),
    "logarithm_of_a_product": lambda x, y: torch.stack([(y * 200).exp(), (y * 200).exp()]).prod(0).log(),
    "binary_logarithm": lambda x, y: (y * 600).exp2().log2(),
    "contraction_of_exponentials": lambda x, y: torch.bmm(
        (y * 300).exp().view(-1, 1, 1), (y * -300).exp().view(-1, 1, 1)
    ),
    "product_of_parts": lambda x, y: (
        torch.stack([(y * 300).exp(), x])[0] * torch.where(y > 0, (y * -300).exp(), (y * -300).exp())
    ),
    "factor_of_a_product": lambda x, y: torch.add(y, x * 1e200, alpha=1e-200),
    "slope_of_a_product": lambda x, y: torch.nn.functional.leaky_relu(x * -1e200, 1e-200),
    "gate_of_a_sum": lambda x, y: torch.nn.functional.hardsigmoid(y * 1e-20 - 3),
    "norm_of_one": lambda x, y: torch.stack(
        [torch.linalg.vector_norm(x.view(-1, 1), order, dim=1) for order in (2, 3, -2, 1, 0)]
    ),
    "differences": lambda x, y: (x - y) - x,
    "distributed": lambda x, y: x * 1e150 / (y * y) - y * 1e140 / (y * y),
    "mask_over_number": lambda x, y: (x < y) / (y - y),
    "not_negative": lambda x, y: torch.stack([abs(y) >= 0, y * y >= 0, y.exp() >= 0, y.clamp(min=0) >= 0]),
    "chosen_by_a_sign": lambda x, y: torch.where(abs(y) >= 0, y, 7.0),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_like_eager(name: str) -> None:
    program = PROGRAMS[name]
    x = torch.tensor([1e200, -1e200, 3.0, 1e-100, float("inf"), 0.5], dtype=torch.float64)
    y = torch.tensor([2.0, 3.5, -1.0, 1e10, 7.0, float("nan")], dtype=torch.float64)
    torch.testing.assert_close(
        compiler.compile(program, (x, y))(x, y), program(x, y), rtol=1e-14, atol=0, equal_nan=True
    )
