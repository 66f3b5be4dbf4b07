"""The files of one directory as it was when it was opened, whoever puts another one in its place meanwhile.

Only regular files inside the directory are read: no symbolic link is followed and no pipe waited for.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from compiler.errors import CompileError

T = TypeVar("T")
_TRIES = 20


class Directory:
    """An open directory; a path that is renamed or exchanged does not move it."""

    def __init__(self, root: Path, descriptor: int):
        self.root, self._descriptor = root, descriptor

    def read(self, name: str) -> bytearray:
        """The contents of a regular file; folders in its name are separated by `/`."""
        path = self.root / name
        try:
            with contextlib.ExitStack() as opened:
                place = self._descriptor
                *folders, last = name.split("/")
                for part, kind in [*((f, os.O_DIRECTORY) for f in folders), (last, os.O_NONBLOCK)]:
                    if part in ("", ".", ".."):
                        raise CompileError(f"{path} leads out of the artifact")
                    place = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | kind, dir_fd=place)
                    opened.callback(os.close, place)
                status = os.fstat(place)
                if not stat.S_ISREG(status.st_mode):
                    raise CompileError(f"{path} is not a regular file")
                data = bytearray(status.st_size)
                with open(place, "rb", closefd=False) as file:
                    if file.readinto(data) != len(data) or file.read(1):
                        raise CompileError(f"{path} changed while it was read")
                return data
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR) and path.is_symlink():
                raise CompileError(f"{path} is a symbolic link, which leads out of the artifact") from error
            raise CompileError(f"{path} cannot be read: {error.strerror}") from error
        except ValueError as error:  # a name that no file can have
            raise CompileError(f"{str(path)!r} cannot be read: {error}") from error

    def is_replaced(self) -> bool:
        """Whether the path leads to another directory now, or to none."""
        try:
            return not os.path.samestat(os.stat(self.root), os.fstat(self._descriptor))
        except OSError:
            return True


def snapshot(root: Path, read: Callable[[Directory], T]) -> T:
    """What `read` makes of one state of a directory.

    A saver that puts a new directory in its place removes the old one, perhaps before all of it was read; then `read`
    starts again with the new one.
    """
    for attempt in range(_TRIES):
        try:
            descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        except (OSError, ValueError) as error:
            if isinstance(error, FileNotFoundError | NotADirectoryError):
                raise CompileError(f"{root} is not a directory") from error
            raise CompileError(f"{root} cannot be read: {getattr(error, 'strerror', None) or error}") from error
        directory = Directory(root, descriptor)
        try:
            return read(directory)
        except CompileError:
            if attempt == _TRIES - 1 or not directory.is_replaced():
                raise
        finally:
            os.close(descriptor)
    raise AssertionError("the last attempt returns or raises")


__all__ = ["Directory", "snapshot"]
