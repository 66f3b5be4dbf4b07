"""Removes every copy that nothing can tell from its source, and says of each copy that stays what would tell.

Before: handles, with copies as the program made them. After: each removed copy's handle is its source, views of it are
windows on the source's memory, and a `copy_` that would copy memory onto itself is gone. A copy of nothing becomes a view, so
that it stays an object of its own. Results, their sharing of memory, and the final contents of arguments that are not donated
are the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, MemRefType, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, OpResult, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern, op_type_rewrite_pattern

from compiler.analysis.alias import AliasAnalysis, AliasKind, Root, argument_attributes, is_handle, main_function
from compiler.analysis.clone_plan import ClonePlan, Objective, plan_clones
from compiler.analysis.copies import moved_bytes
from compiler.analysis.interference import Copy, element_size
from compiler.analysis.layout import rebase, same_strides
from compiler.analysis.regions import contiguous, extent
from compiler.errors import CompileError
from compiler.remarks import KEPT, Remark
from compiler.transforms.hoist_reads import plan_with_hoisting
from dialects.alias import ResultAlias, effects, results
from dialects.alias import Root as RootAttr
from dialects.calls import HandleCall
from dialects.fx import CallOp, Operand
from dialects.types import DYNAMIC, Geometry, element_name, geometry, handle_type, lazy_bits


@dataclass
class RemoveCopies(RewritePattern):
    """Replaces the results of the planned copies by their sources, and moves the windows on them."""

    plan: ClonePlan
    copies: dict[HandleCall, Copy] = field(init=False)
    moved: dict[Root, tuple[Geometry, int, SSAValue]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.copies = {copy.op: copy for copy in self.plan.removed}

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: HandleCall, rewriter: PatternRewriter) -> None:
        copy = self.copies.get(op)
        if copy is not None:
            self._remove(op, copy, rewriter)
            return
        for number, result in enumerate(op.outs):
            where = self.plan.analysis.locations.get(result)
            if where is None or len(where.roots) != 1 or where.roots[0] not in self.moved:
                continue
            alias = op.aliases.data[number]
            kind = op.args[alias.operand].type if alias.kind == "same" else self._type(result, where.roots[0])
            if kind != result.type:
                rewriter.replace_value_with_new_type(result, kind)

    def _remove(self, op: HandleCall, copy: Copy, rewriter: PatternRewriter) -> None:
        filled = copy.result.owner is not op
        source, result = op.args[1 if filled else 0], op.args[0] if filled else op.outs[0]
        if copy.bytes == 0:
            source = self._alias(op, source, rewriter)
        self.moved[copy.child] = (self.plan.analysis.location(copy.result).window, element_size(result), source)
        for out in op.outs:
            rewriter.replace_all_uses_with(out, source)
        rewriter.erase(op)
        if filled:
            assert isinstance(result, OpResult)
            rewriter.replace_all_uses_with(result, source)
            rewriter.erase(result.op)

    def _alias(self, op: HandleCall, source: SSAValue, rewriter: PatternRewriter) -> SSAValue:
        """A view of all of the source."""
        properties: dict[str, Attribute] = {
            "target": StringAttr("aten.alias.default"),
            "arguments": ArrayAttr([Operand(0)]),
            "effects": effects((), ()),
            "aliases": results([ResultAlias("view", 0)]),
        }
        call = CallOp.create(operands=[source], result_types=[source.type], properties=properties, location=op.location)
        rewriter.insert(call)
        return call.outs[0]

    def _type(self, handle: SSAValue, root: Root) -> MemRefType:
        """The type of a window on a copy, as a window on its source."""
        kind = handle.type
        assert isinstance(kind, MemRefType)
        copy, size, source = self.moved[root]
        assert isinstance(source.type, MemRefType)
        window, target = geometry(kind), geometry(source.type)
        if same_strides(copy, target):
            known = DYNAMIC not in (window.offset, copy.offset, target.offset)
            moved = window.offset + (target.offset - copy.offset) * size // element_size(handle) if known else DYNAMIC
            placed: Geometry | None = Geometry(window.sizes, window.strides, moved)
        else:
            placed = rebase(window, copy, target)
        assert placed is not None, "a copy goes only where every view of it can follow"
        return handle_type(element_name(kind.element_type), *placed, lazy_bits(kind))


@dataclass
class DropSelfCopies(RewritePattern):
    """Erases a `copy_` of a handle onto the very same window."""

    analysis: AliasAnalysis
    dropped: list[HandleCall] = field(default_factory=list)
    saved: int = 0

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: HandleCall, rewriter: PatternRewriter) -> None:
        if op.target.data != "aten.copy_.default" or not all(is_handle(v) for v in op.args) or len(op.args) != 2:
            return
        if any(v not in self.analysis.locations for v in op.args):
            return  # inside a region
        if self.analysis.alias(op.args[0], op.args[1]).kind is AliasKind.MUST:
            self.dropped.append(op)
            self.saved += moved_bytes(self.analysis.location(op.args[0]))
            rewriter.replace_all_uses_with(op.outs[0], op.args[0])
            rewriter.erase(op)


@dataclass(frozen=True)
class Outcome:
    """What elimination did: ops that are gone, the remarks of copies that stay, and the bytes no longer moved."""

    removed: tuple[HandleCall, ...]
    dropped: tuple[HandleCall, ...]
    kept: tuple[tuple[HandleCall, Remark], ...]
    bytes_saved: int


def apply_plan(function: FuncOp, plan: ClonePlan) -> Outcome:
    """Rewrite the function as planned; copies that stay get the reason as an attribute."""
    module = function.parent_op()
    assert isinstance(module, ModuleOp)
    for op, remark in plan.kept:
        op.attributes[KEPT] = StringAttr(remark.reason)
    if not plan.removed:
        return Outcome((), (), plan.kept, 0)
    PatternRewriteWalker(RemoveCopies(plan), apply_recursively=False).rewrite_module(module)
    stores = DropSelfCopies(AliasAnalysis(function))
    PatternRewriteWalker(stores, apply_recursively=False).rewrite_module(module)
    function.update_function_type()
    saved = sum(copy.bytes for copy in plan.removed) + stores.saved
    return Outcome(tuple(copy.op for copy in plan.removed), tuple(stores.dropped), plan.kept, saved)


def has_writers_without_twin(function: FuncOp) -> bool:
    """Whether some call may become a custom call that writes its operands: it has no out-of-place overload."""
    return any(isinstance(op, HandleCall) and op.value is None and op.effects.writes() != () for op in function.walk())


def eliminate_whole_copies(function: FuncOp) -> None:
    """Remove copies of whole memories: what a writing call gets is then that memory, which it may overwrite.

    Among values a copy costs nothing, except where the memory of an argument is to be written: a donated one is. The copy of a
    part stays, because the part would have to be put back into its memory.
    """
    analysis = AliasAnalysis(function)
    sizes = {
        Root("root", root.data.id): root.data.bytes
        for attributes in argument_attributes(function)
        if isinstance(root := attributes.get("alias.root"), RootAttr)
    }

    def objection(op: HandleCall, source: SSAValue, result: SSAValue) -> str:
        where = analysis.location(source)
        if len(where.roots) != 1:
            return ""  # refused anyway
        if where.region is None:
            return "its size is not known"
        root = where.roots[0]
        origin = analysis.location(analysis.origins[root]).region
        first, last = (0, sizes[root]) if root in sizes else extent(origin) if origin is not None else (0, -1)
        whole = contiguous(where.region) and extent(where.region) == (first, last)
        return "" if whole else "its source is a part of memory, into which the part would have to be put back"

    apply_plan(function, plan_clones(function, objection=objection))


@dataclass(frozen=True)
class EliminateClones(ModulePass):
    """Removes copies; see the module.

    Args:
        objective: `bytes` or `count`, what the best choice saves most of.
        hoist_reads: move a read above a write where that frees a copy.
    """

    name: ClassVar[str] = "eliminate-clones"
    objective: str = "bytes"
    hoist_reads: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.objective not in ("bytes", "count"):
            raise CompileError(f"eliminate-clones has no objective {self.objective!r}", hint="use bytes or count")
        objective: Objective = "bytes" if self.objective == "bytes" else "count"
        function = main_function(op)
        plan = plan_with_hoisting(function, objective)[0] if self.hoist_reads else plan_clones(function, objective)
        apply_plan(function, plan)
