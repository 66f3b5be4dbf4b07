"""What holds for a whole process, and changes the meaning of a program: states of random numbers, the default dtype."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes


def settings() -> tuple[tuple[str, object, Callable[[], object]], ...]:
    """For each: its name, what it is, and how to put it back."""
    with _disable_current_modes():
        drawn, generator, dtype = random.getstate(), torch.get_rng_state(), torch.get_default_dtype()
        arrays = np.random.get_state(legacy=False)
        bits = generator.numpy().tobytes()

    def rewind() -> None:
        with _disable_current_modes():
            torch.set_rng_state(generator)

    return (
        ("the state of Python's random numbers", drawn, lambda: random.setstate(drawn)),
        ("the state of NumPy's random numbers", pickle.dumps(arrays), lambda: np.random.set_state(arrays)),
        ("the state of PyTorch's random numbers", bits, rewind),
        ("the default dtype", dtype, lambda: torch.set_default_dtype(dtype)),
    )


__all__ = ["settings"]
