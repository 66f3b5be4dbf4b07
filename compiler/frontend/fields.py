"""State that lies outside of dictionaries: attributes of classes, slots of objects, elements of arrays, random numbers, caches of
`functools`.

All but the last can be compared with what they were and put back. A cache is emptied where a traced call filled it, since
what it keeps from there are fakes.
"""

from __future__ import annotations

import functools
import pickle
import random
from array import array
from collections.abc import Iterator
from contextlib import suppress
from copy import copy
from types import MemberDescriptorType
from typing import Any

import numpy as np

ARRAYS = (np.ndarray, bytearray, array)
"""What holds elements that are no objects."""

GENERATORS = (random.Random, np.random.Generator, np.random.RandomState)
"""What draws random numbers."""

CACHES = functools._lru_cache_wrapper


def fields(owner: object) -> dict[str, Any]:
    """What a class, or an object in its slots, holds by name; not what Python itself keeps in a class."""
    if isinstance(owner, type):
        return {key: value for key, value in vars(owner).items() if not (key.startswith("__") and key.endswith("__"))}
    slots = dict[str, Any]()
    for kind in type(owner).__mro__:
        for key, place in vars(kind).items():
            if isinstance(place, MemberDescriptorType) and key not in slots:
                with suppress(AttributeError):  # an empty one
                    slots[key] = place.__get__(owner)
    return slots


def dictionary_of(owner: object) -> dict[str, Any] | None:
    """The dictionary of an object's attributes, if it has one; a `__getattr__` of its class is not asked."""
    try:
        held = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        return None
    return held if isinstance(held, dict) else None


def put_fields_back(owner: object, before: dict[str, Any]) -> None:
    """Give a class or slots the fields that they had."""
    kind: Any = type if isinstance(owner, type) else object
    now = fields(owner)
    for key in now.keys() - before.keys():
        kind.__delattr__(owner, key)
    for key, value in before.items():
        if key not in now or now[key] is not value:
            with suppress(AttributeError):  # of objects made in C, which give another number each time, and take none
                kind.__setattr__(owner, key, value)


def held_by(owner: type) -> Iterator[tuple[str, Any]]:
    """What is in a class by name, methods as functions whatever is around them."""
    for key, value in vars(owner).items():
        for part in (value.fget, value.fset) if isinstance(value, property) else (value,):
            if isinstance(part, (staticmethod, classmethod)):
                part = part.__func__
            elif isinstance(part, (functools.cached_property, functools.partialmethod, functools.singledispatchmethod)):
                part = part.func
            yield key, part


class Elements:
    """The elements of an array, as they were. One that cannot be written is not copied: it may be a large file."""

    def __init__(self, owner: Any) -> None:
        fixed = isinstance(owner, np.ndarray) and not owner.flags.writeable
        self._owner, self._before = owner, owner if fixed else copy(owner)

    def changed(self) -> bool:
        now, before = self._owner, self._before
        if now is before:
            return False
        if not isinstance(now, np.ndarray):
            return bytes(now) != bytes(before)
        if now.shape != before.shape or now.dtype != before.dtype:
            return True
        if now.dtype.hasobject:
            return any(one is not other for one, other in zip(now.flat, before.flat, strict=True))
        return now.nbytes > 0 and not np.array_equal(_bytes(now), _bytes(before))

    def restore(self) -> None:
        if self.changed():
            self._owner[... if isinstance(self._owner, np.ndarray) else slice(None)] = self._before


def _bytes(owner: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The memory of an array, by words where there are whole ones only: they compare faster."""
    return np.ascontiguousarray(owner).reshape(-1).view(np.uint8 if owner.nbytes % 8 else np.uint64)


class Draws:
    """Where a generator of random numbers was."""

    def __init__(self, owner: random.Random | np.random.Generator | np.random.RandomState) -> None:
        self._owner, self._before = owner, _state(owner)

    def changed(self) -> bool:
        return pickle.dumps(_state(self._owner)) != pickle.dumps(self._before)

    def restore(self) -> None:
        if isinstance(self._owner, random.Random):
            self._owner.setstate(self._before)
        elif isinstance(self._owner, np.random.Generator):
            self._owner.bit_generator.state = self._before
        else:
            self._owner.set_state(self._before)


def _state(owner: random.Random | np.random.Generator | np.random.RandomState) -> Any:
    if isinstance(owner, random.Random):
        return owner.getstate()
    return owner.bit_generator.state if isinstance(owner, np.random.Generator) else owner.get_state(legacy=False)


class Cache:
    """A function whose results are kept."""

    def __init__(self, owner: functools._lru_cache_wrapper[Any]) -> None:
        self._owner, self._misses = owner, owner.cache_info().misses

    def restore(self) -> None:
        """Forget what was computed since."""
        if self._owner.cache_info().misses != self._misses:
            self._owner.cache_clear()


__all__ = [
    "ARRAYS", "CACHES", "GENERATORS", "Cache", "Draws", "Elements", "dictionary_of", "fields", "held_by", "put_fields_back",
]  # fmt: skip
