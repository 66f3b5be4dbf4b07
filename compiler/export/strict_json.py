"""JSON read with suspicion: every value has the type and range asked for, or the error says where it has not."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from compiler.errors import CompileError

T = TypeVar("T")


class Node:
    """A JSON value and the path to it."""

    def __init__(self, value: Any, path: str):
        self.value, self.path = value, path

    @classmethod
    def parse(cls, text: str, name: str) -> Node:
        """The document `text`; `name` is what errors call it. A key that occurs twice is an error."""

        def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            if len({key for key, _ in pairs}) < len(pairs):
                raise ValueError("a key occurs twice in one object")
            return dict(pairs)

        def refuse(number: str) -> Any:
            raise ValueError(f"{number} is no JSON number")

        try:
            return cls(json.loads(text, object_pairs_hook=unique, parse_constant=refuse), name)
        except (ValueError, RecursionError) as error:
            raise CompileError(f"{name} is not valid JSON: {error}") from error

    def error(self, message: str) -> CompileError:
        """An error at this place."""
        return CompileError(f"{self.path}: {message}")

    def _typed(self, kind: type[T], name: str) -> T:
        if type(self.value) is not kind:
            raise self.error(f"expected {name}, found {type(self.value).__name__}")
        return self.value

    def record(self, keys: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Node]:
        """An object with exactly these keys, and perhaps the optional ones."""
        value = self._typed(dict, "an object")
        for key in keys:
            if key not in value:
                raise self.error(f"the key {key!r} is missing")
        for key in value:
            if key not in keys and key not in optional:
                raise self.error(f"unknown key {key!r}")
        return {key: Node(item, f"{self.path}.{key}") for key, item in value.items()}

    def table(self) -> dict[str, Node]:
        """An object with any keys."""
        return {key: Node(item, f"{self.path}[{key!r}]") for key, item in self._typed(dict, "an object").items()}

    def array(self) -> list[Node]:
        """A list."""
        return [Node(item, f"{self.path}[{n}]") for n, item in enumerate(self._typed(list, "a list"))]

    def tuple_of(self, read: Callable[[Node], T]) -> tuple[T, ...]:
        """A list, every item read by `read`."""
        return tuple(read(item) for item in self.array())

    def integer(self, low: int = 0, high: int = 2**63 - 1) -> int:
        """An integer in a range (by default one that can be a size)."""
        value = self._typed(int, "an integer")
        if not low <= value <= high:
            raise self.error(f"{str(value)[:40]} is not between {low} and {high}")
        return value

    def integers(self) -> tuple[int, ...]:
        """A list of sizes, strides or the like."""
        return self.tuple_of(lambda item: item.integer())

    def text(self) -> str:
        """A string."""
        return self._typed(str, "text")

    def flag(self) -> bool:
        """True or false."""
        return self._typed(bool, "true or false")

    def choice(self, options: Sequence[str]) -> Any:
        """One of these strings."""
        if (value := self.text()) not in options:
            raise self.error(f"{value!r} is none of {', '.join(map(repr, options))}")
        return value
