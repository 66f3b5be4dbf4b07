"""Argument and result structures as JSON: containers by name, leaves in place, nothing that would have to be executed.

Containers are tuple, list, dict, OrderedDict, and types registered with PyTorch's pytree under a serialised name; the
latter are found in the registry of the reading process, never imported.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from compiler.errors import CompileError
from compiler.export.strict_json import Node
from compiler.program import Leaf

_SEQUENCES: dict[str, type] = {"tuple": tuple, "list": list}
_MAPPINGS: dict[str, type] = {"dict": dict, "ordered_dict": OrderedDict}
_NAMED = (torch.dtype, torch.layout, torch.memory_format)


def is_size(value: object) -> bool:
    """Whether a structure ends here although PyTorch's pytree goes on: it makes a plain tuple of a Size."""
    return type(value) is torch.Size


def tree_to_json(tree: pytree.TreeSpec, leaves: Sequence[Leaf], kind: str) -> Any:
    """JSON of a structure and its leaves; tensor leaves become `{kind: index}`, numbers in them `{"number": index}`."""
    return _encode(tree, iter(leaves), kind)


def tree_from_json(node: Node, kind: str) -> tuple[pytree.TreeSpec, tuple[Leaf, ...]]:
    """The inverse of `tree_to_json`."""
    leaves: list[Leaf] = []
    try:
        return _decode(node, kind, leaves), tuple(leaves)
    except RecursionError as error:
        raise node.error("nested too deeply") from error


def _encode(tree: pytree.TreeSpec, leaves: Iterator[Leaf], kind: str) -> Any:
    if tree.is_leaf():
        leaf = next(leaves)
        if not leaf.is_tensor:
            return {"constant": constant_to_json(leaf.constant)}
        return {"number" if leaf.number else kind: leaf.index}
    children = [_encode(child, leaves, kind) for child in tree.children()]
    for name, type_ in _SEQUENCES.items():
        if tree.type is type_:
            return {name: children}
    for name, type_ in _MAPPINGS.items():
        if tree.type is type_:
            return {name: [[constant_to_json(key), child] for key, child in zip(tree.context, children, strict=True)]}
    name, context = _registered(tree)
    return {"registered": name, "context": constant_to_json(context), "children": children}


def _registered(tree: pytree.TreeSpec) -> tuple[str, Any]:
    """Serialised name and context of a container of another type."""
    type_ = tree.context if tree.type is pytree.namedtuple else tree.type
    known = pytree.SUPPORTED_SERIALIZED_TYPES.get(type_)
    name = _name(type_)
    if known is None or not name:
        raise CompileError(
            f"a {getattr(type_, '__name__', type_)} among the arguments or results cannot be saved",
            hint="use tuples, lists and dicts, or register the type with pytree under a serialized_type_name",
        )
    if tree.type is pytree.namedtuple:
        return name, None
    dump = known.to_dumpable_context
    return name, dump(tree.context) if dump else tree.context


def _name(type_: Any) -> str:
    """The name a registered container type is stored under, or "" if it has none.

    A defaultdict has none here: restoring its factory means importing what the file names.
    """
    known = pytree.SUPPORTED_SERIALIZED_TYPES.get(type_)
    if known is None or type_ is defaultdict:
        return ""
    if known.serialized_type_name != pytree.NO_SERIALIZED_TYPE_NAME_FOUND:
        return known.serialized_type_name
    return f"torch.return_types.{type_.__name__}" if type_.__module__ == "torch.return_types" else ""


