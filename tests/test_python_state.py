"""A call that changes Python state outside of its tensors is refused with the user's line, and leaves that state as it was."""

from __future__ import annotations

import collections
import functools
import inspect
import os
import random
import threading
from array import array
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import compiler
from compiler.errors import GuardError, UnsupportedError
from compiler.integrations.dynamo import fx2hlo

TOTAL = torch.zeros(3)
LATE: object


class Cache:
    """A plain object, as programs keep their caches in."""

    def __init__(self) -> None:
        self.rows, self.position, self.kept = torch.zeros(4, 3), 0, []


class Holder(torch.nn.Module):
    def __init__(self, change) -> None:
        super().__init__()
        self.caches = {"first": [Cache()]}
        self.change = change

    def forward(self, x):
        return self.change(self.caches["first"][0], x)


def concatenated(cache, x):
    cache.rows = torch.cat([cache.rows, x[None]])
    return cache.rows.sum(0)


def counted(cache, x):
    cache.rows[cache.position] = x
    cache.position += 1
    return cache.rows.sum(0)


def collected(cache, x):
    cache.kept.append(x * 2)
    return cache.kept[-1] + x


@pytest.mark.parametrize(
    ("change", "message", "place"),
    [
        (concatenated, r"binds the plain attribute caches\['first'\]\[0\].rows to a new tensor", "torch.cat"),
        (counted, r"changes the attribute caches\['first'\]\[0\].position, a int", "def forward"),
        (collected, r"the list caches\['first'\]\[0\].kept: the call creates state", "append"),
    ],
)
@pytest.mark.parametrize("around", ["module", "closure"])
def test_fields_of_plain_objects(change, message: str, place: str, around: str) -> None:
    holder = Holder(change)
    cache = holder.caches["first"][0]
    rows = cache.rows
    caches = holder.caches

    def closed(x):
        return change(caches["first"][0], x)

    with pytest.raises(UnsupportedError, match=message) as found:
        compiler.compile(holder if around == "module" else closed, (torch.ones(3),))
    file, _, line = found.value.location.rpartition(":")
    code = inspect.getsource(inspect.getmodule(Holder)).splitlines()[int(line) - 1]
    assert file == __file__ and (place in code or "def closed" in code)
    assert cache.rows is rows and cache.position == 0 and cache.kept == []
    assert torch.equal(rows, torch.zeros(4, 3))


def nonlocal_total():
    total = torch.zeros(3)

    def program(x):
        nonlocal total
        total = total + x
        return total * 1

    return program, lambda: total


def global_total():
    def program(x):
        global TOTAL
        TOTAL = TOTAL + x
        return TOTAL * 1

    return program, lambda: TOTAL


def late_global():
    def program(x):
        global LATE
        LATE = x * 2
        return x

    return program, lambda: "LATE" in globals()


def in_a_list():
    rows = [torch.zeros(3)]

    def program(x):
        rows[0] = rows[0] + x
        return rows[0] * 1

    return program, lambda: rows[0]


def in_a_deque():
    rows = collections.deque([torch.zeros(3)], maxlen=1)

    def program(x):
        rows.append(rows[0] + x)
        return rows[0] * 1

    return program, lambda: rows[0]


def in_a_dict():
    table = {"calls": 0}

    def program(x):
        table["calls"] += 1
        return x * table["calls"]

    return program, lambda: table["calls"]


def in_a_partial():
    table = {"total": torch.zeros(3)}

    def program(held, x):
        held["total"] = held["total"] + x
        return held["total"] * 1

    return functools.partial(program, table), lambda: table["total"]


def in_a_default():
    def program(x, rows=[torch.zeros(3)]):  # noqa: B006, B008
        rows[0] = rows[0] + x
        return rows[0] * 1

    return program, lambda: program.__defaults__[0][0]


def in_a_method():
    class Counter:
        def __init__(self):
            self.calls = 0

        def __call__(self, x):
            self.calls += 1
            return x * self.calls

    counter = Counter()
    return counter, lambda: counter.calls


