"""The IR as text: what is read knows its position in the file, what is printed can be read back."""

from __future__ import annotations

import io
from bisect import bisect_right

from xdsl.context import Context
from xdsl.dialects.builtin import UNKNOWN_LOC, Builtin, FileLineColLoc, IntAttr, ModuleOp, StringAttr
from xdsl.dialects.func import Func
from xdsl.ir import Operation
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, VerifyException

from compiler.errors import CompileError
from dialects.alias import Alias
from dialects.collective import CollectiveDialect
from dialects.control import Control
from dialects.fx import Fx
from dialects.ir_parser import IRParser
from dialects.nki import Nki
from dialects.vllm_ir import VllmIr


def make_context(allow_unregistered: bool = False) -> Context:
    """A fresh context with every dialect of the project."""
    context = Context(allow_unregistered=allow_unregistered)
    for dialect in (Builtin, Func, Fx, Control, Nki, CollectiveDialect, Alias, VllmIr):
        context.load_dialect(dialect)
    return context


class _LocatingParser(IRParser):
    """Gives every op without a `loc(...)` its own position in the text."""

    def __init__(self, context: Context, text: str, name: str):
        super().__init__(context, text, name)
        self.file = StringAttr(name)
        self.innermost = 0
        """Where the operation starts that is being read, the place to name when the reader itself fails."""
        self.lines = [0, *(i + 1 for i, c in enumerate(text) if c == "\n")]

    def parse_operation(self) -> Operation:
        position = self._current_token.span.start
        around, self.innermost = self.innermost, position
        op = super().parse_operation()
        self.innermost = around
        # An explicit `loc(unknown)` is another object than the default.
        if op.location is UNKNOWN_LOC:
            line = bisect_right(self.lines, position)
            op.location = FileLineColLoc(self.file, IntAttr(line), IntAttr(position - self.lines[line - 1] + 1))
        return op

    def _get_op_by_name(self, name: str) -> type[Operation]:
        try:
            return super()._get_op_by_name(name)
        except ParseError as error:
            # xDSL has read on, maybe to the next line.
            self.raise_error(error.msg, self.innermost, self.innermost + 1)


def parse(text: str, name: str = "<text>", context: Context | None = None) -> ModuleOp:
    """Read a module; CompileError with `name:line:col` and a message of one line when that fails."""
    context = make_context() if context is None else context
    parser: _LocatingParser | None = None

    def position() -> str:
        return f"{name}:{_line_column(text, parser.innermost)}" if parser else f"{name}:1:1"

    try:
        parser = _LocatingParser(context, text, name)
        return parser.parse_module()
    except ParseError as error:
        at = f"{name}:{_line_column(text, error.span.start)}"
        raise CompileError(_one_line(error.msg), location=at) from None
    except VerifyException as error:
        raise CompileError(_one_line(str(error)), location=position()) from None
    except RecursionError:
        raise CompileError("nested too deeply to be read", location=position()) from None
    except MemoryError:
        raise CompileError("too large to be read", location=position()) from None
    except Exception as error:  # whatever the parser stumbles over is a fault of the text
        raise CompileError(
            f"malformed IR: {_one_line(str(error)) or type(error).__name__}", location=position()
        ) from error


def to_text(module: Operation, *, generic: bool = False, locations: bool = False) -> str:
    """Print a module, with a newline at the end."""
    stream = io.StringIO()
    Printer(stream=stream, print_generic_format=generic, print_debuginfo=locations).print_op(module)
    return stream.getvalue() + "\n"


def _line_column(text: str, position: int) -> str:
    line = text.count("\n", 0, position) + 1
    return f"{line}:{position - (text.rfind(chr(10), 0, position) + 1) + 1}"


def _one_line(message: str) -> str:
    return " ".join(message.split())
