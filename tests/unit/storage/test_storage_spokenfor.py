"""What storage may still take of the disk for what it has: the next start gets by with it, also where a start has failed."""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rocksdict import Rdict, WriteBatch

from bridgehead.errors import StartError
from bridgehead.storage import frontlog, opening
from bridgehead.storage.keys import Kind, numbered_key
from bridgehead.storage.meta import FRONT_KEY, front_of, pack_front
from bridgehead.storage.overlay import Overlay
from bridgehead.storage.records import Change
from bridgehead.storage.scanning import scan
from bridgehead.storage.store import Store
from bridgehead.storage.values import seal
from making.crash import copy_as_left
from support.disk import MIB, SmallDisk

NOISE = Random(7)
SHELF = ("outbox", "r")


def batch(number: int, size: int) -> list[Change]:
    """As a batch and its entry are, but for what they say."""
    key, entry = numbered_key(Kind.BATCH, SHELF, number), numbered_key(Kind.INDEX, SHELF, number)
    return [(key, seal(key, NOISE.randbytes(size))), (entry, seal(entry, b"entry"))]


def gone(number: int) -> list[Change]:
    return [(key, None) for key, _ in batch(number, 0)]


def fill(store: Store, count: int, size: int = 100_000) -> None:
    for number in range(count):
        store.write(batch(number, size))


def keys_of(store: Store) -> int:
    return sum(1 for _ in store.scan(Kind.BATCH.value))


# -- what is counted ------------------------------------------------------------------------------------------------------


def test_what_waits_is_spoken_for_until_it_is_gone(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", sync=False)
    nothing = store.spoken_for
    fill(store, 100)
    waiting = store.spoken_for
    assert 3 * 100 * 100_000 <= waiting - nothing <= 3.1 * 100 * 100_000, "RocksDB's log, a table, and a merged one"
    for number in range(100):
        store.write(gone(number))
    assert store.spoken_for - nothing < 100_000
    store.close(broken=False)


def test_a_queue_that_flows_leaves_nothing_spoken_for_however_much_has_passed(tmp_path: Path) -> None:
    """The log is full of it, and nobody needs it."""
    store = Store(tmp_path / "store", sync=False, front_bytes=MIB)
    most = 0
    for number in range(100):
        store.write(batch(number, 100_000))
        store.write(gone(number))
        most = max(most, store.spoken_for)
    assert most < 2 * MIB, "ten have passed: what RocksDB has in RAM counts for one"
    store.close(broken=False)


@given(st.lists(st.tuples(st.integers(0, 5), st.none() | st.integers(0, 50)) | st.sampled_from(("change files", "free file"))))
def test_what_a_replay_takes_is_what_counts_in_the_files_that_are_needed(story: list[tuple[int, int | None] | str]) -> None:
    """Against a model that looks at everything again each time."""
    overlay = Overlay()
    newer: dict[bytes, bytes | None] = {}
    older: dict[bytes, bytes | None] = {}
    for step in story:
        if step == "change files":
            overlay.moved(len(overlay._moving))
            overlay.free_file()
            overlay.change_files()
            newer, older = {}, newer
        elif step == "free file":
            overlay.moved(len(overlay._moving))
            overlay.free_file()
            older = {}
        else:
            key, size = step
            assert not isinstance(key, str)
            name = b"%d" % key
            newer[name] = value = None if size is None else bytes(int(size))
            older.pop(name, None)
            overlay.put([(name, value)])
        assert overlay.to_replay == sum(len(key) + len(value or b"") for key, value in (*newer.items(), *older.items()))


# -- what is taken --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1000, 100_000, 900_000])
def test_a_killed_store_is_open_again_with_no_more_than_was_spoken_for(tmp_path: Path, size: int) -> None:
    store = Store(tmp_path / "before", sync=False, front_bytes=16 * MIB)
    count = 40 * MIB // size
    fill(store, count, size)
    with SmallDisk(tmp_path / "disk", 256 * MIB) as disk:
        copy_as_left(tmp_path / "before", disk.directory / "store")
        disk.fill(store.spoken_for)
        again = Store(disk.directory / "store", sync=False)
        assert keys_of(again) == count
        again.close(broken=True)
    store.close(broken=False)


def test_a_start_that_ended_for_want_of_room_has_not_taken_it_for_nothing(tmp_path: Path) -> None:
    """Every try goes on where the last one ended: some room more is enough, and not the room of all of them together."""
    store = Store(tmp_path / "before", sync=False)
    fill(store, 400)
    with SmallDisk(tmp_path / "disk", 256 * MIB) as disk:
        copy_as_left(tmp_path / "before", disk.directory / "store")
        refused: list[str] = []
        for _ in range(0, 2 * store.spoken_for, 10 * MIB):
            disk.free()
            disk.fill(10 * MIB)
            try:
                again = Store(disk.directory / "store", sync=False)
            except StartError as error:
                refused.append(str(error))
            else:
                assert keys_of(again) == 400
                again.close(broken=True)
                break
        else:
            pytest.fail("it got twice what it needs, and takes it again and again")
        assert len(refused) > 1
        assert all("No space left" in why for why in refused)
    store.close(broken=False)


def test_a_replay_leaves_out_batches_that_are_gone_and_says_how_far_it_has_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frontlog, "REPLAYED_AT_ONCE", 1000)
    db = opening.open_sound(tmp_path / "db")
    log = frontlog.FrontLog(tmp_path)
    for number in range(10):
        log.append(batch(number, 2000))
        if number != 4:
            log.append(gone(number))
    log.append(batch(10, 1))
    frontlog.replay(db, frontlog.left(tmp_path, (log.life, 1)), log.life)
    assert sum(path.stat().st_size for path in (tmp_path / "db").glob("*.log")) < 2 * 2000
    assert {key for key, _ in scan(db, Kind.BATCH.value)} == {batch(4, 0)[0][0], batch(10, 0)[0][0]}
    place = front_of(db)
    assert place is not None
    assert len(frontlog.left(tmp_path, place)) < 14, "it goes on there, and not with the first record"
    log.close()
    db.close()