def in_another_module():
    module = torch.nn.Module()
    module.register_buffer("total", torch.zeros(3))

    def program(x):
        module.total = module.total + x
        return module.total * 1

    return program, lambda: module.total


def in_a_helper():
    rows = [torch.zeros(3)]

    def helper(x):
        rows[0] = x * 2
        return x

    return lambda x: helper(x) + 1, lambda: rows[0]


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (nonlocal_total, "the variable total to a new tensor"),
        (global_total, "the variable TOTAL to a new tensor"),
        (late_global, "the variable LATE: the call creates state"),
        (in_a_list, r"the item rows\[0\] to a new tensor"),
        (in_a_deque, r"the item rows\[0\] to a new tensor"),
        (in_a_dict, r"changes the item table\['calls'\], a int"),
        (in_a_partial, r"\['total'\] to a new tensor"),
        (in_a_default, r"the item __defaults__\[0\]\[0\] to a new tensor"),
        (in_a_method, "changes the attribute calls, a int"),
        (in_another_module, "module.total to a new tensor"),
        (in_a_helper, r"the item helper.rows\[0\] to a new tensor"),
    ],
)
def test_closures_globals_and_containers(make, what: str) -> None:
    program, held = make()
    before = held()
    with pytest.raises(UnsupportedError, match=what) as found:
        compiler.compile(program, (torch.ones(3),))
    assert found.value.location.startswith(__file__)
    assert held() is before, "a refused program leaves what it found"


def test_reading_and_writing_in_place_is_served() -> None:
    """Caches of objects that are written into, a counter that is a tensor, and objects that only libraries change."""
    import logging

    logger = logging.getLogger("fx2hlo.test")
    cache, position = Cache(), torch.zeros(1, dtype=torch.int64)
    settings = collections.OrderedDict(scale=2)

    def program(x):
        logger.debug("a step")  # which notes in a dictionary of the logger's that it is not enabled
        cache.rows.index_copy_(0, position, x[None] * settings["scale"])
        position.add_(1)
        return cache.rows.sum(0)

    executable = compiler.compile(program, (torch.ones(3),))
    assert executable(torch.ones(3)).tolist() == [2, 2, 2] and executable(torch.ones(3)).tolist() == [4, 4, 4]
    assert position.tolist() == [2] and cache.rows[:, 0].tolist() == [2, 2, 0, 0]


class Configured(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(3, 3, bias=False))
        self.scale, self.config, self.steps, self.sizes = 2.0, {"gain": 1.0, "more": [1]}, [1, 2], (1, [2])
        self.activation = torch.relu

    def forward(self, x):
        factor = self.scale * self.config["gain"] * sum(self.steps) * self.sizes[1][0] * self.config["more"][0]
        return self.activation(self.inner(x) * factor)


class Zero(torch.nn.Linear):
    def forward(self, input):
        return input * 0


CHANGES = {
    "scale was 2.0": lambda m: setattr(m, "scale", 3.0),
    "config was": lambda m: m.config.update(gain=5.0),
    "config was {'gain': 1.0, 'more': \\[1\\]}": lambda m: m.config["more"].append(2),
    "steps was": lambda m: m.steps.append(5),
    "sizes was": lambda m: m.sizes[1].clear(),
    "activation was": lambda m: setattr(m, "activation", torch.tanh),
    "inner.0.bias was None": lambda m: setattr(m.inner[0], "bias", torch.nn.Parameter(torch.ones(3))),
    "'inner.0' was a Linear when compiled, and now it is a Zero": lambda m: m.inner.__setitem__(
        0, Zero(3, 3, bias=False)
    ),
    "'inner' has other submodules": lambda m: m.inner.append(torch.nn.ReLU()),
    "'inner.0' has other submodules or forward hooks": lambda m: m.inner[0].register_forward_hook(lambda *_: None),
}


