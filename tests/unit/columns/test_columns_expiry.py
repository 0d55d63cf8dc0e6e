"""Message expiry: the time a message waited here is taken off."""

from __future__ import annotations

from bridgehead.columns.expiry import older_than, remaining_expiry
from making.rows import outbox_rows

SECOND = 1_000_000


def test_rows_without_an_expiry_need_no_answer() -> None:
    assert remaining_expiry(outbox_rows({}, {}), 5 * SECOND) is None


def test_what_is_left_is_the_interval_less_the_time_waited() -> None:
    batch = outbox_rows(
        {"message_expiry": 10, "received_at": 1 * SECOND},
        {"message_expiry": 4, "received_at": 1 * SECOND},
        {"message_expiry": 3, "received_at": 1 * SECOND},
        {"message_expiry": 0, "received_at": 5 * SECOND},
        {"message_expiry": None, "received_at": 1 * SECOND},
        {"message_expiry": 2**32 - 1, "received_at": 1 * SECOND},
    )
    left = remaining_expiry(batch, 5 * SECOND)
    assert left is not None
    assert left.tolist() == [6, 0, 0, 0, -1, 2**32 - 5]


def test_a_part_of_a_second_does_not_count_as_waited() -> None:
    left = remaining_expiry(outbox_rows({"message_expiry": 1, "received_at": 0}), SECOND - 1)
    assert left is not None
    assert left.tolist() == [1]


def test_a_clock_that_was_set_back_makes_no_message_live_longer() -> None:
    left = remaining_expiry(outbox_rows({"message_expiry": 7, "received_at": 9 * SECOND}), 1 * SECOND)
    assert left is not None
    assert left.tolist() == [7]


def test_a_row_is_too_old_when_more_than_the_age_has_passed() -> None:
    rows = outbox_rows(*({"received_at": at} for at in (0, SECOND - 1, SECOND, SECOND + 1, 9 * SECOND)))
    assert older_than(rows, 3 * SECOND, 4 * SECOND).tolist() == [True, True, False, False, False]
