"""Seeded random graphs of views, in-place operators and clones, with everything that is computed or written among the results.

On request, some clones are of windows that overlap themselves, and are written in part.
"""

from __future__ import annotations

import random

import torch
from custom_ops import OPS  # pyright: ignore[reportMissingImports]
from fx_oracle import FxCase, Hand  # pyright: ignore[reportMissingImports]
from torch import fx

A = torch.ops.aten
SHAPES = ((2, 3), (3, 3), (4,), (2, 2))


class Maker:
    """One graph: nodes with their shapes and whether they are row-major, made op by op."""

    def __init__(self, seed: int, operations: int, clones: int, overlapping: bool = False):
        self.random = random.Random(seed)
        self.overlapping_copies = overlapping
        self.shapes = [self.random.choice(SHAPES) for _ in range(self.random.randint(1, 2))]
        self.hand = Hand(*[f"x{i}" for i in range(len(self.shapes))])
        self.pool: list[tuple[fx.Node, tuple[int, ...], bool]] = [
            (node, shape, True) for node, shape in zip(self.hand.ins, self.shapes, strict=True)
        ]
        self.clones = clones
        self.number = 1.25
        self.probes: list[fx.Node] = []
        for _ in range(operations):
            self.step()
        results = self.random.sample(self.pool, min(len(self.pool), self.random.randint(1, 3)))
        self.hand.out((*(node for node, _, _ in results), *self.probes))

    def pick(self) -> tuple[fx.Node, tuple[int, ...], bool]:
        """A node, the later the likelier."""
        return self.pool[min(len(self.pool) - 1, int(len(self.pool) * self.random.random() ** 0.6))]

    def like(self, shape: tuple[int, ...]) -> fx.Node:
        return self.random.choice([node for node, s, _ in self.pool if s == shape])

    def scalar(self) -> float:
        self.number += 0.375
        return self.number

    def step(self) -> None:
        kind = self.random.choices(("pure", "clone", "view", "write"), (2, 3, 2, 3))[0]
        if kind == "clone" and self.clones:
            self.clones -= 1
            return self.clone(*self.pick())
        if kind == "view":
            return self.view(*self.pick())
        if kind == "write":
            return self.write(*self.pick())
        return self.pure(*self.pick())

    def clone(self, node: fx.Node, shape: tuple[int, ...], dense: bool) -> None:
        overlapping = self.overlapping_copies and bool(shape) and self.random.random() < 0.2
        if overlapping:
            node, shape = self.overlapping(node, shape)
            dense = False
        if self.random.random() < 0.3:
            made = self.hand.f(A.clone.default, node, memory_format=torch.contiguous_format)
            self.pool.append((made, shape, True))
        else:
            self.pool.append((self.hand.f(A.clone.default, node), shape, dense))
        if overlapping:
            copy = self.pool[-1][0]
            if self.random.random() < 0.7:
                row = self.hand.f(A.select.int, copy, 0, self.random.randrange(shape[0]))
                self.hand.f(A.add_.Tensor, row, self.scalar())
            else:
                self.pool.pop()  # read by its probe only: other results may have its strides, for all that is known
            self.probe(copy)

    def overlapping(self, node: fx.Node, shape: tuple[int, ...]) -> tuple[fx.Node, tuple[int, ...]]:
        """A view that meets elements of the node more than once: a write to one of its copy meets them once."""
        f = self.hand.f
        if self.random.random() < 0.5:  # one that nobody else looks at
            node = f(A.mul.Tensor, node, self.scalar())
        if len(shape) == 2:
            return f(A.expand.default, f(A.slice.Tensor, node, 0, 0, 1), [2, shape[1]]), (2, shape[1])
        if shape[0] > 2 and self.random.random() < 0.5:
            return f(A.unfold.default, node, 0, 2, 1), (shape[0] - 1, 2)
        return f(A.expand.default, node, [2, shape[0]]), (2, shape[0])

    def pure(self, node: fx.Node, shape: tuple[int, ...], dense: bool) -> None:
        self.compute(node, shape, dense)
        self.probe(self.pool[-1][0])

    def probe(self, node: fx.Node) -> None:
        """What is computed or written is also seen: brute force knows by values only whether a read matters."""
        weighed = self.hand.f(A.cumsum.default, node, 0)
        self.probes.append(self.hand.f(A.sum.default, weighed))

    def compute(self, node: fx.Node, shape: tuple[int, ...], dense: bool) -> None:
        f = self.hand.f
        which = self.random.randrange(4)
        if which == 0:
            self.pool.append((f(A.mul.Tensor, node, self.scalar()), shape, dense))
        elif which == 1:
            self.pool.append((f(A.add.Tensor, node, self.like(shape)), shape, False))
        elif which == 2:
            self.pool.append((f(A.cumsum.default, node, 0), shape, dense))
        else:
            self.pool.append((f(A.sin.default, node), shape, dense))

    def view(self, node: fx.Node, shape: tuple[int, ...], dense: bool) -> None:
        f, random_ = self.hand.f, self.random
        which = random_.randrange(4)
        if not shape:
            return
        if which == 0 and len(shape) == 2:
            self.pool.append((f(A.t.default, node), shape[::-1], False))
        elif which == 1 and dense:
            self.pool.append((f(A.view.default, node, [-1]), (shape[0] * (shape[1] if len(shape) > 1 else 1),), True))
        elif which == 2 and len(shape) == 2:
            dim = random_.randrange(2)
            row = f(A.select.int, node, dim, random_.randrange(shape[dim]))
            self.pool.append((row, (shape[1 - dim],), dense and dim == 0))
        else:
            start = random_.randrange(shape[0])
            end = random_.randint(start + 1, shape[0])
            self.pool.append((f(A.slice.Tensor, node, 0, start, end), (end - start, *shape[1:]), dense))

    def write(self, node: fx.Node, shape: tuple[int, ...], dense: bool) -> None:
        self.change(node, shape, dense)
        self.probe(node)

    def change(self, node: fx.Node, shape: tuple[int, ...], dense: bool) -> None:
        f, like = self.hand.f, self.like(shape)
        which = self.random.randrange(7)
        # Writes that put back what was there would be luck: a copy onto itself, the reverse of one row.
        if which == 2 and like is node or which == 3 and (like is node or not shape or shape[0] == 1):
            which = 0
        if which == 0:
            f(A.add_.Tensor, node, self.scalar())
        elif which == 1:
            f(A.mul_.Tensor, node, like)
        elif which == 2:
            f(A.copy_.default, node, like)
        elif which == 3:
            f(OPS.reverse_into, node, like)
        elif which == 4:
            f(OPS.scale_, node)
        elif which == 5:
            f(OPS.two_writes, node, like)
            self.probe(like)
        else:
            self.pool.append((f(A.add_.Tensor, node, like, alpha=1.5), shape, dense))


def random_case(seed: int, operations: int = 12, clones: int = 5, overlapping: bool = False) -> FxCase:
    """The graph of a seed; about half of the inputs count as donated."""

    def maker() -> Maker:
        return Maker(seed, operations, clones, overlapping)

    shapes = maker().shapes
    choose = random.Random(seed + 1)
    donated = tuple(i for i in range(len(shapes)) if choose.random() < 0.5)

    def inputs() -> tuple[torch.Tensor, ...]:
        torch.manual_seed(seed)
        return tuple(torch.rand(shape) + 0.5 for shape in shapes)

    return FxCase(
        f"random_{seed}", "clone_random", lambda: maker().hand, inputs, "random", "own", style="hand",
        donate=donated,
    )  # fmt: skip
