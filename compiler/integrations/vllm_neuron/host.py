"""The host's graph as handles: what each input, result and writing node is, without changing the graph."""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload, OpOverloadPacket
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree
from xdsl.dialects.builtin import MemRefType
from xdsl.dialects.func import FuncOp

from compiler.analysis.memories import Memories, analyze
from compiler.errors import UnsupportedError
from compiler.frontend.forms import Handle
from compiler.frontend.importer import Importer
from compiler.frontend.inputs import Captured
from compiler.frontend.kernels import READERS, KernelReader
from compiler.frontend.sources import node_source
from compiler.integrations.fx_import import captured_graph, with_outputs
from compiler.integrations.vllm_neuron.devices import Call, map_devices
from compiler.locations import node_name
from compiler.program import Leaf, Program
from compiler.reference import entry
from dialects.calls import HandleCall
from dialects.nki import KernelCall
from dialects.types import geometry

DETACH = ("detach_", torch.detach_, torch.ops.aten.detach_, torch.ops.aten.detach_.default)

NEUTRAL = "cpu"
"""Where the import computes: devices say nothing about aliasing, and the target's runtime may be absent here."""


@dataclass
class HostProgram:
    """A host's graph and its import.

    Attributes:
        program: handles; `program.arguments` are constants of the graph first, then its tensor inputs.
        placeholders: all placeholders, in order.
        inputs: per argument of the program, its placeholder, or None for a constant and for random state.
        env: what each node of the graph evaluates to.
        outputs: the leaves of the graph's results.
        kernels: readers of kernel calls.
    """

    gm: fx.GraphModule
    program: Program
    placeholders: list[fx.Node]
    inputs: list[fx.Node | None]
    env: dict[fx.Node, Any]
    outputs: tuple[Leaf, ...]
    kernels: Sequence[KernelReader] = READERS

    @property
    def function(self) -> FuncOp:
        return entry(self.program.module)

    @functools.cached_property
    def _positions(self) -> dict[fx.Node, int]:
        return {node: position for position, node in enumerate(self.placeholders)}

    def position(self, argument: int) -> int:
        """The FX input that an argument of the program is, or -1 for a constant."""
        node = self.inputs[argument]
        return self._positions[node] if node is not None else -1

    @functools.cached_property
    def results(self) -> list[pytree.TreeSpec]:
        """The structure of each FX result: each entry of the output when that is a tuple or list, else the output."""
        tree = self.program.out_tree
        if tree.is_leaf() and not self.outputs:  # the graph returns None
            return []
        return tree.children() if _is_sequence(tree) else [tree]

    def result_positions(self) -> list[int | None]:
        """The FX result that each tensor result of the program is; None for one that is a part of a result."""
        parts = [position if tree.is_leaf() else None for position, tree in enumerate(self.results)
                 for _ in range(tree.num_leaves)]  # fmt: skip
        return [position for position, leaf in zip(parts, self.outputs, strict=True) if leaf.is_tensor]


def _is_sequence(tree: pytree.TreeSpec) -> bool:
    kind = tree.type
    return kind is namedtuple or (isinstance(kind, type) and issubclass(kind, (tuple, list)))


def import_host(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any] | None = None,
    kernels: Sequence[KernelReader] = READERS,
    draws: bool = False,
) -> HostProgram:
    """Import a graph for a rewrite.

    Args:
        draws: random operators draw from a state of the program's own; by default they stay calls, so that the graph that is
            made of them draws from PyTorch's generator wherever it is replayed.

    Raises:
        UnsupportedError: a node cannot be expressed, an input changes its sizes or storage, or the graph counts places in the
            storage of an input that does not begin with it.
    """
    captured = captured_graph(gm, gm.graph, example_inputs)
    importer = _NeuronImporter(captured, kernels, draws)
    program = importer.program()
    _refuse_places(program)
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    by_name = {node.name: node for node in placeholders}
    inputs = [by_name[a.name] if a.kind == "input" else None for a in program.arguments]
    nothing = next(node for node in reversed(gm.graph.nodes) if node.op == "output").args[0] is None
    outputs = () if nothing else program.out_leaves
    return HostProgram(gm, program, placeholders, inputs, importer.env, outputs, kernels)


