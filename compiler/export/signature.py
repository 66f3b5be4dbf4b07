"""The calling convention of an executable: where every argument's bytes go, and what every output is made of.

Plain data, free of IR: what compilation hands to the runtime is what an artifact stores and a loader reads back.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from torch.utils._pytree import TreeSpec

from compiler.errors import CompileError
from compiler.export.elements import DTYPES, element_size
from compiler.export.io_map import IoMap, io_map
from compiler.program import Leaf, Program

if TYPE_CHECKING:
    from xdsl.dialects.func import FuncOp

ArgumentKind = Literal["input", "parameter", "buffer", "constant", "generator"]
OutputKind = Literal["argument", "argument_view", "result", "output"]
ARGUMENT_KINDS = ("input", "parameter", "buffer", "constant", "generator")
OWN = ("constant", "generator")
"""Kinds of arguments that only the program itself has."""
OUTPUT_KINDS = ("argument", "argument_view", "result", "output")
LAZY = ("", "conj", "neg", "conj,neg")


class Window(NamedTuple):
    """A strided window, in elements; the offset counts from the first byte of the memory it is on."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def numel(self) -> int:
        return math.prod(self.sizes)

    @property
    def reach(self) -> int:
        """Elements from the first byte of the memory to the end of the window."""
        if not self.numel:
            return 0
        return self.offset + 1 + sum((n - 1) * s for n, s in zip(self.sizes, self.strides, strict=True))

    def significant(self) -> tuple[tuple[int, ...], tuple[int, ...], int]:
        """The window with the strides that reach no element left out."""
        if not self.numel:
            return self.sizes, (), 0
        return self.sizes, tuple(s for n, s in zip(self.sizes, self.strides, strict=True) if n > 1), self.offset


class TensorType(NamedTuple):
    """Element type and shape of an HLO parameter or result."""

    element: str
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * element_size(self.element)

    def __str__(self) -> str:
        return f"{self.element}[{', '.join(map(str, self.shape))}]"


class Binding(NamedTuple):
    """Where one argument's bytes are: a window on HLO parameter `parameter`; -1: nothing reads or writes them.

    `around`: a call also writes bytes of that parameter that are no elements of an argument.
    """

    name: str
    kind: ArgumentKind
    parameter: int
    element: str
    window: Window
    written: bool = False
    lazy: str = ""
    around: bool = False


class Alias(NamedTuple):
    """HLO result `output` is written into HLO parameter `parameter`, always."""

    output: int
    parameter: int


class OutputSource(NamedTuple):
    """What one original output is: an argument, a window on one's memory or on a result's, or an earlier output."""

    kind: OutputKind
    index: int
    element: str = ""
    window: Window = Window((), ())
    lazy: str = ""


@dataclass(frozen=True)
class Signature:
    """Everything a call needs to know besides the code.

    Attributes:
        bindings: one per argument, state included.
        aliases: the alias table.
        plan: one per tensor result of the program.
        parameters, results: types of the HLO module.
        in_tree, in_leaves: structure of `(args, kwargs)`; a tensor leaf names an argument.
        out_tree, out_leaves: structure of the result; a tensor leaf names an entry of `plan`.
        rebound: attributes of the module that a call binds anew, with their entries of `plan`.
        reshaped: inputs that a call leaves with another geometry: a window counted like the argument's own.
        offsets: storage offsets that arguments must have, in elements: the program counts from their storages' first bytes.
    """

    bindings: tuple[Binding, ...]
    aliases: tuple[Alias, ...]
    plan: tuple[OutputSource, ...]
    parameters: tuple[TensorType, ...]
    results: tuple[TensorType, ...]
    in_tree: TreeSpec
    in_leaves: tuple[Leaf, ...]
    out_tree: TreeSpec
    out_leaves: tuple[Leaf, ...]
    rebound: tuple[tuple[str, int], ...] = ()
    reshaped: tuple[tuple[int, Window], ...] = ()
    offsets: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        check(self)

    @property
    def donated(self) -> frozenset[int]:
        """HLO parameters whose memory a call writes."""
        return frozenset(alias.parameter for alias in self.aliases)

    @property
    def contract(self) -> IoMap:
        """The flat FX contract: `io_map` and `original_output_count`."""
        leaves = [self.plan[leaf.index] if leaf.is_tensor else None for leaf in self.out_leaves]
        return io_map(self.bindings, leaves)

    def bound(self, parameter: int) -> tuple[int, ...]:
        """The arguments whose bytes are in an HLO parameter."""
        return tuple(i for i, b in enumerate(self.bindings) if b.parameter == parameter)


