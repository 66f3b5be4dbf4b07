"""After the pass every input that the graph writes is among its results, and `io_map` says which result is which input."""

from __future__ import annotations

import operator
from typing import Any, ClassVar

from torch import fx

from compiler.frontend.kernels import READERS
from compiler.integrations.vllm_neuron.contract import contract_of
from compiler.integrations.vllm_neuron.host import HostProgram, Write, find_writes, import_host
from compiler.transforms.in_place_to_out_of_place import make_out_of_place


class AliasingOutputRewritePass:
    """Adds written inputs to the results and marks writing nodes with `meta["root_input"]`; the graph stays in place.

    `io_map`, `original_output_count` and `output_views` are counted in FX inputs and FX results.
    """

    name: ClassVar[str] = "aliasing_output_rewrite"
    recompiles: ClassVar[bool] = True

    def run(self, gm: fx.GraphModule, **kwargs: Any) -> tuple[fx.GraphModule, dict[str, Any]]:
        """Rewrite in place. `example_inputs`, when given, say more about shared memory than the graph's metadata;
        `kernels` read other toolkits' kernel operators.

        Raises:
            RuntimeError: a write cannot be expressed; the cause names the node, the line, and what to do instead.
        """
        try:
            host = import_host(gm, kwargs.get("example_inputs"), (*kwargs.get("kernels", ()), *READERS))
            writes = find_writes(host)
            make_out_of_place(host.function, carriers=False)
            contract = contract_of(host)
        except Exception as error:
            raise RuntimeError(f"Aliasing output rewrite failed: {error}") from error
        for node, roots in writes.roots.items():
            inputs = [root for root in roots if root.op == "placeholder"]
            if inputs:
                node.meta["root_input"] = inputs[0]
        added: list[Any] = []
        for argument in contract.added:
            kernel = writes.kernels.get(argument)
            added.append(_kernel_result(host, kernel) if kernel is not None else host.inputs[argument])
        if added:
            output = output_node(gm.graph)
            output.args = ((*_results(host, output), *added),)
            gm.recompile()
        return gm, contract.metadata()


def output_node(graph: fx.Graph) -> fx.Node:
    return next(node for node in reversed(graph.nodes) if node.op == "output")


def _results(host: HostProgram, output: fx.Node) -> list[Any]:
    """The results of a graph, one for each of `host.results`."""
    whole = output.args[0]
    if isinstance(whole, (list, tuple)):
        return list(whole)
    if isinstance(whole, fx.Node) and isinstance(host.env[whole], (list, tuple)):
        return [_item(whole, position) for position in range(len(host.results))]
    return [whole for _ in host.results]


def _kernel_result(host: HostProgram, write: Write) -> fx.Node:
    """The node of a kernel's result; a tuple element that nobody took is taken."""
    node = write.node
    if not isinstance(host.env[node], (list, tuple)):
        return node
    return _item(node, write.result)


def _item(node: fx.Node, position: int) -> fx.Node:
    """An element of the tuple that a node gives."""
    for user in node.users:
        if user.target is operator.getitem and user.args == (node, position):
            return user
    with node.graph.inserting_after(node):
        item = node.graph.call_function(operator.getitem, (node, position))
    for key in ("val", "example_value"):
        if isinstance(node.meta.get(key), (list, tuple)):
            item.meta[key] = node.meta[key][position]
    return item
