"""A parser for the IR that reads float elements written in hexadecimal as the bits they are.

`dense<0x7F800000> : tensor<f32>` is infinity. The parser of xDSL 0.75.0 reads it as the integer 2139095040,
although its own printer writes every float that way whose shortest form has no point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import xdsl
from xdsl.dialects.builtin import AnyFloat, ComplexType
from xdsl.parser import AttrParser, Parser

MAX_ELEMENTS = 1 << 24
"""Larger constants are arguments; a literal of more elements is refused before it fills the memory."""


@dataclass
class _Element(AttrParser._TensorLiteralElement):  # pyright: ignore[reportPrivateUsage]
    """A literal that still has its text when its type becomes known."""

    def to_float(self, parser: AttrParser) -> float:
        if isinstance(self.value, int) and not isinstance(self.value, bool) and abs(self.value) > 1 << 1024:
            parser.raise_error("the number is too large for a float", at_position=self.span)
        return super().to_float(parser)

    def to_type(self, parser: AttrParser, type: Any) -> Any:
        if isinstance(type, AnyFloat) and self.span.text[:2].lower() == "0x":
            bits = int(self.span.text, 16)
            if bits.bit_length() > 8 * type.compile_time_size:
                parser.raise_error(f"{self.span.text} has more bits than {type}", at_position=self.span)
            return type.unpack(bits.to_bytes(type.compile_time_size, "little"), 1)[0]
        if isinstance(type, ComplexType) and not isinstance(self.value, tuple):
            parser.raise_error("expected a complex number `(real, imaginary)`", at_position=self.span)
        return super().to_type(parser, type)


class IRParser(Parser):
    """xDSL's parser, with hexadecimal floats and a limit on the size of dense literals."""

    if xdsl.__version__ == "0.75.0":
        _TensorLiteralElement = _Element

    def _parse_dense_literal_type(self) -> Any:
        start = self.pos
        kind = super()._parse_dense_literal_type()
        elements = 1
        for size in kind.get_shape():
            elements *= size
        if elements > MAX_ELEMENTS:
            self.raise_error(f"a constant of {elements} elements: pass large data as an argument", start, self.pos)
        return kind
