"""The Python state around a traced call: it is as before after the call, and what the program took from it is known.

A compiled program repeats tensor operations alone. A call that changes other state is refused; what it read there is
noted, to be checked at each call.
"""

from __future__ import annotations

import builtins
import copy
import functools
import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from threading import Thread
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from compiler.errors import UnsupportedError
from compiler.frontend.fields import (
    ARRAYS,
    CACHES,
    GENERATORS,
    Cache,
    Draws,
    Elements,
    dictionary_of,
    fields,
    held_by,
    put_fields_back,
)
from compiler.frontend.settings import settings
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

    def check(
        self, made_at: Callable[[object], str], is_used: Callable[[torch.Tensor], bool] = lambda _: True
    ) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        """Raise UnsupportedError for the first attribute that is not what it was; `made_at` gives the line of a new tensor.

        A tensor that the program did not use before it bound the name to a like one, as hooks of weight_norm do, is none: such
        names are returned, with the old and the new tensor. What a known name of a parameter or buffer is bound to is for the
        caller to judge.
        """
        found: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        for (path, module), before in zip(self._modules, self._before, strict=True):
            for key in (*before, *(key for key in module.__dict__ if key not in before)):
                value: Any = module.__dict__.get(key)
                old: Any = before.get(key)
                if _same_value(value, old) if key in before else _is_cached(type(module), key, value):
                    continue
                if _alike(old, value) and not is_used(old):
                    found[_name(path, key)] = old, value
                    continue
                raise refusal(_name(path, key), old, value, made_at(value))
            for held, kind in ((module._parameters, "parameter"), (module._buffers, "buffer")):
                old_held: Any = self._containers[id(held)][2]
                for key, value in held.items():
                    if value is not None and old_held.get(key) is None:
                        raise _created(_name(path, key), kind, made_at(value))
        states = {id(d) for _, module in self._modules for d in (module._parameters, module._buffers)}
        for number, (name, value, old) in self._containers.items():
            if number not in states and not _same_items(value, old):
                raise _changed(name, old, value, made_at, False)
        return found

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


