"""What every call has in common, whatever its dialect: memory effects and result aliases on handles, none on values.

Analyses and rewrites ask for `HandleCall` and `ValueCall` and read what the call declares. A dialect of calls defines pairs of
operations, one on handles and one on values, and says in `HandleCall.value_op` which belong together.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, MemRefType, StringAttr, TensorType, UnitAttr
from xdsl.ir import Attribute, Data
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from dialects.alias import Effects, Results
from dialects.traits import RulesOfTypes

# -- the value form ----------------------------------------------------------------------------


class ValueOutput(NamedTuple):
    """What a result of the out-of-place twin stands for: `result` number of the call, or the new value of
    the operand that was written (`write`)."""

    kind: Literal["result", "write"]
    index: int


class ValueFormData(NamedTuple):
    target: str
    outputs: tuple[ValueOutput, ...]
    drop: tuple[str, ...] = ()
    """Keyword arguments the twin does not take (`out`)."""


@irdl_attr_definition
class ValueForm(Data[ValueFormData]):
    """The out-of-place twin of a writing op: its overload, and what each of its results stands for."""

    name = "fx.value"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> ValueFormData:
        def output() -> ValueOutput:
            kind = parser.parse_keyword_in(("result", "write"))
            return ValueOutput(
                cast(Literal["result", "write"], kind), parser.parse_integer(allow_boolean=False, allow_negative=False)
            )

        with parser.in_angle_brackets():
            target = parser.parse_str_literal()
            outputs = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, output)
            drop: list[str] = []
            if parser.parse_optional_keyword("drop"):
                drop = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_identifier)
            return ValueFormData(target, tuple(outputs), tuple(drop))

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string("<")
        printer.print_string_literal(self.data.target)
        printer.print_string(" [" + ", ".join(f"{o.kind} {o.index}" for o in self.data.outputs) + "]")
        if self.data.drop:
            printer.print_string(" drop [" + ", ".join(self.data.drop) + "]")
        printer.print_string(">")


# -- calls -------------------------------------------------------------------------------------

_COMMON = frozenset({"target", "arguments", "keywords", "effects", "aliases", "value", "pointwise", "writes"})
_OF_MEMORY = frozenset({"effects", "aliases", "value", "pointwise"})


class OperatorCall(IRDLOperation):
    """A call of something that PyTorch knows as an operator: `target(*arguments, **keywords)`.

    Dialects define the three as properties of the operation, or compute them from properties of their own.
    """

    args = var_operand_def()
    outs = var_result_def()
    traits = traits_def(RulesOfTypes())

    @property
    def target(self) -> StringAttr:
        """The operator: an overload `namespace.name.overload`, or `higher_order.name`."""
        raise NotImplementedError

    @property
    def arguments(self) -> ArrayAttr[Attribute]:
        """Positional arguments, operands by number."""
        raise NotImplementedError

    @property
    def keywords(self) -> DictionaryAttr | None:
        return None

    def in_pytorch(self) -> tuple[tuple[Attribute, ...], dict[str, Attribute]]:
        """Positional and keyword arguments as the operator takes them in PyTorch."""
        return self.arguments.data, dict(self.keywords.data) if self.keywords is not None else {}

    def settings(self) -> dict[str, Attribute]:
        """What the call depends on beside operands and arguments, by name: keywords, and properties of its dialect."""
        named = dict(self.keywords.data) if self.keywords is not None else {}
        return named | {name: value for name, value in self.properties.items() if name not in _COMMON}


class HandleCall(OperatorCall):
    """A call on handles, as the program made it, which says itself what it does to memory.

    Args:
        effects: which operands are read and written.
        aliases: how each result relates to an operand's memory.
        value: the out-of-place twin, for a writing call that has one.
    """

    effects = prop_def(Effects)
    aliases = prop_def(Results)
    value = opt_prop_def(ValueForm)

    @property
    def pointwise(self) -> UnitAttr | None:
        """Element i of what is written depends on element i of the operands only, so that source and destination may
        be one window."""
        return None

    @classmethod
    def value_op(cls) -> type[ValueCall]:
        """The operation that is this call on values."""
        raise NotImplementedError

    def value_properties(self) -> dict[str, Attribute]:
        """The properties of that operation: everything but what speaks of memory."""
        return {name: value for name, value in self.properties.items() if name not in _OF_MEMORY}

    def why_unknown(self) -> tuple[str, str]:
        """Why effects or aliases of this call are unknown, and what to do about it."""
        return (
            f"{self.target.data} does not say what it reads and writes",
            "give the operator a schema with write marks (Tensor(a!)), or register a lowering for it",
        )

    def verify_(self) -> None:
        for value in (*self.args, *self.outs):
            if isinstance(value.type, TensorType):
                raise VerifyException(f"a call takes and gives memory, not a value of type {value.type}")
        accesses = self.effects.data or ()
        if len(set(accesses)) < len(accesses):
            raise VerifyException("an effect is listed twice")
        for access in accesses:
            if access.operand >= len(self.args):
                raise VerifyException(f"effect on operand {access.operand}, but there are {len(self.args)}")
            if not isinstance(self.args[access.operand].type, MemRefType):
                raise VerifyException(
                    f"{access.kind} effect on operand {access.operand}, a value of type {self.args[access.operand].type}: "
                    "only memory can be read or written"
                )
        if len(self.aliases.data) != len(self.outs):
            raise VerifyException(f"{len(self.aliases.data)} result aliases for {len(self.outs)} results")
        for number, (alias, result) in enumerate(zip(self.aliases.data, self.outs, strict=True)):
            self._verify_alias(number, alias.kind, alias.operand, result.type)
        if self.value is not None:
            self._verify_value(self.value.data)

    def _verify_alias(self, number: int, kind: str, operand: int, result: Attribute) -> None:
        if operand < 0:
            if kind in ("same", "view"):
                raise VerifyException(f"result {number}: `{kind}` needs an operand number")
            return
        if kind == "fresh":
            raise VerifyException(f"result {number}: `fresh` memory is no operand's")
        if operand >= len(self.args):
            raise VerifyException(f"result {number} aliases operand {operand}, but there are {len(self.args)}")
        source = self.args[operand].type
        if not isinstance(source, MemRefType) or not isinstance(result, MemRefType):
            raise VerifyException(f"result {number}: only memory can alias memory")
        if kind == "same" and source != result:
            raise VerifyException(
                f"result {number} must alias operand {operand}, but their types differ: {result} and {source}; "
                "another geometry needs `view`"
            )

    def _verify_value(self, value: ValueFormData) -> None:
        writes = self.effects.writes() or ()
        for output in value.outputs:
            if output.kind == "write" and output.index not in writes:
                raise VerifyException(f"value form gives operand {output.index}, which is not written")
            if output.kind == "result" and output.index >= len(self.outs):
                raise VerifyException(f"value form gives result {output.index}, but there are {len(self.outs)}")
        if len(set(value.outputs)) < len(value.outputs):
            raise VerifyException("value form gives the same thing twice")
        given = {output.index for output in value.outputs if output.kind == "write"}
        for operand in writes:
            if operand not in given:
                raise VerifyException(f"value form does not give the new value of operand {operand}, which is written")


class ValueCall(OperatorCall):
    """A call on values: a pure function of its operands.

    With `writes`, the operator is a mutating one without a twin: it runs on copies of the operands it
    writes, and their new values follow the call's own results.
    """

    traits = traits_def(Pure())

    @property
    def writes(self) -> Effects | None:
        return None

    @property
    def rule(self) -> str:
        """The name under which the call's lowering is registered: of the operator, or of the operation of its dialect."""
        return self.name

    @property
    def overwritten(self) -> tuple[int, ...]:
        """Operands that the operator overwrites in eager PyTorch, where it has to run on copies of them."""
        return self.writes.writes() or () if self.writes is not None else ()

    def verify_(self) -> None:
        for value in (*self.args, *self.outs):
            if isinstance(value.type, MemRefType):
                raise VerifyException(f"a value call takes and gives values, not memory of type {value.type}")
        if self.writes is not None:
            self._verify_writes(self.writes)

    def _verify_writes(self, effects: Effects) -> None:
        """The new values of the written operands are the last results, in operand order."""
        written = effects.writes()
        if not written or effects.reads():
            raise VerifyException("`writes` names the written operands: writes<write 0>")
        if len(self.outs) < len(written):
            raise VerifyException(f"{len(written)} operands are written, but there are {len(self.outs)} results")
        for operand, result in zip(written, self.outs[len(self.outs) - len(written) :], strict=True):
            if operand >= len(self.args):
                raise VerifyException(f"a write of operand {operand}, but there are {len(self.args)}")
            if self.args[operand].type != result.type:
                raise VerifyException(
                    f"the new value of operand {operand} has type {result.type}, the operand {self.args[operand].type}"
                )


__all__ = ["HandleCall", "OperatorCall", "ValueCall", "ValueForm", "ValueFormData", "ValueOutput"]