def signature_of(program: Program, function: FuncOp) -> Signature:
    """The signature of a captured program whose purified form is `function`."""
    from dialects.types import element_name

    attributes = cast("dict[str, Any]", function.attributes)

    def types(values: Iterable[Any]) -> tuple[TensorType, ...]:
        return tuple(TensorType(element_name(t.element_type), tuple(t.get_shape())) for t in values)

    bindings = tuple(
        Binding(b.name, b.kind, b.parameter, b.element, Window(*b.geometry), b.written, b.lazy, b.around)
        for b in attributes["alias.bindings"].data
    )
    plan = [
        OutputSource(s.kind, s.index, s.element, Window(*s.geometry), s.lazy) for s in attributes["alias.plan"].data
    ]
    for result, argument in program.returned.items():
        plan[result] = OutputSource("argument", argument)
    return Signature(
        bindings=bindings,
        aliases=tuple(Alias(*entry) for entry in attributes["alias.table"].data),
        plan=tuple(plan),
        parameters=types(function.function_type.inputs.data),
        results=types(function.function_type.outputs.data),
        in_tree=program.in_tree,
        in_leaves=program.in_leaves,
        out_tree=program.out_tree,
        out_leaves=program.out_leaves,
        rebound=tuple(program.rebound.items()),
        reshaped=tuple(
            (index, Window(r.sizes, r.strides, bindings[index].window.offset + r.shift))
            for index, r in program.reshaped.items()
            if (r.sizes, r.strides, r.shift) != (*bindings[index].window[:2], 0)
        ),
        offsets=tuple(program.offsets.items()),
    )


# -- consistency ---------------------------------------------------------------------------------


def check(s: Signature) -> None:
    """Raise CompileError unless every index is in range and every window lies inside its memory."""
    for kind, types in (("parameter", s.parameters), ("result", s.results)):
        for number, type_ in enumerate(types):
            _require(type_.element in DTYPES, f"{kind} {number} has the unknown element type {type_.element!r}")
            _require(min(type_.shape, default=0) >= 0, f"{kind} {number} has a negative size: {type_}")
    _check_bindings(s)
    check_aliases(s.aliases, s.parameters, s.results)
    _check_plan(s)
    _check_leaves(s)
    _check_reshaped(s)
    for index, offset in s.offsets:
        _require(0 <= index < len(s.bindings), f"argument {index}, which is none, has a storage offset")
        _require(offset >= 0, f"argument {s.bindings[index].name!r} has the storage offset {offset}")


def check_aliases(aliases: Iterable[tuple[int, int]], parameters: Sequence[Any], results: Sequence[Any]) -> None:
    """Raise CompileError for a table that XLA would mistake, or abort the process on. Types compare by equality."""

    def require(condition: bool, message: str) -> None:
        if not condition:
            raise CompileError(f"alias table: {message}")

    seen_outputs: set[int] = set()
    seen_parameters: set[int] = set()
    for output, parameter in aliases:
        require(0 <= output < len(results), f"no output {output}, there are {len(results)}")
        require(0 <= parameter < len(parameters), f"no parameter {parameter}, there are {len(parameters)}")
        require(output not in seen_outputs, f"output {output} is aliased twice")
        require(parameter not in seen_parameters, f"parameter {parameter} is aliased twice")
        seen_outputs.add(output)
        seen_parameters.add(parameter)
        have, want = results[output], parameters[parameter]
        require(have == want, f"output {output} is {have}, its parameter {parameter} is {want}")


