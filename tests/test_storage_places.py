"""Programs that count from the first byte of a storage: right for arguments that lie as the examples did, else refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import fx
from torch._higher_order_ops import scan, while_loop
from torch.utils import _pytree as pytree

from compiler import compile as compile_program
from compiler import load
from compiler.errors import CompileError, GuardError, UnsupportedError
from tools.replay_artifact import Replay

Function = Callable[..., torch.Tensor]


def window(start: int) -> torch.Tensor:
    return torch.arange(12.0)[start : start + 6]


def asked_and_set(x: torch.Tensor) -> torch.Tensor:
    view = x[1:]
    start = int(view.storage_offset())
    torch.Tensor.set_(view, torch.zeros(2))  # type: ignore[arg-type]
    return x * start


def copy_of_a_copy(x: torch.Tensor) -> torch.Tensor:
    return torch.select_scatter(torch.slice_scatter(x, torch.ones(2), 0, 1, 3), torch.zeros(()), 0, 1)


COUNTING: dict[str, Function] = {
    "a view": lambda x: x.as_strided([2], [1], 3) * 2,
    "a view of a view": lambda x: x[1:].as_strided([2], [1], 3) * 2,
    "of another type": lambda x: x.view(torch.int32).as_strided([2], [1], 3) * 2,
    "a view that is returned": lambda x: x.as_strided([2], [1], 3),
    "a write": lambda x: x.as_strided([2], [1], 4).add_(1),
    "in place": lambda x: x.as_strided_([2], [1], 4).add_(1),
    "a copy": lambda x: torch.as_strided_copy(x, [2], [1], 3),
    "a scatter": lambda x: torch.as_strided_scatter(x, torch.zeros(2), [2], [1], 3),
    "a view of a scatter": lambda x: torch.as_strided_scatter(x, torch.zeros(2), [2], [1], 3).as_strided([3], [1], 4),
    "a view of a scatter at the tensor": lambda x: torch.as_strided_scatter(x, torch.zeros(2), [2], [1]).as_strided([3], [1], 4),
    "a view of a copy of the storage": lambda x: torch.select_scatter(x, torch.zeros(()), 0, 1).as_strided([2], [1], 3) * 2,
    "a view of a copy of a copy": lambda x: copy_of_a_copy(x).as_strided([2], [1], 3) * 2,
    "a number": lambda x: x * x[1:].storage_offset(),
    "a number by an operator": lambda x: x * torch.ops.aten.sym_storage_offset.default(x),
    "a number, and the tensor goes elsewhere": asked_and_set,
    "a number under vmap": lambda x: torch.vmap(lambda row: row * row.storage_offset())(x.view(3, 2)),
    "a view under vmap": lambda x: torch.vmap(lambda row: row.as_strided([1], [1], row.storage_offset()) * 2)(x.view(3, 2)),
    "a number under grad": lambda x: torch.func.grad(lambda y: (y * y.storage_offset()).sum())(x),
    "in a branch": lambda x: torch.cond(x.sum() > 0, lambda y: y.as_strided([2], [1], 3) * 2, lambda y: y[:2] * 1, (x,)),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTING)
def test_right_where_the_example_was_and_refused_elsewhere(name: str, tmp_path: Path) -> None:
    function = COUNTING[name]
    executable = compile_program(function, (window(2),))
    executable.save(tmp_path / "a")
    for call in (executable, load(tmp_path / "a"), Replay(tmp_path / "a")):
        mine, eager = window(2), window(2)
        got, right = call(mine), function(eager)
        torch.testing.assert_close(got, right, rtol=0, atol=0)
        torch.testing.assert_close(mine, eager, rtol=0, atol=0)
        assert got.storage_offset() == right.storage_offset()
        with pytest.raises((GuardError, ValueError), match="of its storage"):
            call(window(3))


def doubled(x: torch.Tensor) -> torch.Tensor:
    return while_loop(lambda i, c: i < 3, lambda i, c: (i + 1, c * 2), (torch.tensor(0), x))[1]


def set_data(x: torch.Tensor) -> torch.Tensor:
    view = x[1:]
    view.data = x[:-1]
    return view + x[1:]


FREE: dict[str, Function] = {
    "from the tensor": lambda x: x.as_strided([2], [1]) * 2,
    "of what the program made": lambda x: (x * 2).as_strided([2], [1], 3),
    "into the tensor": lambda x: torch.as_strided_scatter(x, torch.zeros(2), [2], [1]) * 2,
    "a copy of a copy": lambda x: copy_of_a_copy(x) * 2,
    "under vmap": lambda x: torch.vmap(lambda row: row.as_strided([1], [1]) * 2)(x.view(3, 2)),
    "a gradient": lambda x: torch.func.grad(lambda y: (y.as_strided([2], [1]) ** 2 * y[2:4]).sum())(x),
    "data": set_data,
    "what a loop gives": lambda x: x * doubled(x * 1).storage_offset() + doubled(x * 1).as_strided([1], [1], 2),
    "views": lambda x: x[1:].unfold(0, 2, 1).diagonal() * x.view(2, 3).t()[1:, 1:].diagonal().expand(2),
    "of a branch": lambda x: torch.cond(x.sum() > 0, lambda y: y * 2, lambda y: y + 1, (x * 1,)).as_strided([1], [1], 2),
}  # fmt: skip


@pytest.mark.parametrize("name", FREE)
def test_other_programs_take_arguments_at_any_place(name: str) -> None:
    executable = compile_program(FREE[name], (window(2),))
    for start in (2, 3, 0):
        torch.testing.assert_close(executable(window(start)), FREE[name](window(start)), rtol=0, atol=0)


GRAPHS: dict[str, Function] = {
    "a view": lambda x: x.as_strided([2], [1], 3) * 2,
    "a number": lambda x: x * x.storage_offset(),
    "a number of a view": lambda x: (x[1:] * 2, x[1:].storage_offset())[1] * x,
    "a number of a copy of the storage": lambda x: x * torch.select_scatter(x, torch.zeros(()), 0, 1).storage_offset(),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_that_is_given(name: str) -> None:
    executable = compile_program(fx.symbolic_trace(GRAPHS[name]), (window(2),))
    torch.testing.assert_close(executable(window(2)), GRAPHS[name](window(2)), rtol=0, atol=0)
    with pytest.raises(GuardError, match="begins at element 3 of its storage"):
        executable(window(3))


def test_a_node_that_asks() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    start = graph.call_function(torch.ops.aten.sym_storage_offset.default, (x,))
    graph.output(graph.call_method("mul", (x, start)))
    executable = compile_program(fx.GraphModule(torch.nn.Module(), graph), (window(2),))
    torch.testing.assert_close(executable(window(2)), window(2) * 2, rtol=0, atol=0)
    with pytest.raises(GuardError, match="begins at element 3 of its storage"):
        executable(window(3))


def test_what_an_operator_looks_at_is_not_asked_by_the_graph() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    get_data: Function = torch._C._autograd._get_data_attr  # type: ignore[attr-defined]
    data = graph.call_function(get_data, (x,))  # what Dynamo makes of x.data; no mode is told of it
    graph.output(graph.call_method("mul", (data, 2)))
    executable = compile_program(fx.GraphModule(torch.nn.Module(), graph), (window(2),))
    for start in (2, 3, 0):
        torch.testing.assert_close(executable(window(start)), window(start) * 2, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["untyped_storage", "storage", "is_set_to", "is_shared"])
def test_a_graph_that_asks_for_a_storage_is_refused(name: str) -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output((x, graph.call_method(name, (x, x) if name == "is_set_to" else (x,))))
    with pytest.raises(UnsupportedError, match="in another call"):
        compile_program(fx.GraphModule(torch.nn.Module(), graph), (window(2),))


@pytest.mark.parametrize(
    "read", [lambda t: t.as_strided([1], [1], 3), lambda t: t[1:].storage_offset(), lambda t: t[0] * t.storage_offset()]
)
def test_a_tensor_that_the_program_holds(read: Function) -> None:
    held = window(2)

    def function(x: torch.Tensor) -> torch.Tensor:
        return x * read(held)

    executable = compile_program(function, (torch.ones(2),))
    torch.testing.assert_close(executable(torch.ones(2)), function(torch.ones(2)), rtol=0, atol=0)
    held.data = window(3)
    with pytest.raises(GuardError, match="begins at element 3 of its storage"):
        executable(torch.ones(2))


def test_a_held_tensor_of_which_only_the_place_is_used_is_refused() -> None:
    held = window(2)
    with pytest.raises(UnsupportedError, match="holds by itself"):
        compile_program(lambda x: x * held.storage_offset(), (torch.ones(2),))


def empty(start: int) -> torch.Tensor:
    return torch.arange(12.0)[start:start]


@pytest.mark.parametrize("start", [4, 5])  # the first of 16 bytes, and not
@pytest.mark.parametrize("validate", [False, True])
def test_an_empty_argument_has_a_place(start: int, validate: bool, tmp_path: Path) -> None:
    executable = compile_program(lambda x: torch.ones(1) * x.storage_offset(), (empty(start),), validate=validate)
    executable.save(tmp_path / "a")
    for call in (executable, load(tmp_path / "a"), Replay(tmp_path / "a")):
        torch.testing.assert_close(call(empty(start)), torch.tensor([float(start)]), rtol=0, atol=0)
        for other in (0, 8):
            with pytest.raises((GuardError, ValueError), match="of its storage"):
                call(empty(other))


def test_an_empty_buffer_has_a_place(tmp_path: Path) -> None:
    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("none", empty(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * int(self.get_buffer("none").storage_offset())

    compile_program(Module(), (torch.ones(2),), validate=True).save(tmp_path / "a")
    for call in (load(tmp_path / "a"), Replay(tmp_path / "a")):
        torch.testing.assert_close(call(torch.ones(2)), torch.full((2,), 4.0), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda x: torch.as_strided_scatter(x, torch.zeros(2), [2], [1], 3).as_strided([3], [1], 0), "before the elements of a copy"),
        (lambda x: torch.select_scatter(x.view(3, 2)[:, :1], torch.zeros(3), 1, 0).as_strided([4], [1]), "between the elements"),
        (lambda x: x * torch.select_scatter(x, torch.zeros(()), 0, 1).storage_offset(), "asks where a result of"),
        (lambda x: x * doubled(x).storage_offset(), "not the same at each run"),
    ],
)  # fmt: skip
def test_what_only_a_copy_of_the_whole_storage_would_have_is_refused(function: Function, why: str) -> None:
    with pytest.raises(UnsupportedError, match=why):
        compile_program(function, (window(2),))


def test_two_copies_of_storages_lie_each_in_its_place() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        first = torch.select_scatter(x[1:4], torch.zeros(()), 0, 1)
        second = torch.select_scatter(x[2:5], torch.zeros(()), 0, 1)
        return first.as_strided([1], [1], 5) + second.as_strided([1], [1], 5)

    executable = compile_program(function, (window(2),), validate=True)
    torch.testing.assert_close(executable(window(2)), function(window(2)), rtol=0, atol=0)


class Rebinding(torch.nn.Module):
    """Reads its buffer by the storage, and binds it to a new tensor, at the start of another storage."""

    def __init__(self, start: int) -> None:
        super().__init__()
        self.register_buffer("state", torch.arange(40.0)[start : start + 6])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        read = self.get_buffer("state").as_strided([2], [1], 21) * x
        self.state = self.state * 2
        return read


def test_a_buffer_that_is_bound_anew_elsewhere(tmp_path: Path) -> None:
    module, eager = Rebinding(20), Rebinding(20)
    executable = compile_program(module, (torch.ones(2),))
    executable.save(tmp_path / "a")
    right = eager(torch.ones(2))
    for call in (executable, load(tmp_path / "a"), Replay(tmp_path / "a")):
        torch.testing.assert_close(call(torch.ones(2)), right, rtol=0, atol=0)
        with pytest.raises((GuardError, ValueError), match="of its storage"):
            call(torch.ones(2))


def loop(x: torch.Tensor) -> torch.Tensor:
    def body(i: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return i + 1, c + c.as_strided([1], [1], 3)

    return while_loop(lambda i, c: i < 3, body, (torch.tensor(0), x))[1]


def rows(x: torch.Tensor) -> torch.Tensor:
    def step(c: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return c + y.as_strided([1], [1], 0).sum(), c + y

    return scan(step, torch.zeros(()), x.view(3, 2))[1]


def test_a_loop_counts_in_the_storages_it_carries() -> None:
    executable = compile_program(loop, (window(0),))
    torch.testing.assert_close(executable(window(0)), loop(window(0)), rtol=0, atol=0)
    with pytest.raises(GuardError, match="begins at element 2 of its storage"):
        executable(window(2))


@pytest.mark.parametrize("function", [loop, rows], ids=["carried", "rows"])
def test_a_storage_that_changes_with_each_run_is_refused(function: Function) -> None:
    with pytest.raises(UnsupportedError, match="a storage that is not the same at each run"):
        compile_program(function, (window(2),))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, i: x.view(3, 2)[i].as_strided([1], [1], 0) * 2,
        lambda x, i: x.narrow(0, i, 2).as_strided([1], [1], 0) * 2,
        lambda x, i: x * x.narrow(0, i, 2).storage_offset(),
    ],
)
def test_a_view_at_a_place_from_data_is_refused(function: Function) -> None:
    with pytest.raises(UnsupportedError, match="counts from the first byte of its storage"):
        compile_program(function, (window(2), torch.tensor(1)))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * x.untyped_storage().nbytes(),
        lambda x: x * (x.untyped_storage().data_ptr() == (x * 2).untyped_storage().data_ptr()),
        lambda x: x * x.storage().size(),
        lambda x: x * x.is_set_to(x),
        lambda x: x * x.is_shared(),
        lambda x: x * pytree.tree_map(torch.Tensor.untyped_storage, [x])[0].nbytes(),
        eval(compile("lambda x: x * x.untyped_storage().nbytes()", "<stdin>", "eval")),
    ],
)
def test_sizes_and_addresses_of_storages_are_refused(function: Function) -> None:
    with pytest.raises(CompileError, match="in another call"):
        compile_program(function, (window(2),))


def test_validation_has_arguments_where_the_examples_are() -> None:
    compile_program(COUNTING["in place"], (window(2),), validate=True)
    start = (1 << 24) + 64  # more than 64 MiB into its storage
    far = torch.zeros(start + 6)[start:]
    with pytest.raises(CompileError, match="cannot be validated: it counts from the first byte"):
        compile_program(lambda x: x.as_strided([2], [1], start + 1) * 2, (far,), validate=True)
