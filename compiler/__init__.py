"""fx2hlo: PyTorch programs that mutate memory, as pure HLO with a true input/output alias table.

    exe = compiler.compile(program, example_inputs)
    outs = exe(*inputs)            # same structure, same mutations, same sharing as eager
    exe.save(directory); exe = compiler.load(directory)

Importing this package imports neither torch nor jaxlib; the functions do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from compiler.errors import CompileError, GuardError, UnsupportedError

if TYPE_CHECKING:
    from compiler.runtime.executable import Executable

__all__ = ["CompileError", "Executable", "GuardError", "UnsupportedError", "compile", "load"]


def compile(
    program: Any,
    example_inputs: Sequence[Any] | None = None,
    *,
    donate: Sequence[int | str] | str = (),
    target: str = "xla",
    trust: bool = False,
    xla_flags: Mapping[str, str | bool | int] | None = None,
) -> Executable:
    """Compile a PyTorch program that may mutate its arguments and its module's state.

    Args:
        program: a callable, an nn.Module, an ExportedProgram, the path of a `.pt2` file, or an fx.GraphModule.
        example_inputs: positional arguments, nested as the program takes them. Their shapes, strides, dtypes, Python
            values and sharing of memory are what calls must have. An exported program brings its own.
        donate: inputs whose memory the caller gives up: indices, names, or "all".
        target: "xla".
        trust: load a `.pt2` file even if that runs code from it.
        xla_flags: XLA's own options by name for the embedded compiler, such as `xla_backend_optimization_level`.

    Raises:
        UnsupportedError: the program is valid PyTorch, and HLO or this compiler cannot express it.
        CompileError: the input is wrong. Both carry the user's source line.
    """
    from compiler.compilation import compile_program

    return compile_program(program, example_inputs, donate=donate, target=target, trust=trust, xla_flags=xla_flags)


def load(directory: str | PathLike[str]) -> Executable:
    """The executable that `Executable.save` wrote; runs without the original program."""
    from compiler.runtime.executable import Executable

    return Executable.load(directory)


def __getattr__(name: str) -> Any:
    if name == "Executable":
        from compiler.runtime.executable import Executable

        return Executable
    raise AttributeError(f"module 'compiler' has no attribute {name!r}")