def _decode(node: Node, kind: str, leaves: list[Leaf]) -> pytree.TreeSpec:
    entries = node.table()
    if "registered" in entries:
        return _decode_registered(node, kind, leaves)
    if len(entries) != 1:
        raise node.error("expected an object with one key: a container or a leaf")
    name, content = next(iter(entries.items()))
    if name == kind:
        leaves.append(Leaf(content.integer(high=2**31)))
        return pytree.treespec_leaf()
    if name == "number" and kind == "output":
        leaves.append(Leaf(content.integer(high=2**31), number=True))
        return pytree.treespec_leaf()
    if name == "constant":
        leaves.append(Leaf(constant=constant_from_json(content)))
        return pytree.treespec_leaf()
    if name in _SEQUENCES:
        children = [_decode(child, kind, leaves) for child in content.array()]
        return pytree.TreeSpec(_SEQUENCES[name], None, children)
    if name in _MAPPINGS:
        keys: list[Any] = []
        children = []
        for item in content.array():
            pair = item.array()
            if len(pair) != 2:
                raise item.error("expected a key and a value")
            keys.append(constant_from_json(pair[0]))
            children.append(_decode(pair[1], kind, leaves))
        try:
            unique = len(set(keys)) == len(keys)
        except TypeError as error:
            raise content.error("a key cannot be hashed") from error
        if not unique:
            raise content.error("a key occurs twice")
        return pytree.TreeSpec(_MAPPINGS[name], keys, children)
    raise node.error(f"{name!r} is no container and no leaf")


def _decode_registered(node: Node, kind: str, leaves: list[Leaf]) -> pytree.TreeSpec:
    parts = node.record(("registered", "context", "children"))
    name = parts["registered"].text()
    found = [(t, d) for t, d in pytree.SUPPORTED_SERIALIZED_TYPES.items() if name and _name(t) == name]
    if len(found) != 1:
        raise CompileError(
            f"{node.path}: no container type is registered as {name!r} in this process",
            hint="import the module that registers it before loading",
        )
    type_, definition = found[0]
    context: Any = constant_from_json(parts["context"])
    children = [_decode(child, kind, leaves) for child in parts["children"].array()]
    if issubclass(type_, tuple) and hasattr(type_, "_fields"):
        if len(children) != len(type_._fields):  # pyright: ignore
            raise node.error(f"{name} has {len(type_._fields)} fields, not {len(children)}")  # pyright: ignore
        return pytree.TreeSpec(pytree.namedtuple, type_, children)
    if definition.from_dumpable_context:
        try:
            context = definition.from_dumpable_context(context)
        except Exception as error:
            raise parts["context"].error(f"{name} does not accept this context: {error}") from error
    return pytree.TreeSpec(type_, context, children)


# -- constants -----------------------------------------------------------------------------------


def constant_to_json(value: Any) -> Any:
    """JSON of a non-tensor argument or result; exact for every float."""
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return {"float": value.hex()}
    if type(value) is complex:
        return {"complex": [value.real.hex(), value.imag.hex()]}
    if type(value) is torch.Size:
        return {"size": list(value)}
    if type(value) in (tuple, list):
        return {type(value).__name__: [constant_to_json(item) for item in value]}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    if isinstance(value, _NAMED):
        return {"torch": str(value).removeprefix("torch.")}
    raise CompileError(
        f"the constant {value!r} among the arguments or results cannot be saved", hint="pass a number or text"
    )


def constant_from_json(node: Node) -> Any:
    """The inverse of `constant_to_json`."""
    if node.value is None or type(node.value) in (bool, int, str):
        return node.value
    entries = node.table()
    if len(entries) != 1:
        raise node.error("expected a constant")
    name, content = next(iter(entries.items()))
    try:
        if name == "float":
            return float.fromhex(content.text())
        if name == "complex":
            real, imaginary = content.tuple_of(lambda item: float.fromhex(item.text()))
            return complex(real, imaginary)
        if name in ("tuple", "list"):
            items = content.tuple_of(constant_from_json)
            return items if name == "tuple" else list(items)
        if name == "size":
            return torch.Size(content.integers())
        if name == "device":
            return torch.device(content.text())
        if name == "torch" and isinstance(value := getattr(torch, content.text(), None), _NAMED):
            return value
    except (ValueError, OverflowError, RuntimeError) as error:
        raise content.error(str(error)) from error
    raise node.error("expected a constant")
