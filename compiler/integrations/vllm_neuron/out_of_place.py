"""After the pass the graph is pure: no node writes an operand, and every reader of a written state sees its new value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, cast

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation

from compiler.analysis.memories import memory_order
from compiler.errors import UnsupportedError
from compiler.export.fx_graph import FxExporter, Origin, permuted, tensor_type
from compiler.export.signature import OutputSource, Window
from compiler.frontend.forms import Handle
from compiler.frontend.kernels import READERS, read_kernel, tensors_of
from compiler.integrations.vllm_neuron.aliasing import output_node
from compiler.integrations.vllm_neuron.contract import Contract, bindings_of, contract_of, plan_of
from compiler.integrations.vllm_neuron.devices import devices_of
from compiler.integrations.vllm_neuron.host import (
    HostProgram,
    Writes,
    fake_mode_of,
    find_writes,
    import_host,
    tensors_in,
)
from compiler.locations import node_name
from compiler.torch_types import DTYPES
from compiler.transforms.in_place_to_out_of_place import make_out_of_place
from dialects.nki import KernelCall
from dialects.types import Geometry

A = torch.ops.aten
INHERITED = ("stack_trace", "nn_module_stack", "source_fn_stack", "seq_nr")


class InPlaceToOutOfPlacePass:
    """Replaces the graph by an out-of-place one with the same inputs and results.

    Used alone, it also adds the written inputs to the results, and its metadata says so as the aliasing pass does.
    """

    name: ClassVar[str] = "inplace_to_outofplace"
    recompiles: ClassVar[bool] = True

    def run(self, gm: fx.GraphModule, **kwargs: Any) -> tuple[fx.GraphModule, dict[str, Any]]:
        """Rewrite in place.

        Raises:
            RuntimeError: the graph has no out-of-place form; the cause names the node, the line, and what to do instead.
        """
        try:
            host = import_host(gm, kwargs.get("example_inputs"), (*kwargs.get("kernels", ()), *READERS))
            writes = find_writes(host)
            make_out_of_place(host.function, carriers=False)
            contract = contract_of(host)
            graph = _Rewrite(host, writes, contract).graph()
        except Exception as error:
            raise RuntimeError(f"In-place to out-of-place rewrite failed: {error}") from error
        gm.graph = graph  # which recompiles the module
        return gm, contract.metadata() if contract.added else {}


class _Rewrite:
    """The out-of-place graph of one host program."""

    def __init__(self, host: HostProgram, writes: Writes, contract: Contract) -> None:
        self.host, self.writes, self.contract = host, writes, contract
        self.new = fx.Graph()
        self.bindings, self.plan = bindings_of(host), plan_of(host)
        self.nodes = {node.name: node for node in host.gm.graph.nodes}
        mode, self.device, self.keys = fake_mode_of(host.placeholders)
        self.mode = mode or FakeTensorMode()
        self.exporter = FxExporter(self.new, host.gm, self._origin, self._fake, self.device)
        self._memories: dict[int, tuple[fx.Node, torch.dtype, tuple[int, ...]]] = {}
        self._objects = 0

    def graph(self) -> fx.Graph:
        host, new = self.host, self.new
        inputs = {node: new.node_copy(node) for node in host.placeholders}
        types = [cast("TensorType[Attribute]", t) for t in host.function.function_type.inputs.data]
        self.arguments: list[fx.Node] = []
        for number, node in enumerate(host.inputs):
            self.arguments.append(
                inputs[node] if node is not None else self._constant(host.program.arguments[number].name)
            )
        owner: dict[int, int] = {}
        for argument, binding in enumerate(self.bindings):
            other = owner.setdefault(binding.parameter, argument)
            if binding.parameter >= 0 and other != argument:
                names = f"{self.bindings[other].name} and {binding.name}"
                raise UnsupportedError(f"{names} share memory, and a view reaches from one into the other",
                                       hint="pass the whole tensor once")  # fmt: skip
        parameters = [self._parameter(owner[number], kind.get_shape()) for number, kind in enumerate(types)]
        results = self.exporter.run(host.function, parameters)
        for output, parameter in host.function.attributes["alias.table"].data:  # type: ignore[attr-defined]
            self._memories[owner[parameter]] = (results[output], *tensor_type_of(host, output))
        tensors = self._results(results)
        self._output(tensors)
        return new

    # -- inputs --------------------------------------------------------------------------------

    def _constant(self, name: str) -> fx.Node:
        return self.new.get_attr(name)

    def _parameter(self, argument: int, dims: tuple[int, ...]) -> fx.Node:
        """The memory of an argument, in memory order."""
        binding = self.bindings[argument]
        node, window, dtype = self.arguments[argument], binding.window, DTYPES[binding.element]
        if window.strides == Geometry(*window).strides and dims == window.sizes and _row_major(window):
            value = node
        elif memory_order(Geometry(*window)) == dims and window.offset == 0:
            order = permuted(Geometry(*window))
            value = self.exporter.emit(A.permute.default, (node, order), {}, dtype, dims)
        elif window.offset == 0 and len(dims) == 1:
            value = self.exporter.emit(A.as_strided.default, (node, list(dims), [1]), {}, dtype, dims)
        else:
            raise UnsupportedError(f"input {binding.name} is a window {window} on memory that views reach outside of",
                                   hint="pass the whole tensor")  # fmt: skip
        value = self._without_lazy(value, binding.lazy, dtype, dims)  # last: what it computes is dense
        self._memories[argument] = (value, dtype, dims)
        return value

    def _memory(self, argument: int) -> tuple[fx.Node, torch.dtype, tuple[int, ...]]:
        """The final value of an argument's memory."""
        if argument not in self._memories:
            window = self.bindings[argument].window
            self._parameter(argument, memory_order(Geometry(*window)) or (window.reach,))
        return self._memories[argument]

    # -- results -------------------------------------------------------------------------------

    def _results(self, results: Sequence[fx.Node]) -> list[fx.Node]:
        tensors: list[fx.Node] = []
        for source in self.plan:
            tensors.append(self._result(source, tensors, results))
        return tensors

    def _result(self, source: OutputSource, earlier: list[fx.Node], results: Sequence[fx.Node]) -> fx.Node:
        match source.kind:
            case "output":
                return earlier[source.index]
            case "argument":
                return self._final(source.index)
            case "argument_view":
                base = self._memory(source.index)
                return self._window(*base, source.element, source.window, source.lazy)
            case "result":
                kind = tensor_type_of(self.host, source.index)
                return self._window(results[source.index], *kind, source.element, source.window, source.lazy)

    def _final(self, argument: int) -> fx.Node:
        """An argument as it is at exit."""
        binding = self.bindings[argument]
        if not binding.written:
            return self.arguments[argument]
        return self._window(*self._memory(argument), binding.element, binding.window, binding.lazy)

    def _window(
        self, base: fx.Node, dtype: torch.dtype, dims: tuple[int, ...], element: str, window: Window, lazy: str
    ) -> fx.Node:
        """A window on memory, as another dtype where the handle has one."""
        want, place, exporter = DTYPES[element], Geometry(*window), self.exporter
        if want.itemsize != dtype.itemsize:
            count = 1
            for n in dims:
                count *= n
            base = exporter.windows.reshape(base, dtype, dims, (count,))
            missing = -count % max(want.itemsize // dtype.itemsize, 1)
            if missing:
                count += missing
                base = exporter.emit(A.constant_pad_nd.default, (base, [0, missing]), {}, dtype, (count,))
            dims = (count * dtype.itemsize // want.itemsize,)
            base, dtype = exporter.reinterpret(base, dtype, (count,), want, dims), want
        value = exporter.windows.extract(base, dtype, dims, place)
        value = exporter.reinterpret(value, dtype, place.sizes, want, place.sizes)
        return self._without_lazy(value, lazy, want, place.sizes)

    def _without_lazy(self, value: fx.Node, lazy: str, dtype: torch.dtype, sizes: tuple[int, ...]) -> fx.Node:
        """Apply lazy bits; each is its own inverse."""
        for bit, op in (("conj", A.conj_physical.default), ("neg", A.neg.default)):
            if bit in lazy:
                value = self.exporter.emit(op, (value,), {}, dtype, sizes)
        return value

    def _output(self, tensors: Sequence[fx.Node]) -> None:
        host = self.host
        found = [tensors[leaf.index] if leaf.is_tensor else leaf.constant for leaf in host.outputs]
        if self.contract.added:
            rest = iter(found)
            results = [tree.unflatten([next(rest) for _ in range(tree.num_leaves)]) for tree in host.results]
            self.new.output((*results, *(self._final(a) for a in self.contract.added)))
        else:
            self.new.output(host.program.out_tree.unflatten(found) if found else output_node(host.gm.graph).args[0])
        output_node(self.new).meta.update(output_node(host.gm.graph).meta)

    # -- where things come from ----------------------------------------------------------------

    def _origin(self, op: Operation) -> Origin:
        node = self.nodes.get(node_name(op.location))
        if node is None:
            return Origin()
        mentioned = devices_of(node) if node.op in ("call_function", "call_method") else []
        devices = [device for device in mentioned if isinstance(device, (str, torch.device))]
        return Origin(
            {key: node.meta[key] for key in INHERITED if key in node.meta},
            tuple(root.name for root in self.writes.roots.get(node, ())),
            devices[0] if devices else None,
            self._kernel_maker(node) if isinstance(op, KernelCall) else None,
            isinstance(self.host.env.get(node), Handle),
        )

    def _kernel_maker(
        self, node: fx.Node
    ) -> Callable[[Sequence[fx.Node]], tuple[Any, tuple[Any, ...], dict[str, Any]]]:
        """Remakes a kernel call: the host's own arguments, with values for its tensors."""

        def make(operands: Sequence[fx.Node]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
            args, kwargs = map_arg((node.args, node.kwargs), self.host.env.__getitem__)
            call = read_kernel(self.host.kernels, node.target, args, kwargs)
            assert call is not None, "it was imported as a kernel call"
            places = {id(tensor): operand for tensor, operand in zip(tensors_of(call.args), operands, strict=True)}

            def replace(value: Any) -> Any:
                if isinstance(value, fx.Node):
                    return self._filled(self.host.env[value], places)
                if isinstance(value, list):
                    return [replace(item) for item in value]
                if type(value) is tuple:
                    return tuple(replace(item) for item in value)
                if isinstance(value, dict):
                    return {name: replace(item) for name, item in value.items()}
                return value

            return node.target, tuple(map(replace, node.args)), {n: replace(value) for n, value in node.kwargs.items()}

        return make

    def _filled(self, value: Any, places: dict[int, fx.Node]) -> Any:
        """What a node evaluates to, with new nodes for tensors; an object becomes an attribute of the module."""
        if isinstance(value, Handle):
            return places[id(value)]
        if tensors_in(value):
            return pytree.tree_map(
                lambda leaf: self._filled(leaf, places), value, is_leaf=lambda x: isinstance(x, Handle)
            )
        if value is None or isinstance(value, (int, float, str, bool, torch.dtype, torch.device)):
            return value
        while hasattr(self.host.gm, f"_object_{self._objects}"):
            self._objects += 1
        name = f"_object_{self._objects}"
        setattr(self.host.gm, name, value)
        return self.new.get_attr(name)

    def _fake(self, dtype: torch.dtype, sizes: Sequence[int]) -> dict[str, Any]:
        meta = torch.empty(tuple(sizes), dtype=dtype, device="meta")
        value = FakeTensor(self.mode, meta, self.device or torch.device("cpu"))
        return dict.fromkeys(self.keys, value)


def _row_major(window: Window) -> bool:
    return memory_order(Geometry(*window)) == window.sizes and permuted(Geometry(*window)) == list(
        range(len(window.sizes))
    )


def tensor_type_of(host: HostProgram, result: int) -> tuple[torch.dtype, tuple[int, ...]]:
    """Dtype and shape of a result of the purified function."""
    last = host.function.body.block.last_op
    assert last is not None
    return tensor_type(last.operands[result])
