"""Clone elimination on random programs: what runs afterwards is right, and as many clones are gone as brute force finds.

The oracle of the tests judges (`tests/cases/fx_oracle.py`): values, strides, memory of inputs, sharing, on two calls, and no
operator may newly get overlapping operands of which it writes one. Brute force tries every set of clones, the largest first.
"""

from __future__ import annotations

import copy
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from compiler.integrations.fx_clones import eliminate_clones
from tools.fuzz.generate import Options
from tools.fuzz.observe import bytes_of_storage, strides_of, values
from tools.fuzz.program import DTYPES, Program
from tools.fuzz.unknown import Unknown
from tools.fuzz.verdict import Verdict, general

sys.path[:0] = [str(Path(__file__).parents[2] / "tests" / "cases")]

from fx_oracle import (  # noqa: E402  # pyright: ignore[reportMissingImports]
    FxCase,
    annotate,
    best_removal,
    check_clone_removal,
    drop_clones,
    is_clone_node,
)

_DISTANCE = 64
"""Bytes by which `_elsewhere` moves arguments."""

MOST_CLONES = 5
"""Brute force judges 2 to the power of the number of clones."""


@dataclass(frozen=True)
class Clones:
    """See the module's text."""

    def contents(self, options: Options) -> Options:
        # The oracle adds to floating-point arguments for a second call, which PyTorch cannot with 8 bits.
        return replace(
            options,
            clones=True,
            flat=True,
            order_dependent=0.0,
            dtypes=tuple(d for d in DTYPES if not d.startswith("f8")),
        )

    def is_refused(self, program: Program) -> bool:
        return False

    def judge(self, program: Program) -> Verdict:
        case = case_of(program)
        for donated in sorted({(), case.donate}):
            graph = case.build()
            report = eliminate_clones(graph, case.inputs(), donated=donated, objective="count")
            graph.graph.lint()
            verdict = check_clone_removal(case, graph, donated)
            where = f"donated {donated}: "
            if errors := _errors(case, graph, verdict):
                return Verdict("wrong", general(errors[0]), where + "\n".join([*errors, str(report.removed)]))
            if verdict.info["clones_before"] > MOST_CLONES:
                continue
            removed = verdict.info["removed"]
            if better := _better_removal(case, donated, removed):
                detail = f"{where}{removed} of {len(better)}, clones {better} can go\n{report.render()}\n{case.build().graph}"
                return Verdict("missed", general(report.render()), detail)
        return Verdict("agreed")


def _better_removal(case: FxCase, donated: tuple[int, ...], removed: int) -> list[int]:
    """A set of more clones than `removed` that can go whatever the operators do; empty when there is none."""
    count, _, total = best_removal(case, donated)
    for size in range(count, removed, -1):
        for chosen in combinations(range(total), size):
            if _same(case, chosen, donated) and _same_for_unknown_operators(case, chosen, donated):
                return list(chosen)
    return []


def _same(case: FxCase, chosen: Sequence[int], donated: tuple[int, ...]) -> bool:
    try:
        graph = drop_clones(case.build(), chosen)
        return not _errors(case, graph, check_clone_removal(case, graph, donated))
    except RuntimeError:
        return False


def _errors(case: FxCase, graph: fx.GraphModule, verdict: Any) -> list[str]:
    """What the oracle objects to, but for strides of unit dimensions and of empty results, which say nothing."""
    if not any(error.endswith("result strides differ") for error in verdict.errors):
        return verdict.errors
    mine, theirs = (
        [strides_of(t) for t in module(*case.inputs()) if isinstance(t, torch.Tensor)]
        for module in (case.build(), graph)
    )
    return verdict.errors if mine != theirs else [e for e in verdict.errors if not e.endswith("result strides differ")]


def _same_for_unknown_operators(case: FxCase, chosen: Sequence[int], donated: tuple[int, ...]) -> bool:
    """Whether results, and inputs that are not donated, end the same when operators are unknown functions, and inputs
    elsewhere in their storages.

    An operator of somebody else may not newly get memory twice, once to write it. No operator but a pointwise one may make
    results of operands with other strides."""
    for integers in (True, False):
        try:
            right, got = (
                _run(graph, case, donated, integers) for graph in (case.build(), drop_clones(case.build(), chosen))
            )
        except (RuntimeError, IndexError):
            continue  # an integer was an index
        return right[0] == got[0] and got[1] <= right[1] and got[2] == right[2]
    return True