class Reached:
    """What a program reaches from its closures and globals on, through containers, objects and classes, as it was before a call.

    The attributes of the modules in `owner` are for `Attributes` to watch.
    """

    def __init__(self, program: Any, owner: torch.nn.Module | None) -> None:
        own = set[int]()
        for module in owner.modules() if owner is not None else ():
            own |= {id(container) for container in _containers(module)}
        self._variables: list[tuple[str, Any, Any, object]] = []  # name, cell or globals, key, value
        self._containers: list[
            tuple[str, Any, Any, type | None]
        ] = []  # name, container, copy, the class where it is an object's attributes
        self._fields: list[tuple[str, object, dict[str, Any]]] = []  # name, class or object with slots, copy
        self._inside: list[tuple[str, Any, Elements | Draws]] = []  # name, array or generator, copy
        self._caches: list[Cache] = []
        self._tensors: list[tuple[str, torch.Tensor, torch.Tensor | None, bool]] = []  # name, leaf, grad, requires_grad
        self._settings = settings()
        seen = set[int]()
        asked = _Asked()
        pending: list[tuple[str, Any]] = [("", program)]
        while pending:
            name, value = pending.pop()
            if isinstance(value, torch.Tensor) and value.is_leaf and id(value) not in seen:
                self._tensors.append((name, value, value.grad, value.requires_grad))
                seen.add(id(value))
            if id(value) in seen or not _may_hold(value):
                continue
            seen.add(id(value))
            for container in _containers(value):
                if id(container) not in own:
                    kind = type(value) if container is not value else None
                    self._containers.append((name, container, _copy(container), kind))
            pending += asked.reached(name, value)
            if isinstance(value, (*ARRAYS, *GENERATORS)):
                self._inside.append((name, value, Elements(value) if isinstance(value, ARRAYS) else Draws(value)))
            elif isinstance(value, CACHES):
                self._caches.append(Cache(value))
            elif not isinstance(value, _CALLABLES) and ((held := fields(value)) or isinstance(value, type)):
                self._fields.append((name, value, held))
            if isinstance(value, FunctionType) and not _of_library(value.__globals__.get("__name__")):
                self._variables += ((f"{name}.{key}".lstrip("."), *place) for key, place in _variables(value))
            pending += (
                (f"{name}{step}".lstrip("."), item)
                for step, holder, _, item in _inside(value)
                if not _globals_of_library(value, holder)
            )

    def check(self, made_at: Callable[[object], str]) -> None:
        """Raise UnsupportedError for the first place that is not what it was."""
        for name, holder, key, old in self._variables:
            value = _read(holder, key)
            if not _same_value(value, old):
                raise refusal(name, old, value, made_at(value), "variable")
        for name, value, old, kind in self._containers:
            if not _same_items(value, old) and not (kind and _same_items(_not_cached(kind, value, old), old)):
                raise _changed(name, old, value, made_at, kind is not None)
        for name, owner, old in self._fields:
            if not _same_items(now := fields(owner), old):
                raise _changed(name, old, now, made_at, True)
        for name, value, inside in self._inside:
            if inside.changed():
                raise UnsupportedError(
                    f"the call changes the {type(value).__name__} {name}", location=made_at(None),
                    hint="keep it in a tensor; a compiled program changes tensors only",
                )  # fmt: skip
        for name, tensor, grad, recorded in self._tensors:
            if tensor.grad is not grad or tensor.requires_grad != recorded:
                what = "grad" if tensor.grad is not grad else "requires_grad"
                raise UnsupportedError(
                    f"the call sets {what} of the tensor {name}", location=made_at(tensor.grad),
                    hint="do it outside of the program; a compiled program changes elements only",
                )  # fmt: skip
        for (what, now, _), (_, old, _) in zip(settings(), self._settings, strict=True):
            if now != old:
                raise UnsupportedError(
                    f"the call changes {what}", location=made_at(None),
                    hint="do it outside of the program, and in no other thread meanwhile; a compiled program changes tensors only",
                )  # fmt: skip

    def restore(self) -> None:
        """Put back what the call has changed."""
        for _, holder, key, old in self._variables:
            if _read(holder, key) is old:
                continue
            if isinstance(holder, CellType):
                if old is _ABSENT:
                    del holder.cell_contents
                else:
                    holder.cell_contents = old
            elif old is _ABSENT:
                del holder[key]
            else:
                holder[key] = old
        for _, value, old, _ in self._containers:
            if not _same_items(value, old):
                value.clear()
                value.extend(old) if isinstance(value, (list, deque)) else value.update(old)
        for _, owner, old in self._fields:
            put_fields_back(owner, old)
        for kept in (*(inside for *_, inside in self._inside), *self._caches):
            kept.restore()
        for _, tensor, grad, recorded in self._tensors:
            if tensor.grad is not grad:
                tensor.grad = grad
            if tensor.requires_grad != recorded:
                tensor.requires_grad_(recorded)
        for (_, now, _), (_, old, put_back) in zip(settings(), self._settings, strict=True):
            if now != old:
                put_back()


