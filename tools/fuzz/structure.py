"""Values in tuples, lists and dictionaries: how a program takes its arguments and gives its results."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

PYTHON_VALUES = (None, 3, 2.5, True, "word")


@dataclass(frozen=True)
class Name:
    """A leaf that stands for a tensor; other leaves are Python values."""

    name: str


def nested(names: Sequence[str], rng: random.Random, depth: int = 2) -> list[Any]:
    """All names in order, some of them inside of containers, with Python values between them."""
    items: list[Any] = []
    rest = list(names)
    while rest:
        if depth and rng.random() < 0.4:
            count = rng.randint(0, len(rest))
            inside = nested(rest[:count], rng, depth - 1)
            kind = rng.choice(("tuple", "list", "dict"))
            keyed = {f"key{position}": item for position, item in enumerate(inside)}
            items.append(tuple(inside) if kind == "tuple" else inside if kind == "list" else keyed)
            rest = rest[count:]
        else:
            items.append(Name(rest.pop(0)))
        if rng.random() < 0.15:
            items.append(rng.choice(PYTHON_VALUES))
    if names and rng.random() < 0.1:
        items.append(Name(rng.choice(names)))  # one tensor in two places
    return items


def places(tree: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every name with the subscripts that lead to it."""
    if isinstance(tree, Name):
        yield tree.name, path
    elif isinstance(tree, (tuple, list)):
        for position, item in enumerate(tree):
            yield from places(item, f"{path}[{position}]")
    elif isinstance(tree, dict):
        for key, item in tree.items():
            yield from places(item, f"{path}[{key!r}]")


def text(tree: Any, written: Callable[[str], str]) -> str:
    """The tree as a Python expression."""
    if isinstance(tree, Name):
        return written(tree.name)
    if isinstance(tree, (tuple, list)):
        inside = ", ".join(text(item, written) for item in tree)
        return f"[{inside}]" if isinstance(tree, list) else f"({inside}{',' * (len(tree) == 1)})"
    if isinstance(tree, dict):
        return "{" + ", ".join(f"{key!r}: {text(item, written)}" for key, item in tree.items()) + "}"
    return repr(tree)


def filled(tree: Any, values: dict[str, Any]) -> Any:
    """The tree with values in place of names."""
    if isinstance(tree, Name):
        return values[tree.name]
    if isinstance(tree, dict):
        return {key: filled(item, values) for key, item in tree.items()}
    return type(tree)(filled(item, values) for item in tree) if isinstance(tree, (tuple, list)) else tree
