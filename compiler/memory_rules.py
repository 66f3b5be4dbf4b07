"""What the attributes of a function say about memory fits its types.

Handles stay inside the storage that the program was given; the alias table pairs outputs and parameters of
one type, each at most once; bindings and output plan name things that exist and windows that fit.
"""

from __future__ import annotations

import math

from xdsl.dialects.builtin import ArrayAttr, MemRefType, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException

from dialects.alias import TENSOR, Binding, Bindings, OutputSource, Plan, Root, Table
from dialects.calls import HandleCall
from dialects.types import DYNAMIC, ELEMENTS, Geometry, element_bytes, geometry


def verify_signature(function: FuncOp) -> None:
    """Raise VerifyException where the attributes of a function of values and its types disagree."""
    inputs, outputs = function.function_type.inputs.data, function.function_type.outputs.data
    bindings = function.attributes.get("alias.bindings")
    table = function.attributes.get("alias.table")
    plan = function.attributes.get("alias.plan")
    if isinstance(table, Table):
        _verify_table(table, inputs, outputs)
    elif table is not None:
        raise VerifyException("`alias.table` is not an #alias.table<...>")
    bound: tuple[Binding, ...] | None = None
    if isinstance(bindings, Bindings):
        bound = bindings.data
        _verify_bindings(bound, inputs)
    elif bindings is not None:
        raise VerifyException("`alias.bindings` is not an #alias.bindings<...>")
    if isinstance(plan, Plan):
        if bound is None:
            raise VerifyException("`alias.plan` needs `alias.bindings`: it speaks of arguments")
        _verify_plan(plan, bound, inputs, outputs)
    elif plan is not None:
        raise VerifyException("`alias.plan` is not an #alias.plan<...>")


# -- handles -----------------------------------------------------------------------------------


class Storages:
    """The bytes of the root that each handle lives in, where known; fed with functions and calls in program order."""

    def __init__(self) -> None:
        self.limit: dict[SSAValue, int] = {}

    def arguments(self, function: FuncOp) -> None:
        """Arguments that share a root agree on its size, and lie inside it."""
        if not function.body.blocks:
            raise VerifyException(f"function @{function.sym_name.data} has no body, and nothing else says what it does")
        sizes: dict[int, int] = {}
        tensors: dict[Attribute, tuple[Attribute, int]] = {}
        attributes = function.arg_attrs.data if isinstance(function.arg_attrs, ArrayAttr) else ()
        for number, argument in enumerate(function.args):
            if isinstance(argument.type, MemRefType):
                geometry(argument.type)
            root = attributes[number].data.get("alias.root") if number < len(attributes) else None
            if root is None:
                continue
            if not isinstance(root, Root):
                raise VerifyException(f"argument {number}: `alias.root` is not an #alias.root<...>")
            identity, size = root.data
            if not isinstance(argument.type, MemRefType):
                raise VerifyException(f"argument {number}: a value of type {argument.type} has no root storage")
            if sizes.setdefault(identity, size) != size:
                raise VerifyException(
                    f"argument {number}: root {identity} has {size} bytes here and {sizes[identity]} before"
                )
            same = attributes[number].data.get(TENSOR)
            if same is not None and tensors.setdefault(same, (argument.type, identity)) != (argument.type, identity):
                raise VerifyException(f"argument {number}: another type or root than others of `{TENSOR} = {same}`")
            self.limit[argument] = size
            _fits(f"argument {number}", argument.type, size)

    def call(self, op: HandleCall) -> None:
        """No result reaches outside the storage it is a window on."""
        for number, (alias, result) in enumerate(zip(op.aliases.data, op.results, strict=True)):
            kind = result.type
            if not isinstance(kind, MemRefType):
                continue
            window = geometry(kind)
            if alias.kind == "fresh":
                if window.static:
                    self.limit[result] = extent(window, element_bytes(kind.element_type))
            elif alias.kind in ("same", "view"):
                size = self.limit.get(op.operands[alias.operand])
                if size is not None:
                    self.limit[result] = size
                    _fits(f"result {number}", kind, size)


def _fits(what: str, kind: MemRefType[Attribute], size: int) -> None:
    window = geometry(kind)
    if window.static and (end := extent(window, element_bytes(kind.element_type))) > size:
        raise VerifyException(f"{what} reaches byte {end} of a storage of {size} bytes")


