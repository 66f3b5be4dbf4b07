"""The user's source line of an FX node: the innermost frame that is neither PyTorch's nor this compiler's."""

from __future__ import annotations

import functools
import os
import re
import traceback
from types import FrameType
from typing import NamedTuple

import torch
from torch import fx

from compiler.frontend import lifting

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_TORCH = os.path.dirname(os.path.abspath(str(torch.__file__))) + os.sep
_COMPILER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class Source(NamedTuple):
    """A line of the user's program."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def keep_user_frames(user_stack_summary: traceback.StackSummary) -> traceback.StackSummary:
    """The frames of a traced program: those inside the compiler's call of it that are not PyTorch's."""
    # Lifting stands between the program and the tracer.
    frames = [frame for frame in user_stack_summary if frame.filename != lifting.__file__]
    while frames and frames[-1].filename.startswith((_TORCH, _COMPILER, "<")):  # what the program's line calls
        frames.pop()
    ours = [i for i, frame in enumerate(frames) if frame.filename.startswith(_COMPILER)]
    inside = frames[ours[-1] + 1 :] if ours else frames
    return traceback.StackSummary.from_list([f for f in inside if not f.filename.startswith((_TORCH, "<"))])


def in_library(frame: FrameType) -> bool:
    """Whether code of PyTorch or of this compiler runs."""
    return frame.f_code.co_filename.startswith((_TORCH, _COMPILER))


def in_pytorch(frame: FrameType) -> bool:
    """Whether code of PyTorch runs."""
    return frame.f_code.co_filename.startswith(_TORCH)


@functools.lru_cache(maxsize=1 << 12)
def innermost(trace: str) -> Source | None:
    """The innermost frame of a printed stack that is the user's, or None."""
    for file, line in reversed(_FRAME.findall(trace)):
        if not file.startswith((_TORCH, _COMPILER, "<")):
            return Source(file, int(line))
    return None


def node_source(node: fx.Node) -> Source | None:
    """Where the user's program made this node, or None when the graph does not say."""
    trace = node.meta.get("stack_trace")
    return innermost(trace) if isinstance(trace, str) else None


def code_source(program: object) -> Source | None:
    """Where a callable or the `forward` of a module is defined, or None."""
    while isinstance(program, functools.partial):
        program = program.func
    method = program.forward if isinstance(program, torch.nn.Module) else program
    code = getattr(method, "__code__", None) or getattr(vars(type(program)).get("__call__"), "__code__", None)
    return Source(code.co_filename, code.co_firstlineno) if code is not None else None


def traceback_source(error: BaseException) -> Source | None:
    """The user's line in the traceback of an error, or None."""
    found: Source | None = None
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith((_TORCH, _COMPILER, "<")):
            found = Source(file, trace.tb_lineno)
        trace = trace.tb_next
    return found
