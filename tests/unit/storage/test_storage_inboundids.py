"""QoS 2 packet ids on the disk: what was written is found again, what was released is gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bridgehead.storage.engine import Changes
from bridgehead.storage.inboundids import IDS, PAGE, InboundIds
from bridgehead.storage.memory import MemoryEngine
from bridgehead.storage.rocks import RocksEngine

NAME = ("inbound", "uplink", "b", "edge")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[RocksEngine]:
    engine = RocksEngine(tmp_path / "store")
    yield engine
    engine.close()


def mark(ids: InboundIds, value: int, *which: int) -> None:
    ids.marks[list(which)] = value
    ids.changed(min(which), max(which) + 1)


def write(engine: RocksEngine, ids: InboundIds) -> Changes:
    changes = Changes()
    ids.write(changes)
    engine.write(changes)
    return changes


def test_marks_that_were_written_are_found_again(engine: RocksEngine) -> None:
    ids = InboundIds(engine, NAME)
    mark(ids, 1, 1, PAGE - 1, PAGE, IDS - 1)
    write(engine, ids)
    assert InboundIds(engine, NAME).marks.nonzero()[0].tolist() == [1, PAGE - 1, PAGE, IDS - 1]
    assert not InboundIds(engine, (*NAME[:-1], "another client id")).marks.any()


def test_only_pages_that_differ_are_written_and_an_empty_one_is_taken_away(engine: RocksEngine) -> None:
    ids = InboundIds(engine, NAME)
    mark(ids, 1, 5, PAGE + 5)
    assert len(write(engine, ids).state) == 2
    mark(ids, 0, 5)
    assert list(write(engine, ids).state.values()) == [None]
    mark(ids, 1, 7)
    mark(ids, 0, 7)  # published and released in one turn
    assert write(engine, ids).state == {}
    assert len(list(engine.states(NAME))) == 1


def test_a_session_that_is_over_leaves_nothing(engine: RocksEngine) -> None:
    ids = InboundIds(engine, NAME)
    mark(ids, 1, 5, 40_000)
    write(engine, ids)
    changes = Changes()
    ids.forget(changes)
    engine.write(changes)
    assert not ids.marks.any()
    assert list(engine.states(NAME)) == []


def test_nothing_is_written_where_nothing_outlives_the_process(engine: RocksEngine) -> None:
    for ids in (InboundIds(MemoryEngine(), NAME), InboundIds(engine, NAME, kept=False)):
        ids.marks[5] = 1
        assert not ids.changed(5, 6)
        changes = Changes()
        ids.write(changes)
        assert changes == Changes()


def test_a_change_that_a_failed_turn_did_not_write_is_due_with_the_next_one(engine: RocksEngine) -> None:
    ids = InboundIds(engine, NAME)
    mark(ids, 1, 5)
    assert ids.changed(0, 0)
    write(engine, ids)
    assert not ids.changed(0, 0)
