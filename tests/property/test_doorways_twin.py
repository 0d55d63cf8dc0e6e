"""All doors as one, and each for itself: the same rows of every route in the same order, and the same counters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.pipeline.door import Arrived, Door, DoorRule, timestamps
from bridgehead.pipeline.doorways import Doorways
from bridgehead.pipeline.hops import HOP_COUNT
from bridgehead.storage.engine import Changes
from bridgehead.storage.journal import Journal
from bridgehead.storage.ledger import Ledger
from bridgehead.storage.memory import MemoryEngine
from making.rows import numbered, wire_rows

MUCH = 1 << 30
doors_given = st.lists(
    st.tuples(st.sampled_from(["shared", "own"]), st.booleans(), st.sampled_from([None, 1, 2])), min_size=1, max_size=6
)


@dataclass(frozen=True)
class PlanOfDoors:
    doors: tuple[Door, ...]


class House:
    """Doors into logs, with nothing behind them."""

    def __init__(self, given: list[tuple[str, bool, int | None]]) -> None:
        self.engine = MemoryEngine()
        self.journal = Journal(self.engine, MUCH)
        self.doors = [
            Door(DoorRule(f"r{n}", "b", ("#",), (), persist, limit), self.journal.log(log), Ledger(f"r{n}"))
            for n, (log, persist, limit) in enumerate(given)
        ]

    def found(self) -> dict[str, Any]:
        rows: dict[str, list[Any]] = {door.rule.route: [] for door in self.doors}
        for log in self.journal.logs.values():
            log.publish()
            for _, batch in log.read(0, log.end):
                for row in batch.to_pylist():
                    rows[row.pop("route")].append(row)
        return {
            door.rule.route: (rows[door.rule.route], door.received, door.dropped, door.log.waiting_of.get(door.rule.route, 0))
            for door in self.doors
        }


def arrived(hops: list[int], first: int) -> Arrived:
    properties = [[{"key": HOP_COUNT, "value": str(hop)}] if hop else [] for hop in hops]
    each = [{**row, "qos": n % 3, "user_properties": own} for n, (row, own) in enumerate(zip(
        numbered(first, len(hops)), properties, strict=True))]  # fmt: skip
    clients = pa.array([f"c{n % 2}" for n in range(len(hops))]).dictionary_encode()
    return Arrived(wire_rows(*each), clients, timestamps(7, len(hops)))


@given(
    doors_given,
    st.lists(st.sets(st.integers(0, 5), max_size=4), min_size=1, max_size=5),
    st.lists(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.booleans()), min_size=1, max_size=12), max_size=4),
)
def test_many_doors_taken_as_one_let_in_what_each_would(
    given_doors: list[tuple[str, bool, int | None]], plans: list[set[int]], turns: list[list[tuple[int, int, bool]]]
) -> None:
    together, apart = House(given_doors), House(given_doors)
    leads_to = [sorted({door % len(given_doors) for door in plan}) for plan in plans]
    known = [PlanOfDoors(tuple(together.doors[at] for at in doors)) for doors in leads_to]
    doorways = Doorways()
    first = 0
    for turn in turns:
        numbers = np.array([plan % len(known) for plan, _, _ in turn], np.int32)
        but = np.array([left_out for _, _, left_out in turn])
        came = arrived([hops for _, hops, _ in turn], first)
        first += len(turn)
        changes = Changes()
        doorways.admit(changes, came, known, numbers, but)
        assert len(changes.puts) <= len(together.journal.logs), "one append a log"
        together.engine.write(changes)
        changes = Changes()
        for at, door in enumerate(apart.doors):
            rows = np.flatnonzero(np.array([at in leads_to[number] for number in numbers]) & ~but)
            if len(rows):
                door.admit(changes, *came.only(rows))
        apart.engine.write(changes)
    assert together.found() == apart.found()


def test_plans_that_begin_anew_lead_to_their_own_doors() -> None:
    house = House([("shared", True, None)] * 3)
    doorways = Doorways()
    for order in ((0, 1, 2), (2, 0, 1)):
        changes = Changes()
        known = [PlanOfDoors((house.doors[at],)) for at in order[:2]]
        doorways.admit(changes, arrived([0, 0, 0], 0), known, np.array([0, 1, 0], np.int32))
        known.append(PlanOfDoors((house.doors[order[2]],)))
        doorways.admit(changes, arrived([0, 0, 0], 3), known, np.array([2, 1, 0], np.int32))
        house.engine.write(changes)
    assert [door.received for door in house.doors] == [5, 3, 4]
