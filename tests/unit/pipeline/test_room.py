"""How much room a route has: what waits in the journal counts as what the rules will make of it."""

from __future__ import annotations

import numpy as np
import pytest

from bridgehead.columns.batches import constant_label
from bridgehead.pipeline import room
from bridgehead.pipeline.gate import Gate
from bridgehead.pipeline.inline import InlineEngine
from bridgehead.pipeline.room import Room
from bridgehead.pipeline.rules import RouteRules
from bridgehead.storage.engine import Changes
from bridgehead.storage.journal import SHARED, Journal
from bridgehead.storage.memory import MemoryEngine
from bridgehead.storage.outbox import Outbox
from making.rows import numbered, stored_rows, wire_rows

MUCH = 1 << 40
MADE = 64 + len("up/t") + 1 + len("k" + "v" * 100) + len("id" + "edge:shared:1")
RULES = RouteRules("r", destination="up/{#}", user_properties=(("k", "v" * 100),), count_hops=False, message_id=("id", "edge"))


class House:
    """The room of route ``r``, whose log has rows of others as well; a row of one digit in it becomes MADE bytes."""

    def __init__(self, max_bytes: int, rules: RouteRules | None = RULES) -> None:
        self.engine = MemoryEngine()
        self.journal = Journal(self.engine, MUCH)
        self.log = self.journal.log(SHARED)
        self.outboxes = {name: Outbox(name, self.engine, MUCH, max_bytes, strategy="refuse") for name in ("r", "else")}
        self.room = Room(self.outboxes["r"], self.journal, rules)
        gate = Gate(self.engine, self.journal, self.outboxes)
        self.inline = InlineEngine(self.engine, gate.landing, self.log, [RULES, RouteRules("else")])

    def wait(self, rows: int, route: str = "r", size: int = 1) -> None:
        changes = Changes()
        self.log.append(changes, stored_rows(*({"route": route, "payload": bytes(size)} for _ in range(rows))))
        self.engine.write(changes)

    def fitting(self, rows: int) -> int:
        batch = wire_rows(*numbered(0, rows))
        return self.room.fitting(self.room.weights(batch, constant_label("c", rows), self.log))

    def surely_fits(self, rows: int) -> bool:
        return self.room.surely_fits(rows, rows * (64 + 2), self.log)


@pytest.mark.parametrize("waiting", [0, 3, 5, 9])
def test_what_waits_takes_the_room_that_it_will_need(waiting: int) -> None:
    house = House(5 * MADE)
    house.wait(waiting)
    assert house.fitting(5) == max(5 - waiting, 0)


def test_every_row_counts_once_wherever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridgehead.pipeline.inline.MAX_ROWS", 2)
    monkeypatch.setattr(room, "TOGETHER", 3)
    house = House(9 * MADE)
    for rows, left in ((1, 8), (1, 7), (3, 4)):
        house.wait(rows)
        assert house.fitting(9) == left
    house.log.publish()
    while house.inline.run():
        assert house.fitting(9) == 4
    house.wait(2)
    assert (house.outboxes["r"].depth, house.log.waiting, house.fitting(9)) == (5, 2, 2)
    while (polled := house.outboxes["r"].poll(5)) is not None:
        house.outboxes["r"].acknowledge(polled.seqs)
    assert house.fitting(9) == 7


def test_rows_of_others_in_the_same_log_take_none() -> None:
    house = House(5 * MADE)
    house.wait(1)
    house.wait(1, "else", 100_000)
    house.wait(1)
    assert house.fitting(5) == 3


def test_behind_a_transform_a_row_counts_as_it_came() -> None:
    house = House(5 * (64 + 2), rules=None)
    house.wait(2)
    assert (house.fitting(5), house.surely_fits(3), house.surely_fits(4)) == (3, True, False)


def test_what_surely_fits_needs_no_look_at_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(1 << 20)
    house.wait(5)
    monkeypatch.setattr(house.log, "read", None)
    assert house.surely_fits(5)
    assert not house.surely_fits(20), "a topic may be so long"


def test_a_long_backlog_is_weighed_before_its_route_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "STEP_BYTES", 1000)
    house = House(1 << 40)
    house.wait(10)
    assert house.surely_fits(1)
    house.wait(10)
    assert not house.surely_fits(1)
    assert house.fitting(1) == 1
    assert house.surely_fits(1), "until there is as much again"
    house.wait(20)
    assert not house.surely_fits(1)


def test_ids_are_as_long_as_their_offsets() -> None:
    house = House(MUCH)
    house.wait(95)
    batch = wire_rows(*numbered(0, 7, payload=b""))
    weights = house.room.weights(batch, constant_label("c", 7), house.log)
    assert np.diff(weights).tolist() == [0, 0, 0, 0, 1, 0]
