"""Clone elimination as programs grow: CPU time per op, beside that of `layers` at the same size, and the exponent.

Programs with 10% clones at 1k, 10k and 100k ops; programs of which a third are clones that share one memory, at 1k, 4k and 16k.

PYTHONPATH=. python benchmarks/clone_scaling.py [largest]
"""

from __future__ import annotations

import argparse
import gc
import math
import time
from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, UnitAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from compiler.analysis.clone_plan import plan_clones
from compiler.transforms.eliminate_clones import apply_plan
from dialects.alias import ResultAlias, Root, RootData, effects, results
from dialects.fx import CallOp, Operand, integer
from dialects.types import handle_type

HIDDEN = 64
FRESH = ResultAlias("fresh")


class Graph:
    """Builds a function over handles, call by call."""

    def __init__(self, *arguments: Attribute):
        self.block = Block(arg_types=arguments)
        self.count = 0

    def call(self, target: str, *operands: SSAValue, kind: Attribute, reads=(), writes=(), alias=FRESH, extra=()):
        op = CallOp.create(
            operands=operands,
            result_types=[kind],
            properties={
                "target": StringAttr(target),
                "arguments": ArrayAttr([*map(Operand, range(len(operands))), *map(integer, extra)]),
                "effects": effects(reads, writes),
                "aliases": results([alias]),
                **(
                    {"pointwise": UnitAttr()}
                    if writes and target.startswith(("aten.add", "aten.copy", "aten.mul"))
                    else {}
                ),
            },
        )
        self.block.add_op(op)
        self.count += 1
        return op.results[0]

    def module(self, *outputs: SSAValue) -> ModuleOp:
        self.block.add_op(ReturnOp(*outputs))
        attributes = [DictionaryAttr({"alias.root": Root(RootData(i, 1 << 40))}) for i in range(len(self.block.args))]
        types = ([a.type for a in self.block.args], [o.type for o in outputs])
        return ModuleOp([FuncOp("main", types, Region(self.block), arg_attrs=ArrayAttr(attributes))])