class _Asked:
    """What classes hold: of it a program reaches what its functions name. Classes of large libraries hold much more."""

    def __init__(self) -> None:
        self._names = set[str]()
        self._waiting: dict[str, list[tuple[str, Any]]] = {}

    def reached(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        """What else is reached by what has been reached now: names, and what they stand for."""
        if isinstance(value, type):
            yield from ((base.__name__, base) for base in value.__mro__[1:])
            for key, item in held_by(value):
                asked = value.__name__ if key == "__init__" else key
                if asked in self._names or asked.startswith("__"):  # Python calls the latter by itself
                    yield f"{name}.{key}", item
                else:
                    self._waiting.setdefault(asked, []).append((f"{name}.{key}", item))
        elif isinstance(value, CACHES):
            yield name, value.__wrapped__
        elif isinstance(value, FunctionType):
            for key in set(_global_names(value.__code__)) - self._names:
                self._names.add(key)
                yield from self._waiting.pop(key, ())
        elif not isinstance(value, (*_CALLABLES, *_WATCHED, *ARRAYS, *GENERATORS)):
            yield type(value).__name__, type(value)
            yield from ((f"{name}.{key}".lstrip("."), item) for key, item in fields(value).items())


_ABSENT = object()
_WATCHED = (dict, list, set, deque)
_LIBRARIES = frozenset(sys.stdlib_module_names) - {"builtins", "collections", "types"} | {
    "torch", "numpy", "einops", "loguru", "pydantic", "rich", "tqdm", "wandb",
}  # fmt: skip
"""Whose objects keep caches and counters of their own, which mean nothing to a program."""


def _may_hold(value: object) -> bool:
    """Whether the state of a program may be in the object: not in what belongs to a library."""
    if isinstance(value, (torch.nn.Module, torch.optim.Optimizer, *ARRAYS, *GENERATORS, CACHES)):
        return True
    if isinstance(value, type):
        return not _of_library(value.__module__)
    if isinstance(value, Thread):
        return False  # which runs by itself, and changes what it holds whatever the program does
    if isinstance(value, (*_SCALARS, complex, bytes, ModuleType, BuiltinFunctionType, torch.Tensor, Enum)):
        return False
    return isinstance(value, (*_CALLABLES, *_WATCHED)) or not _of_library(type(value).__module__)


def _of_library(module: object) -> bool:
    return str(module).partition(".")[0] in _LIBRARIES


def _globals_of_library(value: object, holder: Any) -> bool:
    """Whether the place is a global variable of a library, which a function decorated there leads to."""
    return isinstance(value, FunctionType) and holder is value.__globals__ and _of_library(holder.get("__name__"))


def _containers(value: Any) -> tuple[Any, ...]:
    """The containers that hold what the object holds."""
    if isinstance(value, torch.nn.Module):
        return value.__dict__, *(held for key, held in value.__dict__.items() if key in _OWN and isinstance(held, dict))
    if isinstance(value, FunctionType):
        return (value.__dict__,)
    inside = None if isinstance(value, _CALLABLES) else dictionary_of(value)
    found = (inside,) if inside is not None else ()
    return (*found, value) if isinstance(value, _WATCHED) else found


def _variables(function: FunctionType) -> Iterator[tuple[str, tuple[Any, Any, object]]]:
    """The variables of a function that live outside of it: name, and (cell or globals, key, value)."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield name, (cell, None, _read(cell, None))
    for name in _global_names(function.__code__):
        if name in function.__globals__ or not hasattr(builtins, name):
            yield name, (function.__globals__, name, _read(function.__globals__, name))


def _global_names(code: CodeType) -> Iterator[str]:
    """Names that a function and those defined inside it may mean as globals."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _global_names(inner)


def _read(holder: Any, key: Any) -> object:
    if isinstance(holder, CellType):
        try:
            return holder.cell_contents
        except ValueError:
            return _ABSENT
    return holder.get(key, _ABSENT)


def _copy(container: Any) -> Any:
    if isinstance(container, dict):
        return dict(_pairs(container))
    return next(kind for kind in _WATCHED if isinstance(container, kind))(container)


def _pairs(held: Any) -> list[tuple[Any, Any]]:
    """The items in a dictionary: a subclass may make others when it is asked for them, and loads half a library then."""
    return [*(OrderedDict if isinstance(held, OrderedDict) else dict).items(held)]


def refusal(name: str, old: object, value: object, where: str, kind: str = "attribute") -> UnsupportedError:
    if isinstance(value, torch.Tensor) and isinstance(old, torch.Tensor):
        plain = "plain attribute" if kind == "attribute" else kind
        return UnsupportedError(
            f"the call binds the {plain} {name} to a new tensor", location=where,
            hint="register it as a buffer of the module, or write into it with copy_",
        )  # fmt: skip
    if any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(value)):
        return _created(name, kind, where)
    known = old if value is None or value is _ABSENT else value
    return UnsupportedError(
        f"the call changes the {kind} {name}, a {type(known).__name__}", location=where,
        hint="keep it in a tensor, registered as a buffer; a compiled program changes tensors only",
    )  # fmt: skip


def _changed(
    name: str, old: Any, value: Any, made_at: Callable[[object], str], attributes: bool
) -> UnsupportedError:  # fmt: skip
    """What to say of a container, or of the attributes of an object, with other items than before."""
    items: Any = _pairs(value) if isinstance(value, dict) else enumerate(value) if len(value) == len(old) else ()
    for key, now in items if not isinstance(value, set) else ():
        before = old.get(key, _ABSENT) if isinstance(value, dict) else old[key]
        if not _same_value(now, before) and before is not _ABSENT:
            inside = f"{name}.{key}".lstrip(".") if attributes else f"{name}[{key!r}]"
            return refusal(inside, before, now, made_at(now), "attribute" if attributes else "item")
    kind = f"object {name}".rstrip() if attributes else f"{type(value).__name__} {name}"
    leaves = pytree.tree_leaves(list(value.values()) if isinstance(value, dict) else list(value))
    if any(isinstance(leaf, torch.Tensor) for leaf in leaves):
        return _created(name, kind.partition(" ")[0], made_at(leaves))
    return UnsupportedError(
        f"the call changes the {kind}", location=made_at(None), hint="a compiled program changes tensors only"
    )


def _created(name: str, kind: str, where: str) -> UnsupportedError:
    return UnsupportedError(
        f"the {kind} {name}: the call creates state", location=where,
        hint="run it once eagerly before compiling, or create it beforehand",
    )  # fmt: skip


