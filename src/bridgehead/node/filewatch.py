"""Looks whether the configuration file has changed, by its text: a file that was only touched has not.

An editor may write a file in several steps. So a change counts when the file has been the same for one more look.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

LOOK_EVERY: Final = 1.0
"""Seconds between two looks: a call of stat each."""

Stamp = tuple[int, int, int] | None


class FileWatch:
    """From ``start`` to ``stop``, on the event loop."""

    def __init__(self, path: Path, text: str, on_change: Callable[[], None]) -> None:
        """``text``: what was read of the file; it may say something else by now."""
        self._path = path
        self._on_change = on_change
        self._stamp = _stamp(path)
        self._text: bytes | None = hashlib.sha256(text.encode()).digest()
        self._restless = True  # the text is to be looked at when the stamp is the same for one more look
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(LOOK_EVERY, self._look_later)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look_later(self) -> None:
        self.start()
        self.look()

    def look(self) -> None:
        stamp = _stamp(self._path)
        if stamp != self._stamp:
            self._stamp, self._restless = stamp, True
        elif self._restless:
            self._restless = False
            text = _digest(self._path)
            if text != self._text:
                self._text = text
                self._on_change()


def _stamp(path: Path) -> Stamp:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _digest(path: Path) -> bytes | None:
    try:
        return hashlib.sha256(path.read_bytes()).digest()
    except OSError:
        return None
