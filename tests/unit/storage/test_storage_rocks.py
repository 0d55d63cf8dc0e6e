"""The file-native engine: what is written is one, what is synced survives, what is damaged or foreign is said."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from rocksdict import Options, Rdict

from bridgehead.errors import StartError, StorageError
from bridgehead.storage import rocks, store
from bridgehead.storage.engine import Changes, Engine, synced
from bridgehead.storage.keys import Kind, number_of, numbered_key, shelf_key, shelf_of
from bridgehead.storage.meta import FORMAT_KEY
from bridgehead.storage.rocks import RocksEngine
from bridgehead.storage.values import FORMAT
from making.crash import copy_as_left
from making.helddisk import HeldDisk
from making.rows import numbered, numbers, outbox_rows, stored_rows

SHELF = ("outbox", "a/b")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[RocksEngine]:
    engine = RocksEngine(tmp_path / "store")
    yield engine
    engine.close()


def after_crash(engine: RocksEngine, directory: Path) -> RocksEngine:
    """The life after a kill: what the dead one had handed to the kernel is there, and nothing else."""
    copy_as_left(directory / "store", directory / "after")
    engine.close()
    return RocksEngine(directory / "after")


def raw(directory: Path) -> Rdict:
    return Rdict(str(directory), Options(raw_mode=True))


def test_a_write_puts_drops_and_keeps_state(engine: RocksEngine) -> None:
    plain: Engine = engine
    one, two = outbox_rows(*numbered(0, 1)), outbox_rows(*numbered(1, 1))
    plain.write(Changes(puts=[(SHELF, 5, one), (SHELF, 2, two)], state={("s",): 7}, notes=[(SHELF, 3, 4), (SHELF, 9, 1)]))
    assert list(plain.numbers(SHELF)) == [2, 5]
    assert numbers(plain.read(SHELF, 5)) == [0]
    assert plain.state(("s",)) == 7
    plain.write(Changes(drops=[(SHELF, 5)], notes=[(SHELF, 9, None)]))
    assert list(plain.numbers(SHELF)) == [2]
    assert list(plain.notes(SHELF)) == [(3, 4)]
    with pytest.raises(KeyError):
        plain.read(SHELF, 5)


def test_states_are_bytes_or_json_and_are_found_by_the_beginning_of_their_names(engine: RocksEngine, tmp_path: Path) -> None:
    states: dict[tuple[str, ...], object] = {
        ("ids", "b", "1"): b"\0\x01{",
        ("ids", "b", "0"): b"",
        ("ids", "a"): {"n": 1},
        ("idsx", "b"): [],
        ("gone", "b"): 1,
    }
    engine.write(Changes(state=states, later={("gone", "c"): 1}))
    engine.write(Changes(state={("gone", "b"): None, ("gone", "c"): None}))
    for each in (engine, after_crash(engine, tmp_path)):
        assert list(each.states(("ids", "b"))) == [(("ids", "b", "0"), b""), (("ids", "b", "1"), b"\0\x01{")]
        assert dict(each.states(("ids",))) == {name: state for name, state in states.items() if name[0] == "ids"}
        assert each.state(("gone", "b")) is None
        assert list(each.states(("gone",))) == []


def test_everything_written_is_there_after_a_crash(engine: RocksEngine, tmp_path: Path) -> None:
    batch = stored_rows(*numbered(0, 300, user_properties=[{"key": "k", "value": "v"}]))
    engine.write(Changes(puts=[(SHELF, 7, batch)], state={("s", "x"): [1, "a"]}, notes=[(SHELF, 7, 2)]))
    again = after_crash(engine, tmp_path)
    assert again.incarnation == engine.incarnation
    assert again.read(SHELF, 7).equals(batch)
    assert again.state(("s", "x")) == [1, "a"]
    assert list(again.notes(SHELF)) == [(7, 2)]
    again.close()


def test_rows_of_qos_0_are_read_in_their_places_and_are_holes_after_a_crash(engine: RocksEngine, tmp_path: Path) -> None:
    rows = [{"payload": str(n).encode(), "qos": n % 3} for n in range(10)]
    engine.write(Changes(puts=[(SHELF, 0, outbox_rows(*rows)), (SHELF, 10, outbox_rows(*numbered(10, 2, qos=0)))]))
    engine._cache.clear()
    assert numbers(engine.read(SHELF, 0)) == list(range(10))
    assert numbers(engine.read(SHELF, 10)) == [10, 11]
    assert list(engine.numbers(SHELF)) == [0, 10]
    again = after_crash(engine, tmp_path)
    assert list(again.numbers(SHELF)) == [0]
    [(_, shape)] = again.shapes(SHELF)
    assert shape.rows == 10
    assert shape.present is not None
    assert shape.present.tolist() == [n % 3 > 0 for n in range(10)]
    found = again.read(SHELF, 0).column("payload").to_pylist()
    assert found == [str(n).encode() if n % 3 else None for n in range(10)]
    again.close()


def test_rows_of_qos_0_never_reach_the_disk(engine: RocksEngine, tmp_path: Path) -> None:
    secret = b"never to be found on any disk"
    engine.write(Changes(puts=[(SHELF, 0, outbox_rows({"payload": secret, "qos": 0}, {"payload": b"kept", "qos": 1}))]))
    engine.write(Changes(puts=[(SHELF, 2, outbox_rows({"payload": secret, "qos": 0}))]))
    engine.close()
    files = [path.read_bytes() for path in (tmp_path / "store").iterdir() if path.is_file()]
    assert any(b"kept" in content for content in files)
    assert not any(secret in content for content in files)


def test_a_write_of_qos_0_alone_waits_for_no_disk(engine: RocksEngine) -> None:
    told: list[int] = []
    engine.write(Changes(puts=[(SHELF, 0, outbox_rows({"qos": 0}))], later={("consumed", "x"): 5}))
    engine.when_synced(lambda: told.append(1))
    assert told == [1]
    assert engine.state(("consumed", "x")) == 5


def test_what_may_come_later_comes_with_the_next_write(engine: RocksEngine, tmp_path: Path) -> None:
    engine.write(Changes(later={("consumed", "x"): 5}))
    engine.write(Changes(puts=[(SHELF, 0, outbox_rows({}))]))
    again = after_crash(engine, tmp_path)
    assert again.state(("consumed", "x")) == 5
    again.close()


async def test_callbacks_come_after_the_sync_in_order_and_one_sync_serves_many(engine: RocksEngine) -> None:
    disk = HeldDisk(engine)
    told: list[int] = []
    done = asyncio.Event()
    for number in range(50):
        qos = number % 2  # rows of QoS 0 wait behind those that are not safe yet
        engine.write(Changes(puts=[(SHELF, number, outbox_rows({"qos": 1 - qos}))]))
        engine.when_synced(lambda number=number: told.append(number))
    await disk.begun.wait()
    engine.write(Changes(puts=[(SHELF, 50, outbox_rows({}))]))
    engine.when_synced(lambda: told.append(50))
    engine.when_synced(done.set)
    assert told == []
    disk.let_go()
    await done.wait()
    assert told == list(range(51))
    assert disk.syncs == 2


async def test_without_syncs_there_is_time_for_everything_at_once(tmp_path: Path) -> None:
    engine = RocksEngine(tmp_path / "unsynced", sync=False)
    told: list[int] = []
    engine.while_syncing(lambda: told.append(1))
    assert told == [1]
    engine.close()


async def test_whoever_waits_between_syncs_comes_after_those_who_are_safe_and_is_part_of_the_next(engine: RocksEngine) -> None:
    disk, told, done = HeldDisk(engine), list[str](), asyncio.Event()

    def next_turn() -> None:
        told.append("between")
        safe = [lambda: told.append("second safe"), done.set]
        engine.write(Changes(puts=[(SHELF, 1, outbox_rows({}))], when_safe=safe))

    engine.between_syncs(lambda: told.append("at once"))
    engine.write(Changes(puts=[(SHELF, 0, outbox_rows({}))], when_safe=[lambda: told.append("first safe")]))
    engine.between_syncs(next_turn)
    assert told == ["at once"]
    disk.let_go()
    await asyncio.wait_for(done.wait(), 30)
    assert told == ["at once", "first safe", "between", "second safe"]


async def test_after_a_failed_sync_nobody_is_told_anything(engine: RocksEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise OSError("no space")

    monkeypatch.setattr(engine._store, "end_flush", broken)
    failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
    engine.on_failure = failed.set_result
    told: list[int] = []
    engine.write(Changes(puts=[(SHELF, 0, outbox_rows({}))]))
    engine.when_synced(lambda: told.append(1))
    assert str(await failed) == "no space"
    engine.when_synced(lambda: told.append(2))
    assert told == []


async def test_after_a_failed_write_nobody_is_told_that_what_was_written_before_is_safe(
    engine: RocksEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A PUBREL whose id could not be taken off the disk would be answered: the remote gives the id to a new message, which the
    next life takes for the old one.
    """
    engine.write(Changes(state={("s",): 1}))
    await synced(engine)

    def full(changes: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(engine._store, "write", full)
    with pytest.raises(StorageError, match="No space"):
        engine.write(Changes(state={("s",): 2}))
    told: list[str] = []
    engine.when_synced(lambda: told.append("safe"))
    await asyncio.sleep(0)
    assert told == []


async def test_a_sync_of_which_nobody_has_heard_yet_does_not_keep_an_engine_from_closing(tmp_path: Path) -> None:
    engine = RocksEngine(tmp_path / "store")
    told: list[int] = []
    disk = HeldDisk(engine)
    engine.write(Changes(puts=[(SHELF, 0, outbox_rows({}))], when_safe=[lambda: told.append(1)]))
    disk.let_go()
    await disk.begun.wait()
    engine.close()
    await asyncio.sleep(0.01)  # a turn of the loop in which nothing happens any more
    assert told == []
    again = RocksEngine(tmp_path / "store")
    assert list(again.numbers(SHELF)) == [0]
    again.close()


async def test_what_a_large_write_moves_to_rocksdb_moves_in_pieces_between_turns_of_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "PIECE_BYTES", 10_000)
    engine = RocksEngine(tmp_path / "store", front_bytes=100_000)
    moving = engine._store._overlay._moving
    number = 0
    while not moving:
        number += 1
        engine.write(Changes(state={("s", str(number)): "x" * 1000}))
    await synced(engine)
    engine.write(Changes(state={("large",): "x" * 60_000}))
    left = [len(moving)]
    while moving:
        await asyncio.sleep(0)  # a turn of the loop
        left.append(len(moving))
    assert all(before - after <= 11 for before, after in pairwise(left))
    assert len(left) >= 9
    engine.close()


