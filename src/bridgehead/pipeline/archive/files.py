"""What an archive does to the disk, one step each: a crash can only come between two of them."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bridgehead.errors import ArchiveError
from bridgehead.pipeline.archive.layout import PENDING
from bridgehead.storage.diskpath import sync as sync  # a step like the others

LOCK_PATIENCE: Final = 30.0
"""Seconds to wait for another driver that shares the path; it holds the lock for milliseconds."""

_LOCK_LOOK: Final = 0.02
"""Seconds between two looks at the lock: the kernel's own wait for it would have no end."""

_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2
_NOT_HERE: Final = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EXDEV}


class CannotExchangeError(ArchiveError):
    """This file system cannot exchange two directories in one step."""


def make_directory(directory: Path) -> None:
    """With all above it; each new one is safe when this returns."""
    missing = []
    while not directory.is_dir():
        missing.append(directory)
        directory = directory.parent
    for each in reversed(missing):
        each.mkdir(exist_ok=True)
        sync(each.parent)


def move(source: Path, target: Path) -> None:
    os.rename(source, target)


def link(source: Path, target: Path) -> None:
    os.link(source, target)


def remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def remove_directory(directory: Path) -> None:
    """Only for directories that no reader looks into."""
    shutil.rmtree(directory, ignore_errors=True)


def exchange(one: Path, other: Path) -> None:
    """Two directories take each other's place; nobody ever sees neither or both."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "renameat2"):
        raise CannotExchangeError(f"this system cannot exchange directories (asked for {one})")
    if libc.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) != 0:
        code = ctypes.get_errno()
        if code in _NOT_HERE:
            raise CannotExchangeError(f"the file system of {one} cannot exchange directories")
        raise OSError(code, os.strerror(code), str(one))


@contextmanager
def in_archive(root: Path, patience: float = LOCK_PATIENCE) -> Iterator[None]:
    """Nobody else moves files or directories of this archive meanwhile; the kernel lets go for a process that died."""
    lock = root / PENDING / "lock"
    make_directory(lock.parent)
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        deadline = time.monotonic() + patience
        while not _taken(descriptor):
            if time.monotonic() >= deadline:
                raise ArchiveError(f"{lock} has been held by another process for {patience:g} s")
            time.sleep(_LOCK_LOOK)
        yield
    finally:
        os.close(descriptor)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
