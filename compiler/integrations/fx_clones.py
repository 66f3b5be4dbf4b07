"""Clone elimination on a caller's FX graph: nodes that need not be are gone, nothing else changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import BuiltinFunctionType, MappingProxyType, MethodDescriptorType, WrapperDescriptorType
from typing import Any, Literal, get_args

import torch
from torch import fx
from torch._ops import OpOverload, OpOverloadPacket
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree
from xdsl.ir import Operation, SSAValue

from compiler.analysis.clone_plan import Objective, plan_clones
from compiler.analysis.copies import COPIES
from compiler.analysis.interference import Copy
from compiler.analysis.layout import same_strides
from compiler.errors import CompileError
from compiler.frontend.forms import Handle
from compiler.frontend.schemas import facts
from compiler.frontend.sources import node_source
from compiler.integrations.fx_import import METADATA, Imported, import_host_graph, parameter_operands
from compiler.integrations.fx_layouts import pointwise_result_stays
from compiler.remarks import Remark, Site, render
from compiler.transforms.eliminate_clones import apply_plan
from compiler.transforms.hoist_reads import plan_with_hoisting
from dialects.alias import effects
from dialects.calls import HandleCall
from dialects.fx import ConstantOp
from dialects.types import geometry

Form = Literal["text", "json", "yaml"]

Edit = tuple[tuple[fx.Node, fx.Node], ...]

NOTHING: Mapping[OpOverload, Sequence[str]] = MappingProxyType({})

CLONES: tuple[Any, ...] = (torch.ops.aten.clone.default, torch.ops.aten.clone, torch.clone, "clone")
"""Targets of nodes that are copies whatever their operand is."""


@dataclass(frozen=True)
class CloneReport:
    """What happened to the copies of a graph.

    Attributes:
        removed: names of the nodes that are gone: copies, and stores of a value into its own memory.
        kept: a remark for each copy that stays.
        bytes_saved: bytes that the removed copies would have moved.
    """

    removed: tuple[str, ...]
    kept: tuple[Remark, ...]
    bytes_saved: int

    def render(self, form: Form = "text") -> str:
        """The remarks, as `compiler-opt --remarks` prints them."""
        if form not in get_args(Form):
            raise CompileError(f"a report has no form {form!r}", hint=f"use one of {', '.join(get_args(Form))}")
        return render(self.kept, form)


def eliminate_clones(
    gm_or_graph: fx.GraphModule | fx.Graph,
    example_inputs: Sequence[Any] | None = None,
    *,
    donated: Iterable[int | str | fx.Node] = (),
    objective: Objective = "bytes",
    hoist_reads: bool = False,
    overwrites: Mapping[OpOverload, Sequence[str]] = NOTHING,
) -> CloneReport:
    """Remove from a graph the copies that nothing can tell from their source.

    Args:
        gm_or_graph: edited in place.
        example_inputs: one per placeholder; without them, `meta["val"]` or `meta["example_value"]` of the placeholders.
        donated: placeholders, by position, name or node, whose memory the caller gives up.
        objective: save most bytes, or remove most copies.
        hoist_reads: move nodes that only read above a write where that frees a copy.
        overwrites: per operator the parameters of which it writes every element without looking at one; a schema says
            only that they are written.

    Raises:
        CompileError: an argument is not what is asked for. A graph that cannot be judged raises nothing: all copies stay.
    """
    if not isinstance(gm_or_graph, fx.GraphModule | fx.Graph):
        raise CompileError(
            f"eliminate_clones got {_kind(gm_or_graph)}, not a graph",
            hint="give a torch.fx.GraphModule or torch.fx.Graph",
        )
    if objective not in get_args(Objective):
        raise CompileError(
            f"eliminate_clones has no objective {objective!r}", hint=f"use one of {', '.join(get_args(Objective))}"
        )
    overwrites = declared(overwrites)
    graph = gm_or_graph.graph if isinstance(gm_or_graph, fx.GraphModule) else gm_or_graph
    names = _names(graph, donated)
    _check_inputs(graph, example_inputs)
    try:
        imported = import_host_graph(graph, example_inputs, names)
    except CompileError as error:
        return CloneReport((), tuple(_unjudged(node, error) for node in graph.nodes if node.target in CLONES), 0)

    _declare(imported, overwrites)

    def objection(op: HandleCall, source: SSAValue, result: SSAValue) -> str:
        return _objection(op, source, result, imported)

    def unit(op: Operation) -> object:
        return imported.node_of.get(op, op)

    if hoist_reads:
        plan, moves = plan_with_hoisting(
            imported.function,
            objective,
            objection,
            lambda op: _node_is(op, imported) and not imported.reshaped,
            pointwise_result_stays,
            unit,
        )
        for move in moves:
            for op in move.ops:
                imported.node_of[move.before].prepend(imported.node_of[op])
    else:
        plan = plan_clones(imported.function, objective, objection, pointwise_result_stays, unit)
    editor = _Editor(graph, imported)
    edits = [editor.edit(copy) for copy in plan.removed]
    outcome = apply_plan(imported.function, plan)
    for edit in edits:
        editor.remove(edit)
    for op in outcome.dropped:
        node = imported.node_of.get(op)
        if node is not None and imported.ops_of[node] == [op]:
            editor.remove(((node, node.all_input_nodes[0]),))
    editor.finish()
    if isinstance(gm_or_graph, fx.GraphModule):
        gm_or_graph.recompile()
    mine = tuple(remark for op, remark in outcome.kept if op in imported.node_of)
    return CloneReport(tuple(editor.removed), mine, outcome.bytes_saved)


def declared(overwrites: Mapping[OpOverload, Sequence[str]]) -> Mapping[OpOverload, Sequence[str]]:
    """What is declared to be overwritten, checked: operators, each with names of parameters that its schema marks as written."""
    hint = 'give {operator: ("parameter", ...)}, as in {torch.ops.library.op.default: ("out",)}'
    if not isinstance(overwrites, Mapping):
        raise CompileError(f"overwrites is {_kind(overwrites)}, not a mapping", hint=hint)
    for operator, names in overwrites.items():
        if not isinstance(operator, OpOverload):
            raise CompileError(f"overwrites: {operator!r} is {_kind(operator)}, not an operator overload", hint=hint)
        if isinstance(names, str) or not isinstance(names, Iterable) or not all(isinstance(n, str) for n in names):
            raise CompileError(
                f"overwrites: what {operator} overwrites is {names!r}, not names of parameters", hint=hint
            )
        form = facts(operator)
        unknown = [name for name in names if name not in form.by_name or not form.by_name[name].writes]
        if unknown:
            raise CompileError(
                f"{form.name} does not write {unknown[0]!r}", hint="name parameters that its schema marks as written"
            )
    return overwrites


def _declare(imported: Imported, overwrites: Mapping[OpOverload, Sequence[str]]) -> None:
    """Take the reads of operands that are overwritten from the effects of these operators."""
    forms = {facts(operator).name: (facts(operator), names) for operator, names in overwrites.items()}
    for op in imported.node_of if forms else ():
        if isinstance(op, HandleCall) and op.target.data in forms:
            form, names = forms[op.target.data]
            operands = parameter_operands(op, form)
            unread = {operands[name] for name in names if name in operands}
            op.properties["effects"] = effects(set(op.effects.reads() or ()) - unread, op.effects.writes() or ())


def _kind(value: object) -> str:
    """The type of a value that should have been another, with its article."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _names(graph: fx.Graph, donated: Iterable[int | str | fx.Node]) -> list[str]:
    """Names of the donated placeholders."""
    if isinstance(donated, str | fx.Node) or not isinstance(donated, Iterable):
        raise CompileError(f"donated is {_kind(donated)}, not a sequence", hint=f"give donated=({donated!r},)")
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    by_name = {node.name: node for node in placeholders}
    names: list[str] = []
    for which in donated:
        found = None
        if isinstance(which, fx.Node):
            found = which if which in placeholders else None
        elif isinstance(which, str):
            found = by_name.get(which)
        elif isinstance(which, int) and not isinstance(which, bool) and 0 <= which < len(placeholders):
            found = placeholders[which]
        if found is None:
            last = len(placeholders) - 1
            known = (
                f"name, node or position (0 to {last}) of {', '.join(by_name)}"
                if by_name
                else "nothing: it has no inputs"
            )
            raise CompileError(f"donated: the graph has no placeholder {which!r}", hint=f"give {known}")
        names.append(found.name)
    return names


