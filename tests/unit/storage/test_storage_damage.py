"""A damaged store: the node starts, keeps all that can be read, sets the rest aside and says what is gone, never guessing."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest
from rocksdict import Options, Rdict

from bridgehead.errors import DamageError, StartError
from bridgehead.storage import salvage, scanning, writeahead
from bridgehead.storage.engine import Changes
from bridgehead.storage.journal import Log
from bridgehead.storage.keys import Kind, numbered_key, shelf_key
from bridgehead.storage.losses import Losses
from bridgehead.storage.outbox import Outbox
from bridgehead.storage.rocks import RocksEngine
from making.crash import copy_as_left
from making.damage import cut, damaged_copy, flip_bit, flip_random_bit
from making.rows import numbered, numbers, outbox_rows, stored_rows

MUCH = 1 << 30
ROUTES = ("a", "b/c")
LONG = 600  # characters that nothing squeezes: the log of the store has several blocks
BATCH = 4
FRONT = 20_000  # bytes of a file of the front log: what a kill leaves is in tables, in the log of RocksDB and in both files
LOG = "inline"


@dataclass(slots=True)
class Truth:
    """What waits in a store, by shelf: the payload of each row is its number among all."""

    incarnation: str
    waiting: dict[str, list[int]] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(map(len, self.waiting.values()))


@dataclass(frozen=True, slots=True)
class Store:
    directory: Path
    truth: Truth


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """As a kill leaves it: three tables, both logs; rows that wait in a journal and in two outboxes, some of them done."""
    home = tmp_path_factory.mktemp("whole")
    engine = RocksEngine(home / "live", front_bytes=FRONT)
    journal, outboxes = Log(LOG, engine), {route: Outbox(route, engine, MUCH, MUCH) for route in ROUTES}
    given = 0
    noise = Random(1)
    for part in range(4):
        for turn in range(12):
            changes = Changes()
            long = {"content_type": noise.randbytes(LONG // 2).hex()}
            journal.append(changes, stored_rows(*numbered(given, BATCH, **long)))
            for outbox in outboxes.values():
                rows = numbered(given, BATCH, qos=2, **long)
                rows[1]["qos"] = min(turn % 5, 1)  # some places are holes after the kill
                outbox.land(changes, outbox_rows(*rows))
            given += BATCH
            engine.write(changes)
            engine._store.flush()
            journal.publish()
            for outbox in outboxes.values():
                outbox.landed()
        polled = outboxes["a"].poll(BATCH)
        assert polled is not None
        outboxes["a"].acknowledge(np.arange(polled.first, polled.first + polled.rows - part % 2))
        changes = Changes()
        journal.consume(changes, given - 30)
        journal.trim(changes, given - 30)
        engine.write(Changes(drops=changes.drops, state=changes.later))
        if part < 3:
            engine._store.settle()
            engine._store.db.flush()
    engine._store.flush()
    engine._store.say_what_is_safe()
    truth = Truth(engine.incarnation)
    copy_as_left(home / "live", home / "store")
    engine.close()
    again = RocksEngine(damaged_copy(home / "store", home / "look" / "store"))
    truth.waiting, truth.ends = found(again)
    again.close()
    assert truth.rows > 250
    return Store(home / "store", truth)


def found(engine: RocksEngine) -> tuple[dict[str, list[int]], dict[str, int]]:
    """What waits, and the number that the next row gets, by shelf."""
    journal = Log(LOG, engine)
    read = journal.read(journal.consumed, journal.end)
    waiting = {"journal": [number for _, batch in read for number in numbers(batch)]}
    assert len(waiting["journal"]) == journal.waiting
    ends = {"journal": journal.end}
    for route in ROUTES:
        outbox = Outbox(route, engine, MUCH, MUCH)
        rows: list[int] = []
        while (polled := outbox.poll(1000)) is not None:
            rows += numbers(polled.batch)
        assert len(rows) == outbox.depth
        waiting[route], ends[route] = rows, outbox.end
    return waiting, ends


def check(directory: Path, truth: Truth, what: object) -> RocksEngine:
    """Open what is left, and hold what it says against the truth. Returns the engine, closed."""
    engine = RocksEngine(directory)
    waiting, ends = found(engine)
    missing = 0
    for shelf, rows in waiting.items():
        assert rows == sorted(set(rows)), (what, shelf, "in order, none twice")
        missing += len(set(truth.waiting[shelf]) - set(rows))
        if not engine.losses.unknown:
            assert set(rows) <= set(truth.waiting[shelf]), (what, shelf, "nothing that was done comes back")
        assert ends[shelf] >= truth.ends[shelf] or engine.incarnation != truth.incarnation, (what, shelf, "no number twice")
    if engine.losses.unknown:
        assert engine.losses.total <= missing, (what, engine.losses.snapshot())
    else:
        assert engine.losses.total == missing, (what, engine.losses.snapshot(), missing)
    engine.close()
    sums = engine.losses.snapshot()
    again = RocksEngine(directory)
    assert again.losses.snapshot() == sums, (what, "the repaired store is sound, and remembers")
    assert found(again)[0] == waiting
    again.close()
    assert engine.incarnation == again.incarnation
    return engine


FLIPS = {"front-*": 20, "*.sst": 8, "*.log": 16, "MANIFEST-*": 12, "CURRENT": 4, "OPTIONS-*": 2, "IDENTITY": 1}


@pytest.mark.parametrize("pattern", FLIPS)
def test_after_a_flipped_bit_anywhere_what_is_intact_is_kept_and_the_losses_are_true(
    store: Store, tmp_path: Path, pattern: str
) -> None:
    random = Random(pattern)
    for name in sorted(path.name for path in store.directory.glob(pattern)):
        for _ in range(FLIPS[pattern]):
            directory = damaged_copy(store.directory, tmp_path / "d" / "store")
            place = flip_random_bit(directory / name, random)
            check(directory, store.truth, (name, place))


def test_without_any_one_of_its_files_a_store_opens_and_says_that_something_is_missing(store: Store, tmp_path: Path) -> None:
    needed = 0
    for name in sorted(path.name for path in store.directory.iterdir() if path.is_file()):
        directory = damaged_copy(store.directory, tmp_path / "d" / "store")
        (directory / name).unlink()
        engine = check(directory, store.truth, name)
        if name.endswith((".sst", ".log")) or name == "CURRENT" or name.startswith("MANIFEST-"):
            needed += 1
            assert engine.losses.unknown == 1, name
            [set_aside] = engine.losses.set_aside
            assert not (directory.with_name(set_aside) / name).exists()
            assert engine.incarnation != store.truth.incarnation
    assert needed == 6


def test_without_its_front_log_a_store_opens_and_says_that_something_is_missing(store: Store, tmp_path: Path) -> None:
    directory = damaged_copy(store.directory, tmp_path / "d" / "store")
    for path in directory.glob("front-*"):
        path.unlink()
    engine = check(directory, store.truth, "the front log")
    assert engine.losses.unknown == 1


def test_a_damaged_batch_of_the_front_log_costs_nothing_else_of_its_record(tmp_path: Path) -> None:
    """All that comes in one turn is one record."""
    engine = RocksEngine(tmp_path / "live")
    outboxes, changes = {route: Outbox(route, engine, MUCH, MUCH) for route in ROUTES}, Changes(state={("anything",): 7})
    for route, outbox in outboxes.items():
        outbox.land(changes, outbox_rows(*numbered(0, BATCH, qos=1, content_type=f"of {route}")))
    engine.write(changes)
    engine._store.flush()
    engine._store.say_what_is_safe()
    copy_as_left(tmp_path / "live", tmp_path / "store")
    engine.close()
    [front] = (tmp_path / "store").glob("front-*")
    flip_bit(front, front.read_bytes().index(b"of a"))
    found = RocksEngine(tmp_path / "store")
    assert Outbox("b/c", found, MUCH, MUCH).depth == BATCH
    assert Outbox("a", found, MUCH, MUCH).depth == 0
    assert (found.losses.total, found.losses.unknown) == (BATCH, 0)
    assert found.state(("anything",)) == 7
    found.close()


def test_a_torn_end_of_the_log_takes_back_only_what_was_written_last(store: Store, tmp_path: Path) -> None:
    """As a loss of power leaves it: the last write was never synced, and is promised to nobody."""
    [log] = [path.name for path in store.directory.glob("*.log")]
    size = (store.directory / log).stat().st_size
    for torn in (1, 5, 60, 500):
        directory = damaged_copy(store.directory, tmp_path / "d" / "store")
        cut(directory / log, size - torn)
        engine = RocksEngine(directory)
        waiting, _ = found(engine)
        engine.close()
        assert engine.incarnation == store.truth.incarnation
        assert engine.losses.snapshot() == Losses().snapshot()
        for shelf, rows in store.truth.waiting.items():
            assert set(rows) - set(waiting[shelf]) <= set(rows[-BATCH:])


def test_a_record_of_the_log_that_is_damaged_costs_no_record_behind_its_block(store: Store, tmp_path: Path) -> None:
    [log] = [path.name for path in store.directory.glob("*.log")]
    directory = damaged_copy(store.directory, tmp_path / "d" / "store")
    flip_bit(directory / log, 2000)
    engine = check(directory, store.truth, "the log")
    assert engine.losses.unknown == 1
    again = RocksEngine(directory)
    waiting, _ = found(again)
    again.close()
    for shelf, rows in store.truth.waiting.items():
        assert rows[-1] in waiting[shelf], "a loss in the middle is no loss of the rest"


def test_the_length_of_a_record_that_points_beyond_the_end_is_damage_and_not_a_torn_end(store: Store, tmp_path: Path) -> None:
    [log] = [path.name for path in store.directory.glob("*.log")]
    content = (store.directory / log).read_bytes()
    last_block = len(content) // writeahead.BLOCK * writeahead.BLOCK
    starts = [start for kind, start, _ in writeahead._fragments(content) if start > last_block and kind == writeahead.FULL]
    directory = damaged_copy(store.directory, tmp_path / "d" / "store")
    flip_bit(directory / log, starts[0] - 2, 7)  # the high byte of its length
    engine = check(directory, store.truth, "the length")
    assert engine.losses.unknown == 1


def test_a_manifest_without_its_end_costs_no_table(store: Store, tmp_path: Path) -> None:
    """RocksDB would open it, and then delete the tables that it no longer names."""
    [manifest] = [path.name for path in store.directory.glob("MANIFEST-*")]
    directory = damaged_copy(store.directory, tmp_path / "d" / "store")
    cut(directory / manifest, (store.directory / manifest).stat().st_size * 2 // 3)
    engine = check(directory, store.truth, "the manifest")
    assert engine.losses.unknown == 1
    again = RocksEngine(directory)
    assert found(again)[0] == store.truth.waiting
    again.close()


@pytest.mark.parametrize(("kind", "lost"), [(Kind.BATCH, BATCH), (Kind.INDEX, 0)])
def test_a_batch_that_is_damaged_is_lost_and_an_index_entry_is_made_anew(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: Kind, lost: int
) -> None:
    directory = damaged_copy(store.directory, tmp_path / "d" / "store")
    db = Rdict(str(directory), Options(raw_mode=True))
    key = numbered_key(kind, ("outbox", "b/c"), 132)
    value = bytearray(db[key])
    value[-2] ^= 1
    db[key] = bytes(value)
    db.close()
    engine = check(directory, store.truth, kind)
    assert (engine.losses.rows(("outbox", "b/c")), engine.losses.unknown) == (lost, 0)
    assert ("4 rows of outbox/b/c from 132 on" in caplog.text) == bool(lost)
    [set_aside] = engine.losses.set_aside
    report = json.loads(directory.with_name(f"{set_aside}.json").read_text())
    assert [(loss["first"], loss["rows"]) for loss in report["losses"]] == ([(132, BATCH)] if lost else [])


def test_states_that_are_damaged_are_said_and_void_what_was_half_way(store: Store, tmp_path: Path) -> None:
    directory = damaged_copy(store.directory, tmp_path / "d" / "store")
    engine = RocksEngine(directory)
    engine.write(Changes(state={("ids", "b", "0"): b"1", ("inbound", "client", "c", "0"): b"1", ("other",): 1}))
    engine.close()
    db = Rdict(str(directory), Options(raw_mode=True))
    db[shelf_key(Kind.STATE, ("ledger", "a"))] = b"damaged"
    db.close()
    engine = RocksEngine(directory)
    assert engine.losses.unknown == 1
    assert engine.state(("other",)) == 1
    assert list(engine.states(("ids",))) == list(engine.states(("inbound",))) == []
    engine.close()


def test_a_repair_that_a_crash_cut_short_is_finished_by_the_next_start(store: Store, tmp_path: Path) -> None:
    directory = damaged_copy(store.directory, tmp_path / "d" / "store")
    directory.rename(directory.with_name("store.salvaged"))
    engine = RocksEngine(directory)
    assert found(engine)[0] == store.truth.waiting
    engine.close()


def test_a_repair_without_room_is_refused_and_leaves_everything_as_it_is(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = damaged_copy(store.directory, tmp_path / "d" / "store")
    (directory / "CURRENT").unlink()
    before = sorted(path.name for path in directory.iterdir())
    monkeypatch.setattr(salvage.shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    with pytest.raises(StartError, match="a repair needs"):
        RocksEngine(directory)
    assert sorted(path.name for path in directory.iterdir()) == before


@pytest.mark.parametrize("damage", ["removed", "shortened", "unreadable"])
def test_a_store_of_which_nothing_is_left_is_set_aside_and_the_loss_told(store: Store, tmp_path: Path, damage: str) -> None:
    directory = damaged_copy(store.directory, tmp_path / "d" / "store")
    engine = RocksEngine(directory)
    engine._store.settle()
    engine._store.db.flush()
    engine._store.db.compact_range(None, None)
    engine.close()
    for table in directory.glob("*.sst"):
        if damage == "removed":
            table.unlink()
        elif damage == "shortened":
            cut(table, table.stat().st_size // 100)
        else:
            table.write_bytes(bytes(table.stat().st_size))
    engine = check(directory, store.truth, damage)
    assert engine.losses.unknown >= 1
    [set_aside] = engine.losses.set_aside
    assert directory.with_name(set_aside).exists()


def test_damaged_data_of_something_else_is_refused(tmp_path: Path) -> None:
    db = Rdict(str(tmp_path / "store"), Options(raw_mode=True))
    db[b"foreign"] = b"data"
    db.close()
    (tmp_path / "store" / "CURRENT").unlink()
    with pytest.raises(StartError, match="nothing in it is of a format that this version knows"):
        RocksEngine(tmp_path / "store")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store", "store.lock"]


def test_a_repair_that_fails_is_one_line_and_leaves_the_store_as_it_is(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = damaged_copy(store.directory, tmp_path / "d" / "store")
    (directory / "CURRENT").unlink()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(salvage, "write_meta", full)
    with pytest.raises(StartError, match=r"could not be repaired: .*No space left"):
        RocksEngine(directory)
    assert sorted(path.name for path in directory.parent.iterdir()) == ["store", "store.lock"]
    monkeypatch.undo()
    check(directory, store.truth, "the second try")


def test_a_file_system_without_hard_links_is_good_enough(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = damaged_copy(store.directory, tmp_path / "d" / "store")
    (directory / "CURRENT").unlink()

    def no_links(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(salvage.os, "link", no_links)
    check(directory, store.truth, "without links")


def test_a_disk_that_does_not_give_out_what_it_has_is_no_damage() -> None:
    assert isinstance(scanning.reading_failed(Exception("Corruption: block checksum mismatch")), DamageError)
    assert not isinstance(scanning.reading_failed(Exception("IO error: Input/output error")), DamageError)


@pytest.mark.parametrize("shelf", [("outbox", "a"), ("queue", "a client")], ids=["outbox", "queue"])
def test_notes_that_outlive_their_queue_are_never_taken_for_those_of_new_rows(shelf: tuple[str, str], tmp_path: Path) -> None:
    def queue(engine: RocksEngine) -> Outbox:
        return Outbox("x", engine, MUCH, MUCH, shelf=shelf)

    def land(engine: RocksEngine, outbox: Outbox) -> None:
        changes = Changes()
        outbox.land(changes, outbox_rows(*numbered(0, 3)))
        engine.write(changes)
        outbox.landed()

    directory = tmp_path / "store"
    engine = RocksEngine(directory, sync=False)
    outbox = queue(engine)
    land(engine, outbox)
    polled = outbox.poll(2)
    assert polled is not None
    outbox.acknowledge(polled.seqs)
    engine.write(Changes(drops=[(shelf, 0)], state={("ceiling", *shelf): None}))  # all but the note is lost
    engine.close()
    salvage.salvage(directory, "as the test says", unknown=True)
    engine = RocksEngine(directory, sync=False)
    land(engine, queue(engine))
    engine.close()
    engine = RocksEngine(directory, sync=False)
    assert queue(engine).depth == 3
    engine.close()
