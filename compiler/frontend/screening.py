"""A `.pt2` archive that passes runs no code when it is loaded, and takes memory and time in proportion to its size.

`torch.export.load` unpickles some entries, evaluates symbolic expressions as Python, puts names into the source of a module,
calls what operators are named, and imports what containers name. So entries are told by where they lie, names must be
identifiers, operators be PyTorch's, containers be plain, and expressions match a small grammar.
"""

from __future__ import annotations

import builtins
import contextlib
import io
import json
import os
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

from compiler.errors import CompileError
from compiler.frontend.expressions import is_arithmetic

TRUST = "if you trust where the file comes from, pass trust=True; otherwise export the program again"

_PICKLED = re.compile(
    r"data/constants/(custom_obj_|opaque_obj_)|data/aotinductor/|serialized_\w+\.(json|pt)$|data/(weights|constants)/.*\.pt$"
)
"""Entries that hold pickles or machine code by their name, in the present layout and in older ones."""

_MODEL = re.compile(r"models/[^/]+\.json")

_EXPANSION, _ALLOWANCE = 16, 64 << 20
"""An archive may hold this many times its own size, and this many bytes more; torch.export.save does not compress."""

_OPERATOR = re.compile(
    r"torch\.ops\.(higher_order\.\w+|(?!_)\w+\.((?!__)\w+|__i?(and|or|xor|lshift|rshift)__)\.(?!_)\w+)"
)

_FUNCTIONS = frozenset({
    *(f"_operator.{name}" for name in (
        "abs", "add", "and_", "eq", "floordiv", "ge", "getitem", "gt", "le", "lshift", "lt", "mod", "mul", "ne", "neg", "not_",
        "or_", "pos", "pow", "rshift", "sub", "truediv",
    )),
    "math.ceil", "math.floor", "math.trunc",
    *(f"torch.sym_{name}" for name in ("float", "int", "ite", "max", "min", "not", "sqrt", "sum")), "torch._sym_sqrt",
    "torch._C._set_grad_enabled", "torch.autograd.grad_mode.set_grad_enabled",
    "torch.amp.autocast_mode._enter_autocast", "torch.amp.autocast_mode._exit_autocast",
    "torch.fx.experimental.symbolic_shapes.cast_symbool_to_symint_guardless",
    *(f"torch._functorch.predispatch.{name}" for name in (
        "_add_batch_dim", "_remove_batch_dim", "_vmap_increment_nesting", "_vmap_decrement_nesting",
        "lazy_load_decompositions", "_make_dual", "_unpack_dual", "_jvp_increment_nesting", "_jvp_decrement_nesting",
        "_unwrap_for_grad", "_enter_dual_level", "_exit_dual_level",
    )),
})  # fmt: skip
"""What an exported graph calls beside operators: PyTorch's own list, but for the function that imports a class by its name."""

_RANGE = re.compile(r"[A-Za-z]{1,5}[0-9]{1,6}")
"""A symbol with a range. PyTorch counts up to its number."""


def screen(path: str) -> None:
    """CompileError, with the entry, if loading the archive would run code from it or exhaust the machine."""
    reader = torch._C.PyTorchFileReader(path)
    entries = reader.get_all_records()
    with zipfile.ZipFile(path) as archive:
        sizes = _sizes(path, archive, os.path.getsize(path))
    # PyTorch's reader and Python's must see the same file, or one would check what the other does not load. PyTorch's does
    # not tell small letters from capitals.
    lowered = {entry.lower() for entry in entries}
    if len(lowered) != len(entries) or sizes.keys() != set(entries):
        raise CompileError(f"{path} names an entry twice", hint=TRUST)
    if not any(_MODEL.fullmatch(entry) for entry in entries):
        raise CompileError(f"{path} holds no exported program", hint="write it with torch.export.save")
    for entry in entries:
        place = entry.lower()
        if _PICKLED.search(place) or (place.startswith("models/") and not _MODEL.fullmatch(entry)):
            raise CompileError(f"{path}: loading {entry} would run code from the file", hint=TRUST)
        if place.startswith("data/sample_inputs/"):
            _screen_inputs(path, entry, reader.get_record(entry))
        elif place.startswith(("models/", "data/weights/", "data/constants/")) and place.endswith(".json"):
            _Document(path, entry, {e.lower(): n for e, n in sizes.items()}).screen(
                json.loads(reader.get_record(entry))
            )


