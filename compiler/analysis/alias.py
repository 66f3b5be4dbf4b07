"""Alias analysis: for every handle of a function, which root storage it lives in and which bytes it covers.

One forward walk over the ops. Arguments live in the root their `alias.root` names; a call's `results<...>` say
whether a result is an operand, a window on it, fresh memory, or possibly any of these. What is not known (an op
without aliases, an argument without a root, a dynamic size) is assumed to be the worst.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, MemRefType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from compiler.analysis.regions import Region, Relation, contiguous, extent, region, relation
from compiler.errors import CompileError
from dialects.alias import Root as RootAttr
from dialects.calls import HandleCall
from dialects.control import CondOp, WhileOp
from dialects.fx import ConstantOp
from dialects.types import Geometry, element_bytes, element_name, geometry, lazy_bits
from dialects.vllm_ir import ImplementedCallOp


@dataclass(frozen=True, slots=True)
class Root:
    """One storage: an argument's (`number` is its root id), a fresh result's, a constant's, or unknown memory."""

    kind: Literal["root", "fresh", "constant", "unknown"]
    number: int

    def __str__(self) -> str:
        return f"{self.kind} {self.number}"


@dataclass(frozen=True, slots=True)
class Location:
    """Where a handle is: in one of `roots`, on the bytes of `region`, or anywhere in them if that is None.

    With several roots, one of them holds the handle and it is not known which.
    """

    roots: tuple[Root, ...]
    region: Region | None
    element: str
    window: Geometry
    lazy: str

    def __str__(self) -> str:
        where = " or ".join(map(str, self.roots))
        if self.region is None:
            return f"{where} [?]"
        first, last = extent(self.region)
        text = f"{where} [{first}, {last})"
        if not self.region.empty and not contiguous(self.region):
            text += f" sizes {list(self.region.sizes)} strides {list(self.region.strides)}"
        return text


class AliasKind(Enum):
    """NO: no byte in common. MAY: not known. PARTIAL: some bytes in common. MUST: the same handle twice."""

    NO = "no"
    MAY = "may"
    PARTIAL = "partial"
    MUST = "must"


@dataclass(frozen=True, slots=True)
class Answer:
    kind: AliasKind
    reason: str


def relate(a: Location, b: Location) -> Relation:
    """How the bytes of two handles relate; MAY unless both are known to be in the same root, at known bytes."""
    if a.region is not None and a.region.empty or b.region is not None and b.region.empty:
        return Relation.DISJOINT
    if not set(a.roots) & set(b.roots):
        return Relation.DISJOINT
    if a.roots != b.roots or len(a.roots) > 1 or a.region is None or b.region is None:
        return Relation.MAY
    return relation(a.region, b.region)


def compare(a: Location, b: Location) -> Answer:
    """Whether two handles share memory, and why. MUST means that reading either gives the same tensor."""
    match relate(a, b):
        case Relation.DISJOINT:
            if set(a.roots) & set(b.roots):
                return Answer(AliasKind.NO, f"disjoint bytes of {a.roots[0]}")
            return Answer(AliasKind.NO, "different storages")
        case Relation.MAY:
            if a.roots != b.roots or len(a.roots) > 1:
                return Answer(AliasKind.MAY, "the storage is not known")
            if a.region is None or b.region is None:
                return Answer(AliasKind.MAY, "the position in the storage is not known")
            return Answer(AliasKind.MAY, "the regions are too large to compare exactly")
        case Relation.EQUAL:
            for what, x, y in (
                ("element types", a.element, b.element),
                ("lazy bits", a.lazy or "none", b.lazy or "none"),
                ("sizes", list(a.window.sizes), list(b.window.sizes)),
                ("strides", _walked(a.window), _walked(b.window)),
            ):
                if x != y:
                    return Answer(AliasKind.PARTIAL, f"the same bytes with other {what}: {x} and {y}")
            return Answer(AliasKind.MUST, "the same window")
        case Relation.CONTAINS:
            return Answer(AliasKind.PARTIAL, "the first contains the second")
        case Relation.CONTAINED:
            return Answer(AliasKind.PARTIAL, "the second contains the first")
        case Relation.OVERLAPS:
            return Answer(AliasKind.PARTIAL, "overlapping bytes")


def _walked(window: Geometry) -> list[int]:
    """Strides that are ever taken: one of a dimension of size 1 is not."""
    return [0 if size == 1 else stride for size, stride in zip(window.sizes, window.strides, strict=True)]


def main_function(module: ModuleOp) -> FuncOp:
    """The program: `func.func @main`."""
    for op in module.ops:
        if isinstance(op, FuncOp) and op.sym_name.data == "main":
            return op
    raise CompileError("the module has no function @main", hint="name the program's function `main`")


def is_handle(value: SSAValue) -> bool:
    return isinstance(value.type, MemRefType)


