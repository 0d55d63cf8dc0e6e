"""The inline engine moves the same rows as Spark does, in turns."""

from __future__ import annotations

import pytest

from bridgehead.columns.batches import Batch
from bridgehead.pipeline import inline
from bridgehead.pipeline.gate import Gate
from bridgehead.pipeline.inline import InlineEngine
from bridgehead.pipeline.rules import RouteRules
from bridgehead.storage.engine import Changes
from bridgehead.storage.journal import SHARED, Journal
from bridgehead.storage.memory import MemoryEngine
from bridgehead.storage.outbox import Outbox
from spark.host import UNBOUNDED, stored_rows


class House:
    def __init__(self, destination: str | None = None) -> None:
        self.engine = MemoryEngine()
        self.log = (journal := Journal(self.engine, UNBOUNDED)).log(SHARED)
        self.outboxes = {route: Outbox(route, self.engine, UNBOUNDED, UNBOUNDED) for route in ("a", "b")}
        self.gate = Gate(self.engine, journal, self.outboxes)
        rules = [RouteRules(route, destination=destination or f"{route}/{{#}}") for route in self.outboxes]
        self.inline = InlineEngine(self.engine, self.gate.landing, self.log, rules)

    def append(self, batch: Batch, publish: bool = True) -> None:
        changes = Changes()
        self.log.append(changes, batch)
        self.engine.write(changes)
        if publish:
            self.log.publish()

    def landed(self, route: str, column: str) -> list[object]:
        taken: list[object] = []
        while (polled := self.outboxes[route].poll(1 << 20)) is not None:
            taken += polled.batch.column(column).to_pylist()
        return taken


def numbered(rows: int, first: int = 0) -> list[bytes]:
    return [b"%d" % i for i in range(first, first + rows)]


def test_rows_of_several_routes_land_in_order_with_their_rules_applied() -> None:
    house = House()
    for first in range(0, 100, 10):
        house.append(stored_rows(numbered(10, first), ["t"], ["a", "b"]))
    assert house.inline.run() == 100
    assert house.landed("a", "payload") == numbered(100)[::2]
    assert set(house.landed("b", "topic")) == {"b/t"}
    assert not house.inline.has_work
    assert house.inline.run() == 0


def test_what_was_moved_leaves_the_journal() -> None:
    house = House()
    house.append(stored_rows(numbered(10), ["t"], ["a"]))
    house.inline.run()
    assert house.log.weight == 0
    assert house.log.consumed == 10


def test_one_turn_takes_a_bounded_bite() -> None:
    house = House()
    for _ in range(3):
        house.append(stored_rows([b"x"] * inline.MAX_ROWS, ["t"], ["a"]))
    assert [house.inline.run() for _ in range(4)] == [inline.MAX_ROWS] * 3 + [0]


def test_rows_whose_promise_is_not_kept_yet_stay() -> None:
    house = House()
    house.append(stored_rows(numbered(1), ["t"], ["a"]), publish=False)
    assert not house.inline.has_work
    assert house.inline.run() == 0
    house.log.publish()
    assert house.inline.run() == 1


def test_rows_that_find_the_log_empty_land_in_the_write_that_brings_them() -> None:
    house = House()
    changes = Changes()
    assert house.inline.pass_through(changes, stored_rows(numbered(3), ["t"], ["a"]))
    assert house.inline.pass_through(changes, stored_rows(numbered(2), ["t"], ["b"]))
    assert [shelf for shelf, _, _ in changes.puts] == [("outbox", "a"), ("outbox", "b")]
    assert not house.outboxes["a"].has_waiting  # nothing is sent before it is written
    house.engine.write(changes)
    assert (house.log.end, house.log.consumed, house.log.visible, house.log.waiting) == (5, 5, 5, 0)
    assert house.landed("a", "payload") == numbered(3)
    assert house.landed("b", "topic") == ["b/t"] * 2


def test_rows_of_many_routes_land_each_in_the_outbox_of_its_own() -> None:
    house = House()
    changes = Changes()
    assert house.inline.pass_through(changes, stored_rows(numbered(5), ["t"], ["a", "b"]))
    house.engine.write(changes)
    assert (house.landed("a", "payload"), house.landed("b", "payload")) == (numbered(5)[::2], numbered(5)[1::2])
    assert {route: outbox.ledger.consumed for route, outbox in house.outboxes.items()} == {"a": 3, "b": 2}


def test_rows_do_not_pass_others_that_wait_in_the_log() -> None:
    house = House()
    house.append(stored_rows(numbered(3), ["t"], ["a"]))
    changes = Changes()
    late = stored_rows(numbered(2, 3), ["t"], ["a"])
    assert not house.inline.pass_through(changes, late)
    assert not changes.puts
    house.append(late)
    house.inline.run()
    assert house.inline.pass_through(changes, stored_rows(numbered(1, 5), ["t"], ["a"]))
    house.engine.write(changes)
    assert house.landed("a", "payload") == numbered(6)


def test_rows_that_the_rules_cannot_take_wait_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House()
    monkeypatch.setattr(inline, "applied", lambda *_: 1 / 0)
    changes = Changes()
    assert not house.inline.pass_through(changes, stored_rows(numbered(1), ["t"], ["a"]))
    assert not changes.puts
    assert house.log.end == 0


def test_a_row_without_a_destination_is_a_dead_letter_and_the_others_land() -> None:
    house = House("{2}")
    changes = Changes()
    rows = stored_rows(numbered(4), ["x/y", "x"], ["a"])
    assert not house.inline.pass_through(changes, rows), "it is counted where rows are consumed"
    assert not changes.puts
    house.append(rows)
    assert house.inline.run() == 4
    assert house.landed("a", "payload") == numbered(4)[::2]
    outbox = house.outboxes["a"]
    [(_, dead)] = outbox.dead.rows()
    assert dead.column("topic").to_pylist() == ["x", "x"], "as it came"
    assert outbox.dead_lettered == {"no-destination": 2}
    assert outbox.entered == 4