def extent(window: Geometry, element: int) -> int:
    """Bytes from the start of the root to the end of the last element; 0 for an empty window."""
    if 0 in window.sizes:
        return 0
    last = window.offset + sum((n - 1) * s for n, s in zip(window.sizes, window.strides, strict=True))
    return (last + 1) * element


# -- values ------------------------------------------------------------------------------------


def _verify_table(table: Table, inputs: tuple[Attribute, ...], outputs: tuple[Attribute, ...]) -> None:
    seen_outputs: set[int] = set()
    seen_parameters: set[int] = set()
    for entry in table.data:
        which = f"alias table entry {entry.output} = {entry.parameter}"
        if entry.output >= len(outputs):
            raise VerifyException(f"{which}: there are {len(outputs)} outputs")
        if entry.parameter >= len(inputs):
            raise VerifyException(f"{which}: there are {len(inputs)} parameters")
        if entry.output in seen_outputs or entry.parameter in seen_parameters:
            raise VerifyException(f"{which}: an output and a parameter stand in one entry at most")
        seen_outputs.add(entry.output)
        seen_parameters.add(entry.parameter)
        given, wanted = outputs[entry.output], inputs[entry.parameter]
        if not isinstance(given, TensorType) or not isinstance(wanted, TensorType):
            raise VerifyException(f"{which}: the table speaks of values, not of {given} and {wanted}")
        if given != wanted:
            raise VerifyException(f"{which}: the output has type {given}, the parameter {wanted}")


def _verify_bindings(bindings: tuple[Binding, ...], inputs: tuple[Attribute, ...]) -> None:
    for number, binding in enumerate(bindings):
        which = f"binding {number} ({binding.name!r})"
        element = _element_size(which, binding.element)
        if binding.parameter < 0:
            if binding.written:
                raise VerifyException(f"{which}: a written argument has a parameter")
            continue
        if binding.parameter >= len(inputs):
            raise VerifyException(f"{which}: parameter {binding.parameter}, but there are {len(inputs)}")
        _window_fits(which, binding.geometry, element, inputs[binding.parameter])


def _verify_plan(
    plan: Plan, bindings: tuple[Binding, ...], inputs: tuple[Attribute, ...], outputs: tuple[Attribute, ...]
) -> None:
    for number, source in enumerate(plan.data):
        which = f"output plan entry {number}"
        count = {"argument": len(bindings), "argument_view": len(bindings), "result": len(outputs), "output": number}
        if source.index >= count[source.kind]:
            earlier = "earlier " if source.kind == "output" else ""
            raise VerifyException(
                f"{which}: {source.kind} {source.index}, but there are {count[source.kind]} {earlier}ones"
            )
        memory = _memory_of(source, bindings, inputs, outputs)
        if source.kind in ("argument_view", "result"):
            element = _element_size(which, source.element)
            if memory is not None:
                _window_fits(which, source.geometry, element, memory)


def _memory_of(
    source: OutputSource, bindings: tuple[Binding, ...], inputs: tuple[Attribute, ...], outputs: tuple[Attribute, ...]
) -> Attribute | None:
    """The type of the value that holds the bytes, None for an argument that no parameter holds."""
    if source.kind == "result":
        return outputs[source.index]
    if source.kind == "argument_view" and bindings[source.index].parameter >= 0:
        return inputs[bindings[source.index].parameter]
    return None


def _window_fits(which: str, window: Geometry, element: int, memory: Attribute) -> None:
    if not isinstance(memory, TensorType):
        raise VerifyException(f"{which}: {memory} is no value")
    if min((window.offset, *window.sizes, *window.strides)) < DYNAMIC:
        raise VerifyException(f"{which}: a window has no negative numbers")
    if not window.static or -1 in memory.get_shape():
        return
    size = math.prod(memory.get_shape()) * element_bytes(memory.element_type)
    if (end := extent(window, element)) > size:
        raise VerifyException(f"{which}: the window reaches byte {end} of {memory}, which has {size}")


def _element_size(which: str, element: str) -> int:
    if element not in ELEMENTS:
        raise VerifyException(f"{which}: no element type is called {element!r}")
    return ELEMENTS[element][1]
