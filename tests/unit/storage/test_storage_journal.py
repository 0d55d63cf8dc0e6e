"""The journal: append-only logs read by offset, bounded by what waits in them."""

from __future__ import annotations

import pytest

from bridgehead.storage.engine import Changes
from bridgehead.storage.journal import Journal, Log
from bridgehead.storage.memory import MemoryEngine
from bridgehead.storage.segments import FAN, SMALL_ROWS
from making.rows import numbered, numbers, stored_rows

MANY, MUCH = 1_000_000, 1 << 30


class Desk:
    """A journal of one log with rows numbered by their offset."""

    def __init__(self, max_bytes: int = MUCH) -> None:
        self.engine = MemoryEngine()
        self.journal = Journal(self.engine, max_bytes)
        self.log: Log = self.journal.log("shared")

    def append(self, count: int, size: int = 0) -> int:
        changes = Changes()
        rows = [{**row, "topic": "t" * (size or 1)} for row in numbered(self.log.end, count)]
        start = self.log.append(changes, stored_rows(*rows))
        self.engine.write(changes)
        return start

    def publish(self, count: int, size: int = 0) -> None:
        self.append(count, size)
        self.log.publish()

    def consume(self, end: int) -> None:
        changes = Changes()
        self.log.consume(changes, end)
        self.engine.write(changes)

    def trim(self, end: int) -> None:
        changes = Changes()
        self.log.trim(changes, end)
        self.engine.write(changes)

    def read(self, start: int, end: int) -> list[int]:
        return [number for _, batch in self.log.read(start, end) for number in numbers(batch)]


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_offsets_follow_each_other(desk: Desk) -> None:
    assert [desk.append(3), desk.append(2), desk.append(1)] == [0, 3, 5]
    assert desk.log.end == 6


def test_readers_see_only_what_was_published(desk: Desk) -> None:
    desk.publish(2)
    desk.append(2)
    assert desk.log.plan(0, MANY, MUCH) == 2
    desk.log.publish()
    assert desk.log.plan(0, MANY, MUCH) == 4


def test_readers_are_told_of_new_rows_and_only_of_new_rows(desk: Desk) -> None:
    told: list[int] = []
    desk.log.on_visible = lambda: told.append(desk.log.visible)
    desk.publish(2)
    desk.log.publish()
    desk.publish(1)
    assert told == [2, 3]


def test_a_range_is_read_across_batches_and_inside_them(desk: Desk) -> None:
    for _ in range(4):
        desk.publish(3)
    assert desk.read(0, 12) == list(range(12))
    assert desk.read(4, 8) == [4, 5, 6, 7]
    assert [start for start, _ in desk.log.read(4, 8)] == [4, 6]


def test_small_batches_become_one_and_still_read_by_offset(desk: Desk) -> None:
    for _ in range(FAN * 3):
        desk.publish(1)
    assert len(desk.log.read(0, FAN * 3)) == 3
    assert desk.read(FAN - 1, FAN + 2) == [FAN - 1, FAN, FAN + 1]


def test_a_batch_that_was_partly_consumed_is_not_merged_again(desk: Desk) -> None:
    for _ in range(FAN - 1):
        desk.publish(1)
    desk.consume(5)
    desk.publish(1)
    assert len(desk.log.read(0, FAN)) == FAN


def test_a_plan_is_bounded_in_rows(desk: Desk) -> None:
    desk.publish(SMALL_ROWS * 2)
    desk.publish(SMALL_ROWS * 2)
    assert desk.log.plan(0, 10, MUCH) == 10
    assert desk.log.plan(10, SMALL_ROWS * 2, MUCH) == 10 + SMALL_ROWS * 2


def test_a_plan_is_bounded_in_bytes_but_moves_one_row_at_least(desk: Desk) -> None:
    desk.publish(10, size=10_000)
    end = desk.log.plan(0, MANY, 35_000)
    assert end == 3
    assert desk.log.plan(0, MANY, 1) == 1


def test_a_plan_at_the_end_moves_nothing(desk: Desk) -> None:
    desk.publish(3)
    assert desk.log.plan(3, MANY, MUCH) == 3


def test_only_whole_batches_that_were_consumed_are_trimmed(desk: Desk) -> None:
    desk.publish(3)
    desk.publish(3)
    desk.consume(4)
    desk.trim(6)
    assert desk.read(0, 6) == [3, 4, 5]
    desk.consume(6)
    desk.trim(5)
    assert desk.read(0, 6) == [3, 4, 5]
    desk.trim(6)
    assert desk.read(0, 6) == []
    assert desk.log.weight == 0


def test_what_waits_is_what_was_appended_and_not_consumed(desk: Desk) -> None:
    desk.publish(5)
    desk.consume(3)
    assert desk.log.waiting == 2


def test_a_journal_is_full_when_its_logs_together_hold_too_much() -> None:
    desk = Desk(max_bytes=20_000)
    desk.publish(1, size=8_000)
    assert not desk.journal.full
    other = desk.journal.log("other")
    changes = Changes()
    other.append(changes, stored_rows({"topic": "t" * 15_000}))
    desk.engine.write(changes)
    assert desk.journal.full


def test_a_journal_whose_rows_are_all_consumed_is_not_full_though_its_reader_still_holds_them() -> None:
    """Spark lets go of a batch when it plans the next one. A full journal lets nothing in: there would be no next one."""
    desk = Desk(max_bytes=20_000)
    desk.publish(3, size=10_000)
    assert desk.journal.full
    desk.consume(3)
    assert not desk.journal.full
    desk.publish(3, size=10_000)
    assert desk.journal.full
    desk.trim(3)
    assert desk.journal.full
    desk.consume(6)
    desk.trim(6)
    assert not desk.journal.full
    assert desk.log.weight == 0


def test_a_batch_counts_against_the_bound_until_its_last_row_is_consumed() -> None:
    desk = Desk(max_bytes=20_000)
    desk.publish(3, size=10_000)
    desk.consume(2)
    assert desk.journal.full
    desk.consume(3)
    assert not desk.journal.full


def test_logs_are_found_again_by_name_and_made_when_missing() -> None:
    desk = Desk()
    assert desk.journal.log("shared") is desk.log
    assert desk.journal.log("new") is not desk.log
    assert list(desk.journal.logs) == ["shared", "new"]


def test_each_life_of_a_memory_journal_has_its_own_incarnation() -> None:
    assert Desk().log.incarnation != Desk().log.incarnation


def test_the_log_knows_how_old_the_first_row_that_waits_is(desk: Desk) -> None:
    assert desk.log.oldest is None
    changes = Changes()
    desk.log.append(changes, stored_rows({"received_at": 7, "route": "a"}, {"received_at": 8, "route": "b"}))
    desk.engine.write(changes)
    assert desk.log.oldest == 7
    assert desk.journal.oldest_of("b") == 7
    desk.consume(1)
    assert desk.log.oldest == 8
    assert desk.journal.oldest_of("a") is None


def test_what_waits_is_known_by_route(desk: Desk) -> None:
    changes = Changes()
    desk.log.append(changes, stored_rows(*({"route": route} for route in "aabab")))
    desk.engine.write(changes)
    assert {route: desk.journal.waiting_of(route) for route in "abc"} == {"a": 3, "b": 2, "c": 0}
    assert desk.log.rows_by_route(1, 4) == {"a": 2, "b": 1}
    desk.consume(3)
    assert {route: desk.journal.waiting_of(route) for route in "ab"} == {"a": 1, "b": 1}
