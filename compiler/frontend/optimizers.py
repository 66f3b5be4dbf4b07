"""Fused optimizer steps as the element-wise updates that they are, in place on parameters and state.

A fused call computes what eager PyTorch's CPU kernel computes: in f32 for 16-bit parameters, with the corrections of the
bias from `step` as it is given, and nothing at all where `found_inf` is set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

Number = Tensor | float


def _wide(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _store(target: Tensor, value: Tensor, found_inf: Tensor | None) -> None:
    """Write a new value, unless the step is skipped."""
    target.copy_(value if found_inf is None else torch.where(found_inf == 1, _wide(target), value))


def _gradient(grad: Tensor, scale: Tensor | None, found_inf: Tensor | None, maximize: bool) -> Tensor:
    """The gradient to follow; one that was scaled is unscaled where it is."""
    value = _wide(grad)
    if scale is not None:
        value = value / scale
        _store(grad, value, found_inf)
    return -value if maximize else value


def _correction(beta: float, step: Tensor) -> Tensor:
    """1 - beta^step without the cancellation."""
    return -torch.expm1(step * math.log(beta)) if beta > 0 else torch.ones_like(step)


def _adam(decoupled: bool) -> Callable[..., None]:
    """Adam, with weight decay apart from the gradient (AdamW) or added to it."""

    def adam(
        params: Sequence[Tensor], grads: Sequence[Tensor], exp_avgs: Sequence[Tensor], exp_avg_sqs: Sequence[Tensor],
        max_exp_avg_sqs: Sequence[Tensor], state_steps: Sequence[Tensor], *, lr: Number, beta1: float, beta2: float,
        weight_decay: float, eps: float, amsgrad: bool, maximize: bool, grad_scale: Tensor | None = None,
        found_inf: Tensor | None = None,
    ) -> None:  # fmt: skip
        for i, (param, step) in enumerate(zip(params, state_steps, strict=True)):
            value, gradient = _wide(param), _gradient(grads[i], grad_scale, found_inf, maximize)
            if weight_decay and decoupled:
                value = value * (1 - lr * weight_decay)
            elif weight_decay:
                gradient = gradient + value * weight_decay
            mean = torch.lerp(_wide(exp_avgs[i]), gradient, 1 - beta1)
            square = _wide(exp_avg_sqs[i]) * beta2 + gradient * gradient * (1 - beta2)
            largest = torch.maximum(_wide(max_exp_avg_sqs[i]), square) if amsgrad else square
            root = largest.sqrt() / _correction(beta2, step).sqrt().to(square.dtype) + eps
            size = lr / _correction(beta1, step)
            _store(param, value - size.to(value.dtype) * mean / root, found_inf)
            _store(exp_avgs[i], mean, found_inf)
            _store(exp_avg_sqs[i], square, found_inf)
            if amsgrad:
                _store(max_exp_avg_sqs[i], largest, found_inf)

    return adam


def _sgd(
    params: Sequence[Tensor], grads: Sequence[Tensor], momentum_buffer_list: Sequence[Tensor], *, weight_decay: float,
    momentum: float, lr: Number, dampening: float, nesterov: bool, maximize: bool, is_first_step: bool,
    grad_scale: Tensor | None = None, found_inf: Tensor | None = None,
) -> None:  # fmt: skip
    for i, param in enumerate(params):
        value, gradient = _wide(param), _gradient(grads[i], grad_scale, found_inf, maximize)
        if weight_decay:
            gradient = gradient + value * weight_decay
        if momentum:
            buffer = momentum_buffer_list[i]
            moving = gradient if is_first_step else _wide(buffer) * momentum + gradient * (1 - dampening)
            gradient = gradient + moving * momentum if nesterov else moving
            _store(buffer, moving, found_inf)
        _store(param, value - gradient * lr, found_inf)


def _adagrad(
    params: Sequence[Tensor], grads: Sequence[Tensor], state_sums: Sequence[Tensor], state_steps: Sequence[Tensor], *,
    lr: Number, lr_decay: float, weight_decay: float, eps: float, maximize: bool, grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> None:  # fmt: skip
    for i, (param, step) in enumerate(zip(params, state_steps, strict=True)):
        value, gradient = _wide(param), _gradient(grads[i], grad_scale, found_inf, maximize)
        if weight_decay:
            gradient = gradient + value * weight_decay
        total = _wide(state_sums[i]) + gradient * gradient
        rate = (lr / (1 + (step - 1) * lr_decay)).to(value.dtype)
        _store(param, value - rate * gradient / (total.sqrt() + eps), found_inf)
        _store(state_sums[i], total, found_inf)


_ATEN = torch.ops.aten
FUSED: dict[OpOverload, Callable[..., Any]] = {
    getattr(packet, overload): function
    for packet, function in (
        (_ATEN._fused_adam_, _adam(decoupled=False)),
        (_ATEN._fused_adamw_, _adam(decoupled=True)),
        (_ATEN._fused_sgd_, _sgd),
        (_ATEN._fused_adagrad_, _adagrad),
    )
    for overload in ("default", "tensor_lr")
    if overload in packet.overloads()
}
"""Fused steps by overload."""
