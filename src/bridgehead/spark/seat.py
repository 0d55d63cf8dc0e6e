"""One reader a journal: whoever has the seat of a directory owns its journal, until it leaves or ends, however it ends.

The file says who sits there. A journal that was opened for a batch read stays for a while after it, for tasks that come late
and for the next read; it gives its seat up to whoever asks.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final

from bridgehead.errors import StartError

PATIENCE: Final = 15.0
"""Seconds for whoever sat here to leave: a query that was stopped, a driver that was killed."""
LOOK_AGAIN: Final = 0.1


class Seat:
    """Taken when created. ``ask`` is given what the one who sits there has written, and may ask it to leave."""

    def __init__(self, directory: Path, ask: Callable[[dict[str, Any]], None], patience: float = PATIENCE) -> None:
        self._path = directory / "reader.json"
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StartError(f"journalDir {directory} cannot be used: {error.strerror}") from None
        deadline = monotonic() + patience
        while not self._taken():
            found = self._found()
            if monotonic() > deadline:
                os.close(self._file)
                by = f" (process {found['pid']})" if "pid" in found else ""
                raise StartError(f"journalDir {directory} is in use by another reader{by}: each needs a clientId of its own")
            ask(found)
            sleep(LOOK_AGAIN)
        self.write({"pid": os.getpid()})

    def write(self, told: dict[str, Any]) -> None:
        """Say who sits here."""
        text = json.dumps(told).encode()
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, text, 0)

    def leave(self) -> None:
        os.close(self._file)

    def _taken(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def _found(self) -> dict[str, Any]:
        try:
            found = json.loads(os.pread(self._file, 65_536, 0))
        except ValueError:
            return {}  # it is being written
        return found if isinstance(found, dict) else {}
