"""Overloads for which PyTorch has no decomposition, or none that ends in operators with a rule, in terms of those that have.

    @decomposition("_pdist_forward.default")
    def pdist_forward(x: Tensor, p: float = 2.0) -> Tensor: ...

A function has the signature of its overload. It is traced for each signature it is called with.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

DECOMPOSITIONS: dict[str, Callable[..., Any]] = {}
"""Overload -> its function. Filled when the modules of this package are imported (`load_decompositions`)."""


def decomposition(*overloads: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function for these overloads, ATen's unless a namespace stands in front."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        DECOMPOSITIONS.update({o if o.count(".") == 2 else f"aten.{o}": function for o in overloads})
        return function

    return register


def load_decompositions() -> None:
    """Import every module of this package, so that DECOMPOSITIONS is full."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
