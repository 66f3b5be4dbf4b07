"""Clone elimination as vLLM's pass manager calls its passes: a drop-in for its clone elimination pass.

vLLM is not imported. A donated input counts only when the placeholder it was recorded for is found again: positions in
one graph say nothing about another graph.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import operator
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch._functorch._aot_autograd.descriptors import PlainAOTInput
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx.node import map_arg

import compiler
import dialects
from compiler.integrations import fx_clones, fx_import
from compiler.integrations.fx_clones import CloneReport, eliminate_clones
from compiler.remarks import Remark, Site

log = logging.getLogger(__name__)

DONATION = "donated_as"
"""Key in a placeholder's metadata that carries its donation along, for hosts that keep metadata of placeholders."""


@dataclass(frozen=True)
class Donation:
    """The placeholder that was donated: its name, which of the graph's placeholders it was, and a mark that no other has."""

    name: str
    position: int
    mark: str = field(default_factory=lambda: uuid.uuid4().hex, repr=False, compare=False)


@dataclass
class PassContext:
    """What passes of one compilation share. `donated_input_ids` are node positions, as vLLM's context has them.

    `donations` holds the placeholder that each id was recorded for.
    """

    donated_input_ids: set[int] = field(default_factory=set)
    donations: dict[int, Donation] = field(default_factory=dict)

    def donate(self, node: fx.Node) -> None:
        """Record that the caller gives up the memory of a placeholder."""
        nodes = list(node.graph.nodes)
        identity, inputs = nodes.index(node), [n for n in nodes if n.op == "placeholder"]
        donation = self.donations[identity] = Donation(node.name, inputs.index(node))
        node.meta[DONATION] = donation.mark
        self.donated_input_ids.add(identity)


class CloneEliminationPass:
    """Removes copies that nothing can tell from their source from a post-grad graph.

    Args:
        config: vLLM's configuration; kept for hosts that hand it to every pass.
        context: a `PassContext`, or any object with `donated_input_ids` (and `donations`, to have them honoured).
        dump: called with (stage name, graph text) before and after.
        overwrites: per operator the parameters of which it writes every element without looking at one.
    """

    name = "clone_elimination"

    def __init__(
        self,
        config: Any = None,
        context: Any = None,
        dump: Callable[[str, str], None] | None = None,
        index: int = 0,
        overwrites: Mapping[OpOverload, Sequence[str]] = fx_clones.NOTHING,
    ) -> None:
        self.config, self.context, self.dump, self.index = config, context, dump, index
        self.overwrites = {operator: tuple(names) for operator, names in fx_clones.declared(overwrites).items()}
        self.report: CloneReport | None = None
        self.milliseconds = 0.0

    def __call__(self, graph: fx.Graph) -> None:
        start = time.perf_counter()
        self._show("before", graph)
        try:
            donated, doubts = self._donated(graph)
            report = eliminate_clones(graph, donated=donated, overwrites=self.overwrites)
            self.report = CloneReport(report.removed, (*report.kept, *doubts), report.bytes_saved)
            for remark in self.report.kept:
                log.debug("%s", remark)
        finally:
            self._show("after", graph)
            self.milliseconds = (time.perf_counter() - start) * 1000
            log.debug("%s took %.1f ms", self.name, self.milliseconds)

    def __getstate__(self) -> dict[str, Any]:
        """Operators do not pickle: their names do."""
        return {**self.__dict__, "overwrites": {str(operator): names for operator, names in self.overwrites.items()}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        named: dict[str, tuple[str, ...]] = state["overwrites"]
        self.__dict__.update(state, overwrites={_operator(name): parameters for name, parameters in named.items()})

    def uuid(self) -> str:
        """What a compilation cache must tell apart: the code, what is declared, and what is donated."""
        text = hashlib.sha256(_code().encode())
        text.update(repr(sorted((str(operator), tuple(names)) for operator, names in self.overwrites.items())).encode())
        donations = getattr(self.context, "donations", {})
        for identity in sorted(self._ids()):
            text.update(f"{identity} {donations.get(identity)}".encode())
        return text.hexdigest()

    def _show(self, stage: str, graph: fx.Graph) -> None:
        if self.dump is not None:
            self.dump(f"post_grad.{self.index}.{self.name}.{stage}", str(graph))

    def _ids(self) -> Iterable[int]:
        return getattr(self.context, "donated_input_ids", None) or ()

    def _donated(self, graph: fx.Graph) -> tuple[list[fx.Node], list[Remark]]:
        """The placeholders that are donated for certain, and a remark for each id that is not verified."""
        inputs = [node for node in graph.nodes if node.op == "placeholder"]
        donations: dict[int, Donation] = getattr(self.context, "donations", {})
        found: list[fx.Node] = []
        doubts: list[Remark] = []
        for identity in sorted(self._ids()):
            node = _recorded(donations.get(identity), inputs)
            if node is None:
                reason = f"donated input {identity} counts as not donated: no placeholder can be verified to be it"
                doubts.append(Remark(Site("placeholder"), 0, reason))
            else:
                found.append(node)
        return found, doubts


def _operator(name: str) -> OpOverload:
    namespace, packet, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload)