def _alike(one: object, other: object) -> bool:
    """Whether both are tensors, and a program that looks at no elements takes one for the other."""
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return False
    kinds = {isinstance(tensor, torch.nn.Parameter) for tensor in (one, other)}
    return len(kinds) == 1 and (one.dtype, one.shape, one.stride()) == (other.dtype, other.shape, other.stride())


def _same_value(one: object, other: object) -> bool:
    return one is other or (type(one) in _SCALARS and type(one) is type(other) and one == other)


def _same_items(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        pairs, others = _pairs(one), _pairs(other)
        return len(pairs) == len(others) and all(
            (key is old or key == old) and _same_value(value, before)
            for (key, value), (old, before) in zip(pairs, others, strict=True)
        )
    if len(one) != len(other):
        return False
    if isinstance(one, set):
        return one == other
    return all(map(_same_value, one, other))


def _not_cached(kind: type, attributes: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """The attributes of an object but for those that `functools.cached_property` has added."""
    return {k: v for k, v in attributes.items() if k in before or not _is_cached(kind, k, v)}


def _is_cached(kind: type, key: str, value: object) -> bool:
    """Whether an attribute is one that its class computes once, and says nothing of the call."""
    made = next((vars(base)[key] for base in kind.__mro__ if key in vars(base)), None)
    return isinstance(made, functools.cached_property) and _is_plain(value)


def _name(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def is_constant(value: object) -> bool:
    """Whether a leaf of arguments or results is a value that never changes, and is known by itself."""
    return isinstance(value, _CONSTANTS) or value is Ellipsis


def plain_values(owner: torch.nn.Module | None) -> dict[str, dict[str, object]]:
    """The numbers, flags, strings, Nones, types and functions in the attributes of every submodule, and small containers of
    such; what can change in place is copied."""
    return {
        path: {k: copy.deepcopy(v) for k, v in module.__dict__.items() if k not in _OWN and _is_plain(v)}
        for path, module in (owner.named_modules() if owner is not None else ())
    }


def _is_plain(value: Any, depth: int = 4) -> bool:
    if type(value) not in (tuple, list, dict, set) or len(value) > _FEW:
        return is_constant(value)
    inner = [*value, *(value.values() if isinstance(value, dict) else ())]
    return depth > 0 and all(_is_plain(item, depth - 1) for item in inner)


_FEW = 64
"""Items of a container that is compared at each call."""


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


_CALLABLES = (FunctionType, MethodType, functools.partial)


def _inside(value: Any) -> Iterator[tuple[str, Any, Any, Any]]:
    """(name, holder, key, item) of what an object holds; no holder where the place cannot change."""
    if isinstance(value, MethodType):
        yield "", None, None, value.__self__
        yield "", None, None, value.__func__
    elif isinstance(value, functools.partial):
        yield "", None, None, value.func
        yield ".args", None, None, value.args
        yield ".keywords", None, None, value.keywords
    elif isinstance(value, FunctionType):
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            if _filled(cell):
                yield f".{name}", cell, None, cell.cell_contents
        for name in _global_names(value.__code__):
            if name in value.__globals__:
                yield f".{name}", value.__globals__, name, value.__globals__[name]
        yield ".__defaults__", None, None, value.__defaults__
        yield ".__kwdefaults__", None, None, value.__kwdefaults__
    elif isinstance(value, Mapping):
        if isinstance(value, dict):
            yield from ((f"[{key!r}]", value, key, item) for key, item in _pairs(value))
    elif isinstance(value, (list, deque)):
        yield from ((f"[{n}]", value, n, item) for n, item in enumerate(value))
    elif isinstance(value, tuple):
        yield from ((f"[{n}]", None, None, item) for n, item in enumerate(value))
    elif isinstance(value, torch.nn.Module):
        for held in (value._parameters, value._buffers, value._modules):
            yield from ((f".{key}", held, key, item) for key, item in held.items())
        yield from ((f".{key}", value.__dict__, key, item) for key, item in value.__dict__.items() if key not in _OWN)
        yield "", None, None, type(value).forward
    elif not isinstance(value, torch.Tensor) and (held := dictionary_of(value)) is not None:
        yield from ((f".{key}", held, key, item) for key, item in held.items())
        call = next((vars(c)["__call__"] for c in type(value).__mro__ if "__call__" in vars(c)), None)
        if isinstance(call, FunctionType):
            yield "", None, None, call


def _filled(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False
