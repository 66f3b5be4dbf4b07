"""Subscripts by 0-d tensors in FX graphs, as Dynamo writes them: served by the Neuron passes and by `torch.compile`."""

from __future__ import annotations

from operator import getitem, gt, iadd, imul, mul, setitem, sub

import pytest
import torch
from fx_oracle import FxCase, Hand, check_rewrite
from programs import ar

from compiler.integrations.dynamo import fx2hlo
from compiler.integrations.vllm_neuron import run_passes
from compiler.integrations.vllm_neuron.hlo import convert


def graph(program) -> FxCase:
    """A graph written by hand: the functions below get its builder, the state and a position."""

    def build() -> Hand:
        h = Hand("x", "i")
        return h.out(program(h, *h.ins))

    inputs = lambda: [ar(3, 4), torch.tensor(1)]  # noqa: E731
    return FxCase(program.__name__, "subscript", build, inputs, "", "", style="hand", mutated=(0,))


def assigned(h, x, i):
    h.f(setitem, x, i, 5.0)
    h.f(setitem, x, (i, 2), h.f(getitem, x, (0, 1)))
    h.m("__setitem__", x, (0, h.f(sub, i, 1)), 7.0)
    return (x,)


def added_to(h, x, i):
    h.f(setitem, x, i, h.f(iadd, h.f(getitem, x, i), 1))
    column = (slice(None), i)
    h.f(torch.Tensor.__setitem__, x, column, h.f(imul, h.f(torch.Tensor.__getitem__, x, column), 2))
    return (h.m("sum", x, 0),)


def read(h, x, i):
    row = h.f(getitem, x, i)
    return h.f(mul, row, 2), h.m("sum", h.f(getitem, x, (Ellipsis, i)))


def read_then_written(h, x, i):
    doubled = h.f(mul, h.f(getitem, x, i), 2)
    h.m("add_", x, 1)
    return (doubled,)


def read_at_a_position_that_moves(h, x, i):
    row = h.f(getitem, x, i)
    h.m("sub_", i, 1)
    return (h.f(mul, row, h.f(getitem, x, i)),)


def masked(h, x, i):
    h.f(setitem, x, h.f(gt, i, 0), 1.0)
    return (x,)


@pytest.mark.parametrize(
    "program", [assigned, added_to, read, read_then_written, read_at_a_position_that_moves, masked]
)
def test_served(program) -> None:
    served = graph(program)
    gm, metadata = run_passes(served.build(), example_inputs=served.inputs())
    found = metadata["aliasing_output_rewrite"]
    report = check_rewrite(served, gm, found["io_map"], found["original_output_count"], found["output_views"])
    assert report.errors == []
    convert(gm, served.inputs(), found["io_map"])


def returned(h, x, i):
    return (h.f(getitem, x, i),)


def written_through(h, x, i):
    h.m("add_", h.f(getitem, x, i), 1)
    return (x,)


def base_written(h, x, i):
    row = h.f(getitem, x, i)
    h.m("add_", x, 1)
    return (h.f(mul, row, 2),)


def position_written(h, x, i):
    row = h.f(iadd, h.f(getitem, x, i), 1)
    h.m("add_", i, 1)
    h.f(setitem, x, i, row)
    return (x,)


def a_view_of_it_returned(h, x, i):
    return (h.m("view", h.f(getitem, x, (slice(None), i)), -1),)


@pytest.mark.parametrize("program", [returned, written_through, base_written, position_written, a_view_of_it_returned])
def test_what_only_a_view_can_do_is_refused(program) -> None:
    case = graph(program)
    with pytest.raises(RuntimeError, match=r"view at a place known only at run time.*node getitem"):
        run_passes(case.build(), example_inputs=case.inputs())


def test_the_backend_serves_them() -> None:
    def step(x, i):
        x[i] = 5.0
        x[:, i] *= 2
        return x.sum(0)

    run = torch.compile(step, backend=fx2hlo, dynamic=False)
    for place in (0, 2, 1):
        x, want = ar(3, 4), ar(3, 4)
        with torch.no_grad():
            assert torch.equal(run(x, torch.tensor(place)), step(want, torch.tensor(place)))
        assert torch.equal(x, want)


def test_a_position_in_a_hand_made_graph() -> None:
    h = Hand("cache", "row", "position")
    cache, row, position = h.ins
    h.m("__setitem__", cache, (position, slice(1, 3)), row)
    gm = h.out((h.m("sum", cache),)).module()
    inputs = [torch.zeros(4, 3), torch.ones(2), torch.tensor(2)]
    gm, metadata = run_passes(gm, example_inputs=inputs)
    assert metadata["aliasing_output_rewrite"]["io_map"] == {1: 0}
    assert gm(*inputs)[1][2].tolist() == [0, 1, 1]
