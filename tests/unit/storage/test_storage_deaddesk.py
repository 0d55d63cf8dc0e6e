"""The desk of dead letters: all that was asked for is done, or nothing with a reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bridgehead.errors import RefusedError
from bridgehead.storage.deaddesk import PREVIEW_BYTES, DeadLetterDesk
from bridgehead.storage.deadletters import DROPPED, NO_DESTINATION, RESENT, TRANSFORM_FAILED, Deaths
from bridgehead.storage.engine import Changes
from bridgehead.storage.memory import MemoryEngine
from bridgehead.storage.outbox import Outbox
from making.rows import numbered, numbers, outbox_rows
from making.slow import SlowEngine


class Office:
    """Routes a and b, and a desk."""

    def __init__(self, max_rows: int = 1000) -> None:
        self.engine = MemoryEngine()
        self.outboxes = {route: Outbox(route, self.engine, max_rows, 1 << 30) for route in ("a", "b")}
        self.desk = DeadLetterDesk(self.engine, self.outboxes)

    def bury(self, route: str, *rows: dict[str, Any]) -> None:
        outbox = self.outboxes[route]
        changes = Changes()
        outbox.land(changes, outbox_rows(*rows))
        self.engine.write(changes)
        outbox.landed()
        polled = outbox.poll(len(rows))
        assert polled is not None
        outbox.bury(Deaths(polled.seqs, ["refused-0x87"] * len(rows), [3] * len(rows)), 1_000_000)

    def waiting(self, route: str) -> list[int]:
        found: list[int] = []
        while (polled := self.outboxes[route].poll(1000)) is not None:
            found += numbers(polled.batch)
        return found


@pytest.fixture
def office() -> Office:
    return Office()


def listed(office: Office, route: str | None = None) -> list[tuple[str, int]]:
    return [(letter["route"], letter["id"]) for letter in office.desk.listed(route, 1000)["deadLetters"]]


def test_a_list_tells_everything_that_a_user_needs(office: Office) -> None:
    office.bury("a", {"topic": "x/y", "payload": b"\xff" + b"p" * 100, "qos": 2, "retain": True})
    [letter] = office.desk.listed(None, 10)["deadLetters"]
    assert letter == {
        "id": 0,
        "route": "a",
        "topic": "x/y",
        "qos": 2,
        "retain": True,
        "reason": "refused-0x87",
        "diedAt": "1970-01-01T00:00:01+00:00",
        "attempts": 3,
        "size": 101,
        "payload": "�" + "p" * (PREVIEW_BYTES - 1),
    }


def test_a_list_ends_at_its_limit_and_tells_how_many_there_are(office: Office) -> None:
    office.bury("a", *numbered(0, 5))
    office.bury("b", *numbered(0, 5))
    answer = office.desk.listed(None, 7)
    assert (len(answer["deadLetters"]), answer["total"]) == (7, 10)
    assert listed(office, "b") == [("b", n) for n in range(5)]


def test_a_message_sent_again_is_a_new_row_at_the_end_of_its_outbox(office: Office) -> None:
    office.bury("a", *numbered(0, 3, content_type="c"))
    assert office.desk.resend("a", [2, 0]) == 2
    assert office.waiting("a") == [0, 2]
    outbox = office.outboxes["a"]
    assert (outbox.entered, sum(outbox.dead_lettered.values()), outbox.depth) == (5, 3, 2)
    assert (outbox.ledger.received, outbox.ledger.consumed) == (2, 2), "both sums count it once more"
    assert listed(office) == [("a", 1)]
    assert office.desk.shelves["a"].left == {RESENT: 2}


def test_all_of_a_route_or_of_all_routes(office: Office) -> None:
    office.bury("a", *numbered(0, 200))
    office.bury("b", *numbered(0, 3))
    assert office.desk.drop("b", None) == 3
    assert office.desk.shelves["b"].left == {DROPPED: 3}
    assert office.desk.resend(None, None) == 200
    assert office.waiting("a") == list(range(200))
    assert listed(office) == []


@pytest.mark.parametrize("verb", [DeadLetterDesk.resend, DeadLetterDesk.drop])
def test_with_an_id_that_is_not_there_nothing_happens(
    office: Office, verb: Callable[[DeadLetterDesk, str | None, list[int]], int]
) -> None:
    office.bury("a", *numbered(0, 2))
    for route, text in (("a", "no dead letter 7 of route a"), (None, "no dead letter 7$")):
        with pytest.raises(RefusedError, match=text):
            verb(office.desk, route, [0, 7])
    with pytest.raises(RefusedError, match="no route nowhere"):
        verb(office.desk, "nowhere", [0])
    assert listed(office) == [("a", 0), ("a", 1)]
    assert office.waiting("a") == []


def test_an_id_that_two_routes_have_wants_the_route(office: Office) -> None:
    office.bury("a", *numbered(0, 2))
    office.bury("b", *numbered(0, 1))
    with pytest.raises(RefusedError, match="name one of a, b"):
        office.desk.drop(None, [0])
    assert office.desk.drop(None, [1]) == 1
    assert office.desk.drop("b", [0]) == 1
    assert listed(office) == [("a", 0)]


def test_dead_letters_of_a_route_that_is_no_more_can_only_be_dropped(office: Office) -> None:
    office.bury("a", *numbered(0, 1))
    del office.outboxes["a"]
    with pytest.raises(RefusedError, match="no route a any more"):
        office.desk.resend("a", None)
    assert listed(office) == [("a", 0)]
    assert office.desk.drop("a", None) == 1


def test_a_queue_without_room_takes_none(office: Office) -> None:
    office = Office(max_rows=3)
    office.bury("a", *numbered(0, 2))
    office.bury("a", *numbered(2, 2))
    with pytest.raises(RefusedError, match="no room for 4"):
        office.desk.resend("a", None)
    assert office.desk.resend("a", [0, 1, 2]) == 3
    assert office.waiting("a") == [0, 1, 2]


def test_a_message_sent_again_is_polled_when_it_is_safe() -> None:
    office = Office()
    office.bury("a", *numbered(0, 1))
    slow = SlowEngine()
    office.desk._engine = slow
    slow._shelves, slow._notes = office.engine._shelves, office.engine._notes
    office.desk.resend("a", None)
    assert not office.outboxes["a"].has_waiting
    slow.sync()
    assert office.waiting("a") == [0]


def bury_made(office: Office, reason: str, *rows: dict[str, Any]) -> None:
    changes = Changes()
    office.outboxes["a"].land_dead(changes, outbox_rows(*rows), reason, 0)
    office.engine.write(changes)


def test_a_row_of_a_transform_that_is_no_message_can_only_be_dropped(office: Office) -> None:
    bury_made(office, "transform-bad-topic", *numbered(0, 2))
    with pytest.raises(RefusedError, match="is no message"):
        office.desk.resend("a", None)
    assert office.desk.drop("a", None) == 2


def test_a_message_that_its_transform_failed_on_goes_through_it_again(office: Office) -> None:
    bury_made(office, TRANSFORM_FAILED, *numbered(0, 3))
    with pytest.raises(RefusedError, match="no transform any more"):
        office.desk.resend("a", None)
    taken: list[int] = []
    desk = DeadLetterDesk(office.engine, office.outboxes, {"a": lambda changes, rows: taken.extend(numbers(rows))})
    assert desk.resend("a", [0, 2]) == 2
    assert taken == [0, 2]
    assert office.waiting("a") == []
    assert listed(office, "a") == [("a", 1)]


def test_a_message_without_a_destination_begins_its_way_anew(office: Office) -> None:
    bury_made(office, NO_DESTINATION, *numbered(0, 3))
    with pytest.raises(RefusedError, match="only a running node"):
        office.desk.resend("a", None)
    taken: list[int] = []
    desk = DeadLetterDesk(office.engine, office.outboxes, {"a": lambda changes, rows: taken.extend(numbers(rows))})
    assert desk.resend("a", [1]) == 1
    assert taken == [1]
    assert not office.outboxes["a"].has_waiting, "it is not an outbox row"
