"""What a graph names: tensors, subgraphs and modules that it does not take as arguments (`get_attr`, `call_module`)."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from compiler.errors import CompileError


def state_names(module: torch.nn.Module) -> list[str]:
    return [name for name, _ in (*module.named_parameters(), *module.named_buffers())]


def named(graph: fx.GraphModule, name: str) -> Any:
    value: Any = graph
    for part in name.split("."):
        if not hasattr(value, part):
            raise CompileError(
                f"the graph names the attribute {name!r}, which its module does not have",
                hint="set it on the GraphModule before compiling",
            )
        value = getattr(value, part)
    return value


def named_tensors(graph: fx.GraphModule) -> dict[str, torch.Tensor]:
    """The tensors that a graph and its subgraphs name, by qualified name, in order of first use."""
    found: dict[str, torch.Tensor] = {}
    for node in graph.graph.nodes:
        if node.op == "get_attr":
            value = named(graph, str(node.target))
            if isinstance(value, torch.Tensor):
                found.setdefault(str(node.target), value)
            elif isinstance(value, fx.GraphModule):
                found |= {f"{node.target}.{name}": tensor for name, tensor in named_tensors(value).items()}
        elif node.op == "call_module":
            module = named(graph, str(node.target))
            found |= {f"{node.target}.{n}": named(module, n) for n in state_names(module)}
    return found


__all__ = ["named", "named_tensors", "state_names"]
