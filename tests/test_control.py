"""`torch.cond`, `while_loop` and `scan` beside eager PyTorch: results, closures, and memory written inside a region."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from copies import state_copies
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as map_
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.utils import _pytree as pytree
from xdsl.context import Context

import compiler
from compiler.compilation import mark_donated
from compiler.frontend.capture import capture
from compiler.frontend.importer import import_graph
from compiler.integrations.dynamo import fx2hlo
from compiler.ir_text import parse
from compiler.reference import run_handles, run_values
from compiler.transforms.eliminate_clones import EliminateClones
from compiler.transforms.in_place_to_out_of_place import InPlaceToOutOfPlace
from compiler.verify import verify

X, Y = torch.arange(6.0).view(2, 3), torch.tensor([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]])
TRUE, FALSE = torch.tensor(True), torch.tensor(False)
BIAS = torch.linspace(-1, 1, 300).view(100, 3)


def choose(x: torch.Tensor, flag: torch.Tensor) -> torch.Tensor:
    return torch.cond(flag, lambda x: x * 2, lambda x: x - torch.tensor([1.0, 2.0, 3.0]), (x,)) + 1


def closures(x: torch.Tensor, flag: torch.Tensor) -> torch.Tensor:
    """Branches that close over an argument, an intermediate and a constant too large for the IR."""
    z = x.sin()
    return torch.cond(flag, lambda: z @ x.t(), lambda: (z + BIAS[0]).sum() * x[:, :2])


def nested(x: torch.Tensor, flag: torch.Tensor) -> torch.Tensor:
    def inner(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x * 3, (x,))

    return torch.cond(flag, inner, lambda x: x - 1, (x,)) * 2


def several(x: torch.Tensor, flag: torch.Tensor) -> Any:
    """Several results, in other orders of dimensions."""
    return torch.cond(flag, lambda x: (x.t() + 1, x.sum()), lambda x: (x.t() * 2, x.mean()), (x,))


def write_in_a_branch(kv: torch.Tensor, x: torch.Tensor, flag: torch.Tensor) -> Any:
    """A view from outside is written in one branch; the base is read in the other, and written afterwards."""
    window = kv[1:3]

    def then(x: torch.Tensor) -> torch.Tensor:
        window.add_(x)
        return x * 2

    result = torch.cond(flag, then, lambda x: x + kv[0], (x,))
    kv.mul_(2)
    return result, window


def write_in_both(kv: torch.Tensor, x: torch.Tensor, flag: torch.Tensor) -> torch.Tensor:
    def then(x: torch.Tensor) -> torch.Tensor:
        kv[0].copy_(x[0])
        return x.sum()

    def otherwise(x: torch.Tensor) -> torch.Tensor:
        kv[:, 1].zero_()
        return kv.sum()

    return torch.cond(flag, then, otherwise, (x,))


def count(i: torch.Tensor, x: torch.Tensor) -> Any:
    return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 2 + i), (i, x))


def accumulate(acc: torch.Tensor, i: torch.Tensor, x: torch.Tensor) -> Any:
    """The body writes into memory from outside, and the condition reads it."""

    def body(i: torch.Tensor, x: torch.Tensor) -> Any:
        acc[1:].add_(x)
        return i + 1, x + 1

    found = while_loop(lambda i, x: torch.logical_and(i < 9, acc.sum() < 20), body, (i, x))
    return found[0], found[1] + acc[0]


def branch_in_a_loop(i: torch.Tensor, x: torch.Tensor) -> Any:
    def body(i: torch.Tensor, x: torch.Tensor) -> Any:
        return i + 1, torch.cond(i % 2 == 0, lambda x: x * 2, lambda x: x + 1, (x,))

    return while_loop(lambda i, x: i < 4, body, (i, x))


def running(x: torch.Tensor) -> Any:
    return scan(lambda c, row: (c + row, c * row), torch.zeros(3), x)


def recurrence(x: torch.Tensor, w: torch.Tensor) -> Any:
    """A cell with weights from outside and two states."""

    def cell(state: Any, row: torch.Tensor) -> Any:
        hidden, total = state
        hidden = torch.tanh(w @ hidden + row)
        return (hidden, total + hidden.sum()), hidden.clone()

    return scan(cell, (torch.zeros(3), torch.zeros(())), x)


def rows(x: torch.Tensor, w: torch.Tensor) -> Any:
    """A map with several results, and a tensor from outside."""
    return map_(lambda row, w: (row * w, row.sum()), x, w)


def prefix(x: torch.Tensor) -> Any:
    return associative_scan(lambda a, b: a * b + 1, x, 1, combine_mode="generic", reverse=True)


def backwards(x: torch.Tensor) -> Any:
    """A scan from the last column to the first."""
    return scan(lambda c, column: (c + column, c * column), torch.zeros(2), x, dim=1, reverse=True)


def turns(x: torch.Tensor, i: torch.Tensor) -> Any:
    """A conditional inside a loop, whose branches write views of one memory from outside."""

    def body(i: torch.Tensor) -> Any:
        def even() -> torch.Tensor:
            x[0].add_(1)
            return i + 1

        def odd() -> torch.Tensor:
            x[:, 1].mul_(2)
            return i + 2

        return (torch.cond(i % 2 == 0, even, odd),)

    return while_loop(lambda i: i < 5, body, (i,)), x[1] * 2


def crossing_views(x: torch.Tensor, flag: torch.Tensor) -> Any:
    """The predicate is of memory just written; the branches write overlapping views, which are returned too."""
    row, columns = x[:1], x[:, :2]
    x.add_(1)

    def then() -> torch.Tensor:
        row.add_(1)
        columns.mul_(2)
        return columns.sum()

    def otherwise() -> torch.Tensor:
        columns.add_(1)
        row.mul_(2)
        return row.sum()

    return torch.cond(torch.logical_and(x.sum() > 3, flag), then, otherwise), row, columns


def nested_write(x: torch.Tensor, flag: torch.Tensor) -> Any:
    def inner() -> torch.Tensor:
        x[0, 0].fill_(9)
        return x[0].sum()

    return torch.cond(flag, lambda: torch.cond(x[0, 1] > 0, inner, lambda: x.sum()), lambda: x.mean()), x


def unchanged(x: torch.Tensor, flag: torch.Tensor) -> Any:
    """A branch that gives what it is given."""
    return torch.cond(flag, lambda x: x + 1, lambda x: x, (x,))


def loop_in_a_branch(x: torch.Tensor) -> Any:
    def often(x: torch.Tensor) -> torch.Tensor:
        return while_loop(lambda i, y: i < x.shape[1], lambda i, y: (i + 1, y * 2 + i), (torch.tensor(0), x))[1]

    return torch.cond(x.sum() > 0, often, lambda x: x + 0.0, (x,))


PROGRAMS: dict[str, tuple[Callable[..., Any], Sequence[torch.Tensor]]] = {
    "choose": (choose, (X, TRUE)),
    "choose-false": (choose, (X, FALSE)),
    "closures": (closures, (X, TRUE)),
    "closures-false": (closures, (X, FALSE)),
    "nested": (nested, (X, TRUE)),
    "nested-negative": (nested, (-X, TRUE)),
    "several": (several, (X, TRUE)),
    "write-in-a-branch": (write_in_a_branch, (BIAS[:4].clone(), X, TRUE)),
    "write-in-no-branch": (write_in_a_branch, (BIAS[:4].clone(), X, FALSE)),
    "write-in-both": (write_in_both, (X.clone(), Y, TRUE)),
    "write-in-both-false": (write_in_both, (X.clone(), Y, FALSE)),
    "write-bf16": (write_in_a_branch, (BIAS[:4].bfloat16(), X.bfloat16(), TRUE)),
    "count": (count, (torch.tensor(0), X)),
    "count-nothing": (count, (torch.tensor(7), X)),
    "accumulate": (accumulate, (torch.zeros(3), torch.tensor(0), torch.ones(2))),
    "branch-in-a-loop": (branch_in_a_loop, (torch.tensor(0), X)),
    "running": (running, (X,)),
    "recurrence": (recurrence, (Y, torch.eye(3) * 0.5)),
    "backwards": (backwards, (X,)),
    "rows": (rows, (X, torch.tensor([1.0, 2.0, 3.0]))),
    "prefix": (prefix, (X,)),
    "turns": (turns, (X, torch.tensor(0))),
    "crossing-views": (crossing_views, (X, TRUE)),
    "crossing-views-false": (crossing_views, (X, FALSE)),
    "nested-write": (nested_write, (X, TRUE)),
    "unchanged": (unchanged, (X, FALSE)),
    "loop-in-a-branch": (loop_in_a_branch, (X,)),
}


@pytest.fixture(autouse=True)
def inference() -> Any:
    """PyTorch allows regions to write memory from outside only where no gradient is recorded."""
    with torch.no_grad():
        yield


def agree(got: Any, want: Any) -> bool:
    mine, theirs = pytree.tree_leaves(got), pytree.tree_leaves(want)
    return all(g.dtype == w.dtype and torch.allclose(g, w, rtol=1e-5) for g, w in zip(mine, theirs, strict=True))


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_in_eager(name: str) -> None:
    program, given = PROGRAMS[name]
    mine, theirs = copy.deepcopy(list(given)), copy.deepcopy(list(given))
    exe = compiler.compile(program, mine)
    for _ in range(2):
        got, want = exe(*mine), program(*theirs)
        assert agree(got, want)
        assert agree(mine, theirs)
        assert [g.stride() for g in pytree.tree_leaves(got)] == [w.stride() for w in pytree.tree_leaves(want)]
    assert exe.copied_bytes == 0


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_form_of_the_ir(name: str) -> None:
    """The reference runs both forms; both can be printed and read back."""
    program, given = PROGRAMS[name]
    imported = import_graph(capture(program, given))
    theirs = copy.deepcopy(list(given))
    want = pytree.tree_leaves(program(*theirs))

    def arguments() -> list[torch.Tensor]:
        tensors = iter(copy.deepcopy(list(given)))
        return [next(tensors) if a.kind == "input" else imported.state[a.name] for a in imported.arguments]

    verify(imported.module)
    mine = arguments()
    assert agree(run_handles(parse(str(imported.module)), mine), want)
    assert agree([m for m, a in zip(mine, imported.arguments, strict=True) if a.kind == "input"], theirs)
    InPlaceToOutOfPlace().apply(Context(), imported.module)
    verify(imported.module)
    mine = arguments()
    assert agree(run_values(parse(str(imported.module)), mine), want)
    assert agree([m for m, a in zip(mine, imported.arguments, strict=True) if a.kind == "input"], theirs)


class Steps(torch.nn.Module):
    """State in buffers, written in a branch and in a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(4, 3))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor, flag: torch.Tensor) -> torch.Tensor:
        def store(x: torch.Tensor) -> torch.Tensor:
            self.cache[1].add_(x[0])
            return x + self.cache[1]

        y = torch.cond(flag, store, lambda x: x * 1, (x,))

        def body(i: torch.Tensor, y: torch.Tensor) -> Any:
            self.steps.add_(1)
            return i + 1, y * 0.5

        return while_loop(lambda i, y: i < 3, body, (torch.zeros((), dtype=torch.int64), y))[1]


