"""An ExportedProgram as it is: the training form, which writes in place, or the decomposed form, which states its writes."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, InputSpec, OutputKind
from torch.utils import _pytree as pytree

from compiler.errors import UnsupportedError
from compiler.frontend.forms import is_symbolic
from compiler.frontend.inputs import Captured, Input, unique
from compiler.program import Leaf

_KINDS = {InputKind.PARAMETER: "parameter", InputKind.BUFFER: "buffer", InputKind.CONSTANT_TENSOR: "constant"}
_UPDATES = {OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION, OutputKind.PARAMETER_MUTATION}


def capture_exported(program: ExportedProgram) -> Captured:
    """The graph of an exported program with its real tensors, sharing kept."""
    graph = program.graph_module
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
            outputs.append(Leaf(index))
    return Captured(graph, tuple(inputs), in_spec, tuple(leaves), out_spec, tuple(outputs), updates=tuple(updates))


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
