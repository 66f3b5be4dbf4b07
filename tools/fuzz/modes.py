"""The ways a program is run to be compared with eager PyTorch. A new way is one class and one entry of MODES."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.utils import _pytree as pytree
from xdsl.dialects.builtin import ModuleOp

from compiler import ir_text, reference
from compiler.frontend.capture import capture
from compiler.frontend.importer import import_graph
from compiler.program import Program as Imported
from compiler.transforms.in_place_to_out_of_place import make_out_of_place
from compiler.verify import verify
from tools.fuzz.program import Program

Runner = Callable[..., Any]


class Mode(Protocol):
    """One way to run a program.

    Attributes:
        custom_ops: whether it can run calls of custom operators.
    """

    @property
    def custom_ops(self) -> bool: ...

    def prepare(self, program: Program) -> Runner:
        """A function that behaves like the program. Raises CompileError for a refusal, AssertionError for a fault."""
        ...


def imported(program: Program) -> Imported:
    result = import_graph(capture(program.function(), tuple(program.make_arguments())))
    verify(result.module)
    return result


def caller(program: Imported, run: Callable[[Sequence[torch.Tensor]], Sequence[torch.Tensor]]) -> Runner:
    """A function with the program's own signature around one that takes and gives lists of tensors."""

    def call(*arguments: torch.Tensor) -> Any:
        leaves = pytree.tree_leaves((arguments, {}))
        given = {leaf.index: value for leaf, value in zip(program.in_leaves, leaves, strict=True) if leaf.is_tensor}
        actual = [
            given[k] if argument.kind == "input" else program.state[argument.name]
            for k, argument in enumerate(program.arguments)
        ]
        results = run(actual)
        outputs = [results[leaf.index] if leaf.is_tensor else leaf.constant for leaf in program.out_leaves]
        return pytree.tree_unflatten(outputs, program.out_tree)

    return call


@dataclass(frozen=True)
class Capture:
    """The captured graph, run by FX: faults that are none of the compiler's own."""

    custom_ops: bool = True

    def prepare(self, program: Program) -> Runner:
        captured = capture(program.function(), tuple(program.make_arguments()))

        def call(*arguments: torch.Tensor) -> Any:
            inputs = iter(arguments)
            values = [next(inputs) if i.kind == "input" else i.tensor for i in captured.inputs]
            results = list(pytree.tree_leaves(captured.graph(*values)))
            leaves = [results[leaf.index] if leaf.is_tensor else leaf.constant for leaf in captured.out_leaves]
            return pytree.tree_unflatten(leaves, captured.out_tree)

        return call


@dataclass(frozen=True)
class Handles:
    """The imported IR, run op by op in eager PyTorch."""

    custom_ops: bool = True

    def prepare(self, program: Program) -> Runner:
        found = imported(program)
        return caller(found, lambda tensors: reference.run_handles(found.module, tensors))


@dataclass(frozen=True)
class Values:
    """The out-of-place IR, run op by op in eager PyTorch on fresh tensors."""

    custom_ops: bool = True

    def prepare(self, program: Program) -> Runner:
        found = imported(program)
        make_out_of_place(reference.entry(found.module))
        verify(found.module)
        return caller(found, lambda tensors: reference.run_values(found.module, tensors))


@dataclass(frozen=True)
class Roundtrip:
    """Every stage of the IR printed and read back, in both forms; then the values that were read run."""

    custom_ops: bool = True

    def prepare(self, program: Program) -> Runner:
        found = imported(program)
        found.module = _reread(found.module)
        make_out_of_place(reference.entry(found.module))
        found.module = _reread(found.module)
        verify(found.module)
        return caller(found, lambda tensors: reference.run_values(found.module, tensors))


def _reread(module: ModuleOp) -> ModuleOp:
    for generic in (False, True):
        text = ir_text.to_text(module, generic=generic, locations=True)
        again = ir_text.parse(text)
        assert ir_text.to_text(again, generic=generic, locations=True) == text, "the text changes when it is read back"
        assert module.is_structurally_equivalent(again), "what is read back is another program"
        module = again
    return module




@dataclass(frozen=True)
class Compile:
    """`compiler.compile`, as a user calls it."""

    custom_ops: bool = False

    def prepare(self, program: Program) -> Runner:
        import compiler

        return compiler.compile(program.function(), tuple(program.make_arguments()))


@dataclass(frozen=True)
class Replay:
    """A saved artifact, run by a second executor that has only its directory and jaxlib."""

    custom_ops: bool = False

    def prepare(self, program: Program) -> Runner:
        import compiler
        from tools import replay_artifact

        with tempfile.TemporaryDirectory() as directory:
            compiler.compile(program.function(), tuple(program.make_arguments())).save(directory)
            return replay_artifact.Replay(directory)


MODES: dict[str, Mode] = {
    "capture": Capture(), "handles": Handles(), "values": Values(), "roundtrip": Roundtrip(), "compile": Compile(),
    "replay": Replay(),
}  # fmt: skip