@pytest.mark.parametrize("message", CHANGES)
@torch.no_grad()
def test_what_a_module_is_made_of_is_guarded_at_each_call(message: str) -> None:
    module, x = Configured(), torch.ones(2, 3)
    compiled = compiler.compile(module, (x,))
    module.config = {"gain": 1.0, "more": [1]}
    torch.testing.assert_close(compiled(x), module(x))
    CHANGES[message](module)
    with pytest.raises(GuardError, match=message):
        compiled(x)


class Remembers(torch.nn.Module):
    """Tensors in plain attributes, which a call binds to new ones and does not read."""

    def __init__(self) -> None:
        super().__init__()
        self.seen, self.part, self.given = torch.zeros(2, 3), torch.zeros(3), torch.zeros(2, 3)

    def forward(self, x):
        self.seen, self.given = x * 2, x
        self.part = self.seen[1]
        self.seen.add_(1)
        return self.seen


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (Remembers, ("seen", "part", "given")),
        (lambda: torch.nn.utils.weight_norm(torch.nn.Linear(3, 3)), ("weight",)),
        (lambda: torch.nn.utils.spectral_norm(torch.nn.Linear(3, 3)), ("weight", "weight_u")),
    ],
)
@torch.no_grad()
def test_attributes_that_are_bound_anew_before_they_are_read(make, names, tmp_path) -> None:
    modules = []
    for _ in range(2):
        torch.manual_seed(0)
        modules.append(make())
    mine, theirs = modules
    compiled = compiler.compile(mine, (torch.ones(2, 3),))
    for call in range(3):
        one, other = (torch.arange(6.0).reshape(2, 3) + call for _ in range(2))
        torch.testing.assert_close(compiled(one), theirs(other))
        torch.testing.assert_close([getattr(mine, n) for n in names], [getattr(theirs, n) for n in names])
        assert all(name not in mine._parameters for name in names)
    if make is Remembers:
        assert mine.given is one and mine.part.data_ptr() == mine.seen[1].data_ptr()
    compiled.save(tmp_path / "once")
    loaded = compiler.load(tmp_path / "once")
    torch.testing.assert_close(loaded(torch.ones(2, 3)), theirs(torch.ones(2, 3)))
    torch.testing.assert_close([loaded.state[n] for n in names], [getattr(theirs, n) for n in names])


def test_an_attribute_that_is_read_or_gets_another_shape_is_not_bound_anew() -> None:
    class Grows(Remembers):
        def forward(self, x):
            self.seen = x[0]
            return x * 2

    class Adds(Remembers):
        def forward(self, x):
            self.seen = self.seen + x
            return x * 2

    class Shifts(Remembers):
        def forward(self, x):
            self.given, self.seen = self.seen, x * 2
            return x * 2

    class Returns(Remembers):
        def forward(self, x):
            before, self.seen = self.seen, x * 2
            return before

    class Moves(Remembers):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("kept", torch.zeros(2, 3))

        def forward(self, x):
            self.kept, self.seen = self.seen, x * 2
            return x * 2

    for module in (Grows(), Adds(), Shifts(), Returns(), Moves()):
        with pytest.raises(UnsupportedError, match="binds the plain attribute seen to a new tensor"):
            compiler.compile(module, (torch.ones(2, 3),))


def test_new_parameters_and_modules_without_elements_are_refused() -> None:
    class Renews(torch.nn.Linear):
        def forward(self, input):
            self.weight = torch.nn.Parameter(self.weight * 2)
            return super().forward(input)

    cases = [(Renews(3, 3), "binds the parameter weight to a new one"), (torch.nn.LazyLinear(3), "has no elements yet")]
    for module, message in cases:
        with pytest.raises(UnsupportedError, match=message):
            compiler.compile(module, (torch.ones(2, 3),))


