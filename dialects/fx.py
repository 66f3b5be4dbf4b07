"""Calls of any operator overload, on handles (`fx.call`) and on values (`fx.value_call`), and windows on values.

    %1 = fx.call "aten.index_copy_.default"(%kv, 0, %pos, %x) effects<read 0, write 0, read 1, read 2>
           results<same 0> value<"aten.index_copy.default" [write 0]> : (memref<128x64xf32>, ...) -> memref<128x64xf32>

A call's arguments stand in the order of the operator's schema (`dialects/arguments.py`); what calls of all dialects have in
common is in `dialects/calls.py`.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    IndexType,
    MemRefType,
    StringAttr,
    TensorType,
    UnitAttr,
)
from xdsl.ir import Attribute, Dialect
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from dialects.alias import Effects, Window
from dialects.arguments import (
    NONE,
    CallArguments,
    Constant,
    Numbers,
    Operand,
    boolean,
    integer,
    operand_numbers,
    real,
    verify_arguments,
)
from dialects.calls import HandleCall, ValueCall, ValueForm, ValueFormData, ValueOutput
from dialects.traits import RulesOfTypes
from dialects.types import element_bytes


@irdl_op_definition
class CallOp(HandleCall):
    """A call of an operator overload on handles."""

    name = "fx.call"

    target: StringAttr = prop_def(StringAttr)
    arguments: ArrayAttr[Attribute] = prop_def(ArrayAttr)
    keywords: DictionaryAttr | None = opt_prop_def(DictionaryAttr)
    pointwise: UnitAttr | None = opt_prop_def(UnitAttr)

    custom_directives = (CallArguments,)
    assembly_format = (
        "$target custom<CallArguments>($args, $arguments, $keywords) `effects` `` $effects `results` `` $aliases "
        "(`value` `` $value^)? (`pointwise` $pointwise^)? attr-dict `:` functional-type($args, $outs)"
    )

    @classmethod
    def value_op(cls) -> type[ValueCall]:
        return ValueCallOp

    def value_properties(self) -> dict[str, Attribute]:
        """The twin's overload, where there is one."""
        properties = super().value_properties()
        if self.value is not None:
            properties["target"] = StringAttr(self.value.data.target)
        return properties

    def verify_(self) -> None:
        verify_arguments(self, self.arguments, self.keywords)
        super().verify_()


@irdl_op_definition
class ValueCallOp(ValueCall):
    """A call of an operator overload on values."""

    name = "fx.value_call"

    target: StringAttr = prop_def(StringAttr)
    arguments: ArrayAttr[Attribute] = prop_def(ArrayAttr)
    keywords: DictionaryAttr | None = opt_prop_def(DictionaryAttr)
    writes: Effects | None = opt_prop_def(Effects)

    custom_directives = (CallArguments,)
    assembly_format = (
        "$target custom<CallArguments>($args, $arguments, $keywords) (`writes` `` $writes^)? attr-dict "
        "`:` functional-type($args, $outs)"
    )

    @property
    def rule(self) -> str:
        return self.target.data

    def verify_(self) -> None:
        verify_arguments(self, self.arguments, self.keywords)
        super().verify_()


@irdl_op_definition
class ExtractOp(IRDLOperation):
    """The window of a value: element (i, j, ...) is element `offset + i * stride_0 + ...` in row-major order."""

    name = "fx.extract"

    base = operand_def(TensorType)
    window = prop_def(Window)
    value = result_def(TensorType)

    traits = traits_def(Pure(), RulesOfTypes())
    assembly_format = "$base $window attr-dict `:` type($base) `->` type($value)"

    def verify_(self) -> None:
        _verify_window(
            self.window, cast("TensorType[Attribute]", self.base.type), cast("TensorType[Attribute]", self.value.type)
        )