def test_an_exported_module_with_state() -> None:
    module = Steps()
    exe = compiler.compile(torch.export.export(copy.deepcopy(module), (X, TRUE), strict=False))
    for flag in (TRUE, FALSE, TRUE):
        assert agree(exe(X, flag), module(X, flag))
        assert agree([exe.state["cache"], exe.state["steps"]], [module.cache, module.steps])
    assert sorted(row.arguments[0] for row in exe.alias_table) == ["cache", "steps"]


def test_saved_and_loaded(tmp_path: Any) -> None:
    exe = compiler.compile(write_in_a_branch, PROGRAMS["write-in-a-branch"][1])
    exe.save(tmp_path)
    mine, theirs = (copy.deepcopy(list(PROGRAMS["write-in-a-branch"][1])) for _ in range(2))
    assert agree(compiler.load(tmp_path)(*mine), write_in_a_branch(*theirs))
    assert agree(mine, theirs)


@pytest.mark.parametrize("flag", [TRUE, FALSE])
def test_clones_around_a_region(flag: torch.Tensor) -> None:
    """A copy that a region writes stays; one that it only reads goes; results are the same either way."""

    def program(x: torch.Tensor, flag: torch.Tensor) -> Any:
        written, read = x.clone(), x.clone()

        def then(x: torch.Tensor) -> torch.Tensor:
            written.add_(1)
            return read * 2

        return torch.cond(flag, then, lambda x: x + 1, (x,)), x.sum()

    imported = import_graph(capture(program, (X, flag)))
    mark_donated(imported, ())
    before = str(imported.module).count("aten.clone.default")
    EliminateClones().apply(Context(), imported.module)
    verify(imported.module)
    assert before == 2
    assert str(imported.module).count("aten.clone.default") == 1
    x = X.clone()
    assert agree(run_handles(imported.module, [x, flag]), program(X.clone(), flag))
    assert torch.equal(x, X)