def test_other_memory_by_data() -> None:
    """`x.data = y` gives a tensor of the program other memory; of an argument or state it is refused."""

    def local(x, y):
        z = x * 2
        row = z[0]
        z.data = y
        z.add_(1)
        return z, row

    x, y = torch.ones(2, 3), torch.zeros(2, 3)
    z, row = compiler.compile(local, (x, y))(x, y)
    assert torch.equal(y, torch.ones(2, 3)) and z.data_ptr() == y.data_ptr() and row.tolist() == [2, 2, 2]

    class Assigns(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(3))

        def forward(self, x):
            self.mean.data = self.mean + x
            return self.mean * 1

    for program in (Assigns(), torch.export.export(Assigns(), (torch.ones(3),), strict=False)):
        with pytest.raises(
            UnsupportedError, match=r"metadata of an argument|other memory than|assignment to `.data`"
        ) as found:
            compiler.compile(program, (torch.ones(3),))
        assert found.value.location.startswith(__file__)

    class Same(Assigns):
        def forward(self, x):
            self.mean.data = self.mean.data
            self.to(torch.float32)
            return self.mean.add_(x)

    same = Same()
    assert compiler.compile(same, (torch.ones(3),))(torch.ones(3)) is same.mean and same.mean.tolist() == [1, 1, 1]


def test_what_is_detached_needs_no_gradient() -> None:
    def program(x, w):
        return x.add_(w.detach()), w.detach(), w.detach()[1:], w.data

    w = torch.randn(3, requires_grad=True)
    results = torch.compile(program, backend=fx2hlo)(torch.ones(3), w)
    assert [r.requires_grad for r in results] == [False] * 4 and results[1].data_ptr() == w.data_ptr()


def test_sizes_stay_sizes(tmp_path) -> None:
    def program(x):
        return x.shape, x.stride(), {"size": x.t().size()}

    x = torch.ones(2, 3)
    executable = compiler.compile(program, (x,))
    executable.save(tmp_path / "artifact")
    for run in (executable, compiler.load(tmp_path / "artifact")):
        shape, stride, rest = run(x)
        assert [type(t) for t in (shape, stride, rest["size"])] == [torch.Size, tuple, torch.Size]
        assert (shape, stride, rest["size"]) == ((2, 3), (3, 1), (3, 2))


def test_sizes_as_arguments(tmp_path) -> None:
    def program(x, sizes):
        return x.view(sizes[0]), sizes[0]

    given = torch.ones(6), [torch.Size([2, 3])]
    executable = compiler.compile(program, given)
    executable.save(tmp_path / "artifact")
    for run in (executable, compiler.load(tmp_path / "artifact")):
        assert run(*given)[0].shape == run(*given)[1] == given[1][0]
        with pytest.raises(GuardError, match="was compiled in as the constant"):
            run(given[0], [torch.Size([3, 2])])


def test_subclasses_with_a_part_in_operators_are_refused() -> None:
    class Named(torch.Tensor):
        pass

    with pytest.raises(UnsupportedError, match="x is a .*Named, whose class has a part in each operator"):
        compiler.compile(lambda x: x + 1, (torch.ones(3).as_subclass(Named),))


def test_modes_that_see_functions_are_no_part_of_an_argument() -> None:
    x = torch.ones(3)
    with torch.device("cpu"):
        executable = compiler.compile(lambda x: x + torch.ones(3), (x,))
    assert executable(x).tolist() == [2] * 3


@pytest.mark.parametrize(
    ("program", "args", "message"),
    [
        (lambda x: x.dequantize(), (torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8),), "torch.quint8"),
        (lambda x: torch.empty(0).set_(x.untyped_storage(), 0, (2,), (1,)), (torch.ones(3),), "UntypedStorage"),
    ],
)
def test_what_tracing_cannot_hold_is_refused(program, args, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        compiler.compile(program, args)


def test_tensors_in_the_attributes_of_a_graph_are_read_at_each_call() -> None:
    """Dynamo leaves some parameters in the graph as attributes, and other graphs of the same program write them."""

    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(2))
            self.inner = torch.nn.Linear(2, 2, bias=False)

        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: x * self.scale, lambda x: x - self.scale, (x,)) + self.scale

    inner = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(2, 2)))
    whole = torch.export.export(Scaled(), (torch.ones(2),), strict=False).module()
    with torch.no_grad():
        for graph in (inner, whole):
            executable = compiler.compile(graph, (torch.ones(2),))
            for tensor in graph.parameters():
                tensor.add_(1.5)
            torch.testing.assert_close(executable(torch.ones(2)), graph(torch.ones(2)))


