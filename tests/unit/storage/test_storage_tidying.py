"""The room of what has left is given back: a dataDir does not grow with what went through it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from random import Random

import numpy as np
import pytest

from bridgehead.storage import opening, tidying
from bridgehead.storage.engine import Changes
from bridgehead.storage.outbox import Outbox
from bridgehead.storage.rocks import RocksEngine
from making.rows import outbox_rows
from support.waiting import until

MUCH = 1 << 40
PAYLOAD = Random(1).randbytes(100_000)  # nothing squeezes it
ROWS = 120


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidying, "WORTH_IT", 1 << 20)
    monkeypatch.setattr(opening, "WRITE_BUFFER", 1 << 20)


def disk(directory: Path) -> int:
    size = 0
    for path in directory.glob("*.sst"):
        with suppress(FileNotFoundError):  # just given back
            size += path.stat().st_size
    return size


def fill(engine: RocksEngine, outbox: Outbox, rows: int) -> None:
    for _ in range(rows):
        changes = Changes()
        outbox.land(changes, outbox_rows({"payload": PAYLOAD}))
        engine.write(changes)
    outbox.landed()


def drain(outbox: Outbox, rows: int) -> None:
    for _ in range(rows):
        polled = outbox.poll(1)
        assert polled is not None
        outbox.acknowledge(np.arange(polled.first, polled.first + polled.rows))


def test_after_a_backlog_has_drained_its_room_is_free(tmp_path: Path) -> None:
    engine = RocksEngine(tmp_path / "store", sync=False, front_bytes=1 << 20)
    outbox = Outbox("r", engine, MUCH, MUCH)
    for _ in range(3):
        fill(engine, outbox, ROWS)
        assert disk(tmp_path / "store") > 6 << 20
        drain(outbox, ROWS)
        until(lambda: disk(tmp_path / "store") < 3 << 20, "the room is given back")
    engine.close()


def test_what_an_earlier_life_has_stored_counts(tmp_path: Path) -> None:
    engine = RocksEngine(tmp_path / "store", sync=False, front_bytes=1 << 20)
    fill(engine, Outbox("r", engine, MUCH, MUCH), ROWS)
    engine.close()
    engine = RocksEngine(tmp_path / "store", sync=False, front_bytes=1 << 20)
    drain(Outbox("r", engine, MUCH, MUCH), ROWS)
    until(lambda: disk(tmp_path / "store") < 3 << 20, "the room is given back")
    engine.close()


def test_while_much_is_alive_little_that_is_dead_stays(tmp_path: Path) -> None:
    engine = RocksEngine(tmp_path / "store", sync=False, front_bytes=1 << 20)
    outbox = Outbox("r", engine, MUCH, MUCH)
    fill(engine, outbox, 100)
    drain(outbox, 40)
    assert engine._store.tidying._latest is None
    drain(outbox, 20)
    assert engine._store.tidying._latest is not None
    engine.close()


def test_when_space_is_short_little_is_worth_it_too(tmp_path: Path) -> None:
    engine = RocksEngine(tmp_path / "store", sync=False, front_bytes=1 << 20)
    outbox = Outbox("r", engine, MUCH, MUCH)
    fill(engine, outbox, ROWS)
    engine.give_back()
    assert engine._store.tidying._latest is None, "nothing was deleted"
    drain(outbox, 1)
    engine.give_back()
    assert engine._store.tidying._latest is not None
    engine.close()