def store_if(kv: torch.Tensor, x: torch.Tensor, place: torch.Tensor, flag: torch.Tensor) -> Any:
    def then(x: torch.Tensor) -> torch.Tensor:
        kv.index_copy_(1, place, x)
        return x * 2

    return torch.cond(flag, then, lambda x: x + 1, (x,)), kv.sum()


def store_often(kv: torch.Tensor, x: torch.Tensor, count: torch.Tensor) -> Any:
    def body(i: torch.Tensor, x: torch.Tensor) -> Any:
        kv.index_copy_(1, i.view(1), x)
        return i + 1, x * 1.5

    return while_loop(lambda i, x: i < count, body, (torch.zeros((), dtype=torch.int64), x))


@pytest.mark.parametrize(
    ("program", "rest"), [(store_if, (torch.tensor([5]), TRUE)), (store_if, (torch.tensor([5]), FALSE)),
                          (store_often, (torch.tensor(3),))]
)  # fmt: skip
def test_a_cache_is_written_in_place(program: Callable[..., Any], rest: tuple[torch.Tensor, ...]) -> None:
    """XLA copies nothing as large as the cache, neither around a conditional nor around a loop."""
    mine, theirs = ([torch.zeros(2, 101, 8), torch.ones(2, 1, 8), *rest] for _ in range(2))
    exe = compiler.compile(program, mine)
    assert [row.arguments for row in exe.alias_table] == [("kv",)]
    assert state_copies(exe, {2 * 101 * 8}) == 0
    assert agree(exe(*mine), program(*theirs))
    assert agree(mine, theirs)