def test_an_optimizer_between_graphs_of_one_program() -> None:
    """What an optimizer writes in one graph of Dynamo's, another one reads at the next call."""

    def build():
        parameters = [torch.nn.Parameter(torch.ones(3) + i) for i in range(2)]
        for parameter in parameters:
            parameter.grad = torch.ones(3)
        optimizer = torch.optim.SGD(parameters, lr=0.1, foreach=True)

        def program(x):
            for parameter in parameters:
                parameter.grad.copy_(x)
            optimizer.step()
            return [parameter.detach() * 2 for parameter in parameters]

        return program

    eager, compiled = build(), torch.compile(build(), backend=fx2hlo)
    with torch.no_grad():
        for step in range(3):
            torch.testing.assert_close(compiled(torch.ones(3) * step), eager(torch.ones(3) * step))


def test_a_graph_with_nested_arguments_is_called_with_them() -> None:
    """The graph module of an exported program takes and gives structures, with flat inputs and results inside."""

    class Nested(torch.nn.Module):
        def forward(self, table, *, rows):
            table["a"].add_(rows[0])
            return {"a": table["a"], "rows": (rows[1] * 2,)}

    def arguments():
        return {"a": torch.ones(3)}, [torch.ones(3), torch.zeros(3)]

    table, rows = arguments()
    graph = torch.export.export(Nested(), (table,), {"rows": rows}, strict=False).module()
    executable = compiler.compile(graph)
    for _ in range(2):
        table, rows = arguments()
        found = executable(table, rows=rows)
        assert found["a"] is table["a"] and table["a"].tolist() == [2, 2, 2] and isinstance(found["rows"], tuple)
    with pytest.raises(compiler.CompileError, match="takes arguments of the structure"):
        compiler.compile(graph, (torch.ones(3),))


def test_numbers_in_a_tensor_scale_each_of_a_list() -> None:
    """As Adam for lists of tensors does where its steps are tensors."""

    def program(x, y, scales):
        torch._foreach_addcdiv_([x, y], [y, x], [x + 1, y + 1], scales)
        return torch._foreach_addcmul([x, y], [y, x], [x, y], scales)

    def arguments():
        return torch.ones(3), torch.arange(3.0), torch.tensor([0.5, 2.0])

    mine, theirs = arguments(), arguments()
    found, wanted = compiler.compile(program, arguments())(*mine), program(*theirs)
    torch.testing.assert_close((list(found), mine), (list(wanted), theirs))


def gradient_of_a_held_tensor():
    held = torch.zeros(3, requires_grad=True)

    def program(x):
        held.grad = x * 2
        return x + 1

    return program, lambda: held.grad


def hook_of_a_held_module():
    linear = torch.nn.Linear(3, 3)

    def program(x):
        linear.register_forward_hook(lambda *_: None)
        return linear(x)

    return program, lambda: len(linear._forward_hooks)


def parameter_that_is_frozen():
    linear = torch.nn.Linear(3, 3)

    def program(x):
        linear.weight.requires_grad_(False)
        return linear(x)

    return program, lambda: linear.weight.requires_grad


def attribute_of_a_function():
    def program(x):
        program.calls = getattr(program, "calls", 0) + 1
        return x + 1

    return program, lambda: hasattr(program, "calls")


def order_of_a_dict():
    table = {"a": 1, "b": 2}

    def program(x):
        table["a"] = table.pop("a")
        return x + 1

    return program, lambda: list(table)


def number_from_python():
    return lambda x: x + random.random(), random.getstate


def seed_of_pytorch():
    def program(x):
        torch.manual_seed(3)
        return x + 1

    return program, lambda: torch.get_rng_state().tolist()


def default_dtype():
    def program(x):
        torch.set_default_dtype(torch.float64)
        return x + 1

    return program, torch.get_default_dtype


