"""Operators of `torch.ops.fuzz`: every kind of write and alias mark that a schema can carry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_LIBRARY = torch.library.Library("fuzz", "FRAGMENT")


def _define(schema: str, kernel: Callable[..., Any]) -> None:
    """The kernel is made of PyTorch operators, so that it serves fake tensors as well."""
    name = schema.split("(")[0]
    _LIBRARY.define(schema)
    _LIBRARY.impl(name, kernel, "CPU")
    _LIBRARY.impl(name, kernel, "Meta")


def _shift(x: torch.Tensor, amount: int) -> None:
    x.add_(amount)


def _store(x: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return x.copy_(value)


def _store_and_old(x: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    old = x.clone()
    x.copy_(value)
    return old


def _exchange(x: torch.Tensor, y: torch.Tensor) -> None:
    old = x.clone()
    x.copy_(y)
    y.copy_(old)


def _fill_list(xs: list[torch.Tensor], amount: int) -> None:
    for x in xs:
        x.fill_(amount)


def _head(x: torch.Tensor) -> torch.Tensor:
    return x.select(0, 0)


def _sum_into(x: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
    return out.copy_(x.sum())


_define("shift_(Tensor(a!) x, int amount) -> ()", _shift)
_define("store_(Tensor(a!) x, Tensor value) -> Tensor(a!)", _store)
_define("store_and_old_(Tensor(a!) x, Tensor value) -> Tensor", _store_and_old)
_define("exchange_(Tensor(a!) x, Tensor(b!) y) -> ()", _exchange)
_define("fill_list_(Tensor(a!)[] xs, int amount) -> ()", _fill_list)
_define("head(Tensor(a) x) -> Tensor(a)", _head)
_define("sum_into(Tensor x, *, Tensor(a!) out) -> Tensor(a!)", _sum_into)
