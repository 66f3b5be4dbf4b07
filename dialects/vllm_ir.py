"""Operators with interchangeable implementations, on handles.

    %n, %s = vllm_ir.call "norms.add_norm.default"(%x, %r, %w, 1.0e-6) activations<0, 1>
               implementations [#vllm_ir.implementation<"fused" "norms.add_norm_.default" effects<read 0, write 0, read 1,
                                                        write 1, read 2> results<> gives [write 0, write 1]>]
               : (memref<2x4xf32>, memref<2x4xf32>, memref<4xf32>) -> (memref<2x4xf32>, memref<2x4xf32>)

The operator that is named is the native form: it reads its operands and returns fresh memory. Every implementation takes the same
arguments. With `maybe_inplace` the call may overwrite its activations and return their memory: after it they hold
nothing that anybody may rely on.
"""

from __future__ import annotations

from typing import NamedTuple

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, MemRefType, StringAttr, UnitAttr
from xdsl.ir import Data, Dialect
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from dialects.alias import Effects, ResultAlias, Results, effects
from dialects.fx import CallArguments, ValueOutput, verify_arguments


class ImplementationData(NamedTuple):
    """`gives`: where each result of the call is found: a `result` of the target, or what it leaves in an operand (`write`)."""

    name: str
    target: str
    effects: Effects
    results: Results
    gives: tuple[ValueOutput, ...]


@irdl_attr_definition
class Implementation(Data[ImplementationData]):
    """An overload that computes what the native form does, maybe in the memory of activations."""

    name = "vllm_ir.implementation"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> ImplementationData:
        def output() -> ValueOutput:
            kind = parser.parse_keyword_in(("result", "write"))
            number = parser.parse_integer(allow_boolean=False, allow_negative=False)
            return ValueOutput("result" if kind == "result" else "write", number)

        with parser.in_angle_brackets():
            name, target = parser.parse_str_literal(), parser.parse_str_literal()
            parser.parse_keyword("effects")
            access = Effects(Effects.parse_parameter(parser))
            parser.parse_keyword("results")
            aliases = Results(Results.parse_parameter(parser))
            parser.parse_keyword("gives")
            gives = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, output)
            return ImplementationData(name, target, access, aliases, tuple(gives))

    def print_parameter(self, printer: Printer) -> None:
        data = self.data
        printer.print_string("<")
        printer.print_string_literal(data.name)
        printer.print_string(" ")
        printer.print_string_literal(data.target)
        printer.print_string(" effects")
        data.effects.print_parameter(printer)
        printer.print_string(" results")
        data.results.print_parameter(printer)
        printer.print_string(" gives [" + ", ".join(f"{o.kind} {o.index}" for o in data.gives) + "]>")

    @property
    def in_place(self) -> bool:
        return self.data.effects.writes() != ()


@irdl_attr_definition
class Activations(Data[tuple[int, ...]]):
    """Operand numbers whose memory an implementation may take over."""

    name = "vllm_ir.activations"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[int, ...]:
        def number() -> int:
            return parser.parse_integer(allow_boolean=False, allow_negative=False)

        return tuple(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, number))

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string("<" + ", ".join(map(str, self.data)) + ">")


@irdl_op_definition
class ImplementedCallOp(IRDLOperation):
    """A call whose implementation is still to be chosen.

    Args:
        target: the native form, `namespace.name.overload`.
        activations: operands that an implementation may write.
        implementations: what can take the place of the native form in this call, best first.
        maybe_inplace: the call may overwrite its activations, and its results may be their memory.
    """

    name = "vllm_ir.call"

    args = var_operand_def()
    outs = var_result_def()
    target = prop_def(StringAttr)
    arguments = prop_def(ArrayAttr)
    keywords = opt_prop_def(DictionaryAttr)
    activations = prop_def(Activations)
    implementations = prop_def(ArrayAttr[Implementation])
    maybe_inplace = opt_prop_def(UnitAttr)

    custom_directives = (CallArguments,)
    assembly_format = (
        "$target custom<CallArguments>($args, $arguments, $keywords) `activations` `` $activations "
        "(`maybe_inplace` $maybe_inplace^)? `implementations` $implementations attr-dict `:` functional-type($args, $outs)"
    )

    @property
    def effects(self) -> Effects:
        """Reads of every operand, and with `maybe_inplace` writes of the activations."""
        return effects(range(len(self.args)), self.activations.data if self.maybe_inplace is not None else ())

    @property
    def aliases(self) -> Results:
        """Fresh memory, and with `maybe_inplace` possibly that of an operand."""
        kind = ResultAlias("fresh" if self.maybe_inplace is None else "may")
        return Results((kind,) * len(self.outs))

    def verify_(self) -> None:
        verify_arguments(self, self.arguments, self.keywords)
        for value in (*self.args, *self.outs):
            if not isinstance(value.type, MemRefType):
                raise VerifyException(f"a call takes and gives memory, not a value of type {value.type}")
        for number in self.activations.data:
            if number >= len(self.args):
                raise VerifyException(f"activation {number}, but there are {len(self.args)} operands")
        if len(set(self.activations.data)) < len(self.activations.data):
            raise VerifyException("an activation is listed twice")
        names = [choice.data.name for choice in self.implementations]
        if len(set(names)) < len(names) or NATIVE in names:
            raise VerifyException(
                f"the implementations must have names of their own other than {NATIVE!r}, not {names}"
            )
        for choice in self.implementations:
            self._verify_implementation(choice.data)

    def _verify_implementation(self, data: ImplementationData) -> None:
        which = f"implementation {data.name!r}"
        accesses = data.effects.data
        if accesses is None:
            raise VerifyException(f"{which}: its effects must be known")
        if any(access.operand >= len(self.args) for access in accesses):
            raise VerifyException(f"{which}: an effect on an operand that the call does not have")
        writes = data.effects.writes() or ()
        if not set(writes) <= set(self.activations.data):
            raise VerifyException(f"{which} writes operands {list(writes)}, of which only activations may be written")
        if len(data.gives) != len(self.outs):
            raise VerifyException(f"{which} gives {len(data.gives)} results, the call has {len(self.outs)}")
        if len(set(data.gives)) < len(data.gives):
            raise VerifyException(f"{which} gives one thing as two results")
        for output in data.gives:
            if output.kind == "write" and output.index not in writes:
                raise VerifyException(f"{which} gives operand {output.index}, which it does not write")
            if output.kind == "result" and (
                output.index >= len(data.results.data) or data.results.data[output.index].kind != "fresh"
            ):
                raise VerifyException(f"{which} gives result {output.index}, which is not fresh memory of its own")
        for number, alias in enumerate(data.results.data):
            unused = ValueOutput("result", number) not in data.gives
            if alias.kind != "same" and unused:
                raise VerifyException(f"{which}: result {number} is neither given nor an operand")
            if alias.kind == "same" and not 0 <= alias.operand < len(self.args):
                raise VerifyException(f"{which}: result {number} is an operand that the call does not have")


NATIVE = "native"
"""What the native form is called in a list of priorities."""

VllmIr = Dialect("vllm_ir", [ImplementedCallOp], [Activations, Implementation])

__all__ = ["Activations", "Implementation", "ImplementationData", "ImplementedCallOp", "NATIVE", "VllmIr"]
