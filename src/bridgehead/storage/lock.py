"""One node a store: a lock beside the directory, so that it also holds while directories are exchanged."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from bridgehead.errors import StartError


class StoreLock:
    """Held from the moment it is made until it is let go, or the process ends, however it ends."""

    def __init__(self, directory: Path, *, shared: bool = False) -> None:
        """``shared``: with others that only read. Nothing is made for it: where there is no lock file, no node is."""
        path = directory.with_name(f"{directory.name}.lock")
        self._file = -1
        try:
            if shared:
                self._file = os.open(path, os.O_RDONLY)
            else:
                directory.parent.mkdir(parents=True, exist_ok=True)
                self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            if shared and isinstance(error, FileNotFoundError):
                return
            raise StartError(f"{directory} cannot be opened: {error.strerror}") from None
        try:
            fcntl.flock(self._file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise StartError(f"{directory} is in use by another node") from None

    def release(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
