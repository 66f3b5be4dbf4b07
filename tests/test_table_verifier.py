"""The table verifier: its sequences of symbols against enumeration, and what it follows: regions, random numbers, any size.

Untrue tables are in lit_tests/analysis/tables-untrue.mlir and tests/test_seeded_faults.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from compiler.analysis.symbolic_bytes import Bytes, Steps, TooManyRuns, stretch
from compiler.analysis.symbols import CONJ, NEG, Symbols
from compiler.analysis.table_verifier import verify_tables
from compiler.compilation import make_out_of_place
from compiler.errors import CompileError
from compiler.frontend.capture import capture
from compiler.frontend.importer import import_graph
from compiler.reference import entry
from dialects.control import ValueCondOp, ValueWhileOp
from dialects.fx import ValueCallOp
from tests.test_control import PROGRAMS

# -- sequences of symbols --------------------------------------------------------------------------


def written_out(given: Bytes) -> list[int]:
    starts, symbols = given.runs()
    if not given.size:
        return []
    ends = [*starts[1:].tolist(), given.size]
    return [
        symbol + n
        for start, end, symbol in zip(starts.tolist(), ends, symbols.tolist(), strict=True)
        for n in range(end - start)
    ]


def places(window: Steps) -> list[list[int]]:
    """The bytes of each element."""
    firsts = [window.first]
    for count, stride in zip(window.counts, window.strides, strict=True):
        firsts = [first + n * stride for first in firsts for n in range(count)]
    return [[first + n for n in range(window.width)] for first in firsts]


def some_window(rng: random.Random, size: int) -> Steps:
    """Any strided window, often one that is dense in another order of dimensions."""
    while True:
        width, rank = rng.choice([1, 2, 4]), rng.randint(0, 3)
        counts = tuple(rng.choice([1, 2, 3, 4] * 5 + [0]) for _ in range(rank))
        strides = [rng.choice([0, 1, 2, 3, 4, 6, 8, 12]) * width for _ in range(rank)]
        if rng.random() < 0.5:
            step = width
            for dim in rng.sample(range(rank), rank):
                strides[dim], step = step, step * max(counts[dim], 1)
        window = Steps(rng.randrange(max(size // width, 1)) * width * rng.randint(0, 1), counts, tuple(strides), width)
        if window.end <= size:
            return window


@pytest.mark.parametrize("seed", range(20))
def test_sequences_are_what_enumeration_says(seed: int) -> None:
    """Windows taken and put, flags, mixtures; equal sequences, however made, have one name, and others another."""
    names: dict[tuple[int, ...], Any] = {}
    for turn in range(40):
        rng = random.Random(seed * 1000 + turn)
        size = rng.choice([12, 24, 48])
        pool = [Bytes.consecutive(7, size), Bytes.consecutive(100, size), Bytes.repeated(200, 4, size // 4)]
        lists = [written_out(b) for b in pool]
        for _ in range(rng.randint(1, 6)):
            one, two = rng.randrange(len(pool)), rng.randrange(len(pool))
            window = some_window(rng, pool[one].size)
            bytes_of = [p for element in places(window) for p in element]
            assert window.meets_twice() == (len(set(bytes_of)) < len(bytes_of))
            taken, want = pool[one].window(window), [lists[one][p] for p in bytes_of]
            assert written_out(taken) == want
            if want:
                pool.append(taken)
                lists.append(want)
            if window.bytes and len(lists[two]) >= window.bytes and not window.meets_twice():
                flag = rng.choice([0, CONJ, NEG])
                value = pool[two].window(stretch(0, window.bytes)).flagged(flag)
                result = list(lists[one])
                for place, symbol in zip(bytes_of, lists[two], strict=False):
                    result[place] = symbol ^ flag
                pool.append(pool[one].replaced(window, value))
                lists.append(result)
                assert written_out(pool[-1]) == result
            other = rng.choice([n for n in range(len(pool)) if pool[n].size == pool[one].size])
            edges = sorted(rng.sample(range(pool[one].size + 1), min(4, pool[one].size) // 2 * 2))
            chosen = [(a, z) for a, z in zip(edges[::2], edges[1::2], strict=True)]
            mixed = [
                lists[other][p] if any(a <= p < z for a, z in chosen) else symbol for p, symbol in enumerate(lists[one])
            ]
            assert written_out(pool[one].mixed(chosen, pool[other])) == mixed
            differing = [p for a, z in pool[one].differences(pool[other]) for p in range(a, z)]
            assert differing == [p for p, (a, b) in enumerate(zip(lists[one], lists[other], strict=True)) if a != b]
        for form, content in zip(pool, lists, strict=True):
            assert names.setdefault(tuple(content), form.name) == form.name
    assert len(set(names.values())) == len(names)


def test_where_elements_overlap_the_first_one_stays() -> None:
    window = Steps(0, (3, 4), (2, 1), 1)
    assert written_out(Bytes.consecutive(100, 8).replaced(window, Bytes.repeated(5, 1, 12))) == [5] * 8


def test_a_choice_is_made_byte_by_byte() -> None:
    """However the sequences are cut, and whatever is on both sides stays."""
    symbols = Symbols()
    one, two = symbols.fresh(16), symbols.fresh(16)
    whole = symbols.choice("c", one, two)
    half = stretch(8, 8)
    assert symbols.choice("c", one.window(half), two.window(half)) == whole.window(half)
    assert symbols.choice("c", one, one) == one
    assert symbols.choice("d", one, two) != whole != symbols.choice("c", two, one)
    assert symbols.choice("c", one.flagged(CONJ), two.flagged(CONJ)) == whole.flagged(CONJ)
    mixed = two.mixed([(4, 8)], one)
    assert symbols.choice("c", one, mixed).window(stretch(4, 4)) == one.window(stretch(4, 4))
    assert symbols.choice("c", one, mixed).window(stretch(0, 4)) == whole.window(stretch(0, 4))


def test_memory_in_too_many_pieces_is_refused() -> None:
    with pytest.raises(TooManyRuns):
        Bytes.consecutive(1, 1 << 27).replaced(Steps(0, (1 << 23,), (8,), 4), Bytes.consecutive(1 << 28, 1 << 25))


# -- programs --------------------------------------------------------------------------------------


def both_forms(program: Callable[..., Any], inputs: Sequence[torch.Tensor]) -> tuple[ModuleOp, ModuleOp]:
    with torch.no_grad():
        before = import_graph(capture(program, inputs)).module
    after = before.clone()
    make_out_of_place(entry(after))
    return before, after


def inside(module: ModuleOp, kind: type[Operation]) -> Any:
    return next(op for op in module.walk() if isinstance(op, kind))


@pytest.mark.parametrize("name", PROGRAMS)
def test_regions_are_followed(name: str) -> None:
    assert verify_tables(*both_forms(*PROGRAMS[name]))


def equal_buffers(x: torch.Tensor) -> Any:
    """Results of a scan begin as equal memory, and so do two memories that a loop writes."""
    one, two = torch.zeros(2), torch.zeros(2)

    def body(i: torch.Tensor) -> Any:
        two.add_(i)
        one.mul_(two)
        return (i + 1,)

    found = while_loop(lambda i: i < 3, body, (torch.tensor(0),))
    return scan(lambda c, row: (c + row, (c * row, c - row)), torch.zeros(3), x), found, one, two


def parts_of_one_storage(pool: torch.Tensor, part: torch.Tensor, n: torch.Tensor) -> Any:
    """A loop writes a view of an argument that shares its memory; what it does not touch is no part of its state."""
    rest = pool[4:]

    def body(i: torch.Tensor) -> Any:
        part[1:].add_(i)
        return (i + 1,)

    before = rest * 2
    while_loop(lambda i: i < n, body, (torch.tensor(0),))
    return before, rest * 2, pool[:2]


def test_memories_of_a_loop_are_told_apart() -> None:
    assert verify_tables(*both_forms(equal_buffers, (torch.ones(2, 3),)))
    memory = torch.arange(8.0)
    assert verify_tables(*both_forms(parts_of_one_storage, (memory, memory[1:4], torch.tensor(3))))


def _exchange_branches(module: ModuleOp) -> None:
    op = inside(module, ValueCondOp)
    one, two = op.detach_region(0), op.detach_region(0)
    op.add_region(two)
    op.add_region(one)


def _yield_what_was(module: ModuleOp) -> None:
    block = inside(module, ValueWhileOp).body.block
    last = len(block.last_op.operands) - 1
    block.last_op.operands[last] = block.args[last]


def _leave_the_loop_out(module: ModuleOp) -> None:
    op = inside(module, ValueWhileOp)
    op.results[-1].replace_all_uses_with(op.carried[len(op.results) - 1])


def _begin_elsewhere(module: ModuleOp) -> None:
    op = inside(module, ValueWhileOp)
    op.operands[0] = next(o for o in module.walk() if isinstance(o, ValueCallOp)).results[0]


def _another_condition(module: ModuleOp) -> None:
    call = next(op for op in inside(module, ValueWhileOp).condition.block.ops if isinstance(op, ValueCallOp))
    target = type(call.target)
    call.properties["target"] = target("aten.gt.Tensor" if "lt" in call.target.data else "aten.logical_or.default")


def _swap_carried(module: ModuleOp) -> None:
    op = inside(module, ValueWhileOp)
    last = op.body.block.last_op
    last.operands = [*list(last.operands)[:-2], last.operands[-1], last.operands[-2]]


def counted(acc: torch.Tensor, other: torch.Tensor, i: torch.Tensor) -> Any:
    start = i * 2

    def body(i: torch.Tensor) -> Any:
        acc.add_(i)
        other.mul_(acc)
        return (i + 1,)

    while_loop(lambda i: i < start, body, (i,))
    return acc + 1


@pytest.mark.parametrize(
    "damage", [_yield_what_was, _leave_the_loop_out, _begin_elsewhere, _another_condition, _swap_carried]
)
def test_damaged_loops_are_found(damage: Callable[[ModuleOp], None]) -> None:
    before, after = both_forms(counted, (torch.ones(3), torch.ones(3), torch.tensor(0)))
    assert verify_tables(before, after)
    damage(after)
    with pytest.raises(CompileError, match="tables are not true"):
        verify_tables(before, after)


@pytest.mark.parametrize("name", ["choose", "write-in-a-branch", "write-in-both", "crossing-views"])
def test_exchanged_branches_are_found(name: str) -> None:
    before, after = both_forms(*PROGRAMS[name])
    _exchange_branches(after)
    with pytest.raises(CompileError, match="tables are not true"):
        verify_tables(before, after)


def noise(x: torch.Tensor) -> Any:
    x.add_(torch.rand(3))
    y = torch.nn.functional.dropout(x, 0.5)
    x.normal_()
    return y, torch.randn(2)


def test_random_operators_are_followed() -> None:
    """The state of the generator is memory like any other; two draws of one kind are told apart by it."""
    before, after = both_forms(noise, (torch.zeros(3),))
    assert verify_tables(before, after)
    draws = [op for op in after.walk() if isinstance(op, ValueCallOp) and "random_bits" in op.target.data]
    draws[1].operands = draws[0].operands
    with pytest.raises(CompileError, match="tables are not true"):
        verify_tables(before, after)


def decode(pool: torch.Tensor, x: torch.Tensor, w: torch.Tensor, slot: torch.Tensor) -> Any:
    """A cache of gigabytes, written through views, a column of it against its strides; and a transposed weight."""
    for layer in range(4):
        keys, values = pool[0, layer], pool[1, layer]
        x = x @ w.t()
        keys.view(-1, 1024).index_copy_(0, slot, x)
        values.transpose(1, 2)[:, :, 5] = x[0].view(8, 128)
        x = x + keys[0, 0].reshape(1, -1) * values[1, 1].reshape(1, -1)
    return x, pool[0], pool.transpose(0, 1)


def test_size_does_not_matter() -> None:
    pool = torch.empty(2, 40, 512, 16, 8, 128)  # which nobody touches
    assert pool.nbytes > 2 << 30
    before, after = both_forms(decode, (pool, torch.ones(4, 1024), torch.empty(1024, 1024), torch.arange(4)))
    assert verify_tables(before, after)


def test_what_is_not_followed_is_said() -> None:
    """A mask over a window that meets elements twice becomes a count of hits, which no symbol stands for."""

    def program(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x.unfold(0, 3, 2).masked_fill_(mask, 2.0)
        return x + 1

    assert not verify_tables(*both_forms(program, (torch.zeros(9), torch.ones(4, 3, dtype=torch.bool))))


def test_numbers_of_symbols_stay_apart() -> None:
    """Runs of two origins never join, so that a symbol says whose it is."""
    symbols = Symbols()
    one, two = symbols.fresh(4), symbols.of("operator", 2, 4)
    joined = Bytes.consecutive(0, 12).replaced(stretch(0, 4), one).replaced(stretch(4, 8), two)
    assert len(np.asarray(joined.runs().starts)) == 2
