"""The flat FX contract of a program: results that are an argument's memory, and results added for written arguments.

Positions count the arguments of the original program and its results, Python values included, whatever became of them
in HLO.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from compiler.export.signature import Binding, OutputSource


class IoMap(NamedTuple):
    """Result -> argument whose memory it is; results from `original_output_count` on are added ones."""

    results: dict[int, int]
    original_output_count: int


def io_map(bindings: Sequence[Binding], results: Sequence[OutputSource | None]) -> IoMap:
    """The contract of a program with these arguments and original results; None is a result that is no tensor.

    A result owns an argument if it is that argument in full: the same object, or a view with the same window, element
    type and lazy bits. An argument has one owner, the first. Every written argument without an owner is added as a
    result, in argument order.
    """
    owners: dict[int, int] = {}
    for position, source in enumerate(results):
        if source is None or source.kind not in ("argument", "argument_view") or source.index in owners:
            continue
        if source.kind == "argument" or _covers(source, bindings[source.index]):
            owners[source.index] = position
    added = [index for index, binding in enumerate(bindings) if binding.written and index not in owners]
    owners.update((index, len(results) + n) for n, index in enumerate(added))
    return IoMap({result: index for index, result in sorted(owners.items(), key=lambda item: item[1])}, len(results))


def _covers(source: OutputSource, binding: Binding) -> bool:
    same_bits = (source.element, source.lazy) == (binding.element, binding.lazy)
    return same_bits and source.window.significant() == binding.window.significant()
