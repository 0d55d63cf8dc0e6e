"""Backup and restore of a store: one moment, checked on its way back, and a life of its own afterwards."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridgehead.errors import CommandError, StartError
from bridgehead.storage.backup import MANIFEST, STORE, back_up, restore_backup
from bridgehead.storage.engine import Changes
from bridgehead.storage.outbox import Outbox
from bridgehead.storage.rocks import RocksEngine
from bridgehead.storage.values import FORMAT
from making.damage import flip_bit
from making.rows import numbered, numbers, outbox_rows

MUCH = 1 << 30


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[RocksEngine]:
    engine = RocksEngine(tmp_path / "a" / "store")
    yield engine
    engine.close()


def land(engine: RocksEngine, outbox: Outbox, first: int, count: int) -> None:
    changes = Changes()
    outbox.land(changes, outbox_rows(*numbered(first, count)))
    engine.write(changes)
    outbox.landed()


def waiting(engine: RocksEngine) -> list[int]:
    outbox, rows = Outbox("r", engine, MUCH, MUCH), []
    while (polled := outbox.poll(1000)) is not None:
        rows += numbers(polled.batch)
    return rows


def take_backup(engine: RocksEngine, destination: Path, node: str) -> dict[str, Any]:
    return asyncio.run(back_up(engine, destination, node))


def restored(source: Path, to: Path, *, replace: bool = False) -> RocksEngine:
    restore_backup(source, to / "store", replace=replace)
    return RocksEngine(to / "store")


def test_a_backup_is_the_moment_it_was_taken_at(engine: RocksEngine, tmp_path: Path) -> None:
    outbox = Outbox("r", engine, MUCH, MUCH)
    land(engine, outbox, 0, 300)
    engine._store.settle()
    engine._store.db.flush()
    land(engine, outbox, 300, 10)
    manifest = take_backup(engine, tmp_path / "backup", "edge")
    land(engine, outbox, 310, 10)
    assert manifest["node"] == "edge"
    assert manifest["incarnation"] == engine.incarnation
    assert json.loads((tmp_path / "backup" / MANIFEST).read_text()) == manifest
    again = restored(tmp_path / "backup", tmp_path / "b")
    assert waiting(again) == list(range(310))
    again.close()
    assert waiting(engine) == list(range(320)), "the store itself goes on"


def test_nothing_else_is_left_beside_the_store(engine: RocksEngine, tmp_path: Path) -> None:
    take_backup(engine, tmp_path / "backup", "edge")
    assert {path.name for path in (tmp_path / "a").iterdir()} == {"store", "store.lock"}
    assert {path.name for path in tmp_path.iterdir()} == {"a", "backup"}


def test_a_restored_store_gives_no_number_twice_and_forgets_what_was_half_way(engine: RocksEngine, tmp_path: Path) -> None:
    outbox = Outbox("r", engine, MUCH, MUCH)
    land(engine, outbox, 0, 5)
    kept = {("ledger", "r"): b"kept", ("session", "c"): {"expiry": 5}}
    void = {("ids", "bridge", "0"): b"1", ("inbound", "client", "c", "3"): b"1"}
    engine.write(Changes(state={**kept, **void}))
    take_backup(engine, tmp_path / "backup", "edge")
    again = restored(tmp_path / "backup", tmp_path / "b")
    assert again.incarnation != engine.incarnation
    assert Outbox("r", again, MUCH, MUCH).end > engine.state(("ceiling", "outbox", "r"))
    assert [again.state(name) for name in kept] == list(kept.values())
    assert [again.state(name) for name in void] == [None, None]
    again.close()


def test_a_destination_that_exists_is_refused(engine: RocksEngine, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(CommandError, match="exists already"):
        take_backup(engine, tmp_path / "there", "edge")
    with pytest.raises(CommandError, match="not a directory"):
        take_backup(engine, tmp_path / "nowhere" / "there", "edge")


def test_a_store_in_use_is_not_replaced(engine: RocksEngine, tmp_path: Path) -> None:
    take_backup(engine, tmp_path / "backup", "edge")
    with pytest.raises(StartError, match="in use"):
        restore_backup(tmp_path / "backup", tmp_path / "a" / "store", replace=True)


def test_a_store_that_is_there_is_only_replaced_when_asked_for_and_then_set_aside(engine: RocksEngine, tmp_path: Path) -> None:
    take_backup(engine, tmp_path / "backup", "edge")
    other = RocksEngine(tmp_path / "b" / "store")
    land(other, Outbox("r", other, MUCH, MUCH), 7, 1)
    other.close()
    with pytest.raises(CommandError, match="--replace"):
        restore_backup(tmp_path / "backup", tmp_path / "b" / "store", replace=False)
    again = restored(tmp_path / "backup", tmp_path / "b", replace=True)
    assert waiting(again) == []
    again.close()
    [aside] = (tmp_path / "b").glob("store.replaced-*")
    old = RocksEngine(aside)
    assert waiting(old) == [7]
    old.close()


def test_a_damaged_backup_is_refused_and_changes_nothing(engine: RocksEngine, tmp_path: Path) -> None:
    land(engine, Outbox("r", engine, MUCH, MUCH), 0, 100)
    take_backup(engine, tmp_path / "backup", "edge")
    table = next((tmp_path / "backup" / STORE).glob("*.sst"))
    flip_bit(table, 100)
    with pytest.raises(CommandError, match="checksum does not fit"):
        restore_backup(tmp_path / "backup", tmp_path / "b" / "store", replace=False)
    assert not (tmp_path / "b" / "store").exists()
    table.unlink()
    with pytest.raises(CommandError, match="is not whole"):
        restore_backup(tmp_path / "backup", tmp_path / "b" / "store", replace=False)


@pytest.mark.parametrize(
    ("manifest", "complaint"),
    [
        (None, "is not a backup"),
        ("{", "is not a backup"),
        ("[]", "is not a backup"),
        ('{"format": 1, "files": {}}', "has the format 1"),
        (f'{{"format": {FORMAT}, "files": {{"../x": {{}}}}}}', "names files elsewhere"),
    ],
)
def test_what_is_not_a_backup_of_this_format_is_refused(tmp_path: Path, manifest: str | None, complaint: str) -> None:
    source = tmp_path / "backup"
    source.mkdir()
    if manifest is not None:
        (source / MANIFEST).write_text(manifest)
    with pytest.raises(CommandError, match=complaint):
        restore_backup(source, tmp_path / "b" / "store", replace=False)
