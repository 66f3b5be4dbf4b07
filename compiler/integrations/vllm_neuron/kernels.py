"""After the pass every kernel call carries its compiled configuration and says which result lives in which argument."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import fx

from compiler.integrations.vllm_neuron.devices import graphs_of

KernelCompiler = Callable[..., tuple[str, Mapping[int, int]]]
"""`compiler(kernel_idx, args)`: configuration text, and {tensor operand: result}, operands counted among the tensors.

One that has parameters called `grid`, `arg_names` or `constant_args_key` gets these too.
"""

_EXTRA = ("grid", "arg_names", "constant_args_key")


class NkiKernelWriteBackendConfigPass:
    """Compiles each distinct kernel and signature once and stores what the compiler says."""

    name: ClassVar[str] = "nki_kernel_backend_config_pass"
    recompiles: ClassVar[bool] = True

    def __init__(self, kernel_compiler: KernelCompiler | None = None) -> None:
        self.kernel_compiler = kernel_compiler

    def run(self, gm: fx.GraphModule, **kwargs: Any) -> tuple[fx.GraphModule, dict[str, Any]]:
        """Configure in place. Calls that are configured already stay as they are, unless a kernel compiler is there.

        Raises:
            RuntimeError: a kernel cannot be compiled, or needs to be and there is no compiler.
        """
        compiled: dict[Any, tuple[str, dict[int, int]]] = {}
        count = 0
        for graph in graphs_of(gm):
            calls = [node for node in graph.graph.nodes if node.op == "call_function" and is_kernel_call(node)]
            for node in calls:
                self._configure(graph, node, compiled)
            if calls:
                graph.recompile()
            count += len(calls)
        return gm, {"kernel_call_count": count}

    def _configure(self, gm: fx.GraphModule, node: fx.Node, compiled: dict[Any, tuple[str, dict[int, int]]]) -> None:
        lead = f"The backend configuration of kernel call {node.name} could not be written"
        if self.kernel_compiler is None:
            if node.kwargs["backend_config"] or node.kwargs["operand_output_aliases"]:
                return
            raise RuntimeError(f"{lead}: it has none yet, and no kernel compiler was given")
        try:
            given: Any = node.kwargs["args"]
            args = tuple(_resolve(gm, value) for value in given)
            extra = {name: node.kwargs[name] for name in _EXTRA if name in _parameters(self.kernel_compiler)}
            index = node.kwargs["kernel_idx"]
            key = (index, _signature(args), _signature([node.kwargs.get(name) for name in _EXTRA]))
            if key not in compiled:
                text, table = self.kernel_compiler(index, args, **extra)
                compiled[key] = (text, _full_positions(args, table))
            text, aliases = compiled[key]
        except Exception as error:
            raise RuntimeError(f"{lead}: {error}") from error
        configured: Any = {**node.kwargs, "backend_config": text, "operand_output_aliases": dict(aliases)}
        node.kwargs = configured


def is_kernel_call(node: fx.Node) -> bool:
    """Whether a node calls a kernel wrapper: by its keywords, whatever toolkit it is of."""
    return {"kernel_idx", "backend_config", "operand_output_aliases", "args"} <= node.kwargs.keys()


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return ()


def _full_positions(args: tuple[Any, ...], table: Mapping[int, int]) -> dict[int, int]:
    """Positions among all arguments, for positions among the tensors."""
    tensors = [position for position, value in enumerate(args) if isinstance(value, torch.Tensor)]
    return {tensors[int(operand)]: int(result) for operand, result in table.items()}


def _resolve(gm: fx.GraphModule, value: Any) -> Any:
    """What an argument of a kernel is: fake tensors for nodes, objects that calls without tensors build, literals."""
    if isinstance(value, fx.Node):
        for key in ("example_value", "val"):
            if key in value.meta:
                return value.meta[key]
        if value.op == "get_attr":
            found: Any = gm
            for part in str(value.target).split("."):
                found = getattr(found, part)
            return found
        if value.op == "call_function" and callable(value.target):
            args = [_resolve(gm, a) for a in value.args]
            return value.target(*args, **{k: _resolve(gm, a) for k, a in value.kwargs.items()})
        raise RuntimeError(f"argument {value.name} has no metadata")
    if isinstance(value, dict):
        return {name: _resolve(gm, item) for name, item in value.items()}
    if isinstance(value, list):
        return [_resolve(gm, item) for item in value]
    if type(value) is tuple:
        return tuple(_resolve(gm, item) for item in value)
    return value


def _signature(value: Any) -> Any:
    """What makes two kernel calls compile to the same thing."""
    if isinstance(value, torch.Tensor):
        return (torch.Tensor, value.dtype, tuple(value.shape), value.stride())
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, *(_signature(item) for item in value))
    if isinstance(value, dict):
        return tuple((name, _signature(item)) for name, item in value.items())
    if isinstance(value, (int, float, str, bool, type(None))):
        return (type(value), repr(value))
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value