async def test_a_move_that_fails_between_turns_is_told_as_any_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "PIECE_BYTES", 10_000)
    engine = RocksEngine(tmp_path / "store", front_bytes=100_000)
    told: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
    engine.on_failure = told.set_result
    number = 0
    while not engine._store._overlay.is_moving:
        number += 1
        engine.write(Changes(state={("s", str(number)): "x" * 1000}))
    await synced(engine)
    engine.write(Changes(state={("large",): "x" * 60_000}))

    def full(size: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(engine._store, "_put_down", full)
    assert "No space" in str(await told)
    with pytest.raises(StorageError, match="storage has failed"):
        engine.write(Changes(state={("s",): 1}))
    engine.close()


def test_without_sync_the_page_cache_is_safe_enough(tmp_path: Path) -> None:
    engine = RocksEngine(tmp_path / "store", sync=False)
    told: list[int] = []
    engine.write(Changes(puts=[(SHELF, 0, outbox_rows({}))]))
    engine.when_synced(lambda: told.append(1))
    assert told == [1]
    engine.close()


def test_a_second_node_on_the_directory_is_refused_in_one_line(engine: RocksEngine, tmp_path: Path) -> None:
    with pytest.raises(StartError, match="is in use by another node"):
        RocksEngine(tmp_path / "store")


def test_a_node_in_another_process_is_refused_as_well(engine: RocksEngine, tmp_path: Path) -> None:
    code = "import pathlib, sys; from bridgehead.storage.rocks import RocksEngine; RocksEngine(pathlib.Path(sys.argv[1]))"
    command = [sys.executable, "-c", code, str(tmp_path / "store")]
    other = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "StartError" in other.stderr
    assert "is in use by another node" in other.stderr


@pytest.mark.parametrize("version", [str(FORMAT - 1).encode(), str(FORMAT + 1).encode(), b"what"])
def test_another_format_is_refused(tmp_path: Path, version: bytes) -> None:
    RocksEngine(tmp_path / "store").close()
    db = raw(tmp_path / "store")
    db[FORMAT_KEY] = version
    db.close()
    with pytest.raises(StartError, match=f"has the format {version.decode()}"):
        RocksEngine(tmp_path / "store")


def test_data_of_something_else_is_refused(tmp_path: Path) -> None:
    db = raw(tmp_path / "store")
    db[b"foreign"] = b"data"
    db.close()
    with pytest.raises(StartError, match="something else"):
        RocksEngine(tmp_path / "store")


def test_a_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StartError, match="cannot be opened"):
        RocksEngine(tmp_path / "file" / "store")


