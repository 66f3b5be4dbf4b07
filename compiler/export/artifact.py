"""Saved executables: a directory that is either whole or not there, and is read without trusting anything in it.

The format is described in docs/artifact.md. Nothing is pickled; state is stored as the bytes of its storages.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from compiler.errors import CompileError
from compiler.export.decoder import DecodeError, check_module
from compiler.export.directory import Directory, snapshot
from compiler.export.elements import DTYPES, ELEMENTS, with_lazy
from compiler.export.hlo import interface
from compiler.export.signature import OWN, Signature, Window
from compiler.export.signature_json import (
    KEYS,
    signature_from_json,
    signature_to_json,
    window_from_json,
    window_to_json,
)
from compiler.export.strict_json import Node

FORMAT, VERSION = "fx2hlo-artifact", 1
INDEX, HLO, STABLEHLO = "aliases.json", "model.hlo_module.pb", "model.stablehlo.mlir"
_HEX = 16
"""Random hexadecimal digits in the name of a directory that is being written."""

ALIGNMENT = 64
"""State keeps its place modulo this many bytes, which is what XLA wants of memory it takes over."""


@dataclass(frozen=True)
class Artifact:
    """What a directory holds. `state` has its own memory."""

    signature: Signature
    hlo: bytes
    stablehlo: str
    state: dict[str, torch.Tensor]


# -- writing -------------------------------------------------------------------------------------


def write(
    directory: str | os.PathLike[str],
    signature: Signature,
    hlo: bytes,
    stablehlo: str,
    state: Mapping[str, torch.Tensor],
    weights: Literal["include", "omit"] = "include",
    more: Mapping[str, bytes] | None = None,
) -> None:
    """Write the artifact in one step: whoever looks sees the old directory or the new one.

    With weights="omit", parameters and buffers are left out; constants and the state of the random generator, which nobody else
    has, are kept. `more` are files for others to read.
    """
    if weights not in ("include", "omit"):
        raise CompileError(f"weights={weights!r} is neither 'include' nor 'omit'")
    try:
        _write(Path(os.path.abspath(directory)), signature, hlo, stablehlo, state, weights, more or {})
    except (OSError, TypeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CompileError(
            f"nothing can be saved at {directory!r}: {reason}", hint="give a directory that can be written"
        ) from error


def _write(
    target: Path,
    signature: Signature,
    hlo: bytes,
    stablehlo: str,
    state: Mapping[str, torch.Tensor],
    weights: Literal["include", "omit"],
    more: Mapping[str, bytes],
) -> None:
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise CompileError(f"{target} is not a directory")
    if target.exists() and any(target.iterdir()) and not (target / INDEX).is_file():
        raise CompileError(f"{target} has files in it and is no artifact", hint="give a new or an empty directory")
    target.parent.mkdir(parents=True, exist_ok=True)
    kept = {b.name for b in signature.bindings if b.kind in OWN or (b.kind != "input" and weights == "include")}
    missing = sorted(kept - state.keys())
    if missing:
        raise CompileError(
            f"there is no tensor for the state {missing[0]!r}", hint="bind it, or save with weights='omit'"
        )
    temporary, lock = _beside(target)
    try:
        document: dict[str, Any] = {"format": FORMAT, "version": VERSION, "weights": weights}
        document |= signature_to_json(signature)
        files = {HLO: _put(temporary / HLO, hlo), STABLEHLO: _put(temporary / STABLEHLO, stablehlo.encode())}
        files |= {name: _put(temporary / name, data) for name, data in more.items()}
        (temporary / "state").mkdir()
        document["state"] = _write_state(
            {name: state[name] for name in sorted(kept)},
            {signature.bindings[i].name for i, _ in signature.offsets},
            temporary,
            files,
        )
        document["files"] = files
        _put(temporary / INDEX, (json.dumps(document, indent=1, allow_nan=False) + "\n").encode())
        _replace(temporary, target)
        _remove_abandoned(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        os.close(lock)


def _beside(target: Path) -> tuple[Path, int]:
    """A new directory beside the target, and a lock on it that lasts as long as this process wants it."""
    while True:
        path = target.with_name(f".{target.name}.{secrets.token_hex(_HEX // 2)}")
        path.mkdir()
        with contextlib.suppress(FileNotFoundError):  # somebody took it for abandoned before it was locked
            lock = _lock(path)
            if lock is not None and path.exists():
                return path, lock
            if lock is not None:
                os.close(lock)


def _lock(path: Path) -> int | None:
    """A lock on a directory, held until it is closed or the process ends; None when somebody has one."""
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(directory)
        return None
    except OSError:
        pass  # no locks on this file system, and then nothing is taken for abandoned either
    return directory


def _remove_abandoned(target: Path) -> None:
    """Remove what saves to this target have left behind that were killed: directories that nobody has locked."""
    named = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{{_HEX}}}(\.old)?")
    for path in target.parent.iterdir():
        if named.fullmatch(path.name):
            with contextlib.suppress(OSError):
                directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
                try:
                    fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)
                finally:
                    os.close(directory)


def _write_state(
    state: Mapping[str, torch.Tensor], counted: Set[str], directory: Path, files: dict[str, Any]
) -> list[dict[str, Any]]:
    """One file per storage, cut to what the tensors of the state reach of it, but from its first byte on for `counted` ones."""
    spans: dict[int, list[int]] = {}
    for name, tensor in state.items():
        if tensor.dtype not in ELEMENTS:
            raise CompileError(f"state with dtype {tensor.dtype} cannot be saved")
        start, end = _extent(tensor)
        start = 0 if name in counted else start
        span = spans.setdefault(tensor.untyped_storage()._cdata, [start, end])
        if end > start:
            empty = span[0] == span[1]
            span[:] = (start, end) if empty else (min(span[0], start), max(span[1], end))
    numbers = {storage: n for n, storage in enumerate(spans)}
    entries: list[dict[str, Any]] = []
    for name, tensor in state.items():
        storage = tensor.untyped_storage()
        start, end = spans[storage._cdata]
        start -= start % ALIGNMENT
        file = f"state/{numbers[storage._cdata]}.bin"
        if file not in files:
            whole = torch.empty(0, dtype=torch.uint8).set_(storage, start, (end - start,), (1,))
            files[file] = _put(directory / file, whole.numpy().data)
        offset = (
            int(tensor.storage_offset()) - start // tensor.dtype.itemsize if tensor.numel() or name in counted else 0
        )
        window = Window(tuple(tensor.shape), tensor.stride(), offset)
        lazy = ",".join(bit for bit, on in (("conj", tensor.is_conj()), ("neg", tensor.is_neg())) if on)
        entries.append({"name": name, "file": file, "lazy": lazy, **window_to_json(ELEMENTS[tensor.dtype], window)})
    return entries


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    """First byte and end of a tensor in its storage."""
    window = Window(tuple(tensor.shape), tensor.stride(), int(tensor.storage_offset()))
    end = window.reach * tensor.dtype.itemsize
    return (window.offset * tensor.dtype.itemsize, end) if end else (0, 0)


def _put(path: Path, data: bytes | memoryview) -> dict[str, Any]:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _replace(new: Path, target: Path) -> None:
    """Make `new` the directory `target` at once; afterwards `new` is the old one, if there was one."""
    with contextlib.suppress(OSError):  # taken by a non-empty directory
        os.rename(new, target)
        return
    if _exchange(new, target):
        return
    aside = new.with_name(new.name + ".old")  # no exchange on this file system: two steps, the first undone on failure
    lock = os.open(target, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename(target, aside)
        try:
            os.rename(new, target)
        except BaseException:
            os.rename(aside, target)
            raise
        shutil.rmtree(aside, ignore_errors=True)
    finally:
        os.close(lock)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two directories atomically (Linux); False where that does not exist."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return rename(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0


# -- reading -------------------------------------------------------------------------------------


def read(directory: str | os.PathLike[str]) -> Artifact:
    """The artifact in a directory, checked throughout; CompileError says what is wrong with it."""
    try:
        path = Path(directory)
    except TypeError as error:
        raise CompileError(
            f"a {type(directory).__name__} is no path of an artifact", hint="give a directory"
        ) from error
    return snapshot(path, _read)


def _read(directory: Directory) -> Artifact:
    root = directory.root
    try:
        text = directory.read(INDEX).decode()
    except UnicodeDecodeError as error:
        raise CompileError(f"{root / INDEX} is not text") from error
    node = Node.parse(text, INDEX)
    head = node.table()
    if "format" not in head or head["format"].value != FORMAT:
        raise node.error(f"the format is not {FORMAT!r}")
    version = head["version"].value if "version" in head else "none"
    if type(version) is not int or version != VERSION:
        raise node.error(f"version {str(version)[:40]} is not one that can be read here ({VERSION})")
    document = node.record(("format", "version", "weights", *KEYS, "state", "files"))
    weights = document["weights"].choice(("include", "omit"))
    files = {name: entry.record(("bytes", "sha256")) for name, entry in document["files"].table().items()}
    signature = signature_from_json(document)
    hlo = bytes(_checked(directory, HLO, files, document["files"]))
    parts = interface(hlo)
    if (parts.parameters, parts.results) != (signature.parameters, signature.results):
        raise CompileError(f"{HLO} and {INDEX} disagree on parameters or results")
    if set(parts.aliases) != set(signature.aliases):
        raise CompileError(f"{HLO} and {INDEX} disagree on the alias table")
    try:
        check_module(hlo)  # XLA takes for granted that operands are there, and crashes on what is no sound module
    except DecodeError as error:
        raise CompileError(f"{root / HLO} is not sound: {error}", hint="save the artifact again") from error
    try:
        stablehlo = _checked(directory, STABLEHLO, files, document["files"]).decode()
    except UnicodeDecodeError as error:
        raise CompileError(f"{root / STABLEHLO} is not text") from error
    state = _read_state(directory, document["state"], files, document["files"])
    owned = {b.name: b for b in signature.bindings if b.kind != "input"}
    for name in state:
        if name not in owned:
            raise document["state"].error(f"{name!r} is no state of this program")
    for name, binding in owned.items():
        if name not in state and (weights == "include" or binding.kind in OWN):
            raise document["state"].error(f"there is no tensor for {name!r}")
    return Artifact(signature, hlo, stablehlo, state)


def _read_state(
    directory: Directory, node: Node, files: dict[str, dict[str, Node]], listed: Node
) -> dict[str, torch.Tensor]:
    storages: dict[str, torch.UntypedStorage] = {}
    state: dict[str, torch.Tensor] = {}
    for entry in node.array():
        parts = entry.record(("name", "file", "lazy", "element", "size", "stride", "offset"))
        name, file = parts["name"].text(), parts["file"].text()
        if name in state:
            raise parts["name"].error(f"{name!r} occurs twice")
        number = file.removeprefix("state/").removesuffix(".bin")
        if file != f"state/{number}.bin" or not (number.isascii() and number.isdigit()):
            raise parts["file"].error(f"{file!r} is not the name of a state file")
        if file not in storages:
            data = _checked(directory, file, files, listed)
            memory = torch.empty(len(data), dtype=torch.uint8)
            if data:
                memory.copy_(torch.frombuffer(data, dtype=torch.uint8))
            storages[file] = memory.untyped_storage()
        element, window = window_from_json(parts)
        lazy = parts["lazy"].choice(("", "conj", "neg", "conj,neg"))
        dtype, storage = DTYPES[element], storages[file]
        if window.reach * dtype.itemsize > storage.nbytes() or ("conj" in lazy and not dtype.is_complex):
            raise entry.error(f"{name!r} reaches {window.reach * dtype.itemsize} bytes into {storage.nbytes()}")
        try:
            tensor = torch.empty(0, dtype=dtype).set_(storage, window.offset, window.sizes, window.strides)
        except (RuntimeError, OverflowError) as error:
            raise entry.error(f"{name!r} has no valid geometry: {error}") from error
        state[name] = with_lazy(tensor, lazy)
    return state


def _checked(directory: Directory, name: str, files: dict[str, dict[str, Node]], listed: Node) -> bytearray:
    """The contents of a file that the index lists, if they are the ones it was written with."""
    if name not in files:
        raise listed.error(f"{name!r} is not listed")
    data = directory.read(name)
    size, digest = files[name]["bytes"].integer(), files[name]["sha256"].text()
    if len(data) != size or hashlib.sha256(data).hexdigest() != digest:
        raise CompileError(
            f"{directory.root / name} is damaged: it is not the file that was saved", hint="save the artifact again"
        )
    return data
