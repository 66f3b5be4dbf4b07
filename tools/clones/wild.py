"""Seeded graphs of everything that can share memory: views of views and of other types, windows that overlap, lists, `out=`,
repeated results, arguments on one storage, copies under other names, stores back into arguments.

Each step is tried on real tensors as it is added, so every graph runs.
"""

from __future__ import annotations

import operator
import random
import warnings
from collections.abc import Callable
from typing import Any

import torch
from custom_ops import OPS  # pyright: ignore[reportMissingImports]
from fx_oracle import FxCase, Hand  # pyright: ignore[reportMissingImports]
from torch import fx
from torch.fx.node import map_arg

A = torch.ops.aten
SHAPES = ((2, 3), (4,), (2, 2), (3, 1, 2), (0, 2), ())


class WildMaker:
    """One graph. `values` holds what its nodes are in a run beside."""

    def __init__(self, seed: int, operations: int, clones: int):
        self.random = random.Random(seed)
        self.inputs = make_inputs(seed)
        self.hand = Hand(*[f"x{i}" for i in range(len(self.inputs))])
        self.values: dict[fx.Node, torch.Tensor] = dict(zip(self.hand.ins, self.inputs, strict=True))
        self.clones, self.number = clones, 1.25
        self.probes: list[fx.Node] = []
        kinds: tuple[Callable[[], None], ...] = (self.copy, self.view, self.write, self.pure, self.other_copy)
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(operations):
                self.random.choices(kinds, (4, 5, 4, 1, 1))[0]()
            results = [self.pick() for _ in range(self.random.randint(1, 3))]
        if self.random.random() < 0.2:
            results.append(results[0])
        self.hand.out((*results, *self.probes))

    def pick(self) -> fx.Node:
        nodes = list(self.values)
        return nodes[min(len(nodes) - 1, int(len(nodes) * self.random.random() ** 0.6))]

    def like(self, node: fx.Node) -> fx.Node:
        """Another node of the same shape and type."""
        mine = self.values[node]
        return self.random.choice(
            [n for n, t in self.values.items() if t.shape == mine.shape and t.dtype == mine.dtype]
        )

    def scalar(self) -> float:
        self.number += 0.375
        return self.number

    def add(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node | None:
        """Add a call that runs; None where PyTorch refuses it."""
        given = map_arg((args, kwargs), lambda n: self.values[n])
        try:
            value = (
                getattr(given[0][0], target)(*given[0][1:], **given[1])
                if isinstance(target, str)
                else target(*given[0], **given[1])
            )
        except (RuntimeError, ValueError, IndexError, TypeError):
            return None
        node = self.hand.m(target, *args, **kwargs) if isinstance(target, str) else self.hand.f(target, *args, **kwargs)
        if isinstance(value, (list, tuple)):
            for i, part in enumerate(value):
                self.values[self.hand.f(operator.getitem, node, i)] = part
        elif isinstance(value, torch.Tensor):
            self.values[node] = value
        return node

    def probe(self, *nodes: fx.Node) -> None:
        for node in nodes:
            flat = self.hand.f(A.reshape.default, node, [-1])
            self.probes.append(self.hand.f(A.sum.default, self.hand.f(A.cumsum.default, flat, 0)))

    def copy(self) -> None:
        if not self.clones:
            self.view()
            return
        node = self.pick()
        which = self.random.randrange(5)
        if self.random.random() < 0.2:
            node = self.overlapping(node)
        made = (
            self.add(A.clone.default, node, memory_format=torch.contiguous_format) if which == 0
            else self.add(torch.clone, node) if which == 1
            else self.add("clone", node) if which == 2
            else self.add(A.clone.default, node)
        )  # fmt: skip
        self.clones -= made is not None
        if made is not None and self.values[made].dim() and self.random.random() < 0.3:
            part = self.add(A.select.int, made, 0, 0)
            if part is not None and self.values[part].dtype.is_floating_point:
                self.add(A.add_.Tensor, part, self.scalar())
                self.probe(made, node)

    def overlapping(self, node: fx.Node) -> fx.Node:
        """A view that meets elements of the node more than once, where the node has one."""
        value = self.values[node]
        if value.dtype.is_floating_point and self.random.random() < 0.5:  # one that nobody else looks at
            node = self.add(A.mul.Tensor, node, self.scalar()) or node
        calls: tuple[tuple[Any, ...], ...] = (
            (A.expand.default, node, [2, *value.shape]), (A.unfold.default, node, 0, 2, 1),
            (A.as_strided.default, node, [2, 2], [1, 1]),
        )  # fmt: skip
        return self.add(*self.random.choice(calls)) or node

    def other_copy(self) -> None:
        node = self.pick()
        if self.random.random() < 0.2:
            node = self.overlapping(node)
        which = self.random.randrange(4)
        if which == 0:
            self.add(A._to_copy.default, node, dtype=self.values[node].dtype)
        elif which == 1:
            self.add("contiguous", node)
        elif which == 2:
            made = self.add(A.empty_like.default, node)
            if made is not None:
                self.add(A.copy_.default, made, node)
        else:
            self.add(A.reshape.default, node, [-1])

    def view(self) -> None:
        node, choose = self.pick(), self.random.randint
        value = self.values[node]
        dims, size = value.dim(), value.numel()
        dim = choose(0, max(dims - 1, 0))
        calls: tuple[tuple[Any, ...], ...] = (
            (A.t.default, node), (A.view.default, node, [-1]), (A.select.int, node, dim, choose(0, 2)),
            (A.slice.Tensor, node, dim, choose(0, 2), choose(1, 4), choose(1, 2)), (A.unsqueeze.default, node, dim),
            (A.split.Tensor, node, choose(1, 2), dim), (A.unbind.int, node, dim), (A.chunk.default, node, 2, dim),
            (A.expand.default, node, [2, *value.shape]), (A.permute.default, node, self.random.sample(range(dims), dims)),
            (A.view.dtype, node, torch.int32 if value.dtype == torch.float32 else torch.float32),
            (A.view.dtype, node, torch.float64 if value.dtype == torch.float32 else torch.float32),
            (A.as_strided.default, node, [2, 2], [1, choose(1, 2)], choose(0, 2)), (A.diagonal.default, node),
            (A.unfold.default, node, dim, min(2, size), 1), (operator.getitem, node, 0), ("view_as", node, self.like(node)),
            (A.alias.default, node), (A.detach.default, node), (A.squeeze.default, node), ("flatten", node),
        )  # fmt: skip
        self.add(*self.random.choice(calls))

    def pure(self) -> None:
        node = self.pick()
        if not self.values[node].dtype.is_floating_point:
            return
        call = self.random.choice(
            ((A.mul.Tensor, node, self.scalar()), (A.add.Tensor, node, self.like(node)), (A.sin.default, node),
             (A.cat.default, [node, self.like(node)]), (A.stack.default, [node, node]))
        )  # fmt: skip
        made = self.add(*call)
        if made is not None:
            self.probe(made)

    def write(self) -> None:
        node = self.pick()
        like, value = self.like(node), self.values[node]
        if not value.dtype.is_floating_point:
            if self.add(A.bitwise_not_.default, node) is not None:
                self.probe(node)
            return
        calls: tuple[tuple[Any, ...], ...] = (
            (A.add_.Tensor, node, self.scalar()), (A.mul_.Tensor, node, like), (A.copy_.default, node, like),
            (A.fill_.Scalar, node, self.scalar()), (OPS.scale_, node), (OPS.scale_ret_, node), (OPS.two_writes, node, like),
            (OPS.shift_all_, [node, like], self.scalar()), ("add_", node, self.scalar()), (operator.setitem, node, 0, self.scalar()),
            (operator.iadd, node, like), (A._foreach_add_.Scalar, [node, like], self.scalar()), (torch.sin_, node),
            (A.zero_.default, node),
        )  # fmt: skip
        call = self.random.choice(calls)
        if self.random.random() < 0.15:
            made = self._out(node, like)
        else:
            made = self.add(*call)
        if made is not None:
            self.probe(node, like)

    def _out(self, node: fx.Node, like: fx.Node) -> fx.Node | None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # a result that had to be resized
                return self.add(A.mul.out, like, like, out=node)
        except UserWarning:
            return None


def make_inputs(seed: int) -> list[torch.Tensor]:
    """One to three tensors, some of them windows on one storage."""
    choose = random.Random(seed + 1)
    torch.manual_seed(seed)
    inputs = [torch.rand(choose.choice(SHAPES)) + 0.5 for _ in range(choose.randint(1, 2))]
    if choose.random() < 0.4:
        storage = torch.rand(12) + 0.5
        inputs.append(storage[choose.randint(0, 3) :][:6].view(2, 3))
        if choose.random() < 0.5:
            inputs.append(storage[choose.randint(0, 6) :][:4])
    return inputs


def wild_case(seed: int, operations: int = 12, clones: int = 5) -> FxCase:
    """The graph of a seed; about half of the inputs count as donated."""
    choose = random.Random(seed + 2)
    donated = tuple(i for i in range(len(make_inputs(seed))) if choose.random() < 0.5)
    return FxCase(
        f"wild_{seed}", "clone_random", lambda: WildMaker(seed, operations, clones).hand, lambda: make_inputs(seed), "wild", "own",
        style="hand", donate=donated,
    )  # fmt: skip
