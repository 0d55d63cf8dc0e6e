"""The ledger of a route: what is kept goes on after a restart, what is not starts anew, damage is a drop."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bridgehead.storage.engine import Changes
from bridgehead.storage.ledger import Ledger, Tally
from bridgehead.storage.memory import MemoryEngine
from bridgehead.storage.outbox import Outbox
from bridgehead.storage.rocks import RocksEngine
from making.rows import outbox_rows

MUCH = 1 << 30


class Life:
    """An outbox and its ledger on a directory, until the end."""

    def __init__(self, directory: Path, max_rows: int = 1000) -> None:
        self.engine = RocksEngine(directory, sync=False)
        self.ledger = Ledger("r", self.engine)
        self.outbox = Outbox("r", self.engine, max_rows, MUCH, self.ledger)

    def land(self, *qos: int) -> None:
        changes = Changes()
        self.ledger.receive(len(qos), sum(1 for each in qos if each))
        self.ledger.consume(len(qos), sum(1 for each in qos if each))
        self.outbox.land(changes, outbox_rows(*({"qos": each} for each in qos)))
        self.engine.write(changes)
        self.outbox.landed()

    def polled(self, rows: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        found = self.outbox.poll(rows)
        assert found is not None
        return np.arange(found.first, found.first + found.rows)


def test_numbers_of_tracked_rows_go_on_after_a_restart_and_those_of_qos_0_start_anew(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.land(1, 0, 2, 0, 1)
    life.outbox.acknowledge(life.polled(3))
    assert (life.ledger.entered, life.ledger.delivered, life.outbox.depth) == (5, 3, 2)
    life.engine.close()
    again = Life(tmp_path)
    assert (again.ledger.entered, again.ledger.delivered, again.outbox.depth) == (3, 2, 1)
    assert (again.ledger.received, again.ledger.consumed) == (3, 3)
    again.engine.close()


def test_drops_are_kept_by_reason(tmp_path: Path) -> None:
    life = Life(tmp_path, max_rows=3)
    life.land(1, 1, 0, 1, 0)
    assert life.outbox.dropped == {"queue-full": 2}
    life.outbox.drop(life.polled(1), "expired")
    assert life.outbox.dropped == {"queue-full": 2, "expired": 1}
    life.engine.close()
    again = Life(tmp_path)
    assert again.outbox.dropped == {"queue-full": 1, "expired": 1}
    assert again.ledger.entered == 3
    assert again.outbox.depth == 1
    again.engine.close()


def test_rows_that_are_not_found_again_are_dropped_as_damaged(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.land(1, 1, 1)
    life.land(2, 2)
    life.engine.write(Changes(drops=[(("outbox", "r"), 3)]))  # behind the outbox's back
    life.engine.close()
    again = Life(tmp_path)
    assert (again.ledger.entered, again.outbox.depth, again.ledger.dropped) == (5, 3, {"damaged": 2})
    again.ledger.found_in_journal(0)
    assert again.ledger.dropped_before == {}
    again.engine.close()


def test_rows_missing_in_the_journal_are_dropped_before(tmp_path: Path) -> None:
    engine = RocksEngine(tmp_path, sync=False)
    ledger = Ledger("r", engine)
    ledger.receive(7, 7)
    changes = Changes(state={("any",): 1})
    ledger.write(changes)
    engine.write(changes)
    again = Ledger("r", engine)
    again.found_in_journal(4)
    assert (again.received, again.dropped_before) == (7, {"damaged": 3})
    engine.close()


def test_a_store_without_a_ledger_begins_one_with_what_is_found(tmp_path: Path) -> None:
    engine = RocksEngine(tmp_path, sync=False)
    changes = Changes()
    Outbox("r", engine, 1000, MUCH).land(changes, outbox_rows({}, {}, {}))
    engine.write(changes)
    ledger = Ledger("r", engine)
    Outbox("r", engine, 1000, MUCH, ledger)
    ledger.found_in_journal(2)
    assert (ledger.received, ledger.consumed, ledger.entered) == (5, 3, 3)
    engine.close()


def test_who_is_turned_away_at_the_door_never_was_on_the_disk(tmp_path: Path) -> None:
    engine = RocksEngine(tmp_path, sync=False)
    ledger = Ledger("r", engine)
    ledger.turn_away("excluded", 3)
    changes = Changes()
    ledger.write(changes)
    assert changes.later == {}
    assert (ledger.received, ledger.dropped_before) == (3, {"excluded": 3})
    engine.close()


def test_in_memory_nothing_is_written() -> None:
    engine = MemoryEngine()
    ledger = Ledger("r", engine)
    ledger.receive(3, ledger.safe_rows(outbox_rows({}, {}, {})))
    changes = Changes()
    ledger.write(changes)
    assert changes == Changes()
    assert ledger.received == 3


def test_a_tally_survives_being_packed() -> None:
    tally = Tally(5, {"loop": 1}, 4, 4, 2, {"expired": 1}, {"refused": 1})
    assert Tally.unpack(tally.pack(tally.pack_reasons())) == tally
    assert Tally.unpack(Tally().pack(b"")) == Tally()


def test_an_outbox_of_which_nothing_at_all_is_left_has_lost_what_its_ledger_knows(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.land(1, 2)
    life.engine.write(Changes(drops=[(("outbox", "r"), 0)], state={("ceiling", "outbox", "r"): None}))
    life.engine.close()
    again = Life(tmp_path)
    assert (again.ledger.entered, again.ledger.dropped, again.outbox.depth) == (2, {"damaged": 2}, 0)
    again.engine.close()
