# SPDX-License-Identifier: Apache-2.0
"""Ordinary files: what is read from its start more than once, what a new file replaces, and files
that appear whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


def opened(path: Path) -> BinaryIO:
    """The file, to read. Raises OSError, also for a pipe, which could be read only once, and whose
    writer may never come."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "not a regular file; save it as a file first", str(path))


def replaced(path: Path) -> Path:
    """What a new file at `path` takes the place of: behind a link, its target. Raises OSError for a
    folder and for a device: a file renamed over /dev/null would replace it for the whole system."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder; name a file in it", str(path))
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "is a device or pipe; name an ordinary file", str(path))
    return path.resolve() if path.is_symlink() else path


def write(path: Path, data: bytes) -> None:
    """Writes the file: whole, or an earlier one stays. Raises OSError with the path's name. What is
    no ordinary file is written to as it is, and so is one of /dev or /proc (/dev/stdout)."""
    try:
        if (path.exists() and not path.is_file()) or path.parts[:2] in (
            ("/", "dev"),
            ("/", "proc"),
        ):
            path.write_bytes(data)
            return
        with partial(path) as file:
            file.write_bytes(data)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


@contextlib.contextmanager
def partial(path: Path) -> Iterator[Path]:
    """A file beside `path`, which takes its place after the block, unless that raises. It has the
    permissions of an earlier one."""
    path = replaced(path)
    file = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        yield file
        if path.exists():
            file.chmod(stat.S_IMODE(path.stat().st_mode))
        file.replace(path)
    finally:
        file.unlink(missing_ok=True)
