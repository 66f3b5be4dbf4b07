"""A key that is equal for two compilations exactly when they give the same program.

In it: what every node computes and from what, the geometry of inputs, the contents of captured tensors, who shares
memory, the alias map, kernel configurations, replica groups, compiler options and versions. Not in it: names, counters of
kernels and constants, and paths of the host.
"""

from __future__ import annotations

import functools
import hashlib
import types
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

import jaxlib
import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor

from compiler.frontend.constants import constant_data
from compiler.integrations.vllm_neuron.kernels import is_kernel_call

_VERSIONED = frozenset({"torch", "builtins", "math", "operator", "_operator"})
"""Packages whose functions are told by their names: their versions are in the key."""

_DATA = (bool, int, float, complex, str, bytes, tuple, list, dict, set, frozenset, type(None), torch.dtype, torch.device,
         torch.Tensor, types.FunctionType, functools.partial)  # fmt: skip
"""What counts of the globals that a function reads; of modules and classes their names are in its code."""

_COUNTERS = frozenset({"kernel_idx", "constant_args_key", "arg_names"})


def cache_key(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    aliasing_map: Mapping[int, int] | None = None,
    options: Mapping[str, Any] | None = None,
) -> str:
    """A SHA-256 of the program: the graph after the passes, its inputs, and what it is compiled with."""
    versions = [torch.__version__, jaxlib.__version__, _own_version()]
    parts: list[Any] = [versions, sorted((str(name), _described(value)) for name, value in (options or {}).items())]
    parts += [_inputs(example_inputs), sorted((aliasing_map or {}).items())]
    parts += _graph(gm)
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _own_version() -> str:
    """This package's version; a checkout that is not installed has none."""
    try:
        return metadata.version("fx2hlo")
    except metadata.PackageNotFoundError:
        return ""


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
        return _described(value)

    for node in gm.graph.nodes:
        numbers[node] = len(numbers)
        kwargs: dict[str, Any] = dict(node.kwargs)
        if is_kernel_call(node):
            kwargs = {name: value for name, value in kwargs.items() if name not in _COUNTERS}
        target: Any = "" if node.op in ("placeholder", "output") else _target(node)
        if node.op in ("get_attr", "call_module"):
            target = _content(functools.reduce(getattr, str(node.target).split("."), gm))
        lines.append((node.op, target, plain(node.args), plain(kwargs), node.meta.get("replica_groups")))
    return lines


def _target(node: fx.Node) -> Any:
    target = node.target
    if callable(target) and not hasattr(target, "_schema") and hasattr(target, "__qualname__"):
        return _described(target)  # the text of a function has its address in it
    return _described(target) if isinstance(target, functools.partial) else str(target)


def _function(function: Any, seen: dict[int, int]) -> Any:
    """A function by its name; one of the user's also by what it does: code, defaults, closure, and globals it reads."""
    name = f"{function.__module__}.{function.__qualname__}"
    code = getattr(function, "__code__", None)
    if code is None or str(function.__module__).split(".")[0] in _VERSIONED:
        return name
    if id(function) in seen:
        return ("seen", seen[id(function)])
    seen[id(function)] = len(seen)
    cells = [_described(_cell(cell), seen) for cell in function.__closure__ or ()]
    defaults = [_described(values, seen) for values in (function.__defaults__, function.__kwdefaults__)]
    read = {n: function.__globals__[n] for n in sorted(_names(code)) if n in function.__globals__}
    around = [(n, _described(v, seen)) for n, v in read.items() if isinstance(v, _DATA)]
    return (name, _described(code, seen), defaults, cells, around)


def _cell(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a local function that is not bound yet
        return None


def _names(code: types.CodeType) -> set[str]:
    """Global names that code may read, functions inside included."""
    inner = [_names(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return set(code.co_names).union(*inner)


def _content(value: Any) -> Any:
    """What an attribute of a graph module is: elements of tensors, nodes of graphs, state of modules."""
    if isinstance(value, torch.Tensor):
        data = constant_data(value)
        return (str(value.dtype), tuple(value.shape), value.stride(), hashlib.sha256(data.data.data).hexdigest())
    if isinstance(value, fx.GraphModule):
        return _graph(value)
    if isinstance(value, torch.nn.Module):
        state = [*value.named_parameters(), *value.named_buffers()]
        return (
            type(value).__qualname__,
            repr(value),
            value.training,
            [(name, _content(tensor)) for name, tensor in state],
        )
    return _described(value)


def _described(value: Any, seen: dict[int, int] | None = None) -> Any:
    """A Python object by its type and value, never by its address: the text of one that has no text of its own shows it.

    `seen` numbers the functions described so far, which may call each other.
    """
    seen = {} if seen is None else seen
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor):
        return (kind, _content(value))
    if isinstance(value, (list, tuple)):
        return (kind, [_described(item, seen) for item in value])
    if isinstance(value, (set, frozenset)):
        return (kind, sorted(repr(_described(item)) for item in value))
    if isinstance(value, dict):
        return (kind, sorted((str(name), _described(item, seen)) for name, item in value.items()))
    if isinstance(value, types.CodeType):
        return (kind, value.co_code.hex(), value.co_names, [_described(c, seen) for c in value.co_consts])
    if isinstance(value, functools.partial):
        return (kind, [_described(part, seen) for part in (value.func, value.args, value.keywords)])
    if type(value).__repr__ is object.__repr__:
        return (kind, sorted((name, _described(item, seen)) for name, item in getattr(value, "__dict__", {}).items()))
    if isinstance(value, types.MethodType):
        return (kind, _function(value.__func__, seen), _described(value.__self__, seen))
    if isinstance(value, (types.FunctionType, types.BuiltinFunctionType)):
        return (kind, _function(value, seen))
    return (kind, repr(value))