@functools.cache
def _code() -> str:
    """A digest of everything that may decide on a copy."""
    text = hashlib.sha256()
    for package in (compiler, dialects):
        for path in sorted(Path(str(package.__file__)).parent.rglob("*.py")):
            text.update(path.read_bytes())
    return text.hexdigest()


class UnsafeCloneEliminationPass(CloneEliminationPass):
    """The name the incumbent has; there is nothing unsafe about this one."""


def _recorded(donation: Donation | None, inputs: list[fx.Node]) -> fx.Node | None:
    """The one placeholder that a donation was recorded for: by its mark, or by what AOTAutograd says it is.

    A name or a position says nothing: AOTAutograd names inputs anew, in another order.
    """
    if donation is None:
        return None
    found = [node for node in inputs if node.meta.get(DONATION) == donation.mark]
    if not found:
        described = [(node, node.meta.get("desc")) for node in inputs]
        found = [node for node, desc in described if isinstance(desc, PlainAOTInput) and desc.idx == donation.position]
    return found[0] if len(found) == 1 else None


# -- the incumbent's helpers, with the right answers ---------------------------------------------


def get_node_storage(node: fx.Node) -> int | None:
    """An identity of the storage that the node's metadata lies in, or None when there is none."""
    value = next((node.meta[key] for key in fx_import.METADATA if key in node.meta), None)
    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else None


def clone_preserves_layout(clone: fx.Node, source: fx.Node) -> bool:
    """Whether the copy is laid out as its source; strides of dimensions of size 1 do not count. Unknown: no."""
    values = [next((n.meta[key] for key in fx_import.METADATA if key in n.meta), None) for n in (clone, source)]
    copy, original = values
    if not isinstance(copy, torch.Tensor) or not isinstance(original, torch.Tensor) or copy.dtype != original.dtype:
        return False
    if copy.shape != original.shape or (copy.is_conj(), copy.is_neg()) != (original.is_conj(), original.is_neg()):
        return False
    return all(a == b for a, b, size in zip(copy.stride(), original.stride(), copy.shape, strict=True) if size != 1)


_IN_PLACE = frozenset(
    {operator.setitem, operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv, operator.imod,
     operator.ipow, operator.iand, operator.ior, operator.ixor, operator.ilshift, operator.irshift, operator.imatmul}
)  # fmt: skip


def user_writes_to_node(user: fx.Node, node: fx.Node) -> bool:
    """Whether the user may write memory that it gets from this operand, lists and keywords included. Unknown: yes."""
    if user.op == "output":
        return False
    target = user.target
    if isinstance(target, OpOverload):
        formal = target._schema.arguments
        actual = [
            *zip(formal, user.args, strict=False),
            *((a, user.kwargs[a.name]) for a in formal if a.name in user.kwargs),
        ]
        return any(a.alias_info is not None and a.alias_info.is_write and _holds(value, node) for a, value in actual)
    if isinstance(target, HigherOrderOperator):
        if target.name() == "triton_kernel_wrapper_functional":
            return False
        if target.name() == "auto_functionalized" and user.args and isinstance(user.args[0], OpOverload):
            # In place again before it runs.
            written = {
                a.name for a in user.args[0]._schema.arguments if a.alias_info is not None and a.alias_info.is_write
            }
            return any(_holds(value, node) for name, value in user.kwargs.items() if name in written)
        table = user.kwargs.get("operand_output_aliases")
        if isinstance(table, dict) and isinstance(user.kwargs.get("args"), (list, tuple)):
            return any(user.kwargs["args"][int(position)] is node for position in table)  # type: ignore[index]
        return True
    if user.op == "call_method":
        name = str(target)
        return name.endswith("_") and not name.endswith("__") and _holds(user.args[:1], node)
    if target in _IN_PLACE:
        return _holds(user.args[:1], node)
    if target is operator.getitem:
        return False
    if user.op == "call_function" and getattr(target, "__module__", "").startswith(("torch", "_operator")):
        name = getattr(target, "__name__", "")
        first = (name.endswith("_") and not name.endswith("__")) or user.kwargs.get("inplace") is True
        return (first and _holds(user.args[:1], node)) or _holds(user.kwargs.get("out"), node)
    return True


def _holds(value: Any, node: fx.Node) -> bool:
    found: list[fx.Node] = []
    map_arg(value, found.append)
    return node in found


def would_alias_graph_io(clone: fx.Node, source: fx.Node) -> bool:
    """Whether a result would share memory with an input or another result if the copy were its source. Unknown: yes."""
    mine, theirs = get_node_storage(clone), get_node_storage(source)
    if mine is None or theirs is None:
        return True
    output = next(node for node in clone.graph.nodes if node.op == "output")
    results = {get_node_storage(node) for node in output.all_input_nodes}
    inputs = {get_node_storage(node) for node in clone.graph.nodes if node.op in ("placeholder", "get_attr")}
    return None in results or (mine in results and (theirs in results or theirs in inputs))