def layers(operations: int) -> ModuleOp:
    """Decoder-like steps: an activation is cloned, updated in place and read, a row of a cache is written through a view."""
    rows = operations // 10 + 1
    row, cache = handle_type("f32", (HIDDEN,), (1,)), handle_type("f32", (rows, HIDDEN), (HIDDEN, 1))
    graph = Graph(cache, row)
    pool, x = graph.block.args
    for step in range(operations // 10):
        y = graph.call("aten.mul.Scalar", x, kind=row, reads=[0])
        c = graph.call("aten.clone.default", y, kind=row, reads=[0])
        graph.call("aten.add_.Tensor", c, x, kind=row, reads=[0, 1], writes=[0], alias=ResultAlias("same", 0))
        # Every fourth clone is needed: its source is read after the write.
        z = graph.call("aten.add.Tensor", c, y if step % 4 == 0 else x, kind=row, reads=[0, 1])
        place = handle_type("f32", (HIDDEN,), (1,), step * HIDDEN)
        view = graph.call("aten.select.int", pool, kind=place, alias=ResultAlias("view", 0), extra=(0, step))
        graph.call("aten.copy_.default", view, z, kind=place, reads=[1], writes=[0], alias=ResultAlias("same", 0))
        r = graph.call("aten.sin.default", view, kind=row, reads=[0])
        r = graph.call("aten.add.Tensor", r, z, kind=row, reads=[0, 1])
        r = graph.call("aten.mul.Scalar", r, kind=row, reads=[0])
        x = graph.call("aten.sin.default", r, kind=row, reads=[0])
    return graph.module(x)


def one_pool(clones: int) -> ModuleOp:
    """Clones of windows of one pool, each window then written, every second clone read afterwards."""
    row, cache = handle_type("f32", (HIDDEN,), (1,)), handle_type("f32", (clones, HIDDEN), (HIDDEN, 1))
    graph = Graph(cache, row)
    pool, x = graph.block.args
    for step in range(clones):
        place = handle_type("f32", (HIDDEN,), (1,), step * HIDDEN)
        view = graph.call("aten.select.int", pool, kind=place, alias=ResultAlias("view", 0), extra=(0, step))
        c = graph.call("aten.clone.default", view, kind=row, reads=[0])
        before = graph.call("aten.sin.default", c, kind=row, reads=[0])
        graph.call("aten.mul_.Tensor", view, before, kind=place, reads=[0, 1], writes=[0], alias=ResultAlias("same", 0))
        x = graph.call("aten.add.Tensor", c if step % 2 else before, x, kind=row, reads=[0, 1])
    return graph.module(x)


def chain(clones: int) -> ModuleOp:
    """Each clone copies the one before, is written, and half of them are read at the end."""
    row = handle_type("f32", (HIDDEN,), (1,))
    graph = Graph(row)
    c = graph.call("aten.sin.default", graph.block.args[0], kind=row, reads=[0])
    late: list[SSAValue] = []
    for step in range(clones):
        c = graph.call("aten.clone.default", c, kind=row, reads=[0])
        graph.call(
            "aten.add_.Tensor", c, graph.block.args[0], kind=row, reads=[0, 1], writes=[0], alias=ResultAlias("same", 0)
        )
        if step % 2:
            late.append(c)
    x = c
    for value in late:
        x = graph.call("aten.add.Tensor", x, value, kind=row, reads=[0, 1])
    return graph.module(x)


ROW = handle_type("f32", (HIDDEN,), (1,))
SAME = ResultAlias("same", 0)


def _source(graph: Graph, fresh: bool) -> SSAValue:
    return graph.call("aten.sin.default", graph.block.args[0], kind=ROW, reads=[0]) if fresh else graph.block.args[0]


def _add(graph: Graph, written: SSAValue) -> None:
    graph.call("aten.add_.Tensor", written, graph.block.args[1], kind=ROW, reads=[0, 1], writes=[0], alias=SAME)


def _sum(graph: Graph, values: Sequence[SSAValue]) -> ModuleOp:
    total = graph.block.args[1]
    for value in values:
        total = graph.call("aten.add.Tensor", value, total, kind=ROW, reads=[0, 1])
    return graph.module(total)


def fan(clones: int, fresh: bool, returned: bool = False) -> ModuleOp:
    """Clones of one tensor, all made first, then each written, then each read or returned."""
    graph = Graph(ROW, ROW)
    source = _source(graph, fresh)
    copies = [graph.call("aten.clone.default", source, kind=ROW, reads=[0]) for _ in range(clones)]
    for copy in copies:
        _add(graph, copy)
    return graph.module(*copies) if returned else _sum(graph, copies)


def fan_of_views(clones: int, fresh: bool) -> ModuleOp:
    """As `fan`, but one of 16 parts of each clone is written, through a view."""
    graph = Graph(ROW, ROW)
    source, part = _source(graph, fresh), HIDDEN // 16
    copies = [graph.call("aten.clone.default", source, kind=ROW, reads=[0]) for _ in range(clones)]
    for step, copy in enumerate(copies):
        place = handle_type("f32", (part,), (1,), step % 16 * part)
        view = graph.call("aten.slice.Tensor", copy, kind=place, alias=ResultAlias("view", 0), extra=(0, step % 16))
        graph.call("aten.mul_.Scalar", view, kind=place, reads=[0], writes=[0], alias=SAME)
    return _sum(graph, copies)


def clones_of_clones(clones: int, backwards: bool) -> ModuleOp:
    """Each clone copies the one before; when all are made each is written, then each is read."""
    graph = Graph(ROW, ROW)
    copies = [_source(graph, True)]
    for _ in range(clones):
        copies.append(graph.call("aten.clone.default", copies[-1], kind=ROW, reads=[0]))
    for copy in reversed(copies) if backwards else copies:
        _add(graph, copy)
    return _sum(graph, copies)


def many_pools(clones: int) -> ModuleOp:
    """A clone of each of many arguments is written, then both are read."""
    graph = Graph(*[ROW] * max(clones, 2))
    copies = [graph.call("aten.clone.default", pool, kind=ROW, reads=[0]) for pool in graph.block.args]
    for copy in copies:
        _add(graph, copy)
    return _sum(graph, [value for pair in zip(copies, graph.block.args, strict=True) for value in pair])


def fills(clones: int) -> ModuleOp:
    """Clones of one tensor are written, copied into rows of one pool, and read."""
    graph = Graph(handle_type("f32", (clones, HIDDEN), (HIDDEN, 1)), ROW)
    source = graph.call("aten.sin.default", graph.block.args[1], kind=ROW, reads=[0])
    copies = [graph.call("aten.clone.default", source, kind=ROW, reads=[0]) for _ in range(clones)]
    for step, copy in enumerate(copies):
        _add(graph, copy)
        place = handle_type("f32", (HIDDEN,), (1,), step * HIDDEN)
        row = graph.call(
            "aten.select.int", graph.block.args[0], kind=place, alias=ResultAlias("view", 0), extra=(0, step)
        )
        graph.call("aten.copy_.default", row, copy, kind=place, reads=[1], writes=[0], alias=SAME)
    return _sum(graph, copies)


def custom_calls(clones: int, width: int) -> ModuleOp:
    """Clones of one tensor are written by custom calls, `width` of them by each, then read."""
    graph = Graph(ROW, ROW)
    source = _source(graph, True)
    copies = [graph.call("aten.clone.default", source, kind=ROW, reads=[0]) for _ in range(clones)]
    for first in range(0, clones, width):
        some = copies[first : first + width]
        graph.call("auto_functionalized_v2", *some, kind=ROW, reads=range(len(some)), writes=range(len(some)))
    return _sum(graph, copies)


SPARSE: dict[str, Callable[[int], ModuleOp]] = {
    "layers": layers,
    "one pool": lambda n: one_pool(n // 10),
    "chain": lambda n: chain(n // 10),
}
DENSE: dict[str, Callable[[int], ModuleOp]] = {
    "layers": layers,
    "fan of an argument": lambda n: fan(n // 3, False),
    "fan of a value": lambda n: fan(n // 3, True),
    "fan of an argument, returned": lambda n: fan(n // 2, False, True),
    "fan of a value, returned": lambda n: fan(n // 2, True, True),
    "fan of an argument, views": lambda n: fan_of_views(n // 4, False),
    "fan of a value, views": lambda n: fan_of_views(n // 4, True),
    "clones of clones": lambda n: clones_of_clones(n // 3, False),
    "clones of clones, backwards": lambda n: clones_of_clones(n // 3, True),
    "many pools": lambda n: many_pools(n // 4),
    "fills of a pool": lambda n: fills(n // 5),
    "custom calls": lambda n: custom_calls(n // 3, 1),
    "custom calls of 8": lambda n: custom_calls(n // 2, 8),
    "one custom call": lambda n: custom_calls(n // 2, n),
}


def measure(module: ModuleOp) -> tuple[int, int, int, float]:
    """Ops, clones removed and kept, and seconds."""
    function = next(iter(module.ops))
    assert isinstance(function, FuncOp)
    count = sum(1 for _ in function.body.block.ops)
    gc.collect()
    start = time.process_time()
    outcome = apply_plan(function, plan_clones(function))
    return count, len(outcome.removed), len(outcome.kept), time.process_time() - start


def table(programs: dict[str, Callable[[int], ModuleOp]], sizes: Sequence[int]) -> None:
    each: dict[int, float] = {}
    for name, build in programs.items():
        before: tuple[int, float] | None = None
        for size in sizes:
            count, removed, kept, seconds = measure(build(size))
            exponent = f"{math.log(seconds / before[1]) / math.log(count / before[0]):5.2f}" if before else "     "
            time_each = seconds / count * 1e6
            ratio = time_each / each.setdefault(size, time_each)
            print(
                f"{name:28s} {count:7d} ops  {removed:6d} gone {kept:6d} kept  {seconds:7.2f} s  {time_each:6.1f} us/op "
                f"{ratio:6.2f} x layers  {exponent}"
            )
            before = count, seconds


def main(largest: int = 100_000) -> None:
    gc.set_threshold(50_000, 20, 100)
    table(SPARSE, [size for size in (1_000, 10_000, 100_000) if size <= largest])
    table(DENSE, [size for size in (1_000, 4_000, 16_000) if size <= largest])


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("largest", nargs="?", type=int, default=100_000, help="ops of the largest program")
    main(options.parse_args().largest)
