"""The outbound flow, case by case."""

from __future__ import annotations

import numpy as np
import pytest

from bridgehead.wire.flow import AWAIT_PUBACK, AWAIT_PUBCOMP, AWAIT_PUBREC, NOBODY, InFlight, OutboundFlow


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


def kept(*entries: tuple[int, int, int, int]) -> InFlight:
    """(id, owner, sequence, state) each."""
    ids, owners, seqs, states = np.array(entries).T
    return InFlight(ids.astype(np.uint16), owners.astype(np.int32), seqs.astype(np.int64), states.astype(np.uint8))


@pytest.mark.parametrize("ids", [[1, 1], [0], [70]])
def test_ids_that_cannot_have_been_in_flight_are_not_restored(ids: list[int]) -> None:
    with pytest.raises(ValueError, match="restore"):
        OutboundFlow(10, 1, 64).restore(kept(*((packet_id, 0, 0, AWAIT_PUBREC) for packet_id in ids)))


def test_only_what_is_half_way_through_qos_2_is_restored() -> None:
    with pytest.raises(ValueError, match="half-way"):
        OutboundFlow(10, 1, 64).restore(kept((1, 0, 0, AWAIT_PUBACK)))


def test_a_kept_id_is_nobody_elses_and_its_message_wears_it_again() -> None:
    flow = OutboundFlow(10, 1, 8)
    flow.restore(kept((2, 1, 70, AWAIT_PUBREC), (1, 1, 71, AWAIT_PUBREC)))
    assert (flow.in_flight, flow.reserved, flow.free) == (0, 2, 6)
    seqs = np.array([69, 70, 71, 72])
    assert flow.kept_ids(1, seqs).tolist() == [0, 2, 1, 0]  # type: ignore[union-attr]
    assert flow.kept_ids(0, seqs) is None
    assert flow.kept_ids(1, seqs[:1]) is None
    ids = flow.take(1, seqs, np.array([1, 2, 2, 2], np.uint8), flow.kept_ids(1, seqs))
    assert ids.tolist() == [3, 2, 1, 4]
    assert (flow.in_flight, flow.reserved) == (4, 0)
    assert flow.unacknowledged().ids.tolist() == [3, 2, 1, 4]
    assert flow.unacknowledged().state.tolist() == [AWAIT_PUBACK, AWAIT_PUBREC, AWAIT_PUBREC, AWAIT_PUBREC]


@pytest.mark.parametrize("ack", [(4, 1, 0), (5, 1, 0), (5, 1, 0x97), (7, 1, 0)])
def test_what_the_peer_says_of_a_kept_id_before_its_message_is_sent_again_changes_nothing(ack: tuple[int, int, int]) -> None:
    flow = OutboundFlow(10, 1, 8)
    flow.restore(kept((1, 0, 0, AWAIT_PUBREC)))
    result = flow.acks(acks(ack), 5)
    assert (result.replies, result.unknown, len(result.done_id)) == (b"", 1, 0)
    assert flow.reserved == 1


def test_a_kept_id_takes_no_place_in_the_window_and_no_id_is_given_twice() -> None:
    flow = OutboundFlow(3, 1, 4)
    flow.restore(kept((1, 0, 0, AWAIT_PUBREC), (2, 0, 1, AWAIT_PUBREC), (3, 0, 2, AWAIT_PUBCOMP)))
    assert (flow.room, flow.free) == (2, 1)
    with pytest.raises(ValueError, match="free packet ids"):
        take(flow, 1, 1)
    assert take(flow, 1) == [4]


def test_a_settled_id_is_free_with_its_pubcomp_and_its_message_is_nobodys() -> None:
    flow = OutboundFlow(10, 1, 8)
    flow.restore(kept((5, 1, 70, AWAIT_PUBREC)))
    flow.settle(np.array([5], np.uint16))
    assert (flow.in_flight, flow.reserved) == (1, 0)
    assert flow.acks(acks((7, 5, 0)), 5).done_owner.tolist() == [NOBODY]
    assert flow.in_flight == 0
    assert len(flow.unused()) == 8


def test_a_lost_session_frees_kept_ids_too() -> None:
    flow = OutboundFlow(10, 1, 8)
    flow.restore(kept((5, 1, 70, AWAIT_PUBREC), (6, 1, 71, AWAIT_PUBCOMP)))
    assert flow.clear().ids.tolist() == [6]
    assert (flow.in_flight, flow.reserved, flow.free) == (0, 0, 8)
