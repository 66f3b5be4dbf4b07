"""Loading a `.pt2` file without running code from it: the archive is screened before `torch.export.load` reads it.

`torch.export.load` unpickles some entries and evaluates symbolic expressions as Python. Such entries are refused, and
expressions must match a small grammar, unless the caller trusts the file.
"""

from __future__ import annotations

import io
import json
import os
import re
import zipfile
from collections.abc import Iterator
from typing import Any

import torch
from torch.export import ExportedProgram

from compiler.errors import CompileError
from compiler.frontend.expressions import is_arithmetic
from compiler.frontend.logs import quiet_torch

_PICKLED = re.compile(
    r"data/constants/(custom_obj_|opaque_obj_)|data/aotinductor/|serialized_\w+\.(json|pt)$|data/(weights|constants)/[^/]*\.pt$"
)
"""Entries that hold pickles or machine code by their name, in the present layout and in older ones."""

_TRUST = "if you trust where the file comes from, pass trust=True; otherwise export the program again"


def load_exported(path: str | os.PathLike[str], *, trust: bool = False) -> ExportedProgram:
    """The exported program in a `.pt2` file.

    Raises:
        CompileError: the file is missing, damaged or something else, or loading it would run code from it.
    """
    name = os.fspath(path)
    if not os.path.isfile(name):
        raise CompileError(f"{name} is not a file", hint="give the path of a file written by torch.export.save")
    if not zipfile.is_zipfile(name):
        raise CompileError(f"{name} is no .pt2 archive, or is cut short", hint="write it again with torch.export.save")
    try:
        if not trust:
            _screen(name)
        with quiet_torch():
            return torch.export.load(name)
    except CompileError:
        raise
    except Exception as error:
        raise CompileError(
            f"{name} cannot be read as an exported program: {type(error).__name__}: {str(error).splitlines()[0]}",
            hint="write it again with torch.export.save, with this version of PyTorch",
        ) from error


def _screen(path: str) -> None:
    reader = torch._C.PyTorchFileReader(path)
    entries = reader.get_all_records()
    with zipfile.ZipFile(path) as archive:
        listed = archive.namelist()
    # PyTorch's reader and Python's must see the same file, or one would check what the other does not load.
    if len(set(listed)) != len(listed) or len(listed) != len(entries):
        raise CompileError(f"{path} names an entry twice", hint=_TRUST)
    if not any(e.startswith("models/") and e.endswith(".json") for e in entries):
        raise CompileError(f"{path} holds no exported program", hint="write it with torch.export.save")
    for entry in entries:
        if _PICKLED.search(entry):
            raise CompileError(f"{path}: loading {entry} would run code from the file", hint=_TRUST)
        if entry.startswith("data/sample_inputs/"):
            _screen_inputs(path, entry, reader.get_record(entry))
        elif entry.endswith(".json"):
            for key, value in _pairs(json.loads(reader.get_record(entry))):
                _screen_pair(path, entry, key, value)


def _screen_inputs(path: str, entry: str, data: bytes) -> None:
    try:
        torch.load(io.BytesIO(data), weights_only=True)
    except Exception as error:
        raise CompileError(
            f"{path}: {entry} is more than tensors, and loading it would run code", hint=_TRUST
        ) from error


def _screen_pair(path: str, entry: str, key: str, value: Any) -> None:
    if key == "use_pickle" and value:
        raise CompileError(
            f"{path}: {entry} asks to unpickle a tensor, which would run code from the file", hint=_TRUST
        )
    if key == "path_name" and str(value).startswith(("custom_obj_", "opaque_obj_")):
        raise CompileError(f"{path}: {entry} holds an object that only unpickling can restore", hint=_TRUST)
    texts = [value] if key == "expr_str" else value if key == "guards_code" and isinstance(value, list) else []
    for text in texts:
        if not isinstance(text, str) or not is_arithmetic(text):
            raise CompileError(
                f"{path}: {entry} has the expression {str(text)[:100]!r}, which is more than arithmetic on sizes",
                hint=_TRUST,
            )


def _pairs(value: Any) -> Iterator[tuple[str, Any]]:
    """Every key and value in nested JSON."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            yield from item.items()
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
