"""Which results are inputs: `io_map`, the count of original results, and the views that `io_map` cannot name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from compiler.export.io_map import io_map
from compiler.export.signature import Binding, OutputSource, Window
from compiler.integrations.vllm_neuron.host import HostProgram
from dialects.alias import Bindings, Plan

View = tuple[int, tuple[int, ...], tuple[int, ...], int]
"""Input, size, stride, and offset from the input's own offset."""


@dataclass(frozen=True)
class Contract:
    """What a caller has to know about the results of the extended graph.

    Attributes:
        io_map: result -> input whose memory it is; positions count FX results and FX inputs. A result that is a tuple
            or another structure of tensors is one result, and no part of it can be named.
        original_output_count: results from here on were added.
        output_views: result -> view of an input's memory, after the results of `io_map` have been stored there.
        added: arguments of the program whose final values are the added results, in order.
    """

    io_map: dict[int, int]
    original_output_count: int
    output_views: dict[int, View]
    added: tuple[int, ...]

    def metadata(self) -> dict[str, Any]:
        return {
            "io_map": self.io_map,
            "original_output_count": self.original_output_count,
            "output_views": self.output_views,
        }


def contract_of(host: HostProgram) -> Contract:
    """The contract of a program that has been made out of place."""
    bindings, positions = bindings_of(host), host.result_positions()
    sources = plan_of(host)
    plan = [_resolved(source, sources) for source in sources]
    owners, tensors = io_map(bindings, [s if p is not None else None for s, p in zip(plan, positions, strict=True)])
    total = len(host.results)
    added = tuple(argument for result, argument in sorted(owners.items()) if result >= tensors)
    place = {argument: total + n for n, argument in enumerate(added)}
    mapped: dict[int, int] = {}
    for result, argument in owners.items():
        position = positions[result] if result < tensors else place[argument]
        if position is not None and host.inputs[argument] is not None:
            mapped[position] = host.position(argument)
    views: dict[int, View] = {}
    for position, source in zip(positions, plan, strict=True):
        view = _view(source, bindings)
        if position is not None and view is not None and position not in mapped and host.inputs[view[0]] is not None:
            views[position] = (host.position(view[0]), *view[1:])
    return Contract(dict(sorted(mapped.items())), total, views, added)


def _resolved(source: OutputSource, plan: Sequence[OutputSource]) -> OutputSource:
    while source.kind == "output":
        source = plan[source.index]
    return source


def _view(source: OutputSource, bindings: Sequence[Binding]) -> View | None:
    if source.kind not in ("argument", "argument_view"):
        return None
    binding = bindings[source.index]
    if source.kind == "argument":
        return (source.index, binding.window.sizes, binding.window.strides, 0)
    if (source.element, source.lazy) != (binding.element, binding.lazy):
        return None
    return (source.index, source.window.sizes, source.window.strides, source.window.offset - binding.window.offset)


def bindings_of(host: HostProgram) -> list[Binding]:
    attribute = cast(Bindings, host.function.attributes["alias.bindings"])
    return [Binding(b.name, b.kind, b.parameter, b.element, Window(*b.geometry), b.written, b.lazy, b.around)  # type: ignore[arg-type]
            for b in attribute.data]  # fmt: skip


def plan_of(host: HostProgram) -> list[OutputSource]:
    attribute = cast(Plan, host.function.attributes["alias.plan"])
    return [OutputSource(s.kind, s.index, s.element, Window(*s.geometry), s.lazy) for s in attribute.data]
