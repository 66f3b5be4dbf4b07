"""The ways a program is run to be compared with eager PyTorch. A new way is one class and one entry of MODES."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import torch
from torch.utils import _pytree as pytree
from xdsl.dialects.builtin import ModuleOp

from compiler import ir_text, reference
from compiler.errors import GuardError
from compiler.frontend.capture import capture
from compiler.frontend.importer import import_graph
from compiler.program import Leaf
from compiler.program import Program as Imported
from compiler.transforms.in_place_to_out_of_place import make_out_of_place
from compiler.verify import verify
from tools.fuzz.clones import Clones
from tools.fuzz.generate import Options
from tools.fuzz.instance import Instance
from tools.fuzz.judge import Judge, Unfit
from tools.fuzz.observe import Observation, observe
from tools.fuzz.program import Program
from tools.fuzz.pure_graph import served, writes_elsewhere
from tools.fuzz.verdict import Verdict, general

CALLS = ((0, False), (1, False), (1, True))
"""(world, misaligned) of the calls of one prepared program: a second call with other values shows what the first left
behind, a third has arguments that do not start on a 64 byte boundary."""

Change = Literal["separate", "join"]
_CHANGES: tuple[Change, ...] = ("separate", "join")
"""Further calls, with arguments that share other memory than the program was compiled with."""


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
        flat: programs are functions of tensors that return tensors, and have no state.
        pure: results are values in memory of their own, except those that are an argument's memory in full: some sharing of
            eager's may be lost, none may be added, and strides are not promised.
    """

    custom_ops: bool = True
    flat: bool = False
    pure: bool = False

    def contents(self, options: Options) -> Options:
        return replace(options, custom_ops=self.custom_ops, flat=self.flat)

    def prepare(self, program: Program) -> Iterator[tuple[str, Instance]]:
        """What behaves like the program, with memory of its own; several, where one compilation is run in several ways."""
        raise NotImplementedError

    def is_refused(self, program: Program) -> bool:
        return program.order_dependent

    def judge(self, program: Program) -> Verdict:
        for name, mine in self.prepare(program):
            if found := self._differences(Instance.of(program), mine):
                return Verdict("wrong", name + general(found[0]), name + "\n".join(found))
        return Verdict("agreed")

    def _differences(self, eager: Instance, mine: Instance) -> list[str]:
        """What differs in the first call for which something does."""
        form = eager.form()
        for number, (world, misaligned) in enumerate(CALLS):
            for instance in (eager, mine) if number or misaligned else ():
                instance.renew(world, misaligned=misaligned)
            same = eager.form() == form
            if not same and not mine.guarded:
                return []
            right = observe(eager.step, eager.arguments())
            try:
                got = observe(mine.step, mine.arguments())
            except GuardError:
                if same:
                    raise
                return []  # the call before has left other state than the program was compiled for
            found = self._compared(right, got, mine)
            if found and not eager.program.order_dependent:
                return [f"call {number + 1}: {found[0]}", *found[1:]]
        if not mine.guarded:
            return []
        for change in _CHANGES:
            found, refused = self._differences_otherwise(eager, mine, change)
            if found or (refused and eager.program.held):  # then eager's module has changed, and the other not
                return found
        return []

    def _compared(self, right: Observation, got: Observation, mine: Instance, judged: bool = False) -> list[str]:
        """`judged`: eager ran under a dispatch mode, where a write of a list of tensors raises no version counter."""
        program = mine.program
        return right.differences(
            got,
            pure=self.pure,
            apart=program.held if mine.apart else (),
            may_bump=judged or program.has_regions or program.has_own_versions,
        )

    def _differences_otherwise(self, eager: Instance, mine: Instance, change: Change) -> tuple[list[str], bool]:
        """What differs in a call whose arguments share other memory than when the program was compiled, and whether one of the
        two refused it."""
        form = eager.form()
        for instance in (eager, mine):
            instance.separate() if change == "separate" else instance.join()
        if eager.form() == form:
            return [], False
        try:
            with Judge():
                right = observe(eager.step, eager.arguments())
        except (Unfit, RuntimeError):  # values that were not judged together, or memory that eager cannot write
            return [], True
        try:
            got = observe(mine.step, mine.arguments())
        except GuardError:
            return [], True
        found = self._compared(right, got, mine, judged=True)
        return ([f"call {change}: {found[0]}", *found[1:]] if found else []), False


