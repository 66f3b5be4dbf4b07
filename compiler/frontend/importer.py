"""From a captured graph to handles: every ATen call the program makes, with its effects and aliases, in program order.

After import the IR says by itself what shares memory and what is written; nothing later looks at PyTorch again.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree
from xdsl.dialects.builtin import (
    ArrayAttr,
    FileLineColLoc,
    IntAttr,
    LocationAttr,
    ModuleOp,
    NameLoc,
    StringAttr,
    UnknownLoc,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region

from compiler.errors import CompileError, UnsupportedError
from compiler.frontend.arguments import Placement, argument_attributes, counted_offsets, place
from compiler.frontend.constants import SMALL, constant_data
from compiler.frontend.control import IMPORTS
from compiler.frontend.expansion import Expander
from compiler.frontend.forms import Forms, Handle, Root, is_symbolic
from compiler.frontend.inputs import COUNTED, Captured, Input, unique
from compiler.frontend.kernels import READERS, KernelReader, expand_kernel, read_kernel
from compiler.frontend.logs import quiet_torch
from compiler.frontend.named import named, named_tensors, state_names
from compiler.frontend.reshapes import Reshapes
from compiler.frontend.sources import Source, node_source
from compiler.frontend.stand_ins import StandIns
from compiler.frontend.steps import Expansion, Slot
from compiler.frontend.transforms import stretch
from compiler.locations import node_name
from compiler.locations import place as place_of
from compiler.program import Argument, Leaf, Program
from compiler.random_bits import STATE, fresh_state
from dialects.fx import ConstantOp
from dialects.types import DYNAMIC


def import_graph(captured: Captured, kernels: Sequence[KernelReader] = READERS, *, reshapes: bool = False) -> Program:
    """The program of a captured graph; `kernels` recognise calls of hand-written kernels.

    `reshapes`: the caller carries out what `Program.reshaped` says; else a change of an argument's metadata is refused.

    Raises:
        UnsupportedError: for the first node that the IR cannot express, with the user's line.
    """
    with quiet_torch():
        return Importer(captured, kernels, reshapes=reshapes).program()


_INLINED = {
    "wrap_with_set_grad_enabled": 1,
    "wrap_with_autocast": 4,
    "tag_activation_checkpoint": 0,
    "invoke_subgraph": 0,
}
"""Higher-order operators that just call a subgraph: the position of the subgraph among the arguments."""

_ORDERED = "with_effects"
"""Calls an operator after another by an effect token, which here is nothing: effects keep the order of the graph."""

_NO_EFFECT = frozenset(
    {"_record_function_enter_new", "_record_function_enter", "_record_function_exit", "_exit_autocast"}
)


class Importer:
    """Walks a graph with an environment node -> structure of handles and Python values."""

    def __init__(
        self,
        captured: Captured,
        kernels: Sequence[KernelReader] = READERS,
        draws: bool = True,
        reshapes: bool = False,
    ) -> None:
        """`draws`: random operators become deterministic ones on the program's own stream; else they are calls like others."""
        self.captured = captured
        self.kernels = kernels
        self.forms = Forms()
        symbolic = [i.tensor for i in captured.inputs if i.tensor is not None and is_symbolic(i.tensor)]
        mode = symbolic[0].fake_mode if symbolic else None  # type: ignore[attr-defined]
        self.expander = Expander(self.forms, mode, draws)
        self.symbols = tuple(sorted({str(s) for t in symbolic for s in _free_symbols(t)}))
        self.ops: list[Operation] = []
        self._files: dict[Source, FileLineColLoc] = {}
        self._location: LocationAttr = UnknownLoc()
        self._candidates: list[tuple[Input, ConstantOp, Handle]] = []
        self._stand_ins = StandIns()
        self._nested = False
        self._reshapes = Reshapes(reshapes and not self.expander.symbolic)

    # -- the program -----------------------------------------------------------------------------

    def program(self) -> Program:
        captured = self.captured
        constants = named_tensors(captured.graph)
        tensors = [item for item in captured.inputs if item.tensor is not None]
        state = [item for item in tensors if item.kind != "input"] + _lifted(constants, tensors)
        order = [*state, *(item for item in tensors if item.kind == "input")]
        placements = place(order, self.forms)
        members = Counter(id(p.root) for p in placements)
        shared = {root for root, count in members.items() if count > 1}
        held = {id(tensor) for tensor in captured.held}
        inlined = [
            item.kind == "constant"
            and item.real
            and item.tensor.numel() <= SMALL  # type: ignore[union-attr]
            and id(p.root) not in shared
            and id(item.tensor) not in held
            for item, p in zip(order, placements, strict=True)
        ]
        kept = [(item, p) for item, p, inline in zip(order, placements, inlined, strict=True) if not inline]
        self.block = Block(arg_types=[p.form.type for _, p in kept])
        handles: dict[int, Handle] = {}
        for (item, placement), value in zip(kept, self.block.args, strict=True):
            value.name_hint = _hint(item.name)
            handle = handles[id(item)] = Handle(value, placement.form, placement.root, argument=True)
            if isinstance(item.tensor, FakeTensor) and self.expander.symbolic:
                self.expander.adopt(handle, item.tensor)
        for item, placement, inline in zip(order, placements, inlined, strict=True):
            if inline:
                handles[id(item)] = self._candidate(item, placement)
        self._reshapes.start(order, handles)
        counted = {id(tensor) for tensor in captured.counted}
        for item in order:
            if id(item.tensor) in counted:
                handles[id(item)].root.count()
        self.constants = {id(item.tensor): handles[id(item)] for item in order}
        env: list[Any] = [handles[id(i)] if i.tensor is not None else i.constant for i in captured.inputs]
        outputs = pytree.tree_leaves(self.run(captured.graph, env), is_leaf=lambda x: isinstance(x, Handle))
        self._write_back(outputs, env)
        return self._finish(kept, outputs, handles)

    def _candidate(self, item: Input, placement: Placement) -> Handle:
        """A small constant: in the IR unless something writes or returns it."""
        assert item.tensor is not None
        form = placement.form
        op = ConstantOp.create(
            properties={"data": constant_data(item.tensor)}, result_types=[form.type], location=self._location
        )
        handle = Handle(op.results[0], form, placement.root, argument=True)
        self._candidates.append((item, op, handle))
        return handle

    def _finish(self, kept: list[tuple[Input, Placement]], outputs: list[Any], handles: dict[int, Handle]) -> Program:
        captured = self.captured
        results, out_leaves = self._results(outputs)
        escaped = {id(h.root) for h in results}
        held = (h.root for h in handles.values())
        self._stand_ins.check(results, held)
        arguments = list(kept)
        head: list[Operation] = []
        for item, op, handle in self._candidates:
            form, root = handle.form, handle.root
            if not root.written and id(root) not in escaped and form.type == _dense(self.forms, item.tensor).type:
                head.append(op)
                continue
            self._add_argument(arguments, item, handle)
        stream = self.expander.stream
        if stream.value.first_use is not None:
            name = unique(STATE, {i.name for i, _ in arguments})
            self._add_argument(arguments, Input(name, "generator", fresh_state(), real=True), stream)
        self.block.add_ops([*head, *self.ops])
        values = [h.value for h in results]
        self.block.add_op(ReturnOp.create(operands=values, location=UnknownLoc()))
        attributes = argument_attributes(arguments, captured.traced)
        kinds = ([a.type for a in self.block.args], [v.type for v in values])
        function = FuncOp("main", kinds, Region(self.block), arg_attrs=ArrayAttr(attributes))
        position_of = {id(i): n for n, (i, _) in enumerate(arguments)}
        places = {id(handles[id(i)]): n for n, (i, _) in enumerate(arguments) if id(i) in handles}
        return Program(
            ModuleOp([function]),
            tuple(Argument(i.name, i.kind) for i, _ in arguments),
            captured.in_tree,
            tuple(self._in_leaf(leaf, position_of) for leaf in captured.in_leaves),
            captured.out_tree,
            tuple(out_leaves),
            state={i.name: i.tensor for i, _ in arguments if i.kind != "input" and i.tensor is not None},
            owner=captured.owner,
            rebound=self._rebound,
            training=dict(captured.training),
            assumed=captured.assumed,
            reshaped=self._reshapes.ends(places),
            offsets=counted_offsets(arguments),
            returned=self._reshapes.returned(results, places),
            symbolic=self.symbols,
        )

    def _add_argument(self, arguments: list[tuple[Input, Placement]], item: Input, handle: Handle) -> None:
        """Make a handle an argument after all, behind the other state."""
        position = sum(i.kind != "input" for i, _ in arguments)
        value = self.block.insert_arg(handle.form.type, position)
        value.name_hint = _hint(item.name)
        handle.value.replace_all_uses_with(value)
        handle.value = value
        arguments.insert(position, (item, Placement(handle.form, handle.root)))

    def _in_leaf(self, leaf: Leaf, position_of: dict[int, int]) -> Leaf:
        return leaf if not leaf.is_tensor else Leaf(position_of[id(self.captured.inputs[leaf.index])])

    def _results(self, outputs: list[Any]) -> tuple[list[Handle], list[Leaf]]:
        """Tensor results in order, and the leaves of the output tree; rebound tensors come last and are no leaves."""
        captured = self.captured
        results: list[Handle] = []

        def result(value: Any) -> Leaf:
            if isinstance(value, Handle):
                results.append(value)
                return Leaf(len(results) - 1)
            if isinstance(value, torch.SymInt) and value.node.maybe_as_int() is None:
                raise UnsupportedError(f"the program returns the number {value}, known only at run time",
                                       hint="return a tensor, or read the size from one outside")  # fmt: skip
            return Leaf(constant=value)

        user = [outputs[leaf.index] if leaf.is_tensor else leaf.constant for leaf in captured.out_leaves]
        leaves = [replace(result(v), number=leaf.number) for v, leaf in zip(user, captured.out_leaves, strict=True)]
        self._rebound: dict[str, int] = {}
        for name, position in captured.rebound.items():
            self._rebound[name] = result(outputs[position]).index
        return results, leaves

    def _write_back(self, outputs: list[Any], inputs: list[Any]) -> None:
        """The writes that a decomposed program leaves to its caller."""
        updates = [(outputs[output], inputs[position]) for position, output in self.captured.updates]
        updates = [(value, target) for value, target in updates if value is not target]
        targets = {id(target.root) for _, target in updates}
        copy = torch.ops.aten.copy_.default
        sources = [
            self._run("call_function", torch.ops.aten.clone.default, (value,), {})
            if id(value.root) in targets
            else value
            for value, _ in updates
        ]
        for source, (_, target) in zip(sources, updates, strict=True):
            self._run("call_function", copy, (target, source), {})

    # -- nodes -----------------------------------------------------------------------------------

    def run(self, graph: fx.GraphModule, inputs: Sequence[Any]) -> Any:
        """Import a graph for these inputs; its output as a structure of handles and Python values."""
        env: dict[fx.Node, Any] = {}
        remaining = iter(inputs)
        for node in graph.graph.nodes:
            if node.op == "placeholder":
                env[node] = next(remaining)
                continue
            if node.op == "output":
                return map_arg(node.args[0], env.__getitem__)
            if node in env:  # inside a transform
                continue
            outer, self._location = self._location, self._locate(node)
            try:
                whole = stretch(node)
                if whole is not None:
                    values = [self._node(graph, n, env) if n.op == "get_attr" else env[n] for n in whole.inputs]
                    found = self._run("call_function", node, (values,), {}, whole.function(graph))
                    env.update({**dict.fromkeys(whole.nodes), **dict(zip(whole.outputs, found, strict=True))})
                else:
                    env[node] = self._node(graph, node, env)
            except CompileError as error:
                if error.node:
                    raise
                where = error.location or str(node_source(node) or "")
                raise type(error)(error.message, location=where, node=node.name, hint=error.hint) from error
            except Exception as error:
                raise _refusal(error, node) from error
            finally:
                self._location = outer
        raise CompileError("the graph has no output node")

    def _node(self, graph: fx.GraphModule, node: fx.Node, env: dict[fx.Node, Any]) -> Any:
        target = node.target
        if node.op == "get_attr":
            return self._attribute(graph, str(target))
        args: Any = map_arg(node.args, env.__getitem__)
        kwargs: Any = map_arg(node.kwargs, env.__getitem__) if node.kwargs else {}
        if node.op == "call_function":
            if target is operator.getitem and not isinstance(args[0], Handle):
                return args[0][args[1]]
            if isinstance(target, HigherOrderOperator):
                value = self._higher_order(target, args, kwargs)
                if COUNTED in node.meta:
                    for handle in pytree.tree_leaves(value, is_leaf=lambda x: isinstance(x, Handle)):
                        handle.root.count()
                return value
            name = getattr(target, "__name__", "")
            if name in _NO_EFFECT or getattr(target, "namespace", "") == "profiler":
                return None
            if name == "_enter_autocast" and (len(args) < 3 or args[2]):
                raise UnsupportedError(
                    "autocast is on in this graph", hint="export without autocast, in the dtype you want"
                )
            if name == "_enter_autocast":
                return None
        if node.op == "call_module":
            module = graph.get_submodule(str(target))
            state = {n: self._attribute(graph, f"{target}.{n}") for n in state_names(module)}
            return self._run(node.op, target, (state, args, kwargs), {}, _module_call(module))
        return self._run(node.op, target, args, kwargs)

    def _run(self, kind: str, target: Any, args: Any, kwargs: Any, run: Callable[..., Any] | None = None) -> Any:
        call: Callable[..., Any] = run or (target if kind == "call_function" else _method(target))
        expansion, operands = self.expander.expand((kind, target), call, args, kwargs)
        first = self._stand_ins.now
        value = self._emit(expansion, operands)
        if expansion.copied:
            value.root.anywhere = True
            base, *key = (*args, *kwargs.values())
            key = key[0] if len(key) == 1 else tuple(key)
            self._stand_ins.read(value, base, key, node_name(self._location), place_of(self._location))
        elif self._stand_ins and target in (operator.setitem, torch.Tensor.__setitem__, "__setitem__"):
            base, key, stored = args
            self._stand_ins.assigned(base, key, stored, first)
        return value

    def call(self, function: Callable[..., Any], args: tuple[Any, ...], **kwargs: Any) -> Any:
        """Import a call that the program does not make itself."""
        return self._run("call_function", function, args, kwargs)

    def uses(self, handles: Iterable[Handle]) -> None:
        """Regions give these handles, or start with them, without an operator."""
        if self._stand_ins:
            self._stand_ins.access((handle.root for handle in handles), (), self._nested)

    def chosen(self, result: Handle, given: Iterable[Root], outside: Iterable[Root]) -> None:
        """A result of a conditional, and the memories its branches give, of which some are from outside."""
        self._stand_ins.chosen(result, given, outside, node_name(self._location), place_of(self._location))

    @property
    def location(self) -> LocationAttr:
        """Where the node comes from that is being imported."""
        return self._location

    @contextmanager
    def aside(self) -> Iterator[list[Operation]]:
        """Collect the operations of the block in a list of their own."""
        (outer, nested), (self.ops, self._nested) = (self.ops, self._nested), ([], True)
        try:
            yield self.ops
        finally:
            self.ops, self._nested = outer, nested

    def _emit(self, expansion: Expansion, operands: list[Handle]) -> Any:
        slots = list(operands)
        location, ops, stand_ins = self._location, self.ops, self._stand_ins if self._stand_ins else None
        for step in expansion.steps:
            forms = [slots[made.source].form if made.form is None else made.form for made in step.made]
            op = step.op.create(
                operands=[slots[i].value for i in step.operands],
                result_types=step.types or [form.type for form in forms],
                properties=step.properties,
                location=location,
            )
            ops.append(op)
            for i in step.written:
                slots[i].root.written = True
            if stand_ins is not None:
                stand_ins.access(
                    (slots[i].root for i in step.operands), (slots[i].root for i in step.written), self._nested
                )
            for made, form, value in zip(step.made, forms, op.results, strict=True):
                if made.source < 0:
                    root = Root(made.bytes)
                else:
                    root = slots[made.source].root
                    if form.offset * form.dtype.itemsize < root.begin and form.offset != DYNAMIC and form.end:
                        raise UnsupportedError(
                            "a view begins before the elements of a copy that in eager PyTorch is one of a whole storage",
                            hint="take the view of the tensor that was copied",
                        )
                    if form.end > root.bytes != DYNAMIC:
                        raise UnsupportedError(
                            f"{step.properties['target']} reaches byte {form.end} of memory of which the program "
                            f"was given {root.bytes} bytes",
                            hint="pass the whole tensor as an argument",
                        )
                slots.append(Handle(value, form, root))
        for slot, operand in expansion.placed:
            slots[slot].root.lies_as(slots[slot].form, slots[operand].root)
        for slot in expansion.counted:
            slots[slot].root.count()
        for handle, tensor in zip(slots, expansion.tensors, strict=False):
            if tensor is not None:
                self.expander.adopt(handle, tensor)
        for operand, slot in expansion.rebound:
            if slots[slot] is operands[operand]:
                continue  # a tensor that is given twice, as the random state is to what saves it
            if operands[operand].argument:
                self._reshapes.change(operands[operand], slots[slot].root, self._nested)
            operands[operand].value, operands[operand].form = slots[slot].value, slots[slot].form
            operands[operand].root = slots[slot].root
            slots[slot] = operands[operand]
        return _fill(expansion.output, slots)

    def _attribute(self, graph: fx.GraphModule, name: str) -> Any:
        value = named(graph, name)
        return self.constants[id(value)] if isinstance(value, torch.Tensor) else value

    def _higher_order(self, target: HigherOrderOperator, args: Any, kwargs: Any) -> Any:
        name = target.name()
        if name == _ORDERED:
            token, inner, *operands = args
            if isinstance(inner, HigherOrderOperator):
                returned, several = self._higher_order(inner, tuple(operands), kwargs), False
            else:
                returned = self._run("call_function", inner, tuple(operands), kwargs)
                several = len(inner._schema.returns) > 1
            return (token, *returned) if several or isinstance(returned, tuple) else (token, returned)
        position = _INLINED.get(name)
        kernel = read_kernel(self.kernels, target, args, kwargs) if position is None else None
        if kernel is not None:
            return self._emit(*expand_kernel(self.expander, target, kernel, args, kwargs))
        if position is None and name in IMPORTS and not self.expander.symbolic:
            return IMPORTS[name](self, *args, **kwargs)
        if position is None:
            raise UnsupportedError(
                f"the higher-order operator {name} has no form in the IR",
                hint="express it with tensor operators, or compile the parts around it",
            )
        if name == "wrap_with_autocast" and args[2]:
            raise UnsupportedError(
                "autocast is on in this graph", hint="export without autocast, in the dtype you want"
            )
        inputs = args[position + 1 :] if name != "invoke_subgraph" else args[2:]
        return self.run(args[position], inputs)

    def _locate(self, node: fx.Node) -> LocationAttr:
        source = node_source(node) or Source("<graph>", 0)
        file = self._files.get(source)
        if file is None:
            file = self._files[source] = FileLineColLoc(StringAttr(source.file), IntAttr(source.line), IntAttr(0))
        return NameLoc(StringAttr(node.name), file)