def test_damage_that_happens_while_we_run_ends_everything_and_is_never_read(engine: RocksEngine) -> None:
    engine.write(Changes(puts=[(SHELF, 4, outbox_rows(*numbered(0, 3)))]))
    engine._cache.clear()
    engine._store.settle()
    engine._store.db[numbered_key(Kind.BATCH, SHELF, 4)] = b"12345"
    failed: list[BaseException] = []
    engine.on_failure = failed.append
    with pytest.raises(StorageError, match="batch 4"):
        engine.read(SHELF, 4)
    assert len(failed) == 1
    with pytest.raises(StorageError, match="nothing is written"):
        engine.write(Changes(notes=[(SHELF, 1, 1)]))


def test_a_failure_is_told_once_and_what_is_asked_for_behind_it_is_refused_in_words(tmp_path: Path) -> None:
    engine = RocksEngine(tmp_path / "store")
    engine.write(Changes(puts=[(SHELF, 4, outbox_rows(*numbered(0, 3)))]))
    engine._cache.clear()
    failed: list[BaseException] = []
    engine.on_failure = failed.append
    engine._failed(OSError("the disk is gone"))
    engine.close()
    with pytest.raises(StorageError, match="the front log is closed"):
        engine.read(SHELF, 4)
    assert len(failed) == 1


