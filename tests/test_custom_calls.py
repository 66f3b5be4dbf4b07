"""Custom calls that overwrite an operand: XLA copies it only where the analysis keeps a copy."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from custom_ops import OPS
from jaxlib import xla_client
from torch.utils import _pytree as pytree

import compiler
from compiler.lowering import load_rules
from compiler.lowering.registry import RULES
from compiler.runtime.statistics import full_copies
from compiler.validation.observe import given_up, observe

N = 64
TARGET = "fx2hlo_test_scale"


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
def double(out: int, operands: Any) -> None:
    """Twice the operand; `out` is the operand's own memory if the call's table is honoured."""
    assert operands[0] == out
    memory = (ctypes.c_float * N).from_address(out)
    for i in range(N):
        memory[i] *= 2


@pytest.fixture(scope="module", autouse=True)
def target() -> None:
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    capsule = new(ctypes.cast(double, ctypes.c_void_p), b"xla._CUSTOM_CALL_TARGET", None)
    xla_client.register_custom_call_target(TARGET, capsule, platform="cpu", api_version=0)


@pytest.fixture(autouse=True)
def lowering() -> Iterator[None]:
    load_rules()
    before = dict(RULES)
    compiler.register_custom_call(OPS.scale_, TARGET)
    yield
    RULES.clear()
    RULES.update(before)


def of_value(x: torch.Tensor) -> Any:
    c = (x + 1).clone()
    OPS.scale_(c)
    return c


def of_value_read_later(x: torch.Tensor) -> Any:
    y = x + 1
    c = y.clone()
    OPS.scale_(c)
    return c, y * 3


def of_argument(x: torch.Tensor) -> Any:
    c = x.clone()
    OPS.scale_(c)
    return c


def of_argument_read_later(x: torch.Tensor) -> Any:
    c = x.clone()
    OPS.scale_(c)
    return c, x * 3


def of_argument_stored_back(x: torch.Tensor) -> Any:
    c = x.clone()
    OPS.scale_(c)
    x.copy_(c)
    return c.sum()


def of_part(x: torch.Tensor) -> Any:
    c = x[0].clone()
    OPS.scale_(c)
    return c


def flat() -> torch.Tensor:
    return torch.arange(float(N))


@pytest.mark.parametrize(
    "program, donate, copies, in_place",
    [
        (of_value, (), 0, False),
        (of_value_read_later, (), 1, False),
        (of_argument, (), 1, False),
        (of_argument, "all", 0, True),
        (of_argument_read_later, (), 1, False),
        (of_argument_read_later, "all", 1, False),
        (of_argument_stored_back, (), 0, True),
    ],
)
def test_copies_in_optimised_hlo(program: Callable[..., Any], donate: Any, copies: int, in_place: bool):
    compiled = compiler.compile(program, [flat()], donate=donate, validate=True)
    assert full_copies(compiled, 4 * N, fusion=False) == copies
    x, eager = flat(), flat()
    want = program(eager)
    got = compiled(x)
    for mine, theirs in zip(pytree.tree_leaves(got), pytree.tree_leaves(want), strict=True):
        torch.testing.assert_close(mine, theirs)
    assert ("alias.table = #alias.table<>" not in compiled.ir("functional")) == in_place
    if not donate:
        assert torch.equal(x, eager)
    elif in_place:
        assert got.data_ptr() == x.data_ptr()


def test_a_part_of_a_donated_argument_stays_copied():
    compiled = compiler.compile(of_part, [torch.rand(2, N)], donate="all")
    x = torch.rand(2, N)
    before = x.clone()
    torch.testing.assert_close(compiled(x), before[0] * 2)
    assert torch.equal(x, before), "nothing is put back into it"


def test_validation_knows_what_is_given_up():
    from compiler.compilation import mark_donated
    from compiler.frontend.capture import capture
    from compiler.frontend.importer import import_graph

    for program, expected in ((of_argument, {0}), (of_argument_stored_back, set())):
        imported = import_graph(capture(program, [flat()]))
        arguments = [flat() + 1]
        assert not given_up(imported.module, arguments, observe(imported.module, arguments))
        mark_donated(imported, "all")
        assert given_up(imported.module, arguments, observe(imported.module, arguments)) == expected
