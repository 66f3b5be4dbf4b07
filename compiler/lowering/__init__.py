"""Lowering of value ops to StableHLO: a dict of rules, one file per family of operators."""

from __future__ import annotations

import importlib
import pkgutil


def load_rules() -> None:
    """Import every module of this package, so that `registry.RULES` is full."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