def _refuse_places(program: Program) -> None:
    """A host checks no places: what counts from the first byte of a storage must count from the input."""
    for number, offset in program.offsets.items():
        if offset and program.arguments[number].kind == "input":
            raise UnsupportedError(
                f"the graph counts from the first byte of the storage of {program.arguments[number].name}, which begins at "
                f"element {offset} of it, and may begin elsewhere at another call",
                hint="leave out the storage_offset of as_strided, which then counts from the tensor",
            )


class _NeuronImporter(Importer):
    """Remembers what nodes evaluate to, computes on one device, and takes no metadata's word for an input's shape."""

    def __init__(self, captured: Captured, kernels: Sequence[KernelReader], draws: bool) -> None:
        super().__init__(captured, kernels, draws)
        self.env: dict[fx.Node, Any] = {}
        self._graph = captured.graph.graph

    def run(self, graph: fx.GraphModule, inputs: Sequence[Any]) -> Any:
        if graph.graph is self._graph:
            self.env.update(zip((n for n in self._graph.nodes if n.op == "placeholder"), inputs, strict=True))
        output = super().run(graph, inputs)
        if graph.graph is self._graph:
            self.captured = with_outputs(self.captured, output)
        return output

    def _node(self, graph: fx.GraphModule, node: fx.Node, env: dict[fx.Node, Any]) -> Any:
        if node.op in ("call_function", "call_method"):
            call = map_devices(node, lambda form, value: torch.device(NEUTRAL) if form != "other" else value)
            value = self._detached(node, env)
            if value is None:
                self._refuse_metadata_change(node, env)
                value = super()._node(graph, _Neutral(node, call), env)  # type: ignore[arg-type]
        else:
            value = super()._node(graph, node, env)
        if node.graph is self._graph:
            self.env[node] = value
        return value

    @staticmethod
    def _detached(node: fx.Node, env: dict[fx.Node, Any]) -> Handle | None:
        """`detach_` gives the tensor itself: of the operators that change a tensor in place, not its elements, the one
        that leaves its window alone."""
        if node.target not in DETACH or not isinstance(node.args[0], fx.Node):
            return None
        value = env.get(node.args[0])
        return value if isinstance(value, Handle) else None

    def _refuse_metadata_change(self, node: fx.Node, env: dict[fx.Node, Any]) -> None:
        """A host's metadata of an input may show it as it is after `resize_` or `t_`, which then seem to change nothing."""
        packet: Any = node.target
        if isinstance(packet, str):
            packet = getattr(torch.ops.aten, packet, None)
        if isinstance(packet, OpOverloadPacket):
            packet = getattr(packet, packet.overloads()[0])
        first = env.get(node.args[0]) if node.args and isinstance(node.args[0], fx.Node) else None
        if isinstance(packet, OpOverload) and torch.Tag.inplace_view in packet.tags and isinstance(first, Handle):
            if first.argument:
                raise UnsupportedError(
                    f"{node.target} changes the sizes, strides or storage of an input, not only its elements",
                    location=str(node_source(node) or ""), node=node.name,
                    hint="call the out-of-place form, or change a view of the input",
                )  # fmt: skip


class _Neutral:
    """A node with other arguments, for an importer that only reads it."""

    def __init__(self, node: fx.Node, call: Call) -> None:
        self.op, self.name, self.meta, self.graph = node.op, node.name, node.meta, node.graph
        self.target, self.args, self.kwargs = call


# -- what is written -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Write:
    """The last write to an input's memory, when a kernel's result is all of that input: result `result` of `node`."""

    node: fx.Node
    result: int


@dataclass
class Writes:
    """Which nodes write, and what.

    Attributes:
        roots: writing node -> the inputs whose memory it writes, or the nodes that allocated it, in operand order.
        kernels: argument number -> the kernel result that is its final value.
    """

    roots: dict[fx.Node, list[fx.Node]]
    kernels: dict[int, Write]


