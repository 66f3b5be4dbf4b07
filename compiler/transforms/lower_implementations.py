"""Each call with interchangeable implementations becomes a call of the best one that fits; its activations keep their contents.

An implementation that works in place runs on copies of what it writes (`aten.clone`, which `eliminate-clones` removes where
nothing can tell). It fits where the copies are laid out as the results that they become; otherwise the next one is tried, and the
native form fits always.

    lower-implementations{priority=fused,native}
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, MemRefType, ModuleOp, StringAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern, op_type_rewrite_pattern

from compiler.analysis.memories import memory_order
from compiler.errors import CompileError
from compiler.locations import source_of
from compiler.remarks import site
from dialects.alias import ResultAlias, effects, results
from dialects.calls import HandleCall
from dialects.fx import CallOp, Constant, Operand
from dialects.types import Geometry, form, handle_type, row_major
from dialects.vllm_ir import NATIVE, Implementation, ImplementationData, ImplementedCallOp

CLONE = "aten.clone.default"
CONTIGUOUS = DictionaryAttr({"memory_format": Constant("memory_format:contiguous_format")})


@dataclass(frozen=True)
class Copy:
    """A copy of an activation: its type, and whether it is made row-major whatever the activation is."""

    type: MemRefType
    row_major: bool


@dataclass(frozen=True)
class LowerImplementations(ModulePass):
    """See the module's text.

    Options:
        priority: names of implementations, best first; without it, the order of each call, then the native form.
    """

    name: ClassVar[str] = "lower-implementations"
    priority: tuple[str, ...] = ()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        PatternRewriteWalker(ChooseImplementation(self.priority), apply_recursively=False).rewrite_module(op)


@dataclass
class ChooseImplementation(RewritePattern):
    """Replaces a call by one of its implementations."""

    priority: Sequence[str]

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ImplementedCallOp, rewriter: PatternRewriter) -> None:
        if op.maybe_inplace is not None:
            location, node = source_of(op)
            raise CompileError(
                f"{site(op)} may consume its activations",
                location=location,
                node=node,
                hint="run donate-activations first",
            )
        selected = select(op, self.priority)
        if selected is not None:
            self._lower(op, *selected, rewriter)
            return
        every = effects(range(len(op.args)), ())
        rewriter.replace(op, _call(op, op.target.data, list(op.args), [o.type for o in op.outs], every, op.aliases))

    def _lower(
        self, op: ImplementedCallOp, chosen: ImplementationData, copies: dict[int, Copy], rewriter: PatternRewriter
    ) -> None:
        operands = list(op.args)
        for number, copy in copies.items():
            clone = _clone(op, operands[number], copy)
            rewriter.insert(clone)
            operands[number] = clone.outs[0]
        kinds: list[Attribute] = []
        for number, alias in enumerate(chosen.results.data):
            if alias.kind == "same":
                kinds.append(operands[alias.operand].type)
            else:
                position = next(i for i, o in enumerate(chosen.gives) if o.kind == "result" and o.index == number)
                kinds.append(op.outs[position].type)
        call = _call(op, chosen.target, operands, kinds, chosen.effects, chosen.results)
        values = [call.outs[o.index] if o.kind == "result" else operands[o.index] for o in chosen.gives]
        rewriter.replace(op, call, values)


def select(op: ImplementedCallOp, priority: Sequence[str] = ()) -> tuple[ImplementationData, dict[int, Copy]] | None:
    """The best implementation that fits, with the copies of operands that it runs on; None for the native form."""
    own = {choice.data.name: choice for choice in op.implementations}
    for name in priority or own:
        if name == NATIVE:
            return None
        copies = _copies(op, own[name]) if name in own else None
        if copies is not None:
            return own[name].data, copies
    return None


def _copies(op: ImplementedCallOp, choice: Implementation) -> dict[int, Copy] | None:
    """The copies an implementation needs, by operand; None if one of them would be no result of the call."""
    wanted = {o.index: op.outs[i].type for i, o in enumerate(choice.data.gives) if o.kind == "write"}
    copies: dict[int, Copy] = {}
    for number in choice.data.effects.writes() or ():
        copy = _copy(cast(MemRefType, op.args[number].type), wanted.get(number))
        if copy is None:
            return None
        copies[number] = copy
    return copies


def _copy(source: MemRefType, wanted: Attribute | None) -> Copy | None:
    """A copy with the layout of the source if that is dense, or a row-major one, whichever is wanted."""
    shape = form(source)
    sizes, strides, _ = shape.window
    if shape.lazy:
        return None  # a copy would resolve the bit or not, as the operator pleases
    dense = strides == row_major(sizes) or (
        shape.window.static and memory_order(Geometry(sizes, strides, 0)) is not None
    )
    options = [Copy(handle_type(shape.element, sizes, row_major(sizes)), True)]
    if dense and 0 not in sizes:
        options.insert(0, Copy(handle_type(shape.element, sizes, strides), False))
    return next((copy for copy in options if wanted is None or copy.type == wanted), None)


def _clone(op: ImplementedCallOp, source: SSAValue, copy: Copy) -> HandleCall:
    properties: dict[str, Attribute] = {
        "target": StringAttr(CLONE),
        "arguments": ArrayAttr([Operand(0)]),
        "effects": effects([0], ()),
        "aliases": results([ResultAlias("fresh")]),
    }
    if copy.row_major:
        properties["keywords"] = CONTIGUOUS
    return CallOp.create(operands=[source], result_types=[copy.type], properties=properties, location=op.location)


def _call(
    op: ImplementedCallOp,
    target: str,
    operands: Sequence[SSAValue],
    kinds: Sequence[Attribute],
    access: Attribute,
    aliases: Attribute,
) -> HandleCall:
    properties: dict[str, Attribute] = {
        "target": StringAttr(target), "arguments": op.arguments, "effects": access, "aliases": aliases,
    }  # fmt: skip
    if op.keywords is not None:
        properties["keywords"] = op.keywords
    return CallOp.create(operands=operands, result_types=kinds, properties=properties, location=op.location)


__all__ = ["Copy", "LowerImplementations", "select"]