def _free_symbols(tensor: torch.Tensor) -> set[Any]:
    numbers = (*tensor.shape, *tensor.stride(), tensor.storage_offset())
    return {s for n in numbers if isinstance(n, torch.SymInt) for s in n.node.expr.free_symbols}


def _fill(structure: Any, slots: list[Handle]) -> Any:
    """The structure a node returns, with handles for slots."""
    if type(structure) is Slot:
        return slots[structure.index]
    if isinstance(structure, list):
        return [_fill(item, slots) for item in structure]
    if isinstance(structure, tuple):
        return tuple(_fill(item, slots) for item in structure)
    if isinstance(structure, dict):
        return {name: _fill(item, slots) for name, item in structure.items()}
    return structure


def _method(name: str) -> Callable[..., Any]:
    return lambda receiver, *args, **kwargs: getattr(receiver, name)(*args, **kwargs)


def _module_call(module: torch.nn.Module) -> Callable[..., Any]:
    return lambda state, args, kwargs: torch.func.functional_call(module, state, tuple(args), kwargs)


def _lifted(constants: dict[str, torch.Tensor], given: Sequence[Input]) -> list[Input]:
    """An input for every constant that is not one yet; the same tensor under several names is one."""
    known = {id(item.tensor) for item in given}
    names = {item.name for item in given}
    fresh: list[Input] = []
    for name, tensor in constants.items():
        if id(tensor) not in known:
            known.add(id(tensor))
            fresh.append(Input(unique(name, names), "constant", tensor, real=True))
    return fresh


def _dense(forms: Forms, tensor: torch.Tensor | None) -> Any:
    """The form a constant has in the IR: row-major, alone in its memory."""
    assert tensor is not None
    dense = torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")
    return forms.of(dense, 0)


def _hint(name: str) -> str | None:
    text = "".join(c if c.isalnum() or c == "_" else "_" for c in name)
    text = text.rstrip("0123456789").rstrip("_") if text.rsplit("_", 1)[-1].isdigit() else text
    return text if text and not text[0].isdigit() else None


def _refusal(error: Exception, node: fx.Node) -> CompileError:
    """A failure inside PyTorch, said with the node and the user's line."""
    where = str(node_source(node) or "")
    kind = type(error).__name__
    if kind in ("DataDependentOutputException", "DynamicOutputShapeException", "GuardOnDataDependentSymNode"):
        return UnsupportedError(
            f"{node.target}: what it returns depends on the data of a tensor, not only on its shape",
            location=where, node=node.name, hint="use a form with a static shape, such as torch.where or index_put_",
        )  # fmt: skip
    return CompileError(f"{node.target} fails: {error}", location=where, node=node.name)


__all__ = ["import_graph"]
