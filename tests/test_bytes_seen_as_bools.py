"""Memory that a program sees as bools among other types keeps all bits of its bytes: a bool of HLO has one."""

from __future__ import annotations

import pytest
import torch
from torch.utils import _pytree as pytree

import compiler


def _memory(count: int) -> torch.Tensor:
    return torch.arange(count * 4, dtype=torch.uint8).view(torch.float32)


BYTES_SEEN_AS_BOOLS = {
    "arguments": (
        lambda f, b: [f.add_(1), b.fill_(True)],
        lambda: (lambda f: [f, f.view(torch.bool)[5:9]])(_memory(8)),
    ),
    "complex": (
        lambda z, b: [z.add_(1 + 2j), b[1:].zero_()],
        lambda: (lambda f: [f.view(torch.complex64)[1:], f.view(torch.bool)[5:9]])(_memory(8)),
    ),
    "half": (
        lambda h, b: [h.add_(1), b.logical_not_()],
        lambda: (lambda f: [f.view(torch.int16), f.view(torch.bool)[8:12]])(torch.zeros(8)),
    ),
    "view": (lambda f: f.view(torch.bool)[5:9].fill_(True), lambda: [_memory(8)]),
    "seen as bytes": (
        lambda b: [b.view(torch.uint8)[1:3].fill_(7), b[3:].logical_not_()],
        lambda: [torch.zeros(6, dtype=torch.bool)],
    ),
    "fresh": (
        lambda x: [
            (b := x > 2),
            b.view(torch.uint8)[:2].fill_(7),
            x * b,
            (f := x * 2).view(torch.bool)[5:9].fill_(True),
            f,
        ],
        lambda: [torch.arange(4.0)],
    ),
}


@pytest.mark.parametrize("name", BYTES_SEEN_AS_BOOLS)
def test_bytes_of_something_else_seen_as_bools_keep_their_bits(name: str) -> None:
    program, make = BYTES_SEEN_AS_BOOLS[name]
    mine, theirs = make(), make()
    found, wanted = compiler.compile(program, tuple(make()))(*mine), program(*theirs)
    for have, want in zip([*mine, *pytree.tree_leaves(found)], [*theirs, *pytree.tree_leaves(wanted)]):
        assert have.dtype == want.dtype
        assert torch.equal(have.contiguous().view(torch.uint8), want.contiguous().view(torch.uint8))
