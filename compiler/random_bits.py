"""The one random operator of the IR: 64 random bits for each element, from a counter-based generator.

`fx2hlo::random_bits(state, size)` reads a key and a counter from `state` (two i64) and adds the number of elements to the
counter. Bits are those of Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
2011) as XLA's `rng-bit-generator` computes them: word k has counter + k as its block, low half first. The kernel here
is what the reference runs; the same bits come out of the compiled program.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

STATE = "rng.state"
"""Name of the hidden argument that holds the state."""

TARGET = "fx2hlo.random_bits.default"

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_HALF = 0xFFFFFFFF

_library = torch.library.Library("fx2hlo", "DEF")
_library.define("random_bits(Tensor(a!) state, SymInt[] size) -> Tensor")


def threefry(key: int, counters: torch.Tensor) -> torch.Tensor:
    """The word of every counter, as i64."""
    first, second = key & _HALF, (key >> 32) & _HALF
    keys = (first, second, first ^ second ^ 0x1BD11BDA)
    x, y = (counters & _HALF) + keys[0] & _HALF, (counters >> 32 & _HALF) + keys[1] & _HALF
    for turn in range(5):
        for rotation in _ROTATIONS[turn % 2]:
            x = x + y & _HALF
            y = (y << rotation | y >> 32 - rotation) & _HALF ^ x
        x = x + keys[(turn + 1) % 3] & _HALF
        y = y + keys[(turn + 2) % 3] + turn + 1 & _HALF
    return x | y << 32


@torch.library.impl(_library, "random_bits", "CPU")
def _random_bits(state: torch.Tensor, size: Sequence[int]) -> torch.Tensor:
    key, counter = state.tolist()
    count = math.prod(size)
    words = threefry(key, torch.arange(count) + counter)
    state[1] += count
    return words.reshape(tuple(size))


@torch.library.impl(_library, "random_bits", "Meta")
def _random_bits_meta(state: torch.Tensor, size: Sequence[int]) -> torch.Tensor:
    return torch.empty(size, dtype=torch.int64, device=state.device)


def seeded(seed: int) -> torch.Tensor:
    """The state at the start of the stream of a seed."""
    key = seed & (1 << 64) - 1
    return torch.tensor([key - (1 << 64) if key >> 63 else key, 0])


SEEDS = 1 << 31
"""Seeds of programs that take one as a parameter are smaller: a 32-bit integer holds them."""


def next_seed(seed: torch.Tensor) -> None:
    """Another seed in place of this one: a call that takes a seed must not draw what the call before it drew."""
    with torch.no_grad():
        seed.add_(1).remainder_(SEEDS)


def fresh_seed() -> torch.Tensor:
    """A seed that depends on PyTorch's default generator, which stays as it is."""
    return fresh_state()[0] % SEEDS


def fresh_state() -> torch.Tensor:
    """A state that depends on PyTorch's default generator, which stays as it is."""
    generator = torch.Generator()
    generator.set_state(torch.get_rng_state())
    return torch.stack(
        [torch.randint(-(1 << 62), 1 << 62, (), generator=generator), torch.zeros((), dtype=torch.int64)]
    )
