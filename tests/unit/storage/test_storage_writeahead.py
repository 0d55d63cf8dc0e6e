"""What RocksDB's own logs say: a change that is nowhere is found, whatever stands around the place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from rocksdict import Options, Rdict, WriteBatch

from bridgehead.storage import writeahead


@pytest.fixture
def logged(tmp_path: Path) -> Path:
    """A store whose log begins with writes that change nothing; its tables hold the first two changes."""
    directory = tmp_path / "store"
    db = Rdict(str(directory), Options(raw_mode=True))
    for turn in (["a", "b"], [], [], ["c"], []):
        db.write(batch_of(turn))
        if turn == ["a", "b"]:
            db.flush()
    db.flush_wal(True)
    kept = tmp_path / "kept"
    kept.mkdir()
    [log] = writeahead.logs_of(directory)
    (kept / log.name).write_bytes(log.read_bytes())
    db.close()
    return kept


def batch_of(keys: Sequence[str]) -> WriteBatch:
    batch = WriteBatch(raw_mode=True)
    for key in keys:
        batch.put(key.encode(), b"")
    return batch


def test_a_log_that_goes_on_where_the_tables_end_has_no_gap(logged: Path) -> None:
    assert writeahead.gap(logged, stored=2) is None


def test_writes_that_change_nothing_hide_no_change_that_is_missing(logged: Path) -> None:
    assert writeahead.gap(logged, stored=1) == (2, 3)
