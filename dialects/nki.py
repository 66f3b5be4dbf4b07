"""Calls of hand-written accelerator kernels, on handles (`nki.call`) and on values (`nki.value_call`).

    %1 = nki.call "higher_order.nki_kernel_wrapper"(2.0, %cache, [%k, %v]) kernel 3 grid<2> config "eyJ...=="
           stored<1 = 0> names ["scale", "cache", "kv"] effects<read 0, write 0, read 1, read 2> results<same 0>
           value<"higher_order.nki_kernel_wrapper" [write 0]>
           : (memref<8x4xf32>, memref<2x4xf32>, memref<2x4xf32>) -> memref<8x4xf32>

The arguments are the kernel's own, tensors among scalars, lists and configuration objects. `stored<position = result>` says that
a result is the new value of the tensor at that position, counted over *all* arguments. A kernel that has not been
compiled yet has an empty `config` and unknown effects; `write-nki-backend-config` fills in both.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    MemRefType,
    StringAttr,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, Data, Dialect
from xdsl.irdl import irdl_attr_definition, irdl_op_definition, opt_prop_def, prop_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from dialects.alias import ResultAlias, effects, results
from dialects.arguments import CallArguments, Numbers, Operand, operand_numbers, verify_arguments
from dialects.calls import HandleCall, OperatorCall, ValueCall, ValueForm, ValueFormData, ValueOutput


@irdl_attr_definition
class Stored(Data[tuple[tuple[int, int], ...]]):
    """Pairs (position among all arguments, result): the result is the new value of that argument."""

    name = "nki.stored"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[tuple[int, int], ...]:
        def pair() -> tuple[int, int]:
            position = parser.parse_integer(allow_boolean=False, allow_negative=False)
            parser.parse_punctuation("=")
            return position, parser.parse_integer(allow_boolean=False, allow_negative=False)

        return tuple(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, pair))

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string("<" + ", ".join(f"{position} = {result}" for position, result in self.data) + ">")


class KernelCall(OperatorCall):
    """What a kernel call is made of in either form.

    Args:
        target: the toolkit's operator, `higher_order.name`.
        arguments: the kernel's arguments in order.
        keywords: whatever else the toolkit configures the kernel with.
        kernel_idx: the kernel's number in the toolkit's table.
        grid: instances per dimension.
        backend_config: what the kernel compiler said, byte for byte; empty before it ran.
        operand_output_aliases: which result is stored in which argument.
        arg_names: names of the kernel's parameters.
        constant_args_key: where the toolkit keeps constant arguments, -1 for nowhere.
        has_collectives: the kernel talks to other ranks.
    """

    target: StringAttr = prop_def(StringAttr)
    arguments: ArrayAttr[Attribute] = prop_def(ArrayAttr)
    keywords: DictionaryAttr | None = opt_prop_def(DictionaryAttr)
    kernel_idx = prop_def(IntegerAttr.constr(i64))
    grid = prop_def(Numbers)
    backend_config = prop_def(StringAttr)
    operand_output_aliases = prop_def(Stored)
    arg_names = opt_prop_def(ArrayAttr[StringAttr])
    constant_args_key = opt_prop_def(IntegerAttr.constr(i64))
    has_collectives = opt_prop_def(UnitAttr)

    def operand_at(self, position: int) -> int:
        """The operand number of the tensor that is argument `position` itself, or -1."""
        argument = self.arguments.data[position] if position < len(self.arguments.data) else None
        return argument.data if isinstance(argument, Operand) else -1

    @property
    def stored(self) -> tuple[tuple[int, int], ...]:
        """Pairs (operand, result)."""
        return tuple((self.operand_at(position), result) for position, result in self.operand_output_aliases.data)

    def in_pytorch(self) -> tuple[tuple[Attribute, ...], dict[str, Attribute]]:
        """The kernel wrapper takes keywords only."""
        settings = self.settings()
        settings.pop("has_collectives", None)
        return (), {"args": self.arguments, "arg_names": ArrayAttr([]), **settings}

    def verify_call(self) -> None:
        verify_arguments(self, self.arguments, self.keywords)
        if self.keywords is not None and any(True for k in self.keywords.data.values() for _ in operand_numbers(k)):
            raise VerifyException("the operands of a kernel are among its arguments")
        if min(self.grid.data, default=1) < 1:
            raise VerifyException(f"the grid {list(self.grid.data)} has a dimension without instances")
        pairs = self.operand_output_aliases.data
        if len({p for p, _ in pairs}) < len(pairs) or len({r for _, r in pairs}) < len(pairs):
            raise VerifyException("an argument stores one result, and a result is stored in one argument")
        for position, result in pairs:
            if self.operand_at(position) < 0:
                raise VerifyException(
                    f"result {result} is stored in argument {position}, which is no tensor: positions count all arguments"
                )
            if result >= len(self.outs):
                raise VerifyException(f"argument {position} stores result {result}, but there are {len(self.outs)}")
        self._verify_stored_types()

    def _verify_stored_types(self) -> None:
        for operand, result in self.stored:
            if _form(self.args[operand].type) != _form(self.outs[result].type):
                raise VerifyException(
                    f"result {result} has type {self.outs[result].type}, operand {operand} that it is the new value of "
                    f"{self.args[operand].type}"
                )


def _form(kind: Attribute) -> tuple[Attribute, Sequence[int]] | Attribute:
    return (kind.element_type, kind.get_shape()) if isinstance(kind, MemRefType | TensorType) else kind


_FORMAT = (
    "$target custom<CallArguments>($args, $arguments, $keywords) `kernel` $kernel_idx `grid` `` $grid "
    "`config` $backend_config `stored` `` $operand_output_aliases (`names` $arg_names^)? "
    "(`constants` $constant_args_key^)? (`has_collectives` $has_collectives^)? "
)


@irdl_op_definition
class CallOp(KernelCall, HandleCall):
    """A kernel call on handles: it reads every tensor it is given, and writes those that a result is stored in.

    One that comes from an out-of-place graph writes nothing: its results are fresh, and only meant to be stored there.
    """

    name = "nki.call"

    custom_directives = (CallArguments,)
    assembly_format = (
        _FORMAT
        + "`effects` `` $effects `results` `` $aliases (`value` `` $value^)? attr-dict `:` functional-type($args, $outs)"
    )

    @classmethod
    def value_op(cls) -> type[ValueCall]:
        return ValueCallOp

    def why_unknown(self) -> tuple[str, str]:
        return (
            f"kernel {self.target.data.removeprefix('higher_order.')} has no configuration yet, so what it writes is unknown",
            "run the kernel configuration pass first, with a kernel compiler",
        )

    def verify_(self) -> None:
        self.verify_call()
        super().verify_()
        if self.backend_config.data and self.effects.data is None:
            raise VerifyException("a compiled kernel says what it writes")
        written = set(self.effects.writes() or ())
        if written and written != {operand for operand, _ in self.stored}:
            raise VerifyException("a kernel writes the operands that its results are stored in, and no others")


@irdl_op_definition
class ValueCallOp(KernelCall, ValueCall):
    """A kernel call on values: what is stored in an operand is the operand's new value."""

    name = "nki.value_call"

    custom_directives = (CallArguments,)
    assembly_format = _FORMAT + "attr-dict `:` functional-type($args, $outs)"

    @property
    def overwritten(self) -> tuple[int, ...]:
        return tuple(operand for operand, _ in self.stored)

    def verify_(self) -> None:
        self.verify_call()
        super().verify_()