def _elsewhere(arguments: Sequence[Any]) -> list[Any]:
    """Copies of arguments, further on in their storages: a graph is made for strides, not for one place."""
    storages: dict[int, torch.Tensor] = {}
    moved: list[Any] = []
    for argument in arguments:
        if not isinstance(argument, torch.Tensor):
            moved.append(argument)
            continue
        old = argument.untyped_storage()
        if old._cdata not in storages:
            all_bytes = torch.empty(0, dtype=torch.uint8).set_(old)
            storages[old._cdata] = torch.cat([torch.zeros(_DISTANCE, dtype=torch.uint8), all_bytes])
        place = argument.storage_offset() + _DISTANCE // argument.itemsize
        fresh = torch.empty(0, dtype=argument.dtype)
        moved.append(fresh.set_(storages[old._cdata].untyped_storage(), place, argument.size(), argument.stride()))
    return moved


def _run(
    graph: fx.GraphModule, case: FxCase, donated: tuple[int, ...], integers: bool
) -> tuple[list[bytes], int, list[Any]]:
    arguments, unknown = _elsewhere(case.inputs()), Unknown(integers)
    with torch.no_grad(), unknown:
        results = graph(*arguments)
    kept = [bytes_of_storage(t) for n, t in enumerate(arguments) if n not in donated]
    return [*(values(t)[0] for t in results if isinstance(t, torch.Tensor)), *kept], unknown.doubled, unknown.layouts


class _Case(FxCase):
    """A case with its graph, of which it gives copies."""

    def build(self) -> fx.GraphModule:
        return copy.deepcopy(self.extra["graph"])


def case_of(program: Program) -> FxCase:
    """The program's graph of ATen calls, with probes; about half of the inputs count as donated."""
    choose = random.Random(program.seed)
    donate = tuple(n for n in range(len(program.arguments)) if choose.random() < 0.5)
    with torch.no_grad():
        graph = make_fx(program.function(), tracing_mode="fake")(*program.make_arguments())
    _probe(graph)
    annotate(graph, program.make_arguments())
    return _Case(
        f"fuzz_{program.seed}", "clone_random", program.function(), program.make_arguments, "random", "own",
        donate=donate, extra={"graph": graph},
    )  # fmt: skip


def _probe(graph: fx.GraphModule) -> None:
    """Whatever is computed or written is also seen, at once: brute force knows by values only whether a read matters."""
    probes: list[fx.Node] = []
    output = next(node for node in reversed(graph.graph.nodes) if node.op == "output")
    for node in list(graph.graph.nodes):
        if not isinstance(node.target, OpOverload) or is_clone_node(node):
            continue
        for tensor in _changed(node):
            with graph.graph.inserting_after(node):
                probes.append(graph.graph.call_function(torch.ops.aten.flip.default, (tensor, [])))
    results = [] if output.args[0] is None else pytree.tree_leaves(output.args[0])
    output.args = ((*results, *probes),)
    graph.recompile()


def _is_uninitialised(node: fx.Node) -> bool:
    return isinstance(node.target, OpOverload) and node.target._schema.name.split("::")[1].startswith(
        ("empty", "new_empty")
    )


def _changed(node: fx.Node) -> list[fx.Node]:
    """The tensors that a call writes, or the new one that it makes, or the view whose place is not counted from its operand."""
    assert isinstance(node.target, OpOverload)
    found: list[fx.Node] = []
    for number, formal in enumerate(node.target._schema.arguments):
        if formal.alias_info is not None and formal.alias_info.is_write:
            given = node.args[number] if number < len(node.args) else node.kwargs.get(formal.name)
            found += [leaf for leaf in pytree.tree_leaves(given) if isinstance(leaf, fx.Node)]
    fresh = all(r.alias_info is None for r in node.target._schema.returns) and not _is_uninitialised(node)
    fresh |= node.target is torch.ops.aten.as_strided.default
    return found + ([node] if fresh and isinstance(node.meta.get("val"), torch.Tensor) else [])