def test_a_loop_must_not_change_shapes() -> None:
    def program(i: torch.Tensor, x: torch.Tensor) -> Any:
        return while_loop(lambda i, x: i < 2, lambda i, x: (i + 1, torch.cat([x, x])), (i, x))

    with pytest.raises(compiler.CompileError):
        compiler.compile(program, (torch.tensor(0), X))


def wrapped(program: Callable[..., Any]) -> torch.nn.Module:
    class Wrapped(torch.nn.Module):
        def forward(self, *args: torch.Tensor) -> Any:
            return program(*args)

    return Wrapped()


@pytest.mark.parametrize(
    "name", ["closures", "write-in-a-branch", "backwards", "rows", "prefix", "turns", "crossing-views"]
)
@pytest.mark.parametrize("road", ["pt2", "dynamo"])
def test_the_other_roads(name: str, road: str, tmp_path: Any) -> None:
    program, given = PROGRAMS[name]
    mine, theirs = copy.deepcopy(list(given)), copy.deepcopy(list(given))
    if road == "pt2":
        torch.export.save(torch.export.export(wrapped(program), tuple(mine), strict=False), tmp_path / "program.pt2")
        run = compiler.compile(tmp_path / "program.pt2", trust=True)
    else:
        torch._dynamo.reset()
        run = torch.compile(program, backend=fx2hlo, fullgraph=True)
    assert agree(run(*mine), program(*theirs))
    assert agree(mine, theirs)


def test_a_transform_in_an_exported_program() -> None:
    """Two nested transforms, a view of state and a write behind them."""

    class Pairs(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(2, 2))

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            both = torch.vmap(torch.vmap(lambda a, b: (a * b).sum() + self.seen.sum(), (None, 0)), (0, None))(x, y)
            self.seen.add_(both)
            return both * 2

    module = Pairs()
    exe = compiler.compile(torch.export.export(copy.deepcopy(module), (X, Y), strict=False))
    for _ in range(2):
        assert agree(exe(X, Y), module(X, Y))
        assert agree(exe.state["seen"], module.seen)


def test_a_transform_that_is_refused_leaves_pytorch_as_it_was() -> None:
    from torch._C import _functorch

    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.call_function(torch._functorch.predispatch._vmap_increment_nesting, (2, "error"))
    row = graph.call_function(torch._functorch.predispatch._add_batch_dim, (x, 0, 1))
    found = graph.call_function(torch.nonzero, (row,))
    graph.call_function(torch._functorch.predispatch._vmap_decrement_nesting, ())
    graph.output(found)
    module = torch.fx.GraphModule({}, graph)
    with pytest.raises(compiler.CompileError):
        compiler.compile(module, (X,))
    assert _functorch.get_dynamic_layer_stack_depth() == 0