def imported(eager: Instance) -> Imported:
    result = import_graph(capture(eager.call, eager.given()))
    verify(result.module)
    return result


def through(
    eager: Instance, program: Imported, run: Callable[[Sequence[torch.Tensor]], Sequence[torch.Tensor]]
) -> Instance:
    """The instance with another function in place of its own, one that takes and gives lists of tensors."""

    def call(*arguments: Any) -> Any:
        leaves = pytree.tree_leaves((arguments, {}))
        given = {leaf.index: value for leaf, value in zip(program.in_leaves, leaves, strict=True) if leaf.is_tensor}
        actual = [
            given[k]
            if argument.kind == "input"
            else _held(program.owner, argument.name, program.state.get(argument.name))
            for k, argument in enumerate(program.arguments)
        ]
        results = run(actual)
        _rebind(program.owner, {name: results[index] for name, index in program.rebound.items()})
        outputs = [_result(results, leaf) for leaf in program.out_leaves]
        return pytree.tree_unflatten(outputs, program.out_tree)

    return replace(eager, call=call, guarded=False)


def _result(results: Sequence[torch.Tensor], leaf: Leaf) -> Any:
    if not leaf.is_tensor:
        return leaf.constant
    return results[leaf.index].item() if leaf.number else results[leaf.index]


def _held(owner: torch.nn.Module | None, name: str, known: torch.Tensor | None) -> torch.Tensor:
    """What the module holds now under a qualified name; a constant has none, and is what was known of it."""
    path, _, key = name.rpartition(".")
    modules = dict(owner.named_modules()) if owner is not None else {}
    found = getattr(modules[path], key, None) if path in modules else None
    tensor = found if isinstance(found, torch.Tensor) else known
    assert tensor is not None
    return tensor


def _rebind(owner: torch.nn.Module | None, tensors: dict[str, torch.Tensor]) -> None:
    for name, tensor in tensors.items():
        assert owner is not None
        path, _, key = name.rpartition(".")
        setattr(owner.get_submodule(path), key, tensor)


@dataclass(frozen=True)
class Capture(Beside):
    """The captured graph, run by FX: faults that are none of the compiler's own."""

    def prepare(self, program: Program) -> Iterator[tuple[str, Instance]]:
        eager = Instance.of(program, captured=True)
        captured = capture(eager.call, eager.given())

        def call(*arguments: Any) -> Any:
            leaves = pytree.tree_leaves((arguments, {}))
            given = {
                leaf.index: value for leaf, value in zip(captured.in_leaves, leaves, strict=True) if leaf.is_tensor
            }
            values = [
                given[k] if i.kind == "input" else _held(captured.owner, i.name, i.tensor)
                for k, i in enumerate(captured.inputs)
            ]
            results = list(pytree.tree_leaves(captured.graph(*values)))
            _rebind(captured.owner, {name: results[index] for name, index in captured.rebound.items()})
            return pytree.tree_unflatten([_result(results, leaf) for leaf in captured.out_leaves], captured.out_tree)

        yield "", replace(eager, call=call, guarded=False)


@dataclass(frozen=True)
class Handles(Beside):
    """The imported IR, run op by op in eager PyTorch."""

    def prepare(self, program: Program) -> Iterator[tuple[str, Instance]]:
        eager = Instance.of(program, captured=True)
        found = imported(eager)
        yield "", through(eager, found, lambda tensors: reference.run_handles(found.module, tensors))


