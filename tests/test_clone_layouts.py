"""Copies whose source has other strides go where every result still lies as it did."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import fx
from torch._ops import OpOverload

from compiler import eliminate_clones

ops = torch.ops.aten


def graph_of(program: Callable[[fx.Graph, fx.Node], Any]) -> fx.GraphModule:
    graph = fx.Graph()
    graph.output(program(graph, graph.placeholder("x")))
    return fx.GraphModule(torch.nn.Module(), graph)


def through(operator: OpOverload, *more: Any) -> Callable[[fx.Graph, fx.Node], Any]:
    """The result of one operator on a copy of the argument."""

    def program(graph: fx.Graph, x: fx.Node) -> Any:
        copy = graph.call_function(ops.clone.default, (x,), {"memory_format": torch.contiguous_format})
        return (graph.call_function(operator, (copy, *more)),)

    return program


def squared(graph: fx.Graph, x: fx.Node) -> Any:
    copy = graph.call_function(ops.clone.default, (x,), {"memory_format": torch.contiguous_format})
    return (graph.call_function(ops.mul.Tensor, (copy, copy)),)


def half_of_a_chain(graph: fx.Graph, x: fx.Node) -> Any:
    """The first copy turns rows to columns and back."""
    columns = graph.call_function(ops.clone.default, (x,), {"memory_format": torch.contiguous_format})
    turned = graph.call_function(ops.t.default, (columns,))
    rows = graph.call_function(ops.clone.default, (turned,), {"memory_format": torch.contiguous_format})
    return (graph.call_function(ops.relu.default, (rows,)),)


ROWS = torch.arange(40.0).view(5, 8)[:, :3]
"""A slice of rows: in the order of a dense copy, with gaps."""
COLUMNS = torch.arange(15.0).view(3, 5).t()


@pytest.mark.parametrize(
    ("program", "example", "kept"),
    [
        (through(ops.relu.default), ROWS, 0),
        (through(ops.add.Scalar, 2.0), ROWS, 0),
        (squared, ROWS, 0),
        (through(ops.relu.default), COLUMNS, 1),  # the result would lie in columns
        (through(ops.relu.default), torch.arange(8.0).view(2, 4)[:, :1].unsqueeze(1), 0),  # one dimension
        (
            through(ops.relu.default),
            torch.arange(24.0).view(2, 3, 4)[:, :, :1].expand(2, 3, 1),
            1,
        ),  # a stride of nothing
        (through(ops.relu.default), torch.arange(3.0).expand(5, 3), 1),  # rows in one place
        (through(ops.flip.default, [0]), ROWS, 1),  # no pointwise operator
        (through(ops.sum.dim_IntList, [0]), ROWS, 0),  # one dimension lies as it does
        (half_of_a_chain, ROWS, 1),
    ],
)
def test_results_lie_as_before(program: Callable[[fx.Graph, fx.Node], Any], example: torch.Tensor, kept: int) -> None:
    module, right = graph_of(program), graph_of(program)
    eliminate_clones(module, (example,))
    assert sum(node.target is ops.clone.default for node in module.graph.nodes) == kept
    for got, want in zip(module(example), right(example), strict=True):
        assert torch.equal(got, want)
        assert got.stride() == want.stride()


def _arguments(operator: OpOverload, dtype: torch.dtype) -> list[Any] | None:
    """A "tensor" for each tensor that the operator has to get, and a number for the others."""
    found: list[Any] = []
    for formal in operator._schema.arguments:
        kind = str(formal.type)
        if formal.kwarg_only:
            break
        if formal.has_default_value():
            found.append(formal.default_value)
        elif kind == "Tensor":
            found.append("tensor")
        elif kind in ("number", "int", "float", "bool"):
            found.append({"number": 2, "int": 1, "float": 0.5, "bool": True}[kind])
        else:
            return None
    return found if "tensor" in found else None


def _lying(sizes: tuple[int, ...], order: list[int], gap: int, dtype: torch.dtype) -> torch.Tensor:
    """A tensor with dimensions in this order in memory, the outermost first, and gaps between rows."""
    strides, step = [0] * len(sizes), 1
    for dim in reversed(order):
        strides[dim] = step
        step = step * sizes[dim] + gap
    return (torch.arange(step) % 3 + 1).to(dtype).as_strided(sizes, strides)


def test_pointwise_operators_keep_the_order_of_dimensions() -> None:
    """What the elimination relies on, of all operators that PyTorch calls pointwise."""
    rng = random.Random(5)
    tried: set[str] = set()
    for name in dir(ops):
        packet = getattr(ops, name)
        for overload in packet.overloads() if hasattr(packet, "overloads") else ():
            operator = getattr(packet, overload)
            schema = operator._schema
            if torch.Tag.pointwise not in operator.tags or any(
                a.alias_info is not None for a in (*schema.arguments, *schema.returns)
            ):
                continue
            for dtype in (torch.float32, torch.int64, torch.bool, torch.complex64):
                template = _arguments(operator, dtype)
                sizes = rng.choice([(2, 3), (2, 3, 4)])
                order = rng.sample(range(len(sizes)), len(sizes))
                if template is None:
                    continue
                dense, spread = (
                    [_lying(sizes, order, rng.randint(1, 4) * gaps, dtype) if a == "tensor" else a for a in template]
                    for gaps in (0, 1)
                )
                try:
                    one, two = operator(*dense), operator(*spread)
                except (RuntimeError, NotImplementedError, TypeError):
                    continue  # not for these elements
                if not isinstance(one, torch.Tensor) or any(one is given for given in dense):
                    continue  # for real numbers, it is its operand: the importer sees that
                assert one.stride() == two.stride(), operator
                tried.add(str(operator))
    assert len(tried) > 150
