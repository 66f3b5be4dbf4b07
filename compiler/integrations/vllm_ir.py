"""Calls of operators that a host can implement in several ways, as calls whose implementation is still to be chosen.

The host describes its operators with `InterchangeableOp`s and passes them in; nothing is registered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch._ops import OpOverload
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr, UnitAttr
from xdsl.ir import Attribute
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern, op_type_rewrite_pattern

from compiler.errors import CompileError
from compiler.frontend.schemas import Facts, facts
from compiler.integrations.fx_import import parameter_operands
from dialects.alias import ResultAlias, Results, effects
from dialects.calls import HandleCall, ValueOutput
from dialects.vllm_ir import NATIVE, Activations, Implementation, ImplementationData, ImplementedCallOp


def always(call: HandleCall) -> bool:
    return True


@dataclass(frozen=True)
class Provider:
    """An overload that computes what the native form does, with the same parameters.

    Attributes:
        name: what lists of priorities call it.
        gives: for each result of the native form, the parameter that holds it afterwards, or the number of the overload's own
            result. By default the overload's results, in order.
        supports: whether it can serve a call, judged by the operands' types and the plain arguments.
    """

    name: str
    op: OpOverload
    gives: tuple[str | int, ...] = ()
    supports: Callable[[HandleCall], bool] = always


@dataclass(frozen=True)
class InterchangeableOp:
    """An operator with a native form, an overload that may consume its activations, and providers, best first.

    Raises:
        CompileError: an overload does not fit the native form.
    """

    native: OpOverload
    activations: tuple[str, ...] = ()
    maybe_inplace: OpOverload | None = None
    providers: tuple[Provider, ...] = ()

    def __post_init__(self) -> None:
        form = self.facts
        if any(p.writes for p in form.parameters) or any(form.returns):
            raise CompileError(f"{form.name} is no native form: it writes an argument or returns one")
        unknown = [name for name in self.activations if name not in form.by_name or not form.by_name[name].tensor]
        if unknown:
            raise CompileError(f"{form.name} has no tensor parameter {unknown[0]!r} that could be an activation")
        others = [facts(p.op) for p in self.providers] + ([facts(self.maybe_inplace)] if self.maybe_inplace else [])
        for other in others:
            if [(p.name, p.tensor) for p in other.parameters] != [(p.name, p.tensor) for p in form.parameters]:
                raise CompileError(f"{other.name} does not take the parameters of {form.name}")
            written = [p.name for p in other.parameters if p.writes and p.name not in self.activations]
            if written:
                raise CompileError(f"{other.name} writes {written[0]!r}, which is no activation of {form.name}")
        for provider in self.providers:
            self._check(provider)

    def _check(self, provider: Provider) -> None:
        other = facts(provider.op)
        if provider.name == NATIVE:
            raise CompileError(f"{other.name}: the name {NATIVE!r} is that of the native form")
        written = {name for p in other.parameters if p.writes for name in p.alias}
        if any(sets and not sets <= written for sets in other.returns):
            raise CompileError(f"{other.name} returns a view of an argument that it does not write")
        gives = given(provider)
        if len(gives) != len(self.facts.returns):
            raise CompileError(
                f"{other.name} gives {len(gives)} results, {self.facts.name} has {len(self.facts.returns)}"
            )
        for what in gives:
            if isinstance(what, str) and (what not in other.by_name or not other.by_name[what].writes):
                raise CompileError(f"{other.name} does not write {what!r}, so it can give no result there")
            if isinstance(what, int) and (what >= len(other.returns) or other.returns[what]):
                raise CompileError(
                    f"{other.name} has no result {what} of its own", hint="name the parameter that it is"
                )

    @property
    def facts(self) -> Facts:
        return facts(self.native)


def given(provider: Provider) -> tuple[str | int, ...]:
    return provider.gives or tuple(range(len(facts(provider.op).returns)))


def choose_later(module: ModuleOp, operators: Sequence[InterchangeableOp]) -> None:
    """Replace the calls of these operators, functional or not, by calls whose implementation is still to be chosen.

    Providers that do not support a call are no choice in it.
    """
    PatternRewriteWalker(ChooseLater(operators), apply_recursively=False).rewrite_module(module)


class ChooseLater(RewritePattern):
    """Makes calls of the native form, or of the overload that may consume its activations, calls with implementations."""

    def __init__(self, operators: Sequence[InterchangeableOp]):
        self.operators: dict[str, tuple[InterchangeableOp, bool]] = {}
        for operator in operators:
            self.operators[operator.facts.name] = operator, False
            if operator.maybe_inplace is not None:
                self.operators[facts(operator.maybe_inplace).name] = operator, True

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: HandleCall, rewriter: PatternRewriter) -> None:
        call = self.implemented(op)
        if call is not None:
            rewriter.replace(op, call)

    def implemented(self, op: HandleCall) -> ImplementedCallOp | None:
        """The call with its implementations, or None if it has just one."""
        operator, consumes = self.operators.get(op.target.data, (None, False))
        if operator is None:
            return None
        operands = parameter_operands(op, operator.facts)
        choices = [_implementation(p, operands, len(op.args)) for p in operator.providers if p.supports(op)]
        properties: dict[str, Attribute] = {
            "target": StringAttr(operator.facts.name),
            "arguments": op.arguments,
            "activations": Activations(tuple(operands[name] for name in operator.activations if name in operands)),
            "implementations": ArrayAttr(choices),
        }
        if op.keywords is not None:
            properties["keywords"] = op.keywords
        if consumes:
            properties["maybe_inplace"] = UnitAttr()
        kinds = [o.type for o in op.outs]
        return ImplementedCallOp.create(
            operands=op.args, result_types=kinds, properties=properties, location=op.location
        )


def _implementation(provider: Provider, operands: dict[str, int], count: int) -> Implementation:
    form = facts(provider.op)
    writes = [operands[p.name] for p in form.parameters if p.writes and p.name in operands]
    owner = {name: operands[p.name] for p in form.parameters if p.name in operands for name in p.alias}
    aliases = [
        next((ResultAlias("same", owner[n]) for n in sets if n in owner), ResultAlias("fresh")) for sets in form.returns
    ]
    gives = tuple(
        ValueOutput("result", what) if isinstance(what, int) else ValueOutput("write", operands[what])
        for what in given(provider)
    )
    data = ImplementationData(provider.name, form.name, effects(range(count), writes), Results(tuple(aliases)), gives)
    return Implementation(data)


__all__ = ["InterchangeableOp", "Provider", "choose_later"]