def _check_inputs(graph: fx.Graph, example_inputs: Sequence[Any] | None) -> None:
    if example_inputs is None:
        return
    if not isinstance(example_inputs, Sequence):
        raise CompileError(
            f"example_inputs is {_kind(example_inputs)}, not a sequence", hint="give one value for each placeholder"
        )
    names = [node.name for node in graph.nodes if node.op == "placeholder"]
    if len(example_inputs) != len(names):
        raise CompileError(
            f"the graph has {len(names)} inputs, {len(example_inputs)} were given",
            hint=f"give one value for each of {', '.join(names)}" if names else "give ()",
        )


def _unjudged(node: fx.Node, error: CompileError) -> Remark:
    return Remark(Site(str(node.target), node.name, str(node_source(node) or "")), 0, error.message)


def _input(node: fx.Node, value: SSAValue, imported: Imported) -> fx.Node | None:
    """The input of a node that evaluates to a handle."""
    for source in node.all_input_nodes:
        handle = imported.env[source]
        if isinstance(handle, Handle) and handle.value is value:
            return source
    return None


def _node_is(op: Operation, imported: Imported) -> bool:
    """Whether the op is all of its node."""
    node = imported.node_of.get(op)
    return node is not None and imported.ops_of[node] == [op]


def _objection(op: HandleCall, source: SSAValue, result: SSAValue, imported: Imported) -> str:
    """Why a copy cannot be taken out of the graph, or ""."""
    maker = result.owner
    for part in (op, maker):
        if not isinstance(part, Operation) or not _node_is(part, imported):
            return "it is a part of what its node does"
        if not isinstance(imported.env[imported.node_of[part]], Handle):
            return "it is not all that its node returns"
    if any(_input(imported.node_of[op], value, imported) is None for value in op.args):
        return "what it copies is no operand of its node"
    if _root(imported.env[imported.node_of[maker]]) in imported.counted:  # type: ignore[index]
        return "the program counts from the first byte of its storage"
    node = imported.node_of[op]
    for part in (node, *node.all_input_nodes):
        handle = imported.env[part]
        change = imported.reshaped.get(handle) if isinstance(handle, Handle) else None
        if change is not None and change > node:
            return f"{change.name} may change shape, strides or storage of {part.name} in place"
    if same_strides(geometry(result.type), geometry(source.type)):  # type: ignore[arg-type]
        return ""
    user = _chooses_by_strides(imported.node_of[op], imported)
    return f"{user.name} may do something else on other strides" if user is not None else ""


