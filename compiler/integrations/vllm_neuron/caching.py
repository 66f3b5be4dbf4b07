"""A key that is equal for two compilations exactly when they give the same program.

In it: what every node computes and from what, the geometry of inputs, the contents of captured tensors, who shares
memory, the alias map, kernel configurations, replica groups, compiler options and versions. Not in it: names, counters of
kernels and constants, and paths of the host.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import jaxlib
import torch
from torch import fx

from compiler.frontend.constants import constant_data
from compiler.integrations.vllm_neuron.kernels import is_kernel_call

_COUNTERS = frozenset({"kernel_idx", "constant_args_key", "arg_names"})


def cache_key(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    aliasing_map: Mapping[int, int] | None = None,
    options: Mapping[str, Any] | None = None,
) -> str:
    """A SHA-256 of the program: the graph after the passes, its inputs, and what it is compiled with."""
    parts: list[Any] = [torch.__version__, jaxlib.__version__, sorted((options or {}).items())]
    parts += [_inputs(example_inputs), sorted((aliasing_map or {}).items())]
    parts += _graph(gm)
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _inputs(values: Sequence[Any]) -> list[Any]:
    storages: dict[int, int] = {}
    found: list[Any] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            memory = storages.setdefault(value.untyped_storage()._cdata, len(storages))
            place = (memory, int(value.storage_offset()))
            found.append((str(value.dtype), tuple(value.shape), value.stride(), value.is_conj(), value.is_neg(), place))
        else:
            found.append((type(value).__name__, repr(value)))
    return found


def _graph(gm: fx.GraphModule) -> list[Any]:
    numbers: dict[fx.Node, int] = {}
    lines: list[Any] = []

    def plain(value: Any) -> Any:
        if isinstance(value, fx.Node):
            return ("node", numbers[value])
        if isinstance(value, (list, tuple)):
            return [plain(item) for item in value]
        if isinstance(value, dict):
            return sorted((str(name), plain(item)) for name, item in value.items())
        if isinstance(value, slice):
            return ("slice", plain(value.start), plain(value.stop), plain(value.step))
        return (type(value).__name__, str(value))

    for node in gm.graph.nodes:
        numbers[node] = len(numbers)
        kwargs: dict[str, Any] = dict(node.kwargs)
        if is_kernel_call(node):
            kwargs = {name: value for name, value in kwargs.items() if name not in _COUNTERS}
        target = "" if node.op in ("placeholder", "output") else _attribute(gm, node) if node.op == "get_attr" else _target(node)
        lines.append((node.op, target, plain(node.args), plain(kwargs), node.meta.get("replica_groups")))
    return lines


def _target(node: fx.Node) -> str:
    target = node.target
    if callable(target) and not hasattr(target, "_schema") and hasattr(target, "__qualname__"):
        return f"{target.__module__}.{target.__qualname__}"  # the text of a function has its address in it
    return str(target)


def _attribute(gm: fx.GraphModule, node: fx.Node) -> Any:
    value: Any = gm
    for part in str(node.target).split("."):
        value = getattr(value, part)
    if isinstance(value, torch.Tensor):
        data = constant_data(value)
        return (str(value.dtype), tuple(value.shape), value.stride(), hashlib.sha256(data.data.data).hexdigest())
    return _graph(value) if isinstance(value, fx.GraphModule) else (type(value).__name__, repr(value))
