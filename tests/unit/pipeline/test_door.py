"""The door of a route: what may enter the journal, and what is counted and left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bridgehead.columns.schema import STORED
from bridgehead.pipeline.door import Arrived, Door, DoorRule, timestamps
from bridgehead.pipeline.hops import HOP_COUNT
from bridgehead.storage.engine import Changes
from bridgehead.storage.journal import Log
from bridgehead.storage.memory import MemoryEngine
from making.rows import numbered, numbers, outbox_rows, wire_rows


def door(**rule: Any) -> Door:
    given = {"route": "r", "bridge": "b", "filters": ("a/#", "b"), **rule}
    return Door(DoorRule(**given), Log("shared", MemoryEngine()))


def admit(at: Door, *rows: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows that went into the log."""
    batch = wire_rows(*rows)
    clients = pa.DictionaryArray.from_arrays(pa.array([0] * len(rows), pa.int32()), pa.array(["c"]))
    changes = Changes()
    entered = at.admit(changes, batch, clients, timestamps(1_000_000, len(rows)))
    found = [row for _, _, put in changes.puts for row in put.to_pylist()]
    assert all(put.schema == STORED for _, _, put in changes.puts)
    assert entered == len(found)
    return found


def hops(*values: str) -> dict[str, Any]:
    return {"user_properties": [{"key": HOP_COUNT, "value": value} for value in values]}


def test_filters_and_excludes_look_at_the_topic() -> None:
    at = door(excludes=("a/secret/#",))
    assert at.filters_match("a/secret/x")
    assert at.filters_match("b")
    assert not at.filters_match("b/c")
    assert at.excludes_match("a/secret/x")
    assert not at.excludes_match("a/open")


def test_an_admitted_row_is_stored_with_its_client_its_route_and_its_time() -> None:
    [row] = admit(door(), {"topic": "a/1", "payload": b"x", "qos": 2, "content_type": "t"})
    assert (row["topic"], row["payload"], row["qos"], row["client_id"], row["route"]) == ("a/1", b"x", 2, "c", "r")
    assert row["received_at"].timestamp() == 1
    assert row["content_type"] == "t"


def test_persist_off_lowers_every_message_to_qos_0() -> None:
    assert [row["qos"] for row in admit(door(persist=False), {"qos": 2}, {"qos": 1}, {"qos": 0})] == [0, 0, 0]


@pytest.mark.parametrize(
    ("limit", "values", "enters"),
    [
        (1, (), True),
        (1, ("0",), True),
        (1, ("1",), False),
        (2, ("1",), True),
        (2, ("2",), False),
        (3, ("7",), False),
        (1, ("-5",), True),
        (1, ("x",), True),
        (1, ("x", "9"), True),
        (1, ("9", "x"), False),
        (None, ("99",), True),
    ],
)
def test_a_message_that_has_crossed_enough_bridges_stops_here(
    limit: int | None, values: tuple[str, ...], enters: bool
) -> None:
    at = door(hop_limit=limit)
    assert len(admit(at, hops(*values))) == enters
    assert at.dropped == ({} if enters else {"loop": 1})


def test_only_the_looping_rows_of_a_batch_are_left_out() -> None:
    at = door()
    rows = [{**row, **hops(*("1",) * (i % 3 == 1))} for i, row in enumerate(numbered(0, 7))]
    assert [int(row["payload"]) for row in admit(at, *rows)] == [0, 2, 3, 5, 6]
    assert (at.received, at.dropped) == (7, {"loop": 2})


def test_received_is_what_entered_and_what_was_dropped() -> None:
    at = door()
    at.exclude(4)
    entered = len(admit(at, hops("1"), {}, {}))
    assert at.received == entered + sum(at.dropped.values()) == 7


def test_a_batch_of_which_nothing_may_enter_leaves_no_trace_in_the_log() -> None:
    at = door()
    assert admit(at, hops("1"), hops("2")) == []
    assert at.log.end == 0


def test_chosen_rows_come_with_their_clients_and_times() -> None:
    clients = pa.array(["a", "b", "c"]).dictionary_encode()
    arrived = Arrived(wire_rows(*numbered(0, 3)), clients, timestamps(5, 3))
    part = arrived.only(np.array([0, 2]))
    assert numbers(part.batch) == [0, 2]
    assert part.clients.to_pylist() == ["a", "c"]
    assert len(part.received_at) == 2
    assert arrived.only(None) is arrived
    assert arrived.only(np.arange(3)) is arrived


def test_a_message_that_begins_its_way_anew_is_in_the_journal_as_it_came() -> None:
    engine = MemoryEngine()
    log = Log("r", engine)
    door = Door(DoorRule(route="r", bridge="b", filters=("#",)), log)
    changes = Changes()
    door.admit_again(changes, outbox_rows({"topic": "a", "payload": b"1", "qos": 2, "received_at": 5}))
    engine.write(changes)
    [(_, stored)] = log.read(0, log.visible)
    [row] = stored.to_pylist()
    assert (row["topic"], row["payload"], row["qos"], row["route"]) == ("a", b"1", 2, "r")
    assert (door.received, log.waiting_of) == (1, {"r": 1})
