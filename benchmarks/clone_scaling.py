"""Clone elimination as programs grow: time per op at 1k, 10k and 100k ops with 10% clones, and the exponent.

PYTHONPATH=. python benchmarks/clone_scaling.py [largest]
"""

from __future__ import annotations

import argparse
import gc
import math
import time

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


def measure(module: ModuleOp) -> tuple[int, int, int, float]:
    """Ops, clones removed and kept, and seconds."""
    function = next(iter(module.ops))
    assert isinstance(function, FuncOp)
    count = sum(1 for _ in function.body.block.ops)
    gc.collect()
    start = time.process_time()
    outcome = apply_plan(function, plan_clones(function))
    return count, len(outcome.removed), len(outcome.kept), time.process_time() - start


def main(largest: int = 100_000) -> None:
    gc.set_threshold(50_000, 20, 100)
    for name, build in (
        ("layers", layers),
        ("one pool", lambda n: one_pool(n // 10)),
        ("chain", lambda n: chain(n // 10)),
    ):
        before: tuple[int, float] | None = None
        size = 1_000
        while size <= largest:
            count, removed, kept, seconds = measure(build(size))
            exponent = f"{math.log(seconds / before[1]) / math.log(count / before[0]):5.2f}" if before else "     "
            each = seconds / count * 1e6
            print(
                f"{name:9s} {count:7d} ops  {removed:6d} gone {kept:6d} kept  {seconds:7.2f} s  {each:6.1f} us/op  {exponent}"
            )
            before = count, seconds
            size *= 10


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("largest", nargs="?", type=int, default=100_000, help="ops of the largest program")
    main(options.parse_args().largest)