def _check_bindings(s: Signature) -> None:
    names: set[str] = set()
    for b in s.bindings:
        where = f"argument {b.name!r}"
        _require(b.name not in names, f"two arguments are called {b.name!r}")
        names.add(b.name)
        _require(b.kind in ARGUMENT_KINDS, f"{where} has the unknown kind {b.kind!r}")
        _require(b.lazy in LAZY, f"{where} has the unknown lazy bits {b.lazy!r}")
        _check_window(b.window, b.element, where)
        _require(-1 <= b.parameter < len(s.parameters), f"{where} is bound to parameter {b.parameter}, which is none")
        _require(b.parameter >= 0 or not b.written, f"{where} is written, yet in no parameter")
        _require(b.written or not b.around, f"{where} is not written, yet memory around it is")
        if b.parameter >= 0:
            _check_inside(b.window, b.element, s.parameters[b.parameter].bytes, where, f"parameter {b.parameter}")
    unbound = set(range(len(s.parameters))) - {b.parameter for b in s.bindings}
    _require(not unbound, f"no argument gives the bytes of parameter {min(unbound, default=0)}")


def _check_plan(s: Signature) -> None:
    limits = {"argument": len(s.bindings), "argument_view": len(s.bindings), "result": len(s.results)}
    for position, source in enumerate(s.plan):
        where = f"output {position}"
        _require(source.kind in OUTPUT_KINDS, f"{where} has the unknown kind {source.kind!r}")
        limit = limits.get(source.kind, position)
        _require(0 <= source.index < limit, f"{where} is made of {source.kind} {source.index}, which is none")
        if source.kind in ("argument", "output"):
            continue
        _require(source.lazy in LAZY, f"{where} has the unknown lazy bits {source.lazy!r}")
        _check_window(source.window, source.element, where)
        if source.kind == "result":
            size = s.results[source.index].bytes
            _check_inside(source.window, source.element, size, where, f"result {source.index}")
        else:
            _check_view(s, s.bindings[source.index], source.window, source.element, where)


def _check_leaves(s: Signature) -> None:
    for side, tree, leaves in (("input", s.in_tree, s.in_leaves), ("output", s.out_tree, s.out_leaves)):
        count = tree.num_leaves
        _require(count == len(leaves), f"the {side} tree has {count} leaves, {len(leaves)} are described")
    inputs = {i for i, b in enumerate(s.bindings) if b.kind == "input"}
    named = {leaf.index for leaf in s.in_leaves if leaf.is_tensor}
    for wrong in sorted(named ^ inputs):
        known = (
            f"argument {s.bindings[wrong].name!r}" if wrong < len(s.bindings) else f"argument {wrong}, which is none,"
        )
        reason = "is not an input but has" if wrong in named else "is an input without"
        _require(False, f"{known} {reason} a place in the input tree")
    for index in [leaf.index for leaf in s.out_leaves if leaf.is_tensor] + [index for _, index in s.rebound]:
        _require(0 <= index < len(s.plan), f"the output tree names output {index}, there are {len(s.plan)}")


def _check_reshaped(s: Signature) -> None:
    indices = [index for index, _ in s.reshaped]
    _require(len(set(indices)) == len(indices), "an argument is reshaped twice")
    for index, window in s.reshaped:
        _require(0 <= index < len(s.bindings), f"argument {index}, which is none, is reshaped")
        b = s.bindings[index]
        where = f"argument {b.name!r}, when it is reshaped,"
        _require(b.kind == "input", f"{where} is no input")
        _check_window(window, b.element, where)
        _check_view(s, b, window, b.element, where)


def _check_view(s: Signature, b: Binding, window: Window, element: str, where: str) -> None:
    """A window on an argument's memory: that of its parameter; where nothing is read there is none, and a call looks."""
    if b.parameter >= 0:
        _check_inside(window, element, s.parameters[b.parameter].bytes, where, f"parameter {b.parameter}")


def _check_window(window: Window, element: str, where: str) -> None:
    _require(element in DTYPES, f"{where} has the unknown element type {element!r}")
    _require(
        len(window.sizes) == len(window.strides),
        f"{where} has {len(window.sizes)} sizes and {len(window.strides)} strides",
    )
    numbers = (*window.sizes, *window.strides, window.offset)
    _require(min(numbers) >= 0, f"{where} has a negative or dynamic size, stride or offset: {tuple(window)}")


def _check_inside(window: Window, element: str, size: int, where: str, memory: str) -> None:
    reach = window.reach * element_size(element)
    _require(reach <= size, f"{where} reaches {reach} bytes into {memory}, which has {size}")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise CompileError(f"inconsistent signature: {message}")