class Failing:
    """RocksDB on a disk that is full after so many writes."""

    def __init__(self, db: Rdict, writes: int) -> None:
        self._db = db
        self._left = writes

    def write(self, batch: WriteBatch) -> None:
        if not self._left:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._left -= 1
        self._db.write(batch)

    def flush_wal(self, sync: bool) -> None:
        self._db.flush_wal(sync)


Step = tuple[Kind, int, int | None]  # of a change: a key of this kind and number, and the size of its value


@settings(max_examples=40)
@given(
    st.lists(st.lists(st.tuples(st.sampled_from(Kind), st.integers(0, 4), st.none() | st.integers(0, 400)), max_size=4)),
    st.lists(st.integers(0, 3), max_size=4),
)
def test_however_often_a_replay_fails_rocksdb_has_in_the_end_what_the_log_says(
    story: list[list[Step]], ends: list[int]
) -> None:
    with TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr(frontlog, "REPLAYED_AT_ONCE", 500)
        directory = Path(place)
        db, log = opening.open_sound(directory / "db"), frontlog.FrontLog(directory)
        db[FRONT_KEY] = pack_front(log.life, 1)
        expected: dict[bytes, bytes] = {}
        for at, steps in enumerate(story):
            changes: dict[bytes, bytes | None] = {}
            for kind, number, size in steps:
                key = numbered_key(kind, SHELF, number)
                changes[key] = None if size is None else seal(key, b"%d" % at + bytes(size))
            log.append(list(changes.items()))
            expected = {key: value for key, value in {**expected, **changes}.items() if value is not None}
        for writes in ends:
            with suppress(OSError):
                frontlog.replay(Failing(db, writes), frontlog.left(directory, front_of(db)), log.life)
        frontlog.replay(db, frontlog.left(directory, front_of(db)), log.life)
        assert {key: value for key, value in scan(db, b"") if key != FRONT_KEY} == expected
        log.close()
        db.close()