def memory_of_kernel(target: str, operands: int, outs: int, stored: Sequence[tuple[int, int]]) -> dict[str, Attribute]:
    """What a compiled kernel does to memory, as properties of a `nki.call`; `stored` holds pairs (operand, result)."""
    owner = {result: operand for operand, result in stored}
    written = sorted(owner.values())
    properties: dict[str, Attribute] = {
        "effects": effects(range(operands), written),
        "aliases": results(
            [ResultAlias("same", owner[n]) if n in owner else ResultAlias("fresh") for n in range(outs)]
        ),
    }
    if written:
        outputs = [ValueOutput("write", owner[n]) if n in owner else ValueOutput("result", n) for n in range(outs)]
        properties["value"] = ValueForm(ValueFormData(target, tuple(outputs)))
    return properties


def has_collectives(configuration: str) -> bool:
    """Whether a configuration, base64 of JSON, says that the kernel talks to other ranks."""
    try:
        found = json.loads(base64.b64decode(configuration, validate=True))
    except (binascii.Error, ValueError):
        return False
    return isinstance(found, dict) and bool(found.get("has_collectives"))


Nki = Dialect("nki", [CallOp, ValueCallOp], [Stored])

__all__ = ["CallOp", "KernelCall", "Nki", "Stored", "ValueCallOp", "has_collectives", "memory_of_kernel"]
