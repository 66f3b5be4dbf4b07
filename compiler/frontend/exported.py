"""An ExportedProgram as it is: the training form, which writes in place, or the decomposed form, which states its writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ConstantArgument,
    InputKind,
    InputSpec,
    OutputKind,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
)
from torch.utils import _pytree as pytree

from compiler.errors import CompileError, UnsupportedError
from compiler.frontend.forms import is_symbolic
from compiler.frontend.inputs import Captured, Input, unique
from compiler.frontend.scalars import without_numbers
from compiler.frontend.sources import node_source
from compiler.program import Leaf

_KINDS = {InputKind.PARAMETER: "parameter", InputKind.BUFFER: "buffer", InputKind.CONSTANT_TENSOR: "constant"}
_UPDATES = {OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION, OutputKind.PARAMETER_MUTATION}


def capture_exported(
    program: ExportedProgram, example_inputs: Sequence[Any] | None = None, kwargs: Mapping[str, Any] | None = None
) -> Captured:
    """The graph of an exported program with its real tensors, sharing kept.

    It is compiled for the inputs it was exported for; CompileError if other ones are given.
    """
    if example_inputs is not None:
        _check_examples(program, example_inputs, kwargs)
    graph = without_numbers(program.graph_module)
    _refuse_half_assignments(graph)
    signature = program.graph_signature
    placeholders = [n for n in graph.graph.nodes if n.op == "placeholder"]
    in_spec, out_spec = program.call_spec.in_spec, program.call_spec.out_spec
    assert in_spec is not None and out_spec is not None
    examples = iter(pytree.tree_leaves(program.example_inputs) if program.example_inputs is not None else ())
    taken: set[str] = set()
    inputs: list[Input] = []
    leaves: list[Leaf] = []
    for node, spec in zip(placeholders, signature.input_specs, strict=True):
        if spec.kind in _KINDS:
            tensor = _held(program, spec)
            inputs.append(Input(unique(str(spec.target), taken), _KINDS[spec.kind], tensor, real=True))  # type: ignore[arg-type]
        elif spec.kind is InputKind.USER_INPUT:
            item = _user_input(node.name, spec, next(examples, None), node.meta.get("val"))
            item.name = unique(item.name, taken)
            leaves.append(Leaf(len(inputs)) if item.tensor is not None else Leaf(constant=item.constant))
            inputs.append(item)
        else:
            raise UnsupportedError(f"the exported program takes a {spec.kind.name.lower()}, {spec.target or node.name}")
    position = {spec.target if spec.kind in _KINDS else node.name: i
                for i, (node, spec) in enumerate(zip(placeholders, signature.input_specs, strict=True))}  # fmt: skip
    outputs: list[Leaf] = []
    updates: list[tuple[int, int]] = []
    for index, spec in enumerate(signature.output_specs):
        if spec.kind in _UPDATES:
            updates.append((position[str(spec.target)], index))
        elif spec.kind is not OutputKind.USER_OUTPUT:
            raise UnsupportedError(f"the exported program returns a {spec.kind.name.lower()}")
        elif isinstance(spec.arg, ConstantArgument):
            outputs.append(Leaf(constant=spec.arg.value))
        else:
            numbers = (SymIntArgument, SymFloatArgument, SymBoolArgument)
            outputs.append(Leaf(index, number=isinstance(spec.arg, numbers) and graph is not program.graph_module))
    return Captured(graph, tuple(inputs), in_spec, tuple(leaves), out_spec, tuple(outputs), updates=tuple(updates))


def _refuse_half_assignments(graph: fx.GraphModule) -> None:
    """UnsupportedError for `x.data = y`: the export keeps the question whether x can become y, and not that it does."""
    for node in graph.graph.nodes:
        if node.target is torch.ops.aten._has_compatible_shallow_copy_type.default:
            raise UnsupportedError(
                "torch.export has left out an assignment to `.data`", location=str(node_source(node) or ""), node=node.name,
                hint="write into the tensor: x.copy_(y), and export again",
            )  # fmt: skip


def _check_examples(program: ExportedProgram, args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> None:
    hint = "give no example_inputs, or export the program for these"
    if isinstance(args, torch.Tensor):
        raise CompileError("example inputs are one tensor", hint="give the positional arguments as a tuple")
    in_spec = program.call_spec.in_spec
    assert in_spec is not None
    positional = in_spec.children()[0]
    found, tree = pytree.tree_flatten(tuple(args))
    if tree != positional:
        raise CompileError(f"the program was exported for {positional.num_leaves} positional tensors and values in another "
                           f"structure than the {len(found)} of example_inputs", hint=hint)  # fmt: skip
    if kwargs is not None:
        more, tree = pytree.tree_flatten(dict(kwargs))
        if tree != in_spec.children()[1]:
            raise CompileError("the program was exported for other keyword arguments", hint=hint)
        found += more
    nodes = {n.name: n.meta.get("val") for n in program.graph_module.graph.nodes if n.op == "placeholder"}
    specs = [s for s in program.graph_signature.input_specs if s.kind is InputKind.USER_INPUT]
    for spec, value in zip(specs, found, strict=False):
        if isinstance(spec.arg, ConstantArgument):
            want, same = repr(spec.arg.value), type(value) is type(spec.arg.value) and value == spec.arg.value
            got = f"a {type(value).__name__}" if isinstance(value, torch.Tensor) else repr(value)
        else:
            meta = nodes[spec.arg.name]
            if not isinstance(meta, torch.Tensor):
                continue
            want, got = f"{meta.dtype} {tuple(meta.shape)}", f"a {type(value).__name__}"
            same = False
            if isinstance(value, torch.Tensor):
                got = f"{value.dtype} {tuple(value.shape)}"
                same = value.dtype is meta.dtype and value.dim() == meta.dim() and all(
                    not isinstance(size, int) or size == given
                    for size, given in zip(meta.shape, value.shape, strict=True)
                )  # fmt: skip
        if not same:
            raise CompileError(
                f"input {spec.arg.name} of the exported program is {want}, example_inputs has {got}", hint=hint
            )


def _held(program: ExportedProgram, spec: InputSpec) -> torch.Tensor:
    name = str(spec.target)
    tensor: Any = program.state_dict.get(name, program.constants.get(name))
    if not isinstance(tensor, torch.Tensor):
        raise UnsupportedError(f"the exported program has no tensor for {name}")
    return tensor


def _user_input(name: str, spec: InputSpec, example: Any, meta: Any) -> Input:
    if isinstance(spec.arg, ConstantArgument):
        return Input(name, "input", None, constant=spec.arg.value)
    if isinstance(meta, torch.Tensor) and is_symbolic(meta):
        return Input(name, "input", meta, real=False)
    if isinstance(example, torch.Tensor):
        return Input(name, "input", example, real=True)
    if isinstance(meta, torch.Tensor):
        return Input(name, "input", meta, real=False)
    raise UnsupportedError(f"input {name} of the exported program is a {type(meta).__name__} known only at run time")
