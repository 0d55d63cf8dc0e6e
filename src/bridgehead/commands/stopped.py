"""The dataDir of a node that does not run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bridgehead.errors import CommandError, NotRunningError
from bridgehead.settings.model import Settings

if TYPE_CHECKING:
    from bridgehead.storage.rocks import RocksEngine


def open_store(settings: Settings, why: NotRunningError) -> RocksEngine:
    """The store of these settings, opened; refused while a node uses it. ``why`` is why no node was asked."""
    if settings.persistence.mode != "file-native":
        raise CommandError(f"{why}, and persistence in-memory keeps nothing of a node that does not run")
    directory = Path(settings.data_dir) / "store"
    if not directory.is_dir():
        raise CommandError(f"{why}, and {directory} does not exist")
    from bridgehead.storage.rocks import RocksEngine

    return RocksEngine(directory, sync=settings.persistence.sync)
