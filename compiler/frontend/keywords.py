"""FX writes a graph as Python source, in which an overload called `from` is a syntax error: such calls get another name."""

from __future__ import annotations

import functools
import keyword
from collections.abc import Callable
from typing import Any

from torch import fx
from torch._ops import OpOverload


def name_keywords(graph: fx.Graph) -> None:
    """Put functions with names of their own in place of overloads that are called like a keyword of Python."""
    for node in graph.nodes:
        if isinstance(node.target, OpOverload) and keyword.iskeyword(node.target._overloadname):
            node.target = _named(node.target)


@functools.cache
def _named(op: OpOverload) -> Callable[..., Any]:
    """One function for each overload, so that calls of one signature stay alike."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return op(*args, **kwargs)

    call.__name__ = call.__qualname__ = op.name().replace("::", "_").replace(".", "_")
    return call
