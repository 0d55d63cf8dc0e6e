"""Gives the room of deleted batches back to the disk.

RocksDB drops what was deleted when it happens to rewrite the table it lies in; after a backlog has drained nothing is written
any more, and that may be never. So whoever deletes counts, and when more is dead than alive the tables are rewritten, in a
thread of their own: what is copied is less than what is given back, and waiting for it is nobody's business.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from rocksdict import CompactOptions, DbClosedError, Rdict

from bridgehead.storage.keys import Kind

log = logging.getLogger(__name__)

WORTH_IT: Final = 64 << 20
"""Bytes of deleted batches below which nobody bothers."""

TABLES_ANYWAY: Final = 16 << 20
"""Bytes of tables that nobody wonders about, however little is alive."""

_FIRST: Final = Kind.BATCH.value
_BEHIND: Final = bytes([Kind.BATCH.value[0] + 1])


class Tidying:
    """Counts what is stored and what is deleted; used from the node's event loop."""

    def __init__(self, db: Rdict, tell: Callable[[], None]) -> None:
        """``tell`` lets RocksDB know of all that was deleted."""
        self._db = db
        self._tell = tell
        self._sizes: dict[bytes, int] = {}  # of the batches that RocksDB has, by their keys
        self._live = 0
        self._dead = 0
        self._thread = ThreadPoolExecutor(1, "storage-tidy")
        self._latest: Future[None] | None = None

    def stored(self, key: bytes, size: int) -> None:
        self.deleted(key)
        self._sizes[key] = size
        self._live += size

    def deleted(self, key: bytes) -> None:
        size = self._sizes.pop(key, 0)
        self._live -= size
        self._dead += size

    def tidy_if_worth_it(self) -> None:
        """One rewriting for each such amount, also while one is under way: that one may have passed these batches by."""
        if self._dead >= max(WORTH_IT, self._live):
            self._begin()

    def tidy_now(self) -> None:
        """Space is short: whatever has been deleted is worth it, one rewriting at a time.

        Asked again while that lasts: a disk that was full for a moment makes RocksDB give up a rewriting, without a word.
        """
        if self._latest is not None and not self._latest.done():
            return
        tables = self._db.property_int_value("rocksdb.total-sst-files-size") or 0
        if self._dead or tables > 2 * self._live + TABLES_ANYWAY:
            self._begin()

    def _begin(self) -> None:
        try:
            self._tell()
        except Exception as error:  # a disk that fails is noticed where something is promised
            log.warning("the room of deleted messages cannot be given back: %s", error)
            return
        self._dead = 0
        self._latest = self._thread.submit(self._tidy)

    def _tidy(self) -> None:
        options = CompactOptions()
        options.set_exclusive_manual_compaction(False)  # tables of what comes in meanwhile must not pile up
        try:
            self._db.compact_range(_FIRST, _BEHIND, options)
        except DbClosedError:
            return
        except Exception as error:  # the room stays taken; a disk that fails is noticed where something is promised
            log.warning("the room of deleted messages could not be given back: %s", error)

    def close(self) -> None:
        """Ends a rewriting that is under way: it is only good for room."""
        if self._latest is not None and not self._latest.done():
            self._db.cancel_all_background(False)
        self._thread.shutdown(wait=True, cancel_futures=True)
