"""Opens the RocksDB of a node, and tells apart why it does not open: in use, not ours, no room or right, or damaged."""

from __future__ import annotations

import logging
import shutil
from collections import Counter
from pathlib import Path
from typing import Final

from rocksdict import AccessType, DBCompressionType, DBRecoveryMode, Options, Rdict

from bridgehead.errors import DamageError, StartError
from bridgehead.storage.writeahead import gap, is_torn, logs_of

log = logging.getLogger(__name__)

WRITE_BUFFER: Final = 8 << 20
"""What RocksDB keeps in RAM before it makes a table of it, and then in its log once more: what is small needs little room."""
LOGS_AT_ONCE: Final = 2 * WRITE_BUFFER
"""Its logs together: one that is written, and one whose table is being made."""
WRITE_AHEAD: Final = 256 << 20
"""What they never exceed, whatever happens; what a start reads again after a crash."""
TABLE: Final = 16 << 20
"""What tables are merged to: also what a damaged one can cost at most."""
FIRST_LEVEL: Final = 64 << 20
"""Bytes of tables that new ones are merged with, all of them at once. Deeper levels are ten times as large each."""
MERGED_AT_ONCE: Final = FIRST_LEVEL
"""Bytes of a deeper level that one table is merged with."""
NEW_TABLES: Final = 4
"""So many are merged with the first level."""
PATIENCE: Final = 20
"""Times as many make RocksDB write slower, and keep the whole node waiting: the disk would have to be very slow."""

_DAMAGE: Final = ("Corruption", "No such file or directory", "does not exist")


def options(recovery: DBRecoveryMode | None = None, *, create: bool = False) -> Options:
    """Tables are not touched until somebody has looked at them: a compaction that meets damage fails the whole store."""
    found = Options(raw_mode=True)
    found.create_if_missing(create)
    found.set_compression_type(DBCompressionType.none())
    found.set_keep_log_file_num(2)
    found.set_write_buffer_size(WRITE_BUFFER)
    found.set_max_total_wal_size(WRITE_AHEAD)
    found.set_target_file_size_base(TABLE)
    found.set_max_bytes_for_level_base(FIRST_LEVEL)
    found.set_max_compaction_bytes(MERGED_AT_ONCE)
    found.set_level_zero_file_num_compaction_trigger(NEW_TABLES)
    found.set_level_zero_slowdown_writes_trigger(PATIENCE * NEW_TABLES)
    found.set_level_zero_stop_writes_trigger(2 * PATIENCE * NEW_TABLES)
    found.set_disable_auto_compactions(True)
    found.set_wal_recovery_mode(recovery or DBRecoveryMode.absolute_consistency())
    return found


def open_sound(directory: Path) -> Rdict:
    """The store, made if there is none. StartError: it cannot be used as things are; DamageError: it is not what we left."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if is_new(directory):
            return rdict(directory, options(create=True))
        _must_be_whole(directory)
        return _open(directory)
    except (DamageError, StartError):
        raise
    except Exception as error:
        if any(sign in str(error) for sign in _DAMAGE):
            raise DamageError(str(error)) from None
        if "lock" in str(error).lower():
            raise StartError(f"{directory} is in use by another node") from None
        raise StartError(f"{directory} cannot be opened: {error}") from None


def rdict(directory: Path, opts: Options, access: AccessType | None = None) -> Rdict:
    """Named for the one column family too: otherwise rocksdict takes the options that the store was opened with before."""
    return Rdict(str(directory), opts, {"default": opts}, access or AccessType.read_write())


def allow_compaction(db: Rdict) -> None:
    db.set_options({"disable_auto_compactions": "false"})


def merged_at_once(db: Rdict, coming: int) -> int:
    """Bytes of new tables that RocksDB may write before the old ones go, when it has got so many more.

    New tables hold keys of every kind, so they are merged with all of the first level that has any.
    """
    levels: Counter[int] = Counter()
    for table in db.live_files():
        levels[table["level"]] += table["size"]
    new = levels.pop(0, 0) + min(coming, NEW_TABLES * WRITE_BUFFER)
    first = levels[min(levels)] if levels else 0
    return max(new + first, min(levels.total(), TABLE + MERGED_AT_ONCE))


def _open(directory: Path) -> Rdict:
    """After a loss of power the log may end in the middle of a record: what was never synced, and promised to nobody."""
    try:
        return rdict(directory, options())
    except Exception as error:
        if not str(error).startswith("Corruption") or not is_torn(directory):
            raise
    db = rdict(directory, options(DBRecoveryMode.tolerate_corrupted_tail_records()))
    log.warning("the write-ahead log ended in the middle of a write: that write is taken back, all before it is there")
    return db


def is_new(directory: Path) -> bool:
    """Nothing is there, or not more than a creation leaves that was cut short."""
    left = (path for pattern in ("CURRENT", "*.log", "*.sst", "front-*") for path in directory.glob(pattern))
    return next(left, None) is None


def _must_be_whole(directory: Path) -> None:
    """What RocksDB would pass over without a word, and then delete the rest of."""
    logs = logs_of(directory)
    if not logs and next(directory.glob("OPTIONS-*"), None) is not None:
        raise DamageError("the write-ahead log is missing")
    if logs and (missing := gap_behind_tables(directory)) is not None:
        raise DamageError(f"changes {missing[0]} to {missing[1] - 1} are neither in the tables nor in the write-ahead log")


def gap_behind_tables(directory: Path) -> tuple[int, int] | None:
    """Changes that should be somewhere, and are nowhere; DamageError if the tables alone cannot be opened."""
    view = directory.with_name(f"{directory.name}.view")
    shutil.rmtree(view, ignore_errors=True)
    view.mkdir()
    try:
        for path in directory.iterdir():
            if path.suffix == ".sst" or path.name == "CURRENT" or path.name.startswith("MANIFEST-"):
                (view / path.name).symlink_to(path.resolve())
        tables = rdict(view, options(), AccessType.read_only(False))
        stored = tables.latest_sequence_number()
        tables.close()
    finally:
        shutil.rmtree(view, ignore_errors=True)
    return gap(directory, stored)
