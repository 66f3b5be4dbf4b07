"""What fails inside PyTorch is said once, by the error that reaches the user, not by PyTorch's log as well."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_torch() -> Iterator[None]:
    """PyTorch logs no warnings and errors inside; who asked for more of its log than warnings gets all of it."""
    logger = logging.getLogger("torch")
    level = logger.level
    if logger.getEffectiveLevel() >= logging.WARNING:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


__all__ = ["quiet_torch"]