@dataclass(frozen=True)
class Values(Beside):
    """The out-of-place IR, run op by op in eager PyTorch on fresh tensors."""

    def prepare(self, program: Program) -> Iterator[tuple[str, Instance]]:
        eager = Instance.of(program, captured=True)
        found = imported(eager)
        make_out_of_place(reference.entry(found.module))
        verify(found.module)
        yield "", through(eager, found, lambda tensors: reference.run_values(found.module, tensors))


@dataclass(frozen=True)
class Roundtrip(Beside):
    """Every stage of the IR printed and read back, in both forms; then the values that were read run."""

    def prepare(self, program: Program) -> Iterator[tuple[str, Instance]]:
        eager = Instance.of(program, captured=True)
        found = imported(eager)
        found.module = _reread(found.module)
        make_out_of_place(reference.entry(found.module))
        found.module = _reread(found.module)
        verify(found.module)
        yield "", through(eager, found, lambda tensors: reference.run_values(found.module, tensors))


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
    """`compiler.compile`, as a user calls it; then what it saves, loaded, and run by a second executor.

    Attributes:
        validate: every pass is checked while it compiles, on inputs of the validator's own.
        saved: whether the artifact is run as well.
    """

    custom_ops: bool = False
    validate: bool = False
    saved: bool = True

    def prepare(self, program: Program) -> Iterator[tuple[str, Instance]]:
        import compiler
        from tools import replay_artifact

        eager = Instance.of(program, captured=True)
        executable = compiler.compile(eager.call, eager.given(), validate=self.validate)
        with tempfile.TemporaryDirectory() as directory:
            if self.saved:
                executable.save(directory)
            names = {id(tensor): name for name, tensor in executable.state.items()}
            held = {number: names.get(id(tensor), "") for number, tensor in zip(program.held, eager.state())}
            yield "", replace(eager, call=executable)
            if not self.saved:
                return
            loaded = compiler.load(directory)
            yield "loaded: ", _stored(program, held, loaded, loaded.bind, lambda: loaded.state)
            replay = replay_artifact.Replay(directory)
            stored = _stored(program, held, replay, replay.state.update, lambda: replay.state)
            yield "replayed: ", replace(stored, guarded=False)


def _stored(
    program: Program,
    names: Mapping[int, str],
    call: Callable[..., Any],
    bind: Callable[[dict[str, torch.Tensor]], object],
    state: Callable[[], dict[str, torch.Tensor]],
) -> Instance:
    """An artifact as what it was saved from. It keeps its own state, and is given one where others share memory with it.

    `names` has the artifact's name for every argument that the module holds, or "" when the program does not use it.
    """
    eager = Instance.of(program)
    known = dict(zip(program.held, eager.state()))
    own = {program.arguments[number].storage for number, name in names.items() if name}
    apart = all((a.held and names[n]) or a.storage not in own for n, a in enumerate(program.arguments))
    if not apart:
        bind({name: known[number] for number, name in names.items() if name})
    return replace(
        eager, call=call, apart=apart, state=lambda: [state()[s] if s else known[n] for n, s in names.items()]
    )


@dataclass(frozen=True)
class Fx(Beside):
    """The graph that the Neuron passes make out of place, served as their host serves it."""

    flat: bool = True
    pure: bool = True

    def prepare(self, program: Program) -> Iterator[tuple[str, Instance]]:
        yield "", replace(Instance.of(program), call=served(program), guarded=False)

    def is_refused(self, program: Program) -> bool:
        """Inputs of a pure graph are independent, and a result is all of an input or none of it; a host checks no places."""
        inside = program.counts and any(t.storage_offset() for t in program.make_arguments())
        return program.order_dependent or writes_elsewhere(program) or inside


MODES: dict[str, Mode] = {
    "capture": Capture(), "handles": Handles(), "values": Values(), "roundtrip": Roundtrip(), "compile": Compile(),
    "validate": Compile(validate=True, saved=False), "fx": Fx(), "clones": Clones(),
}  # fmt: skip