def attribute_of_a_class():
    class Counter:
        calls = 0

        @classmethod
        def count(cls):
            cls.calls += 1
            return cls.calls

    return lambda x: x * Counter.count(), lambda: Counter.calls


def tensor_of_a_class():
    class Total(torch.nn.Module):
        total = torch.zeros(3)

        def forward(self, x):
            type(self).total = self.total + x
            return self.total * 1

    return Total(), lambda: Total.total


def new_attribute_of_a_class():
    class Late:
        pass

    def program(x):
        Late.table = x * 2
        return x + 1

    return program, lambda: hasattr(Late, "table")


def slot_of_an_object():
    class Position:
        __slots__ = ("at",)

    position = Position()
    position.at = 0

    def program(x):
        position.at += 1
        return x * position.at

    return program, lambda: position.at


def global_in_a_method():
    class Step:
        def __enter__(self):
            self.take()

        def take(self):
            global TOTAL
            TOTAL = 1

        def __exit__(self, *_):
            pass

    def program(x):
        with Step():
            return x + 1

    return program, lambda: TOTAL


def element_of_an_array():
    array = np.zeros((2, 2))

    def program(x):
        array[1, 0] += 1
        return x * float(array[1, 0])

    return program, array.tolist


def numbers_from_numpy():
    return lambda x: x * np.random.rand(), lambda: np.random.get_state()[2]


def numbers_from_a_generator():
    drawn, other = np.random.default_rng(0), random.Random(0)
    return (
        lambda x: x * drawn.random() + other.random(),
        lambda: (drawn.bit_generator.state, other.getstate()),
    )


def attribute_of_an_argument():
    def program(x):
        x.calls = getattr(x, "calls", 0) + 1
        return x * x.calls

    return program, lambda: 0


def byte_of_an_array():
    flags = bytearray(2)

    def program(x):
        flags[1] = 7
        return x + flags[1]

    return program, lambda: bytes(flags)


@pytest.mark.parametrize(
    "make",
    [gradient_of_a_held_tensor, hook_of_a_held_module, parameter_that_is_frozen, attribute_of_a_function, order_of_a_dict,
     number_from_python, seed_of_pytorch, default_dtype, attribute_of_a_class, tensor_of_a_class,
     new_attribute_of_a_class, slot_of_an_object, global_in_a_method, element_of_an_array, byte_of_an_array,
     numbers_from_numpy, numbers_from_a_generator, attribute_of_an_argument],
)  # fmt: skip
def test_what_else_a_call_may_change_is_refused_and_undone(make) -> None:
    program, state = make()
    before = state()
    with pytest.raises(UnsupportedError, match="the call (changes|sets|binds|creates)|: the call creates"):
        compiler.compile(program, (torch.ones(3),))
    now = state()
    assert now is before or now == before


def test_dictionaries_that_make_items_when_they_are_asked() -> None:
    class Lazy(collections.OrderedDict):
        def items(self):
            self["made"] = 1
            return [*super().items(), ("more", object())]

        def __iter__(self):
            return iter(["other"])

    table = Lazy(scale=2)
    assert compiler.compile(lambda x: x * table["scale"], (torch.ones(3),))(torch.ones(3)).tolist() == [2] * 3
    assert "made" not in table


def test_what_another_thread_changes_is_none_of_the_calls() -> None:
    class Monitor(threading.Thread):
        woken = 0

    monitor = Monitor()

    def program(x):
        monitor.woken += 1  # as the thread does on its own
        return x + 1

    assert compiler.compile(program, (torch.ones(3),))(torch.ones(3)).tolist() == [2] * 3


def test_a_cache_of_functools_keeps_nothing_of_the_trace() -> None:
    @functools.lru_cache
    def table(count):
        return torch.arange(float(count))

    def program(x):
        return x + table(3)

    assert torch.equal(compiler.compile(program, (torch.ones(3),))(torch.ones(3)), torch.arange(1.0, 4.0))
    assert type(table(3)) is torch.Tensor
    warm = table(3)
    compiler.compile(program, (torch.ones(3),))
    assert table(3) is warm