def _chooses_by_strides(node: fx.Node, imported: Imported) -> fx.Node | None:
    """A user that may look at strides to choose what it does, as `contiguous` and `reshape` do."""
    root = _root(imported.env[node])
    pending, seen = [node], {node}
    while pending:
        for user in pending.pop().users:
            if user.op == "output":
                continue
            if not _is_what_it_says(user, imported):
                return user
            if user not in seen and _root(imported.env[user]) is root:
                seen.add(user)
                pending.append(user)
    return None


def _is_what_it_says(node: fx.Node, imported: Imported) -> bool:
    """Whether a node is the operator that it names, or what PyTorch's own is made of, and no code of others chooses.

    PyTorch's own chooses between views and copies only: a part of it that is a copy may be no copy on other strides.
    """
    made = [op for op in imported.ops_of.get(node, ()) if not isinstance(op, ConstantOp)]
    ops = [op for op in made if isinstance(op, HandleCall)]
    if not ops or len(ops) < len(made):
        return False
    target: Any = getattr(torch.Tensor, str(node.target), None) if node.op == "call_method" else node.target
    if isinstance(target, OpOverload | OpOverloadPacket) and node.op == "call_function":
        name = target._schema.name if isinstance(target, OpOverload) else target._qualified_op_name
        if not name.startswith("aten::"):
            return len(ops) == 1 and ops[0].target.data.split(".")[:2] == name.split("::")
    elif not isinstance(target, BuiltinFunctionType | MethodDescriptorType | WrapperDescriptorType):
        return False
    return all(op.target.data.startswith("aten.") for op in ops) and (
        len(ops) == 1 or not any(op.target.data in COPIES for op in ops)
    )