def find_writes(host: HostProgram) -> Writes:
    """The writing nodes of a graph.

    Raises:
        UnsupportedError: a constant of the graph is written, or memory that several inputs share.
    """
    memories = analyze(host.function, carriers=False)
    nodes = {node.name: node for node in host.gm.graph.nodes}
    writes = Writes({}, {})
    arguments = list(host.function.body.block.args)
    for op in host.function.body.block.ops:
        written = op.effects.writes() if isinstance(op, HandleCall) else None
        if not isinstance(op, HandleCall) or not written:
            continue
        node = nodes.get(node_name(op.location))
        for operand in written:
            place = memories.places[op.args[operand]]
            for argument in place.memory.arguments:
                writes.kernels.pop(argument, None)
            if place.argument >= 0:
                _refuse_sharing(host, memories, place.argument, node)
                if place.memory.around is op:
                    _refuse_around(host, place.argument, node)
                owner = arguments[place.argument]
                whole = _same_window(owner.type, op.args[operand].type)
                if node is not None and whole and isinstance(op, KernelCall) and op.value is not None:
                    outputs = op.value.data.outputs
                    result = next(r for r, o in enumerate(outputs) if o.kind == "write" and o.index == operand)
                    writes.kernels[place.argument] = Write(node, result)
            if node is not None:
                root = host.inputs[place.argument] if place.argument >= 0 else None
                if root is None:
                    root = nodes.get(node_name(getattr(place.origin.owner, "location", op.location)))
                if root is not None:
                    writes.roots.setdefault(node, []).append(root)
    return writes


def _same_window(owner: Any, written: Any) -> bool:
    if not isinstance(owner, MemRefType) or not isinstance(written, MemRefType):
        return False
    return owner.element_type == written.element_type and geometry(owner) == geometry(written)


def _refuse_sharing(host: HostProgram, memories: Memories, argument: int, node: fx.Node | None) -> None:
    where = str(node_source(node) or "") if node is not None else ""
    name = node.name if node is not None else ""
    if host.inputs[argument] is None:
        raise UnsupportedError(
            f"the graph's constant {host.program.arguments[argument].name} is written, and a pure graph cannot keep it",
            location=where, node=name, hint="make it an input of the graph",
        )  # fmt: skip
    place = memories.places[host.function.body.block.args[argument]]
    sharing = [host.program.arguments[i].name for i in place.memory.arguments]
    if len(sharing) > 1:
        raise UnsupportedError(
            f"inputs {' and '.join(sharing)} share memory and it is written, but a pure graph takes them as independent",
            location=where, node=name, hint="pass the whole tensor once and take the views inside the program",
        )  # fmt: skip


def _refuse_around(host: HostProgram, argument: int, node: fx.Node | None) -> None:
    raise UnsupportedError(
        f"memory around the elements of input {host.program.arguments[argument].name} is written, and a result brings back "
        "its elements only",
        location=str(node_source(node) or "") if node is not None else "", node=node.name if node is not None else "",
        hint="pass the whole tensor and take the view inside the program",
    )  # fmt: skip


def fake_mode_of(placeholders: Sequence[fx.Node]) -> tuple[Any, torch.device | None, tuple[str, ...]]:
    """The host's fake mode, its device when that is not the CPU, and the metadata keys it uses."""
    for node in placeholders:
        for key in ("example_value", "val"):
            value = node.meta.get(key)
            if isinstance(value, FakeTensor):
                keys = tuple(k for k in ("example_value", "val") if k in node.meta)
                device = value.device
                return value.fake_mode, device if device.type != "cpu" else None, keys
    return None, None, ("val",)


def tensors_in(value: Any) -> list[Handle]:
    """The handles in what a node evaluates to."""
    return [
        leaf for leaf in pytree.tree_leaves(value, is_leaf=lambda x: isinstance(x, Handle)) if isinstance(leaf, Handle)
    ]
