"""Annotates every handle with its location, or every pair of named handles with the answer of alias analysis."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute
from xdsl.passes import ModulePass

from compiler.analysis.alias import AliasAnalysis, argument_attributes, is_handle, main_function

LOCATION = "alias.location"
PAIRS = "alias.pairs"


@dataclass(frozen=True)
class PrintAlias(ModulePass):
    """Writes what alias analysis knows into the IR, for reading and for tests; nothing else changes.

    Each argument and each op gets `alias.location`: the root, and the bytes covered. With `pairs` the function
    gets `alias.pairs` instead: the answer for every two handles that have a name.
    """

    name: ClassVar[str] = "print-alias"
    pairs: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        function = main_function(op)
        analysis = AliasAnalysis(function)
        if self.pairs:
            named = [(v.name_hint, v) for v in analysis.locations if v.name_hint]
            lines: list[Attribute] = []
            for (a, first), (b, second) in itertools.combinations(named, 2):
                answer = analysis.alias(first, second)
                lines.append(StringAttr(f"{a}, {b}: {answer.kind.value}: {answer.reason}"))
            function.attributes[PAIRS] = ArrayAttr(lines)
            return
        function.arg_attrs = ArrayAttr(
            DictionaryAttr({**attributes, LOCATION: StringAttr(str(analysis.location(argument)))})
            if is_handle(argument)
            else DictionaryAttr(attributes)
            for argument, attributes in zip(function.body.block.args, argument_attributes(function), strict=True)
        )
        for inner in function.body.block.ops:
            texts = [StringAttr(str(analysis.location(r))) for r in inner.results if is_handle(r)]
            if texts:
                inner.attributes[LOCATION] = texts[0] if len(texts) == 1 else ArrayAttr(texts)
