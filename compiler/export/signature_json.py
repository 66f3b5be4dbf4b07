"""A signature as the JSON document `aliases.json` (docs/artifact.md), and back with every field checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from compiler.export.elements import DTYPES
from compiler.export.signature import (
    ARGUMENT_KINDS,
    LAZY,
    OUTPUT_KINDS,
    Alias,
    Binding,
    OutputSource,
    Signature,
    TensorType,
    Window,
)
from compiler.export.strict_json import Node
from compiler.export.trees import tree_from_json, tree_to_json

KEYS = ("parameters", "results", "arguments", "aliases", "plan", "inputs", "outputs", "rebound", "io_map",
        "original_output_count")  # fmt: skip
"""The keys of a document that make up the signature."""

_WINDOW = ("element", "size", "stride", "offset")
_ARGUMENT = ("name", "kind", "parameter", "written", "lazy", *_WINDOW)
_OF_SOME = ("around", "reshaped", "storage_offset")
_INDEX = 2**31 - 1


def signature_to_json(s: Signature) -> dict[str, Any]:
    """The document; raises CompileError for a structure or constant that cannot be stored."""
    contract, reshaped, offsets = s.contract, dict(s.reshaped), dict(s.offsets)
    return {
        "parameters": [{"element": t.element, "shape": list(t.shape)} for t in s.parameters],
        "results": [{"element": t.element, "shape": list(t.shape)} for t in s.results],
        "arguments": [
            {"name": b.name, "kind": b.kind, "parameter": b.parameter if b.parameter >= 0 else None,
             "written": b.written, "lazy": b.lazy, **window_to_json(b.element, b.window), **({"around": True} if b.around else {}),
             **({"reshaped": window_to_json(b.element, reshaped[i])} if i in reshaped else {}),
             **({"storage_offset": offsets[i]} if i in offsets else {})}
            for i, b in enumerate(s.bindings)
        ],
        "aliases": [{"output": a.output, "parameter": a.parameter, "kind": "must-alias"} for a in s.aliases],
        "plan": [_source_to_json(source) for source in s.plan],
        "inputs": tree_to_json(s.in_tree, s.in_leaves, "argument"),
        "outputs": tree_to_json(s.out_tree, s.out_leaves, "output"),
        "rebound": dict(s.rebound),
        "io_map": {str(result): argument for result, argument in contract.results.items()},
        "original_output_count": contract.original_output_count,
    }  # fmt: skip


def signature_from_json(document: dict[str, Node]) -> Signature:
    """The inverse of `signature_to_json`, from the values of KEYS."""
    in_tree, in_leaves = tree_from_json(document["inputs"], "argument")
    out_tree, out_leaves = tree_from_json(document["outputs"], "output")
    signature = Signature(
        bindings=document["arguments"].tuple_of(_binding),
        aliases=document["aliases"].tuple_of(_alias),
        plan=document["plan"].tuple_of(_source),
        parameters=document["parameters"].tuple_of(_type),
        results=document["results"].tuple_of(_type),
        in_tree=in_tree,
        in_leaves=in_leaves,
        out_tree=out_tree,
        out_leaves=out_leaves,
        rebound=tuple((name, index.integer(high=_INDEX)) for name, index in document["rebound"].table().items()),
        reshaped=tuple(found for i, item in enumerate(document["arguments"].array()) for found in _reshaped(i, item)),
        offsets=tuple(found for i, item in enumerate(document["arguments"].array()) for found in _offset(i, item)),
    )
    contract = signature.contract
    stored = {key: index.integer(high=_INDEX) for key, index in document["io_map"].table().items()}
    if stored != {str(result): argument for result, argument in contract.results.items()}:
        raise document["io_map"].error(f"does not follow from the plan, which gives {contract.results}")
    if document["original_output_count"].integer() != contract.original_output_count:
        raise document["original_output_count"].error(f"the program has {contract.original_output_count} results")
    return signature


def window_to_json(element: str, window: Window) -> dict[str, Any]:
    """An element type and a window in its elements."""
    return {"element": element, "size": list(window.sizes), "stride": list(window.strides), "offset": window.offset}


def window_from_json(parts: dict[str, Node]) -> tuple[str, Window]:
    """The inverse of `window_to_json`."""
    window = Window(parts["size"].integers(), parts["stride"].integers(), parts["offset"].integer())
    if len(window.sizes) != len(window.strides):
        raise parts["stride"].error(f"{len(window.strides)} strides for {len(window.sizes)} sizes")
    return parts["element"].choice(tuple(DTYPES)), window


def _type(node: Node) -> TensorType:
    parts = node.record(("element", "shape"))
    return TensorType(parts["element"].choice(tuple(DTYPES)), parts["shape"].integers())


def _binding(node: Node) -> Binding:
    parts = node.record(_ARGUMENT, _OF_SOME)
    element, window = window_from_json(parts)
    around = "around" in parts and parts["around"].flag()
    parameter = -1 if parts["parameter"].value is None else parts["parameter"].integer(high=_INDEX)
    kind = parts["kind"].choice(ARGUMENT_KINDS)
    lazy = parts["lazy"].choice(LAZY)
    return Binding(parts["name"].text(), kind, parameter, element, window, parts["written"].flag(), lazy, around)


def _reshaped(index: int, node: Node) -> Iterator[tuple[int, Window]]:
    parts = node.record(_ARGUMENT, _OF_SOME)
    if "reshaped" in parts:
        element, window = window_from_json(parts["reshaped"].record(_WINDOW))
        if element != parts["element"].value:
            raise parts["reshaped"].error("has another element type than the argument")
        yield index, window


def _offset(index: int, node: Node) -> Iterator[tuple[int, int]]:
    parts = node.record(_ARGUMENT, _OF_SOME)
    if "storage_offset" in parts:
        yield index, parts["storage_offset"].integer()


def _alias(node: Node) -> Alias:
    parts = node.record(("output", "parameter", "kind"))
    parts["kind"].choice(("must-alias",))
    return Alias(parts["output"].integer(high=_INDEX), parts["parameter"].integer(high=_INDEX))


def _source_to_json(source: OutputSource) -> dict[str, Any]:
    document: dict[str, Any] = {"kind": source.kind, "index": source.index}
    if source.kind in ("argument_view", "result"):
        document |= {"lazy": source.lazy, **window_to_json(source.element, source.window)}
    return document


def _source(node: Node) -> OutputSource:
    parts = node.record(("kind", "index"), ("lazy", *_WINDOW))
    kind, index = parts["kind"].choice(OUTPUT_KINDS), parts["index"].integer(high=_INDEX)
    if kind in ("argument", "output"):
        node.record(("kind", "index"))
        return OutputSource(kind, index)
    node.record(("kind", "index", "lazy", *_WINDOW))
    element, window = window_from_json(parts)
    return OutputSource(kind, index, element, window, parts["lazy"].choice(LAZY))
