"""The Python state around a traced call: it is as before after the call, and what the program took from it is known.

A compiled program repeats tensor operations alone. A call that changes other state is refused; what it read there is
noted, to be checked at each call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from compiler.errors import UnsupportedError
from compiler.program import Link

_SCALARS = (int, float, bool, str, type(None))
_CONSTANTS = (
    *_SCALARS, complex, bytes, range, slice, Enum, np.generic, torch.dtype, torch.device, torch.layout,
    torch.memory_format, torch.Size, type, FunctionType, BuiltinFunctionType,
)  # fmt: skip
_OWN = frozenset(torch.nn.Module().__dict__)
"""Attributes that every module has: hooks, flags, and the dictionaries of its state."""


class Attributes:
    """Everything in the attributes of a module and its submodules, plain lists, sets and dictionaries one level deep."""

    def __init__(self, owner: torch.nn.Module | None) -> None:
        self._modules = list(owner.named_modules()) if owner is not None else []
        self._before = [dict(module.__dict__) for _, module in self._modules]
        self._containers = {
            id(value): (_name(path, key), value, value.copy())
            for (path, module), before in zip(self._modules, self._before, strict=True)
            for key, value in module.__dict__.items()
            if isinstance(value, (dict, list, set))
        }

    def check(self) -> None:
        """Raise UnsupportedError for the first attribute that is not what it was.

        What a known name of a parameter or buffer is bound to is for the caller to judge.
        """
        for (path, module), before in zip(self._modules, self._before, strict=True):
            for key in (*before, *(key for key in module.__dict__ if key not in before)):
                value = module.__dict__.get(key)
                old = before.get(key)
                if key in before and (
                    value is old or (type(value) in _SCALARS and type(value) is type(old) and value == old)
                ):
                    continue
                raise _refusal(_name(path, key), old, value)
            for held, kind in ((module._parameters, "parameter"), (module._buffers, "buffer")):
                old_held: Any = self._containers[id(held)][2]
                for key, value in held.items():
                    if value is not None and old_held.get(key) is None:
                        raise _created(_name(path, key), kind)
        states = {id(d) for _, module in self._modules for d in (module._parameters, module._buffers)}
        for number, (name, value, old) in self._containers.items():
            if number not in states and not _same_items(value, old):
                if any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(value)):
                    raise _created(name, type(value).__name__)
                raise UnsupportedError(
                    f"the call changes the {type(value).__name__} {name}",
                    hint="a compiled program changes tensors only",
                )

    def restore(self) -> None:
        """Put back what the call has changed."""
        for (_, module), before in zip(self._modules, self._before, strict=True):
            if not _same_items(module.__dict__, before):
                module.__dict__.clear()
                module.__dict__.update(before)
        for _, value, old in self._containers.values():
            if _same_items(value, old):
                continue
            value.clear()
            value.extend(old) if isinstance(value, list) else value.update(old)


def _refusal(name: str, old: object, value: object) -> UnsupportedError:
    if isinstance(value, torch.Tensor) and isinstance(old, torch.Tensor):
        return UnsupportedError(
            f"the call binds the plain attribute {name} to a new tensor",
            hint="register it as a buffer, or write into it with copy_",
        )
    if any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(value)):
        return _created(name, "attribute")
    return UnsupportedError(
        f"the call changes the attribute {name}, a {type(old if value is None else value).__name__}",
        hint="keep it in a tensor, registered as a buffer; a compiled program changes tensors only",
    )


def _created(name: str, kind: str) -> UnsupportedError:
    return UnsupportedError(
        f"the {kind} {name}: the call creates state",
        hint="run it once eagerly before compiling, or create it beforehand",
    )


def _same_items(one: Any, other: Any) -> bool:
    if len(one) != len(other):
        return False
    if isinstance(one, set):
        return one == other
    if isinstance(one, list):
        return all(a is b for a, b in zip(one, other, strict=True))
    return all(a is b for a, b in zip(one, other, strict=True)) and all(one[key] is other[key] for key in other)


def _name(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def is_constant(value: object) -> bool:
    """Whether a leaf of arguments or results is a value that never changes, and is known by itself."""
    return isinstance(value, _CONSTANTS) or value is Ellipsis


def plain_values(owner: torch.nn.Module | None) -> dict[str, dict[str, object]]:
    """The numbers, flags, strings and Nones in the attributes of every submodule."""
    return {
        path: {k: v for k, v in module.__dict__.items() if k not in _OWN and type(v) in _SCALARS}
        for path, module in (owner.named_modules() if owner is not None else ())
    }


def links(program: Any, held: Sequence[torch.Tensor]) -> tuple[Link, ...]:
    """The places, from the program on, that lead to its held tensors. What is found nowhere has none."""
    wanted = {id(tensor) for tensor in held}
    found: dict[tuple[int, object], Link] = {}
    seen: set[int] = set()
    # (object, the places that lead to it)
    pending: list[tuple[Any, tuple[Link, ...]]] = [(program, ())]
    while pending and wanted:
        value, way = pending.pop()
        if id(value) in wanted:
            found.update({(id(link.holder), link.key): link for link in way})
            continue
        if id(value) in seen:
            continue
        seen.add(id(value))
        for name, holder, key, item in _inside(value):
            if isinstance(item, (*_SCALARS, ModuleType, type, BuiltinFunctionType, torch.dtype)):
                continue
            prefix = way[-1].name if way else ""
            step = (
                () if holder is None else (Link(f"{prefix}{name}" if prefix else name.lstrip("."), holder, key, item),)
            )
            pending.append((item, way + step))
    return tuple(found.values())


def _inside(value: Any) -> Iterator[tuple[str, Any, Any, Any]]:
    """(name, holder, key, item) of what an object holds; no holder where the place cannot change."""
    if isinstance(value, MethodType):
        yield "", None, None, value.__self__
        yield "", None, None, value.__func__
    elif isinstance(value, FunctionType):
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            if _filled(cell):
                yield f".{name}", cell, None, cell.cell_contents
        for name in value.__code__.co_names:
            if name in value.__globals__:
                yield f".{name}", value.__globals__, name, value.__globals__[name]
    elif isinstance(value, Mapping):
        if isinstance(value, dict):
            yield from ((f"[{key!r}]", value, key, item) for key, item in value.items())
    elif isinstance(value, list):
        yield from ((f"[{n}]", value, n, item) for n, item in enumerate(value))
    elif isinstance(value, tuple):
        yield from ((f"[{n}]", None, None, item) for n, item in enumerate(value))
    elif isinstance(value, torch.nn.Module):
        for held in (value._parameters, value._buffers, value._modules):
            yield from ((f".{key}", held, key, item) for key, item in held.items())
        yield from ((f".{key}", value.__dict__, key, item) for key, item in value.__dict__.items() if key not in _OWN)
        yield "", None, None, type(value).forward
    elif not isinstance(value, torch.Tensor) and isinstance(getattr(value, "__dict__", None), dict):
        yield from ((f".{key}", value.__dict__, key, item) for key, item in value.__dict__.items())


def _filled(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False