class Settings:
    """Computes what it holds when it is asked."""

    @functools.cached_property
    def scale(self) -> float:
        return 2.0

    @functools.cached_property
    def table(self) -> torch.Tensor:
        return torch.arange(3.0)


def test_values_that_are_computed_once_are_no_change() -> None:
    class Scaled(torch.nn.Module):
        scale = Settings.scale

    settings, module, x = Settings(), Scaled(), torch.ones(3)
    assert compiler.compile(lambda x: x * settings.scale * module.scale, (x,))(x).tolist() == [4] * 3
    module.forward = lambda x: x * module.scale
    assert compiler.compile(module, (x,))(x).tolist() == [2] * 3
    assert "scale" not in vars(settings) and "scale" not in vars(module)
    with pytest.raises(UnsupportedError, match="the call creates state"):
        compiler.compile(lambda x: x * settings.table, (x,))


class Strange:
    """An object that fails when it is asked for what it does not have."""

    __slots__ = ("late",)

    def __getattr__(self, name: str) -> object:
        raise RuntimeError(name)


class Owner:
    held = Strange()


def watched_and_unchanged() -> dict[str, object]:
    fixed = np.ones(2)
    fixed.flags.writeable = False
    return {
        "complex": complex(1.5, float("nan")),
        "dates": np.array(["2020-01-01"], "datetime64[D]"),
        "halves": np.ones((3, 3), np.float16)[::-2, ::2],
        "records": np.zeros(3, [("first", "f4"), ("second", "i1")]),
        "numbers": array("d", [float("nan"), -0.0]),
        "nothing": np.zeros((2, 0)),
        "fixed": fixed,
        "strange": Strange(),
        "class": Owner,
    }


@pytest.mark.parametrize("name", watched_and_unchanged())
def test_any_value_may_be_beside_the_tensors(name: str) -> None:
    value, x = watched_and_unchanged()[name], torch.ones(3)

    def program(x: torch.Tensor) -> torch.Tensor:
        return x + (value is not None)

    assert compiler.compile(program, (x,))(x).tolist() == [2] * 3


@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_that_is_written_in_part_is_seen_and_put_back(order) -> None:
    table = np.zeros((4, 3), np.int16, order=order)

    def program(x: torch.Tensor) -> torch.Tensor:
        table[1:, ::2] = 1
        return x + 1

    with pytest.raises(UnsupportedError, match="the call changes the ndarray table"):
        compiler.compile(program, (torch.ones(3),))
    assert not table.any()


values = 1
"""Has the name of a method of the dictionary in which Python keeps a module's built-in functions."""


def test_globals_with_any_name_are_watched() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        global values
        values += 1
        return x + values

    with pytest.raises(UnsupportedError, match="the call changes the variable values"):
        compiler.compile(program, (torch.ones(3),))
    assert values == 1


def test_progress_bars() -> None:
    tqdm = pytest.importorskip("tqdm").tqdm

    def program(x: torch.Tensor) -> torch.Tensor:
        for _ in tqdm(range(3), file=open(os.devnull, "w")):  # noqa: SIM115
            x = x + 1
        return x

    assert compiler.compile(program, (torch.ones(3),))(torch.ones(3)).tolist() == [4] * 3


class Factors(torch.nn.Module):
    """No tensors of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.factors: list[Any] = [2, [3]]
        self.factor = 2
        self.ring: list[Any] = [1]
        self.ring.append(self.ring)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factors[0] * self.factors[1][0] * self.factor


@pytest.mark.parametrize(
    "change", [lambda m: m.factors[1].append(4), lambda m: setattr(m, "factor", 3), lambda m: m.train(False)]
)
def test_a_module_without_tensors_is_guarded(change: Callable[[Factors], object]) -> None:
    module, x = Factors(), torch.ones(2)
    executable = compiler.compile(module, (x,))
    assert executable(x).tolist() == [12, 12]
    change(module)
    with pytest.raises(GuardError):
        executable(x)
