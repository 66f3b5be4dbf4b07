"""After the pass every kernel call carries its compiled configuration and says which result lives in which argument."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import fx

from compiler.integrations.vllm_neuron.devices import graphs_of
from compiler.transforms.write_nki_backend_config import EXTRA, Configurations, KernelCompiler


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
        compiled = Configurations(self.kernel_compiler, _describe) if self.kernel_compiler is not None else None
        count = 0
        for graph in graphs_of(gm):
            calls = [node for node in graph.graph.nodes if node.op == "call_function" and is_kernel_call(node)]
            for node in calls:
                self._configure(graph, node, compiled)
            if calls:
                graph.recompile()
            count += len(calls)
        return gm, {"kernel_call_count": count}

    def _configure(self, gm: fx.GraphModule, node: fx.Node, compiled: Configurations | None) -> None:
        lead = f"The backend configuration of kernel call {node.name} could not be written"
        if compiled is None:
            if node.kwargs["backend_config"] or node.kwargs["operand_output_aliases"]:
                return
            raise RuntimeError(f"{lead}: it has none yet, and no kernel compiler was given")
        try:
            given: Any = node.kwargs["args"]
            args = tuple(_resolve(gm, value) for value in given)
            index: Any = node.kwargs["kernel_idx"]
            text, aliases = compiled.of(index, args, {name: node.kwargs[name] for name in EXTRA if name in node.kwargs})
        except Exception as error:
            raise RuntimeError(f"{lead}: {error}") from error
        configured: Any = {**node.kwargs, "backend_config": text, "operand_output_aliases": dict(aliases)}
        node.kwargs = configured


def is_kernel_call(node: fx.Node) -> bool:
    """Whether a node calls a kernel wrapper: by its keywords, whatever toolkit it is of."""
    return {"kernel_idx", "backend_config", "operand_output_aliases", "args"} <= node.kwargs.keys()


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


def _describe(value: Any) -> Any:
    """What of a tensor decides how a kernel is compiled."""
    return (value.dtype, tuple(value.shape), value.stride()) if isinstance(value, torch.Tensor) else None
