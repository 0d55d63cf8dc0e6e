"""The outbound flow, case by case."""

from __future__ import annotations

import numpy as np
import pytest

from bridgehead.wire.flow import AWAIT_PUBCOMP, InFlight, OutboundFlow


def take(flow: OutboundFlow, *qos: int, owner: int = 1) -> list[int]:
    return flow.take(owner, np.arange(len(qos)), np.array(qos, np.uint8)).tolist()


def acks(*rows: tuple[int, int, int]) -> np.ndarray:
    return np.array(rows, np.int64)


def test_ids_rise_from_the_cursor_and_wrap_around_those_in_flight() -> None:
    flow = OutboundFlow(10, 1, 4)
    assert take(flow, 1, 0, 2, 1) == [1, 0, 2, 3]
    flow.acks(acks((4, 1, 0), (4, 3, 0)), 5)
    assert take(flow, 1, 1, 1) == [4, 1, 3]
    assert flow.room == 0


def test_more_messages_than_ids_are_refused_and_none_is_taken() -> None:
    flow = OutboundFlow(10, 1, 2)
    with pytest.raises(ValueError, match="free packet ids"):
        take(flow, 1, 1, 1)
    assert flow.in_flight == 0


def test_the_window_may_shrink_below_what_is_in_flight() -> None:
    flow = OutboundFlow(10)
    take(flow, 1, 1, 1)
    flow.window = 2
    assert (flow.room, flow.in_flight) == (0, 3)


def test_a_refusal_is_done_with_its_reason() -> None:
    flow = OutboundFlow(10)
    take(flow, 1, 2, owner=7)
    result = flow.acks(acks((4, 1, 0x87), (5, 2, 0x97)), 5)
    assert result.done_reason.tolist() == [0x87, 0x97]
    assert (result.done_owner.tolist(), result.done_seq.tolist(), result.replies) == ([7, 7], [0, 1], b"")
    assert flow.in_flight == 0


def test_a_pubrec_is_answered_each_time_and_received_once() -> None:
    flow = OutboundFlow(10)
    take(flow, 2)
    result = flow.acks(acks((5, 1, 0), (5, 1, 0)), 4)
    assert (result.received.tolist(), result.replies, result.unknown) == ([1], b"\x62\x02\x00\x01" * 2, 0)
    assert flow.unacknowledged().state.tolist() == [AWAIT_PUBCOMP]


@pytest.mark.parametrize("ids", [[1, 1], [0], [70]])
def test_ids_that_cannot_have_been_in_flight_are_not_restored(ids: list[int]) -> None:
    count = len(ids)
    kept = InFlight(
        np.array(ids, np.uint16), np.zeros(count, np.int32), np.zeros(count, np.int64), np.ones(count, np.uint8)
    )
    with pytest.raises(ValueError, match="restore"):
        OutboundFlow(10, 1, 64).restore(kept)
