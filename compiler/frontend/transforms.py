"""A transform of `torch.func` in a graph as one call: the nodes between its start and its end mean nothing one by one.

`torch.export` writes `vmap(f)(x)` as calls that enter the transform, calls on batched tensors, and calls that leave it. Such a
stretch is run whole; what is observed are the operators that the transform makes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import fx
from torch._C import _functorch  # pyright: ignore[reportAttributeAccessIssue]

from compiler.errors import UnsupportedError

_NESTING = {
    f"_{transform}_{change}_nesting": step
    for transform in ("vmap", "grad", "jvp")
    for change, step in (("increment", 1), ("decrement", -1))
}
"""What a call does to the depth of transforms, by the name that PyTorch gives it."""


@dataclass(frozen=True)
class Stretch:
    """The nodes of an outermost transform.

    Attributes:
        nodes: from the call that enters to the call that leaves, without those that name tensors of the graph.
        inputs: nodes before it that it uses.
        outputs: its nodes that are used after it.
    """

    nodes: tuple[fx.Node, ...]
    inputs: tuple[fx.Node, ...]
    outputs: tuple[fx.Node, ...]

    def function(self, graph: fx.GraphModule) -> Callable[[Sequence[Any]], list[Any]]:
        """Runs the stretch on the values of `inputs`; gives those of `outputs`."""

        def run(values: Sequence[Any]) -> list[Any]:
            env: dict[fx.Node, Any] = dict(zip(self.inputs, values, strict=True))
            interpreter = fx.Interpreter(graph)
            interpreter.env = env
            depth = _functorch.get_dynamic_layer_stack_depth()
            try:
                for node in self.nodes:
                    env[node] = interpreter.run_node(node)
            finally:
                _functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)
            return [env[node] for node in self.outputs]

        return run


def stretch(node: fx.Node) -> Stretch | None:
    """The transform that a node enters, if it does."""
    if _change(node) != 1:
        return None
    nodes, depth, last = list[fx.Node](), 0, node
    while True:
        if last.op != "get_attr":
            nodes.append(last)
        depth += _change(last)
        if depth == 0:
            break
        last = last.next
        if last.op == "output":
            raise UnsupportedError(
                "a transform of torch.func is entered and not left", hint="export the whole transform"
            )
    inside = set(nodes)
    used = dict.fromkeys(n for inner in nodes for n in inner.all_input_nodes if n not in inside)
    return Stretch(tuple(nodes), tuple(used), tuple(n for n in nodes if not inside.issuperset(n.users)))


def _change(node: fx.Node) -> int:
    return _NESTING.get(getattr(node.target, "__name__", ""), 0) if node.op == "call_function" else 0


__all__ = ["Stretch", "stretch"]