def _root(value: Any) -> Any:
    roots = [
        h.root for h in pytree.tree_leaves(value, is_leaf=lambda x: isinstance(x, Handle)) if isinstance(h, Handle)
    ]
    return roots[0] if roots else None


class _Editor:
    """Takes nodes out of a graph, and brings the metadata of what now shares memory up to date."""

    def __init__(self, graph: fx.Graph, imported: Imported):
        self.graph, self.imported = graph, imported
        self.removed: list[str] = []
        self.replaced: dict[fx.Node, fx.Node] = {}
        self.moved: set[int] = set()

    def edit(self, copy: Copy) -> Edit:
        """The nodes that go with a copy, in order, each with what takes its place."""
        node = self.imported.node_of[copy.op]
        target, source = _input(node, copy.result, self.imported), _input(node, copy.source, self.imported)
        assert source is not None, "a copy whose source is no input of its node stays"
        if copy.bytes == 0:
            source = self._alias(node, source)
        return ((node, source),) if target is None else ((node, source), (target, source))

    def _alias(self, node: fx.Node, source: fx.Node) -> fx.Node:
        """A view of all of the source, in front of the copy that it takes the place of: an object of its own."""
        with self.graph.inserting_before(node):
            alias = self.graph.call_function(torch.ops.aten.alias.default, (source,))
        alias.meta = dict(node.meta)
        self.imported.env[alias] = self.imported.env[node]
        return alias

    def remove(self, edit: Edit) -> None:
        for node, replacement in edit:
            while replacement in self.replaced:
                replacement = self.replaced[replacement]
            self.moved.add(id(_root(self.imported.env[node])))
            node.replace_all_uses_with(replacement)
            self.replaced[node] = replacement
            self.graph.erase_node(node)
            self.removed.append(node.name)

    def finish(self) -> None:
        """Recompute the metadata of views and in-place results of what is gone.

        An operand that changes its shape or storage in place was something else than its metadata say when the node ran;
        then the node's own stay as they were.
        """
        for node in self.graph.nodes:
            values = [self.imported.env.get(source) for source in node.all_input_nodes]
            if any(isinstance(value, Handle) and value in self.imported.reshaped for value in values):
                continue
            if node.op in ("call_function", "call_method") and id(_root(self.imported.env.get(node))) in self.moved:
                for key in METADATA:
                    if key in node.meta:
                        node.meta[key] = _evaluated(node, key)


def _evaluated(node: fx.Node, key: str) -> Any:
    """The node's value on the metadata of its operands, or what it was where that is not known."""

    def operand(value: fx.Node) -> Any:
        known = value.meta[key]
        return known.detach() if isinstance(known, torch.Tensor) else known

    try:
        args, kwargs = map_arg(node.args, operand), map_arg(node.kwargs, operand)
        fakes = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, FakeTensor)]
        with torch.no_grad(), fakes[0].fake_mode:
            if callable(node.target):
                return node.target(*args, **kwargs)
            return getattr(args[0], str(node.target))(*args[1:], **kwargs)
    except Exception:  # whatever an operator of a host raises: its metadata stays as it was
        return node.meta[key]