def _sizes(path: str, archive: zipfile.ZipFile, limit: int) -> dict[str, int]:
    """Bytes of every entry, by its name below the folder that all of them are in."""
    listed = archive.infolist()
    if sum(entry.file_size for entry in listed) > limit * _EXPANSION + _ALLOWANCE:
        raise CompileError(f"{path} is many times as large when it is unpacked",
                           hint="write it with torch.export.save, which does not compress")  # fmt: skip
    return {entry.filename.partition("/")[2]: entry.file_size for entry in listed}


def _screen_inputs(path: str, entry: str, data: bytes) -> None:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            _sizes(f"{path}: {entry}", archive, len(data))
            names = [name for name in archive.namelist() if name.lower().endswith("/data.pkl")]
            if any(b"bytearray" in archive.read(name) for name in names):  # of any size, in a few bytes
                raise ValueError("a bytearray")
        torch.load(io.BytesIO(data), weights_only=True)
    except CompileError:
        raise
    except Exception as error:
        raise CompileError(
            f"{path}: {entry} is more than tensors, and loading it would run code", hint=TRUST
        ) from error


class _Document:
    """One JSON entry of an archive; `sizes` are the bytes of all entries, by their names in small letters."""

    def __init__(self, path: str, entry: str, sizes: Mapping[str, int]):
        self.path, self.entry, self._sizes = path, entry, sizes

    def screen(self, document: Any) -> None:
        if not isinstance(document, dict):
            raise self._error("is no JSON object")
        if self.entry.startswith("models/"):
            self._require(
                document.get("verifiers"), "list of verifiers", document.get("verifiers"), "no check of its operators"
            )
            for name in document.get("range_constraints", ()):
                self._require(_RANGE.fullmatch(name), "range of", name, "no symbol")
        for key, value in _pairs(document):
            if key in ("name", "as_name") and isinstance(value, str):
                # Arguments by position have no name.
                self._require(not value or value.isidentifier(), "name", value, "no identifier")
            elif key in ("target", "as_operator") and isinstance(value, str):
                known = _OPERATOR.fullmatch(value) or value in _FUNCTIONS
                self._require(known, "operator", value, "none that an exported program calls")
            elif key in ("in_spec", "out_spec"):
                self._structure(value)
            elif key == "expr_str":
                self._expressions([value])
            elif key == "guards_code" and isinstance(value, list):
                self._expressions(value)
            elif key == "use_pickle" and value:
                raise self._error("asks to unpickle a tensor, which would run code from the file")
            elif key == "path_name" and str(value).startswith(("custom_obj_", "opaque_obj_")):
                raise self._error("holds an object that only unpickling can restore")
            elif key == "config" and isinstance(value, dict):
                self._payload(value.values())

    def _error(self, message: str) -> CompileError:
        return CompileError(f"{self.path}: {self.entry} {message}", hint=TRUST)

    def _require(self, holds: object, kind: str, value: object, what: str) -> None:
        if not holds:
            raise self._error(f"has the {kind} {str(value)[:100]!r}, which is {what}")

    def _expressions(self, texts: Iterable[Any]) -> None:
        for text in texts:
            fits = isinstance(text, str) and is_arithmetic(text)
            self._require(fits, "expression", text, "more than arithmetic on sizes")

    def _structure(self, text: Any) -> None:
        """The containers of arguments or results: PyTorch imports the types of enumerations and of defaults in them."""
        stack: list[Any] = [text]
        while stack:
            item = stack.pop()
            if isinstance(item, str) and item.lstrip()[:1] in ("[", "{"):  # contexts are texts in the text
                with contextlib.suppress(ValueError):  # a key that begins like this
                    item = json.loads(item)
            if isinstance(item, dict):
                if "__enum__" in item:
                    raise self._error(f"imports {item.get('fqn')}, which would run code")
                if "default_factory_module" in item:
                    module, name = item["default_factory_module"], str(item.get("default_factory_name"))
                    if module != "builtins" or not isinstance(getattr(builtins, name, None), type):
                        raise self._error(f"imports {module}.{name}, which would run code")
                stack.extend(item.values())
            elif isinstance(item, list):
                stack.extend(item)

    def _payload(self, tensors: Iterable[Any]) -> None:
        """PyTorch makes a tensor of zeros, of any size, from an entry without bytes."""
        for tensor in tensors:
            if not (isinstance(tensor, dict) and isinstance(tensor.get("tensor_meta"), dict)):
                continue
            file = f"{self.entry.rpartition('/')[0]}/{tensor.get('path_name')}"
            empty = any(isinstance(s, dict) and s.get("as_int") == 0 for s in tensor["tensor_meta"].get("sizes", ()))
            if not empty and not self._sizes.get(file.lower()):
                raise self._error(f"has a tensor in {file}, which has no bytes")


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


__all__ = ["TRUST", "screen"]
