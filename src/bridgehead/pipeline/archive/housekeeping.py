"""Looks after the directories of an archive from time to time, beside the query that fills them."""

from __future__ import annotations

import sys
import threading
from datetime import UTC, datetime
from typing import Final

import pyarrow as pa

from bridgehead import clock
from bridgehead.errors import ArchiveError
from bridgehead.pipeline.archive.compaction import Compactor, is_closed
from bridgehead.pipeline.archive.files import CannotExchangeError

EVERY: Final = 60.0
"""Seconds between two looks: at ten files a second a directory has some hundred more."""


class Housekeeping:
    """One thread. It begins with what an earlier driver left, then follows what is published."""

    def __init__(self, compactor: Compactor, every: float = EVERY) -> None:
        self._compactor = compactor
        self._every = every
        self._lock = threading.Lock()
        self._due: set[str] = set()
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def published(self, directories: set[str]) -> None:
        """These have got files."""
        with self._lock:
            self._due |= directories

    def start(self) -> None:
        """Once is enough, however often the query starts."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="archive", daemon=True)
            self._thread.start()

    def end(self) -> None:
        self._end.set()

    def _run(self) -> None:
        try:
            self.published(set(self._compactor.directories()))
            while not self._end.is_set():
                self.look(datetime.fromtimestamp(clock.now_us() / 1e6, UTC).date().isoformat())
                self._end.wait(self._every)
        except CannotExchangeError as error:
            print(f"small files of an archive are not merged: {error}", file=sys.stderr, flush=True)

    def look(self, today: str) -> None:
        """One round. A directory whose day is over is looked at once more, and again only if it gets files."""
        with self._lock:
            due = sorted(self._due)
            self._due = {directory for directory in due if not is_closed(directory, today)}
        for directory in due:
            try:
                self._compactor.compact(directory, today)
            except (ArchiveError, OSError, pa.ArrowException) as error:
                if isinstance(error, CannotExchangeError):
                    raise
                self.published({directory})  # the disk may be full now and have room later
                print(f"an archive's {directory} is not merged: {error}", file=sys.stderr, flush=True)
        self._compactor.tidy()