def test_the_cache_is_bounded_by_what_batches_take_in_ram_and_not_on_the_disk(engine: RocksEngine) -> None:
    batch = outbox_rows({"payload": bytes(8 << 20)})
    for number in range(10):
        engine.write(Changes(puts=[(SHELF, number, batch)]))
    assert engine._cached <= rocks.CACHE_BYTES
    assert len(engine._cache) < 10
    for number in range(10):
        assert engine.read(SHELF, number).equals(batch)
    assert engine._cached <= rocks.CACHE_BYTES
    assert len(engine._cache) < 10


@pytest.mark.parametrize("shelf", [(), ("",), ("a", "b"), ("a/b",), ("ab",), ("a", "", "b"), ("ä" * 300,)])
def test_a_key_gives_its_shelf_and_number_back_whatever_the_name_holds(shelf: tuple[str, ...]) -> None:
    key = numbered_key(Kind.BATCH, shelf, 2**40)
    assert number_of(key) == 2**40
    assert shelf_of(shelf_key(Kind.STATE, shelf)) == shelf


def test_numbers_sort_as_bytes_and_no_shelf_begins_another() -> None:
    keys = [numbered_key(Kind.INDEX, SHELF, number) for number in (0, 1, 255, 256, 2**32, 2**63)]
    assert keys == sorted(keys)
    shelves = [("a",), ("a", "b"), ("ab",), ("a", "b", ""), ("",), ()]
    for one in shelves:
        for other in shelves:
            if one != other:
                assert not shelf_key(Kind.INDEX, one).startswith(shelf_key(Kind.INDEX, other))
