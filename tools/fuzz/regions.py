"""`cond`, `while_loop` and `scan`: PyTorch's, and what they mean in plain Python, which needs no compiler to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._higher_order_ops.scan import scan as torch_scan
from torch._higher_order_ops.while_loop import while_loop as torch_while_loop

NAMES = ("cond", "while_loop", "scan")


def _cond(predicate: Any, then: Callable[..., Any], otherwise: Callable[..., Any], operands: Sequence[Any] = ()) -> Any:
    return (then if predicate else otherwise)(*operands)


def _while_loop(condition: Callable[..., Any], body: Callable[..., Any], carried: Sequence[torch.Tensor]) -> Any:
    now = tuple(value.clone() for value in carried)
    while condition(*now):
        now = body(*now)
    return now


def _scan(combine: Callable[..., Any], init: torch.Tensor, rows: torch.Tensor) -> Any:
    carry, results = init.clone(), []
    for row in rows.unbind(0):
        carry, result = combine(carry, row)
        results.append(result)
    return carry, torch.stack(results)


PLAIN: Mapping[str, Callable[..., Any]] = dict(zip(NAMES, (_cond, _while_loop, _scan)))
PYTORCH: Mapping[str, Callable[..., Any]] = dict(zip(NAMES, (torch.cond, torch_while_loop, torch_scan)))
IMPORTS = (
    "from torch import cond",
    "from torch._higher_order_ops.scan import scan",
    "from torch._higher_order_ops.while_loop import while_loop",
)