@irdl_op_definition
class InsertOp(IRDLOperation):
    """`base` with the window replaced by `value`; without `base` the window covers every element.

    A window that meets one element twice is right only if it puts the same value there each time.
    """

    name = "fx.insert"

    value = operand_def(TensorType)
    base = opt_operand_def(TensorType)
    window = prop_def(Window)
    result = result_def(TensorType)

    traits = traits_def(Pure(), RulesOfTypes())
    assembly_format = (
        "$value (`into` $base^)? $window attr-dict `:` type($value) (`into` type($base)^)? `->` type($result)"
    )

    def verify_(self) -> None:
        result = cast("TensorType[Attribute]", self.result.type)
        _verify_window(self.window, result, cast("TensorType[Attribute]", self.value.type))
        if self.base is not None and self.base.type != result:
            raise VerifyException(f"the result has type {result}, the base {self.base.type}")


@irdl_op_definition
class ReinterpretOp(IRDLOperation):
    """The same bytes with another element type; the last dimension scales with the element size."""

    name = "fx.reinterpret"

    value = operand_def(TensorType)
    result = result_def(TensorType)

    traits = traits_def(Pure(), RulesOfTypes())
    assembly_format = "$value attr-dict `:` type($value) `->` type($result)"

    def verify_(self) -> None:
        source, result = cast("TensorType[Attribute]", self.value.type), cast("TensorType[Attribute]", self.result.type)
        before, after = element_bytes(source.element_type), element_bytes(result.element_type)
        if before == after:
            same = source.get_shape() == result.get_shape()
        else:
            same = (
                len(source.get_shape()) > 0
                and source.get_shape()[:-1] == result.get_shape()[:-1]
                and source.get_shape()[-1] * before == result.get_shape()[-1] * after
            )
        if not same:
            raise VerifyException(f"{source} and {result} do not hold the same bytes")


@irdl_op_definition
class EmptyOp(IRDLOperation):
    """A value nobody has written yet; it reads as zeros."""

    name = "fx.empty"

    value = result_def(TensorType)
    traits = traits_def(Pure(), RulesOfTypes())
    assembly_format = "attr-dict `:` type($value)"


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """A small constant tensor, as fresh memory (memref) or as a value (tensor). Large data is an argument."""

    name = "fx.constant"

    data = prop_def(DenseIntOrFPElementsAttr)
    value = result_def()
    traits = traits_def(RulesOfTypes())
    assembly_format = "$data attr-dict `:` type($value)"

    def verify_(self) -> None:
        kind = self.value.type
        if not isinstance(kind, MemRefType | TensorType):
            raise VerifyException(f"a constant is a memref or a tensor, not {kind}")
        data = self.data.type
        if data.element_type != kind.element_type or data.get_shape() != kind.get_shape():
            raise VerifyException(f"the data has type {data}, the constant {kind}")


@irdl_op_definition
class SymbolOp(IRDLOperation):
    """A number known only at run time: the size, stride or offset that `expression` names."""

    name = "fx.symbol"

    expression = prop_def(StringAttr)
    value = result_def(IndexType)
    traits = traits_def(Pure(), RulesOfTypes())
    assembly_format = "$expression attr-dict `:` type($value)"


def _verify_window(window: Window, base: TensorType[Attribute], value: TensorType[Attribute]) -> None:
    sizes, strides, offset = window.data
    if base.element_type != value.element_type:
        raise VerifyException(f"a window does not change the element type: {base} and {value}")
    if value.get_shape() != sizes:
        raise VerifyException(f"the window has sizes {list(sizes)}, the value {list(value.get_shape())}")
    numel = 1
    for size in base.get_shape():
        numel *= size
    if 0 in sizes:
        return
    last = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    if offset < 0 or min(strides, default=0) < 0 or last >= numel:
        raise VerifyException(f"the window reaches element {last} of a value with {numel}")


Fx = Dialect(
    "fx",
    [CallOp, ValueCallOp, ExtractOp, InsertOp, ReinterpretOp, EmptyOp, ConstantOp, SymbolOp],
    [Operand, Constant, Numbers, ValueForm],
)

__all__ = [
    "CallArguments",
    "CallOp",
    "Constant",
    "ConstantOp",
    "EmptyOp",
    "ExtractOp",
    "Fx",
    "InsertOp",
    "NONE",
    "Operand",
    "ReinterpretOp",
    "SymbolOp",
    "ValueCallOp",
    "ValueForm",
    "ValueFormData",
    "ValueOutput",
    "boolean",
    "integer",
    "operand_numbers",
    "real",
    "verify_arguments",
]
