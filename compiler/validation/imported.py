"""Import keeps what the captured graph computes: FX runs the graph, and handles run beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from compiler.errors import CompileError, ValidationError
from compiler.frontend.inputs import Captured
from compiler.program import Program
from compiler.validation.answers import Answers
from compiler.validation.inputs import Arguments, copies
from compiler.validation.observe import compare, observed, seeded


def suitable(captured: Captured, imported: Program, rounds: Sequence[Arguments]) -> list[Arguments]:
    """The arguments that the captured graph runs on, checked on each.

    A graph may hold checks of its data that are no part of the program, such as that a factorisation exists: arguments
    which fail one are no inputs of the program.

    Raises:
        ValidationError: the graph and its import do different things.
        CompileError: the graph runs on none of the arguments.
    """
    kept: list[Arguments] = []
    reason: Exception | None = None
    for arguments in rounds:
        try:
            check_import(captured, imported, arguments)
        except (CompileError, MemoryError):
            raise
        except Exception as error:
            reason = error
            continue
        kept.append(arguments)
    if not kept:
        raise CompileError(
            f"the program cannot be validated, it fails on its example inputs: {type(reason).__name__}: {reason}",
            hint="give example inputs that it runs on",
        )
    return kept


def check_import(captured: Captured, imported: Program, arguments: Sequence[torch.Tensor]) -> None:
    """Raise ValidationError if the graph and its import do different things on these arguments."""
    own = copies(arguments)
    given = {argument.name: tensor for argument, tensor in zip(imported.arguments, own, strict=True)}
    inputs = [given.get(i.name, i.tensor) if i.tensor is not None else i.constant for i in captured.inputs]
    held = {id(tensor): given[name] for name, tensor in imported.state.items()}
    with torch.no_grad(), seeded(), _replaced(captured.graph, held), Answers():
        outputs = pytree.tree_leaves(captured.graph(*inputs), is_leaf=lambda x: x is None)
        updates = [(inputs[target], outputs[source]) for target, source in captured.updates]
        for (target, _), value in zip(updates, [v.clone() for _, v in updates], strict=True):
            target.copy_(value)
    wanted = [leaf.index for leaf in captured.out_leaves if leaf.is_tensor] + list(captured.rebound.values())
    tensors = [outputs[n] for n in wanted if isinstance(outputs[n], torch.Tensor)]
    if found := compare(imported.module, arguments, observed(tensors, own), imported.left).found:
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


__all__ = ["check_import", "suitable"]
