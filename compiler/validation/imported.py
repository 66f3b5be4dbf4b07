"""Import keeps what the captured graph computes: FX runs the graph, and handles run beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from compiler.errors import ValidationError
from compiler.frontend.inputs import Captured
from compiler.program import Program
from compiler.validation.inputs import copies
from compiler.validation.observe import SEED, difference, observe, observed


def check_import(captured: Captured, imported: Program, arguments: Sequence[torch.Tensor]) -> None:
    """Raise ValidationError if the graph and its import do different things on these arguments."""
    own = copies(arguments)
    given = {argument.name: tensor for argument, tensor in zip(imported.arguments, own, strict=True)}
    inputs = [given.get(i.name, i.tensor) if i.tensor is not None else i.constant for i in captured.inputs]
    held = {id(tensor): given[name] for name, tensor in imported.state.items()}
    with torch.no_grad(), torch.random.fork_rng(devices=[]), _replaced(captured.graph, held):
        torch.manual_seed(SEED)
        outputs = pytree.tree_leaves(captured.graph(*inputs), is_leaf=lambda x: x is None)
        updates = [(inputs[target], outputs[source]) for target, source in captured.updates]
        for (target, _), value in zip(updates, [v.clone() for _, v in updates], strict=True):
            target.copy_(value)
    wanted = [leaf.index for leaf in captured.out_leaves if leaf.is_tensor] + list(captured.rebound.values())
    tensors = [outputs[n] for n in wanted if isinstance(outputs[n], torch.Tensor)]
    if found := difference(observed(tensors, own), observe(imported.module, arguments)):
        raise ValidationError(
            f"the imported program does something else than the captured graph: {found.text}", pass_name="import",
            hint="this is a fault of the compiler; report it with the program",
        )  # fmt: skip


@contextmanager
def _replaced(graph: fx.GraphModule, held: dict[int, torch.Tensor]) -> Iterator[None]:
    """The graph with the tensors it holds replaced, by identity."""
    before: list[tuple[Any, str, Any]] = []
    for node in graph.graph.nodes:
        if node.op != "get_attr":
            continue
        *path, name = str(node.target).split(".")
        owner: Any = graph
        for part in path:
            owner = getattr(owner, part)
        value = getattr(owner, name)
        if id(value) in held:
            table = next(t for t in (owner._parameters, owner._buffers, owner.__dict__) if name in t)
            before.append((table, name, value))
            table[name] = held[id(value)]
    try:
        yield
    finally:
        for table, name, value in reversed(before):
            table[name] = value


__all__ = ["check_import"]
