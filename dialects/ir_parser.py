"""xDSL's parser with the faults of release 0.75.0 repaired that the text of our IR meets.

* Float elements in hexadecimal are bits: `dense<0x7F800000> : tensor<f32>` is infinity. xDSL reads the integer
  2139095040, although its own printer writes every float that way whose shortest form has no point.
* Text without its closing quote is an error at once. xDSL's pattern tries every way to cut the rest of the line.
* Text with other than ASCII letters is text. xDSL prints it with escapes, and reads those as bytes.
* A dense literal has at most MAX_ELEMENTS elements, so that a number in a file cannot fill the memory.
* A type that was read a moment ago is recognised by its text: xDSL takes 40 us for each, and programs repeat them.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, ComplexType
from xdsl.ir import TypeAttribute
from xdsl.parser import AttrParser, Parser, ParserState
from xdsl.utils.lexer import Input, Span, Token
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRToken, MLIRTokenKind, StringLiteral

MAX_ELEMENTS = 1 << 24
"""Larger constants are arguments; a literal of more elements is refused before it fills the memory."""


_RECENT = 8
"""Types that are remembered."""

_BRACKETED = ("memref", "tensor")
"""Types whose text ends with a bracket, so that nothing behind it can belong to it."""


@dataclass
class _Element(AttrParser._TensorLiteralElement):
    """A literal that still has its text when its type becomes known."""

    def to_type(self, parser: AttrParser, type: Any) -> Any:
        if isinstance(type, AnyFloat):
            return self._float(parser, self.span.text, self.value, type)
        if isinstance(type, ComplexType):
            if not isinstance(self.value, tuple):
                parser.raise_error("expected a complex number `(real, imaginary)`", at_position=self.span)
            if isinstance(type.element_type, AnyFloat):
                texts = self.span.text.strip("()").split(",")
                parts = zip(texts, self.value, strict=True)
                return tuple(self._float(parser, text.strip(), value, type.element_type) for text, value in parts)
        return super().to_type(parser, type)

    def _float(self, parser: AttrParser, text: str, value: Any, type: AnyFloat) -> float:
        if isinstance(value, tuple):
            parser.raise_error("a complex number among real ones", at_position=self.span)
        if text[:2].lower() != "0x":
            return float(value)
        bits = int(text, 16)
        if bits.bit_length() > 8 * type.compile_time_size:
            parser.raise_error(f"{text} has more bits than {type}", at_position=self.span)
        return type.unpack(bits.to_bytes(type.compile_time_size, "little"), 1)[0]


class _Lexer(MLIRLexer):
    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')

    def _lex_string_literal(self, start_pos: int) -> MLIRToken:
        token = super()._lex_string_literal(start_pos)
        if token.kind is MLIRTokenKind.BYTES_LIT:
            with contextlib.suppress(UnicodeDecodeError):
                StringLiteral.from_span(token.span).bytes_contents.decode("utf-8")
                return Token(MLIRTokenKind.STRING_LIT, token.span)
        return token


class IRParser(Parser):
    """Reads the IR."""

    _TensorLiteralElement = _Element

    def __init__(self, context: Context, text: str, name: str = "<text>"):
        super().__init__(context, "", name)
        self._parser_state = ParserState(_Lexer(Input(text, name)))
        self._recent: list[tuple[str, TypeAttribute]] = []

    def parse_optional_type(self) -> TypeAttribute | None:
        token = self._current_token
        if token.kind is not MLIRTokenKind.BARE_IDENT or token.text not in _BRACKETED:
            return super().parse_optional_type()
        start, text = token.span.start, token.span.input.content
        for written, known in self._recent:
            if text.startswith(written, start):
                self._resume_from(start + len(written))
                return known
        found = super().parse_optional_type()
        written = text[start : self._current_token.span.start].rstrip()
        if found is not None and written.endswith(">") and "//" not in written:
            self._recent = [(written, found), *self._recent[: _RECENT - 1]]
        return found

    def _parse_optional_complex(self) -> Any:
        start = self._current_token.span
        if self.parse_optional_punctuation("(") is None:
            return None
        # One part may be hexadecimal, which looks like an integer, and the other not.
        real, _ = self._parse_bool_int_or_float()
        self.parse_punctuation(",")
        imaginary, _ = self._parse_bool_int_or_float()
        end = self._current_token.span.end
        self.parse_punctuation(")")
        return (real, imaginary), Span(start.start, end, start.input)

    def _parse_dense_literal_type(self) -> Any:
        start = self.pos
        kind = super()._parse_dense_literal_type()
        elements = 1
        for size in kind.get_shape():
            elements *= size
        if elements > MAX_ELEMENTS:
            self.raise_error(f"a constant of {elements} elements: pass large data as an argument", start, self.pos)
        return kind
