"""Loading a `.pt2` file without running code from it: the archive is screened before PyTorch reads it."""

from __future__ import annotations

import os
import zipfile

import torch
from torch.export import ExportedProgram
from torch.export.pt2_archive._package import load_pt2

from compiler.errors import CompileError
from compiler.frontend.logs import quiet_torch
from compiler.frontend.screening import screen


def load_exported(path: str | os.PathLike[str], *, trust: bool = False) -> ExportedProgram:
    """The exported program in a `.pt2` file.

    Raises:
        CompileError: the file is missing, damaged or something else, or loading it would run code from it.
    """
    name = os.fspath(path)
    if not os.path.isfile(name):
        raise CompileError(f"{name} is not a file", hint="give the path of a file written by torch.export.save")
    if not _is_archive(name):
        raise CompileError(f"{name} is no .pt2 archive, or is cut short", hint="write it again with torch.export.save")
    try:
        if trust:
            with quiet_torch():
                return torch.export.load(name)
        screen(name)
        with quiet_torch():
            # torch.export.load would try an older format, made of pickles, when this fails.
            programs = load_pt2(name).exported_programs
    except CompileError:
        raise
    except Exception as error:
        cause: BaseException = error
        while cause.__cause__ is not None:  # PyTorch says at length what it was doing, and only then what is wrong
            cause = cause.__cause__
        said = "".join(str(cause).splitlines()[:1])[:300]
        raise CompileError(
            f"{name} cannot be read as an exported program: {type(cause).__name__}: {said}",
            hint="write it again with torch.export.save, with this version of PyTorch",
        ) from error
    if "model" not in programs:
        raise CompileError(f"{name} holds programs by the names {', '.join(sorted(programs))}, and none called 'model'",
                           hint="write it with torch.export.save")  # fmt: skip
    return programs["model"]


__all__ = ["load_exported"]


def _is_archive(name: str) -> bool:
    try:
        return zipfile.is_zipfile(name)
    except zipfile.BadZipFile:  # by its last record it spans several disks
        return False