def test_numbers_in_regions_are_refused() -> None:
    def program(x: torch.Tensor, flag: torch.Tensor) -> Any:
        return torch.cond(flag, lambda x: (x + 1, 3), lambda x: (x - 1, 4), (x,))

    with pytest.raises(Exception, match=r"a region takes or gives 3, which is no tensor"):
        torch.compile(program, backend=fx2hlo, fullgraph=True)(X, TRUE)


def test_unknown_higher_order_operators_are_refused() -> None:
    from torch._higher_order_ops.flex_attention import flex_attention

    def program(q: torch.Tensor) -> Any:
        return flex_attention(q, q, q, lambda score, b, h, m, n: score, (), 1.0, {})

    with pytest.raises(compiler.CompileError):
        compiler.compile(program, (torch.ones(1, 1, 2, 2),))


class Counted(torch.nn.Module):
    """Its counter is a plain attribute, which is written in one branch alone."""

    def __init__(self) -> None:
        super().__init__()
        self.count = torch.tensor(-2, dtype=torch.int32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x > 1, lambda: (self.count.sub_(1), x * 2)[1], lambda: x + 1)


def test_a_tensor_that_a_branch_writes_is_left_alone_while_tracing() -> None:
    module = Counted()
    compiled = compiler.compile(module, (torch.tensor(3.0),), validate=True)
    assert module.count == -2
    found = [(float(compiled(torch.tensor(x))), int(module.count)) for x in (3.0, -1.0, 4.0)]
    assert found == [(6.0, -3), (0.0, -3), (8.0, -4)]


def written_through(x: torch.Tensor, flag: torch.Tensor) -> Any:
    chosen = torch.cond(flag, lambda x: x, lambda x: x + 1, (x,))
    chosen.add_(1)
    return chosen


def read_late(x: torch.Tensor, flag: torch.Tensor) -> Any:
    chosen = torch.cond(flag, lambda x: (x.sin(), x[0]), lambda x: (x.cos(), x[0]), (x,))
    x.add_(1)
    return chosen[1] * 1


def two_on_one(x: torch.Tensor, flag: torch.Tensor) -> Any:
    def both(x: torch.Tensor) -> Any:
        made = x + 1
        return made, made[0]

    whole, part = torch.cond(flag, both, lambda x: (x * 2, x[0] + 1), (x,))
    whole.add_(1)
    return part * 1


def chosen_twice(x: torch.Tensor, flag: torch.Tensor) -> Any:
    first = torch.cond(flag, lambda x: x, lambda x: x + 1, (x,))
    second = torch.cond(flag, lambda x: x, lambda x: x + 1, (first,))
    x.zero_()
    return second * 1


@pytest.mark.parametrize("program", [written_through, read_late, two_on_one, chosen_twice])
def test_a_result_that_may_be_memory_from_outside_is_not_told_from_it(program: Callable[..., Any]) -> None:
    """Eager PyTorch gives the tensor that a branch gives, which here is memory known only at run time."""
    with pytest.raises(compiler.UnsupportedError, match="gives memory from outside of it") as found:
        compiler.compile(program, (X.clone(), TRUE))
    assert found.value.location.startswith(__file__)


def stored_back(x: torch.Tensor, flag: torch.Tensor) -> Any:
    chosen = torch.cond(flag, lambda x: x, lambda x: x + 1, (x,))
    made = x * 2
    other = torch.cond(flag, lambda x: x, lambda x: x + 1, (made,))
    other.add_(1)
    x.copy_(chosen * 3)
    return other


def test_where_nobody_sees_the_other_memory_either_may_be_written() -> None:
    for flag in (TRUE, FALSE):
        mine, theirs = X.clone(), X.clone()
        assert agree(compiler.compile(stored_back, (mine, flag))(mine, flag), stored_back(theirs, flag))
        assert agree(mine, theirs)


def test_a_loop_that_writes_what_it_is_given_to_carry_is_refused() -> None:
    """In a captured graph the first round would see the writes in what it carries, and no other."""

    def program(a: torch.Tensor) -> Any:
        def body(i: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            a[:1].fill_(2)
            return i + 1, torch.maximum(x, a)

        return while_loop(lambda i, x: i < 2, body, (torch.tensor(0), a))

    with pytest.raises(compiler.UnsupportedError, match="writes memory of a tensor that it is given to carry"):
        compiler.compile(program, (torch.ones(2, 3),))
