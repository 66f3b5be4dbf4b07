"""The ways a program is run to be compared with eager PyTorch. A new way is one class and one entry of MODES."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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
from tools.fuzz.clones import Clones
from tools.fuzz.generate import Options
from tools.fuzz.observe import observe
from tools.fuzz.program import Program
from tools.fuzz.pure_graph import served, writes_elsewhere
from tools.fuzz.verdict import Verdict, general

Runner = Callable[..., Any]


CALLS = ((0, False), (1, False), (1, True))
"""(world, misaligned) of the calls of one prepared program: a second call with other values shows what the first left
behind, a third has arguments that do not start on a 64 byte boundary."""


class Mode(Protocol):
    """One way to judge a program."""

    def contents(self, options: Options) -> Options:
        """What programs may contain in this mode."""
        ...

    def judge(self, program: Program) -> Verdict:
        """Run the program. Raises CompileError for a refusal, AssertionError for a fault."""
        ...

    def is_refused(self, program: Program) -> bool:
        """Whether a refusal is right."""
        ...


@dataclass(frozen=True)
class Beside:
    """A program run in some way beside eager PyTorch, on the same arguments.

    Attributes:
        custom_ops: whether it can run calls of custom operators.
        pure: results are values in memory of their own, except those that are an argument's memory in full: some sharing of
            eager's may be lost, none may be added, and strides are not promised.
    """

    custom_ops: bool = True
    pure: bool = False

    def contents(self, options: Options) -> Options:
        return replace(options, custom_ops=self.custom_ops)

    def prepare(self, program: Program) -> Runner:
        """A function that behaves like the program."""
        raise NotImplementedError

    def is_refused(self, program: Program) -> bool:
        return program.order_dependent

    def judge(self, program: Program) -> Verdict:
        run = self.prepare(program)
        for number, (world, misaligned) in enumerate(CALLS):
            right = observe(program.function(), program.make_arguments(world, misaligned=misaligned))
            got = observe(run, program.make_arguments(world, misaligned=misaligned))
            found = right.differences(got, pure=self.pure)
            if found and not program.order_dependent:
                call = f"call {number + 1}: "
                return Verdict("wrong", call + general(found[0]), call + "\n".join(found))
        return Verdict("agreed")


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
class Capture(Beside):
    """The captured graph, run by FX: faults that are none of the compiler's own."""

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
class Handles(Beside):
    """The imported IR, run op by op in eager PyTorch."""

    def prepare(self, program: Program) -> Runner:
        found = imported(program)
        return caller(found, lambda tensors: reference.run_handles(found.module, tensors))


@dataclass(frozen=True)
class Values(Beside):
    """The out-of-place IR, run op by op in eager PyTorch on fresh tensors."""

    def prepare(self, program: Program) -> Runner:
        found = imported(program)
        make_out_of_place(reference.entry(found.module))
        verify(found.module)
        return caller(found, lambda tensors: reference.run_values(found.module, tensors))


@dataclass(frozen=True)
class Roundtrip(Beside):
    """Every stage of the IR printed and read back, in both forms; then the values that were read run."""

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
class Compile(Beside):
    """`compiler.compile`, as a user calls it.

    Attributes:
        validate: every pass is checked while it compiles, on inputs of the validator's own.
    """

    custom_ops: bool = False
    validate: bool = False

    def prepare(self, program: Program) -> Runner:
        import compiler

        return compiler.compile(program.function(), tuple(program.make_arguments()), validate=self.validate)


@dataclass(frozen=True)
class Replay(Beside):
    """A saved artifact, run by a second executor that has only its directory and jaxlib."""

    custom_ops: bool = False

    def prepare(self, program: Program) -> Runner:
        import compiler
        from tools import replay_artifact

        with tempfile.TemporaryDirectory() as directory:
            compiler.compile(program.function(), tuple(program.make_arguments())).save(directory)
            return replay_artifact.Replay(directory)


@dataclass(frozen=True)
class Fx(Beside):
    """The graph that the Neuron passes make out of place, served as their host serves it."""

    pure: bool = True

    def prepare(self, program: Program) -> Runner:
        return served(program)

    def is_refused(self, program: Program) -> bool:
        """Inputs of a pure graph are independent, and a result is all of an input or none of it."""
        return program.order_dependent or writes_elsewhere(program)


MODES: dict[str, Mode] = {
    "capture": Capture(), "handles": Handles(), "values": Values(), "roundtrip": Roundtrip(), "compile": Compile(),
    "replay": Replay(), "validate": Compile(validate=True), "fx": Fx(), "clones": Clones(),
}  # fmt: skip