def reachable(op: Operation) -> tuple[SSAValue, ...]:
    """Handles an op of unknown behaviour can get at: its operands and what its regions use from outside."""
    values = dict.fromkeys(v for v in op.operands if is_handle(v))
    if op.regions:
        inside = {id(block) for inner in op.regions for block in _blocks(inner.blocks)}
        for inner in op.walk():
            for value in inner.operands:
                owner = value.owner if isinstance(value.owner, Block) else value.owner.parent
                if is_handle(value) and id(owner) not in inside:
                    values[value] = None
    return tuple(values)


def _blocks(blocks: Iterable[Block]) -> Iterator[Block]:
    for block in blocks:
        yield block
        for op in block.ops:
            for inner in op.regions:
                yield from _blocks(inner.blocks)


class AliasAnalysis:
    """Locations of the handles of one function.

    Attributes:
        function: the function analysed.
        locations: every handle of its body -> its location.
        origins: a root -> the value that introduced it (the first argument in it, the fresh result).
    """

    def __init__(self, function: FuncOp):
        self.function = function
        self.locations: dict[SSAValue, Location] = {}
        self.origins: dict[Root, SSAValue] = {}
        self._fresh = 0
        self._arguments()
        for op in function.body.block.ops:
            self._visit(op)

    def location(self, handle: SSAValue) -> Location:
        """Where a handle is."""
        return self.locations[handle]

    def alias(self, a: SSAValue, b: SSAValue) -> Answer:
        """Whether two handles share memory, and why."""
        return compare(self.locations[a], self.locations[b])

    # -- the walk ------------------------------------------------------------------------------

    def _arguments(self) -> None:
        arguments = self.function.body.block.args
        attributes = argument_attributes(self.function)
        roots = [a.get("alias.root") for a in attributes]
        numbers = [r.data.id for r in roots if isinstance(r, RootAttr)]
        for argument, root in zip(arguments, roots, strict=True):
            if not is_handle(argument):
                continue
            if isinstance(root, RootAttr):
                self._place(argument, (self._introduce("root", root.data.id, argument),), True)
            else:
                # No root given: it may be the memory of any other argument.
                unknown = self._introduce("unknown", 0, argument)
                self._place(argument, (unknown, *(Root("root", n) for n in sorted(set(numbers)))), False)

    def _visit(self, op: Operation) -> None:
        if isinstance(op, HandleCall | ImplementedCallOp):
            for result, alias in zip(op.outs, op.aliases.data, strict=True):
                if not is_handle(result):
                    continue
                if alias.kind == "fresh":
                    self._place(result, (self._new("fresh", result),), True)
                elif alias.kind == "may":
                    sources = [op.args[alias.operand]] if alias.operand >= 0 else [v for v in op.args if is_handle(v)]
                    self._may(result, sources)
                elif alias.kind == "same":
                    self.locations[result] = self.locations[op.args[alias.operand]]
                else:
                    source = self.locations[op.args[alias.operand]]
                    known = len(source.roots) == 1 and source.roots[0].kind != "unknown"
                    self._place(result, source.roots, known)
        elif isinstance(op, CondOp | WhileOp):
            for result in op.outs:
                self._place(result, (self._new("fresh", result),), True)
        elif isinstance(op, ConstantOp):
            if is_handle(op.value):
                self._place(op.value, (self._new("constant", op.value),), True)
        else:
            sources = reachable(op)
            for result in op.results:
                if is_handle(result):
                    self._may(result, sources)

    def _may(self, result: SSAValue, sources: Iterable[SSAValue]) -> None:
        """Fresh memory or that of any source: without sources, just fresh."""
        others = dict.fromkeys(root for source in sources for root in self.locations[source].roots)
        self._place(result, (self._new("fresh", result), *others), not others)

    def _place(self, handle: SSAValue, roots: tuple[Root, ...], known: bool) -> None:
        kind = handle.type
        assert isinstance(kind, MemRefType)
        window = geometry(kind)
        covered = region(window, element_bytes(kind.element_type)) if known else None
        self.locations[handle] = Location(roots, covered, element_name(kind.element_type), window, lazy_bits(kind))

    def _introduce(self, kind: Literal["root", "fresh", "constant", "unknown"], number: int, value: SSAValue) -> Root:
        root = Root(kind, number)
        self.origins.setdefault(root, value)
        return root

    def _new(self, kind: Literal["fresh", "constant"], value: SSAValue) -> Root:
        self._fresh += 1
        return self._introduce(kind, self._fresh - 1, value)


def argument_attributes(function: FuncOp) -> list[dict[str, Attribute]]:
    """Attributes of each argument of a function, empty where it has none."""
    attributes = function.arg_attrs
    if not isinstance(attributes, ArrayAttr):
        return [{} for _ in function.body.block.args]
    return [dict(a.data) if isinstance(a, DictionaryAttr) else {} for a in attributes.data]
