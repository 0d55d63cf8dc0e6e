"""The front log: what was synced is there again, what was not may go, and the log itself says which is which."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from rocksdict import Rdict, WriteBatch

from bridgehead.errors import DamageError, StorageError
from bridgehead.storage import frontlog, records
from bridgehead.storage import store as store_module
from bridgehead.storage.frontlog import FrontLog
from bridgehead.storage.keys import Kind, numbered_key, shelf_key
from bridgehead.storage.meta import FRONT_KEY
from bridgehead.storage.records import Change
from bridgehead.storage.store import Store
from bridgehead.storage.values import pack_batch, pack_state, seal
from making.crash import copy_as_left
from making.damage import cut, flip_bit
from making.rows import numbered, outbox_rows

NOISE = Random(7)


def state(number: int, size: int = 20) -> Change:
    key = shelf_key(Kind.STATE, (f"state {number}",))
    return key, pack_state(key, NOISE.randbytes(size))


def numbers(found: list[records.Record]) -> list[int]:
    return [record.number for record in found]


@pytest.fixture
def log(tmp_path: Path) -> FrontLog:
    return FrontLog(tmp_path, 1000)


def file(log: FrontLog, directory: Path) -> Path:
    return frontlog.paths(directory, log.life)[0]


def test_a_record_comes_back_as_it_was_written() -> None:
    parts = (b"head", b"", bytes(5000), b"end")
    changes = [(b"a", b""), (b"gone", None), (b"batch", parts), (b"", b"x")]
    pieces, size, starts = records.pack(3, 9, 4, changes)  # type: ignore[arg-type]
    written = b"".join(pieces)
    assert len(written) == size
    assert written[starts[2] :].startswith(b"".join(parts))
    assert written[starts[3] :] == b"x"
    [found] = records.find(b"something else" + written + b"rest", 3)
    assert (found.number, found.safe) == (9, 4)
    assert list(found.changes()) == [(b"a", b""), (b"gone", None), (b"batch", b"".join(parts)), (b"", b"x")]
    assert list(records.find(written, 4)) == [], "of another life"


def test_a_record_of_very_many_changes_is_written_in_few_pieces(log: FrontLog, tmp_path: Path) -> None:
    log.append([state(number) for number in range(3000)])
    assert len(list(frontlog.left(tmp_path, (log.life, 1))[1].changes())) == 3000


def test_an_end_that_nobody_says_was_synced_is_taken_back(log: FrontLog, tmp_path: Path) -> None:
    for number in range(3):
        log.append([state(number)])
    log.flush()
    log.append([state(3)])
    size = file(log, tmp_path).stat().st_size
    for torn in range(1, 40, 3):
        cut(file(log, tmp_path), size - torn)
        assert numbers(frontlog.left(tmp_path, (log.life, 1))) == [1, 2, 3, 4]


def test_a_record_that_is_missing_before_others_is_an_end_if_none_of_them_was_synced(log: FrontLog, tmp_path: Path) -> None:
    """A loss of power may leave the second write and not the first."""
    log.append([state(1)])
    log.flush()
    before = file(log, tmp_path).stat().st_size
    log.append([state(2)])
    log.append([state(3)])
    flip_bit(file(log, tmp_path), before + 40)
    assert numbers(frontlog.left(tmp_path, (log.life, 1))) == [1, 2]


def test_a_record_that_is_missing_though_it_was_synced_is_damage_and_the_rest_is_kept(log: FrontLog, tmp_path: Path) -> None:
    log.append([state(1)])
    before = file(log, tmp_path).stat().st_size
    log.append([state(2)])
    log.flush()
    log.say_what_is_safe()
    log.say_what_is_safe()
    assert log.written == 4, "said once"
    flip_bit(file(log, tmp_path), before + 40)
    with pytest.raises(DamageError, match="record 3"):
        frontlog.left(tmp_path, (log.life, 1))
    left = list(frontlog.read_past_damage(tmp_path, (log.life, 1)))
    assert [(each.number, len(list(each.changes()))) for each in left] == [(1, 0), (2, 1), (3, 0), (4, 0)]
    assert not frontlog.tells_what_is_lost(tmp_path, (log.life, 1)), "its value is no batch"


def test_of_a_damaged_record_every_value_that_is_sound_is_kept_and_nothing_is_taken_away(log: FrontLog, tmp_path: Path) -> None:
    key, gone = b"s" * 20, b"x" * 20
    before = file(log, tmp_path).stat().st_size
    log.append([(key, seal(key, b"1" * 50)), (b"t" * 20, seal(b"t" * 20, b"2" * 50)), (gone, None)])
    log.flush()
    log.say_what_is_safe()
    flip_bit(file(log, tmp_path), before + records.SMALLEST + 50)
    [_, ruin, _] = frontlog.read_past_damage(tmp_path, (log.life, 1))
    assert list(ruin.changes()) == [(b"t" * 20, seal(b"t" * 20, b"2" * 50))]
    assert not frontlog.tells_what_is_lost(tmp_path, (log.life, 1))


def test_the_record_that_rocksdb_names_is_missing_though_no_later_one_says_that_it_was_synced(
    log: FrontLog, tmp_path: Path
) -> None:
    before = file(log, tmp_path).stat().st_size
    log.append([state(1)])
    log.append([state(2)])
    flip_bit(file(log, tmp_path), before + 40)
    with pytest.raises(DamageError, match="record 2"):
        frontlog.left(tmp_path, (log.life, 2))
    assert [each.number for each in frontlog.read_past_damage(tmp_path, (log.life, 2))] == [2, 3]
    assert not frontlog.tells_what_is_lost(tmp_path, (log.life, 2))


def test_without_its_first_record_a_log_is_missing(log: FrontLog, tmp_path: Path) -> None:
    file(log, tmp_path).unlink()
    with pytest.raises(DamageError, match="is missing"):
        frontlog.left(tmp_path, (log.life, 1))


def test_a_log_of_which_rocksdb_knows_nothing_is_damage_unless_nothing_in_it_counts(log: FrontLog, tmp_path: Path) -> None:
    assert frontlog.left(tmp_path, None) == []
    log.append([state(1)])
    with pytest.raises(DamageError, match="where it begins"):
        frontlog.left(tmp_path, None)
    log.end()
    assert frontlog.left(tmp_path, None) == []
    file(log, tmp_path).write_bytes(bytes(1000))
    with pytest.raises(DamageError, match="where it begins"):
        frontlog.left(tmp_path, None)


def test_what_is_written_over_is_no_part_of_what_is_left(log: FrontLog, tmp_path: Path) -> None:
    for number in range(20):
        log.append([state(number, 100)])
    assert log.is_full
    second = log.switch()
    log.append([state(20)])
    log.switch()
    log.append([state(21)])
    log.flush()
    assert numbers(frontlog.left(tmp_path, (log.life, second))) == [second, second + 1]


def test_what_stays_moves_to_rocksdb_and_what_goes_never_gets_there(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", front_bytes=20_000)
    kept = dict(state(number) for number in range(5))
    store.write(list(kept.items()))
    passing, _ = state(99)
    for _ in range(200):
        store.write([state(99, 2000)])
        store.write([(passing, None)])
        store.flush()
    found = dict(store.scan(b""))
    assert {key: found[key] for key in kept} == kept
    assert passing not in found
    assert {key: store.db.get(key) for key in kept} == kept, "moved"
    assert sum(path.stat().st_size for path in (tmp_path / "store").glob("front-*")) < 60_000, "written over"
    assert sum(path.stat().st_size for path in (tmp_path / "store").glob("*.log")) < 20_000
    store.close(broken=False)
    assert list((tmp_path / "store").glob("front-*")) == []


def batch(number: int, rows: int = 9) -> tuple[Change, bytes]:
    """A batch as it is written, and all its bytes: those it is packed in may be written over as soon as it is."""
    key = numbered_key(Kind.BATCH, ("outbox", "r"), number)
    packed = pack_batch(key, outbox_rows(*numbered(number, rows)), None)
    return (key, packed), b"".join(packed)


def test_a_batch_is_read_again_from_the_file_it_was_written_to_until_rocksdb_has_it(tmp_path: Path) -> None:
    store = Store(tmp_path, front_bytes=1000)
    written = {}
    for number in range(0, 90, 9):
        change, written[change[0]] = batch(number)
        store.write([change])
        store.flush()
        assert {key: store.get(key) for key in written} == written, "in whatever file, in the log or in RocksDB"
    assert dict(store.scan(Kind.BATCH.value)) == written
    store.close(broken=False)
    again = Store(tmp_path)
    assert dict(again.scan(Kind.BATCH.value)) == written
    again.close(broken=False)


def test_a_batch_that_the_disk_gives_back_damaged_is_never_sealed_anew(tmp_path: Path) -> None:
    store = Store(tmp_path)
    change, _ = batch(0, rows=200)
    store.write([change])
    store.flush()
    flip_bit(next(tmp_path.glob("front-*")), 500)
    with pytest.raises(DamageError, match="a batch that stays is damaged"):
        store.settle()
    store.close(broken=True)


def test_a_walk_sees_old_and_young_and_rocksdb_as_one(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", front_bytes=10_000)
    truth: dict[bytes, bytes] = {}
    chance = Random(3)
    for _ in range(400):
        key, value = state(chance.randrange(40), 200)
        if chance.random() < 0.3:
            store.write([(key, None)])
            truth.pop(key, None)
        else:
            store.write([(key, value)])
            truth[key] = value  # type: ignore[assignment]
        if chance.random() < 0.5:
            store.flush()
        assert list(store.scan(Kind.STATE.value)) == sorted(truth.items())
        assert all(store.get(each) == truth.get(each) for each, _ in (state(number) for number in range(40)))
    store.close(broken=False)


def test_a_log_of_an_earlier_life_is_taken_away_when_rocksdb_has_it(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    written = state(1)
    store.write([written])
    copy_as_left(tmp_path / "store", tmp_path / "again")
    store.close(broken=False)
    again = Store(tmp_path / "again")
    assert again.db.get(written[0]) == written[1]
    assert len(list((tmp_path / "again").glob("front-*"))) == 1
    assert again.db.get(FRONT_KEY) is not None
    again.close(broken=False)
    assert again.incarnation == store.incarnation


@pytest.mark.parametrize("left", [0, 1, 2], ids=["both files", "the one that says it", "none"])
def test_a_clean_end_that_is_cut_short_is_a_clean_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: int) -> None:
    store = Store(tmp_path / "store", front_bytes=1000)
    for number in range(30):
        store.write([state(number % 7, 300)])
        store.flush()
    truth = dict(store.scan(Kind.STATE.value))
    assert len(list((tmp_path / "store").glob("front-*"))) == 2
    unlink, gone = Path.unlink, []

    def killed(path: Path, missing_ok: bool = False) -> None:
        if len(gone) == left:
            raise KeyboardInterrupt
        gone.append(path)
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", killed)
    if left < 2:
        with pytest.raises(KeyboardInterrupt):
            store.close(broken=False)
    else:
        store.close(broken=False)
    monkeypatch.undo()
    again = Store(tmp_path / "store")
    assert again.incarnation == store.incarnation
    assert dict(again.scan(Kind.STATE.value)) == truth
    again.close(broken=False)


def test_after_a_sync_that_failed_nothing_is_safe_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "store")
    store.write([state(1)])

    def fails(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(frontlog.os, "fdatasync", fails)
    with pytest.raises(StorageError, match="Input/output error"), store.checkpoint():
        pass
    monkeypatch.undo()
    with pytest.raises(OSError, match="a sync has failed"):
        store.flush()
    with pytest.raises(OSError, match="a sync has failed"):
        store.write([state(2)])
    store.close(broken=True)


def test_what_could_not_be_moved_is_still_there(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    written = [state(number) for number in range(50)]
    store.write(written)
    db = store.db

    class Full:
        def write(self, batch: object) -> None:
            raise OSError(28, "No space left on device")

    store.db = Full()  # type: ignore[assignment]
    with pytest.raises(OSError, match="No space"):
        store.settle()
    store.db = db
    assert [store.get(key) for key, _ in written] == [value for _, value in written]
    store.settle()
    assert [db.get(key) for key, _ in written] == [value for _, value in written]
    store.close(broken=False)


def test_whoever_never_asks_whether_it_is_safe_does_not_fill_the_disk(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", front_bytes=10_000)
    for number in range(300):
        store.write([state(number % 5, 1000)])
    assert sum(path.stat().st_size for path in (tmp_path / "store").glob("front-*")) < 60_000
    store.close(broken=False)


def test_a_file_that_had_grown_too_long_leaves_nothing_behind_when_it_is_written_over(log: FrontLog, tmp_path: Path) -> None:
    for number in range(20):
        log.append([state(number, 300)])
    assert log.is_overfull
    log.switch()
    for number in range(5):
        log.append([state(number, 300)])
    log.switch()
    assert file(log, tmp_path).stat().st_size == 1000


def test_the_log_is_replayed_though_rocksdb_has_forgotten_its_place(tmp_path: Path) -> None:
    """Which is damage: it is salvaged, and loses nothing."""
    store = Store(tmp_path / "store", front_bytes=3000)
    for number in range(40):
        store.write([state(number % 9, 300)])
        store.flush()
    truth = dict(store.scan(Kind.STATE.value))
    del store.db[FRONT_KEY]
    copy_as_left(tmp_path / "store", tmp_path / "damaged")
    store.close(broken=True)
    again = Store(tmp_path / "damaged")
    found = dict(again.scan(Kind.STATE.value))
    assert {key: found.get(key) for key in truth} == truth
    assert again.incarnation != store.incarnation
    again.close(broken=False)


class SlowRocks:
    """Whose sync waits until it is told to go on."""

    def __init__(self, db: Rdict) -> None:
        self._db = db
        self.go_on = threading.Event()

    def flush_wal(self, sync: bool) -> None:
        assert sync
        assert self.go_on.wait(30)
        self._db.flush_wal(sync)

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self._db[key] = value

    def write(self, batch: WriteBatch) -> None:
        self._db.write(batch)


def test_a_file_is_written_over_only_when_rocksdb_has_synced_what_moved(tmp_path: Path) -> None:
    """Until then the other one grows, and whoever syncs does not wait for RocksDB."""
    store = Store(tmp_path / "store", front_bytes=10_000)
    db, slow = store.db, SlowRocks(store.db)
    store.db = slow  # type: ignore[assignment]
    while store._other is not store_module._Other.MOVED or not store._front.is_full:
        store.write([state(1, 900)])
        store._front.flush()
    first = store._first
    store.write([state(2, 900)])
    assert (store._other, store._first) == (store_module._Other.MOVED, first)
    slow.go_on.set()
    store.flush()
    assert store._other is store_module._Other.FREE
    store.write([state(3, 900)])
    assert (store._other, store._first > first) == (store_module._Other.MOVING, True)
    store.db = db
    store.close(broken=False)


def test_a_sync_of_rocksdb_that_failed_is_told_by_the_next_write(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", front_bytes=10_000)
    db = store.db

    class Failing(SlowRocks):
        def flush_wal(self, sync: bool) -> None:
            raise OSError(5, "Input/output error")

    store.db = Failing(db)  # type: ignore[assignment]
    while store._moved is None or not store._moved.done():
        store.write([state(1, 900)])
        store._front.flush()
    with pytest.raises(OSError, match="Input/output error"):
        store.write([state(1, 900)])
    store.db = db
    store.close(broken=True)


def test_whoever_syncs_waits_for_the_sync_that_is_under_way(log: FrontLog) -> None:
    """Of two at once only one would hear of an error."""
    log.append([state(1)])
    log.begin_flush()
    log.append([state(2)])
    log.flush()
    assert log.safe == log.written
    log.append([state(3)])
    log.end_flush()
    assert log.safe == log.written - 1
    log.close()


def test_a_sync_under_way_covers_what_was_written_before_it(log: FrontLog) -> None:
    log.append([state(1)])
    log.begin_flush()
    log.append([state(2)])
    assert log.safe < log.written - 1
    log.end_flush()
    assert log.safe == log.written - 1
    log.begin_flush()
    log.end_flush()
    assert log.safe == log.written
    log.close()


def test_an_error_of_a_sync_under_way_is_told_by_whoever_syncs_next(log: FrontLog, monkeypatch: pytest.MonkeyPatch) -> None:
    wait = log._thread.wait
    monkeypatch.setattr(log._thread, "wait", lambda: wait() or OSError(5, "Input/output error"))
    log.append([state(1)])
    log.begin_flush()
    with pytest.raises(OSError, match="Input/output error"):
        log.flush()
    with pytest.raises(OSError, match="Input/output error"):
        log.append([state(2)])
    with pytest.raises(OSError, match="Input/output error"):
        log.end_flush()


def test_a_sync_behind_a_change_of_files_is_one_of_both(log: FrontLog, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[int]] = []
    begin = log._thread.begin

    def watched(files: Sequence[int]) -> None:
        asked.append(list(files))
        begin(files)

    monkeypatch.setattr(log._thread, "begin", watched)
    log.append([state(1)])
    log.switch()
    log.append([state(2)])
    log.begin_flush()
    log.end_flush()
    assert asked == [log._files]
    log.close()


def test_a_sync_that_cannot_begin_keeps_nobody_from_closing(log: FrontLog, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    log.append([state(1)])
    monkeypatch.setattr(threading.Thread, "start", fails)
    with pytest.raises(RuntimeError, match="can't start"):
        log.begin_flush()
    assert log.safe < log.written
    log.close()


def test_after_a_checkpoint_that_found_no_room_the_store_goes_on(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", front_bytes=10_000)
    db = store.db

    class Full(SlowRocks):
        def write(self, batch: WriteBatch) -> None:
            raise OSError(28, "No space left on device")

    store.write([state(1, 900)])
    store.db = Full(db)  # type: ignore[assignment]
    with pytest.raises(StorageError, match="No space"), store.checkpoint():
        pass
    store.db = db
    for number in range(40):
        store.write([state(number, 900)])
        store.flush()
    truth = dict(store.scan(Kind.STATE.value))
    copy_as_left(tmp_path / "store", tmp_path / "after")
    store.close(broken=False)
    again = Store(tmp_path / "after")
    assert (dict(again.scan(Kind.STATE.value)), len(truth)) == (truth, 40)
    again.close(broken=False)


def test_the_old_file_is_not_given_up_before_what_has_replaced_its_content_is_synced(tmp_path: Path) -> None:
    """Else a loss of power could take the replacement, and there would be nothing it has replaced."""
    store = Store(tmp_path / "store", front_bytes=10_000)
    while store._other is not store_module._Other.MOVING:
        store.write([state(1, 900)])
        store.flush()
    while not store._front.is_half_full or store._overlay.is_moving:
        store.write([state(1, 900)])  # of which the old file has another one
    store.write([state(2, 900)])
    assert store._other is store_module._Other.MOVING
    store.flush()
    store.write([state(3, 900)])
    assert store._other is not store_module._Other.MOVING
    store.close(broken=False)
