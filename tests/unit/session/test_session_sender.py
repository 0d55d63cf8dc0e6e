"""Queued rows as frames, acknowledgements as finished rows: the sending half of a session."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bridgehead.columns.batches import Batch
from bridgehead.session import sender as module
from bridgehead.session.sender import RESEND_ROWS, Finished, Sender
from bridgehead.wire.packets import Packet, Publish, Pubrel
from making.packets import split
from making.rows import numbered, outbox_rows

PUBACK, PUBREC, PUBCOMP = 4, 5, 7
SECOND = 1_000_000


class Peer:
    """A sender with the rows of its queues, and what it wrote as packets."""

    def __init__(self, window: int = 100, version: int = 5, max_packet: int = 0) -> None:
        self.sender = Sender(version, window)
        self.sender.max_packet = max_packet
        self.queues: dict[int, list[dict[str, Any]]] = {}

    def send(self, *rows: dict[str, Any], owner: int = 0, now_us: int = 0, **given: Any) -> list[Packet]:
        queue = self.queues.setdefault(owner, [])
        self.out = self.sender.send(owner, len(queue) + np.arange(len(rows)), outbox_rows(*rows), now_us, **given)
        queue += rows
        return self.packets(bytes(self.out.data))

    def packets(self, data: bytes) -> list[Packet]:
        packets, rest = split(data, self.sender.version)
        assert rest == b""
        return packets

    def acked(self, *acks: tuple[int, ...]) -> tuple[list[Packet], list[Finished]]:
        replies, finished = self.sender.acked(np.array([(*ack, 0)[:3] for ack in acks], np.int64))
        return self.packets(replies), finished

    def rows(self, owner: int, seqs: np.ndarray) -> Batch:
        return outbox_rows(*[self.queues[owner][seq] for seq in seqs])

    def resend(self, now_us: int = 0) -> tuple[list[Packet], list[Finished]]:
        chunks, finished = self.sender.resend(self.rows, now_us)
        return self.packets(b"".join(bytes(chunk) for chunk in chunks)), finished


def told(packets: list[Packet]) -> list[tuple[int, int, int, bool]]:
    """Number, QoS, packet id, DUP."""
    return [(int(p.payload), p.qos, p.packet_id, p.dup) for p in packets if isinstance(p, Publish)]


def test_rows_become_frames_with_the_next_free_ids() -> None:
    peer = Peer()
    rows = [{**row, "qos": qos} for row, qos in zip(numbered(0, 4), (1, 0, 2, 1), strict=True)]
    assert told(peer.send(*rows)) == [(0, 1, 1, False), (1, 0, 0, False), (2, 2, 2, False), (3, 1, 3, False)]
    assert peer.out.unacknowledged.tolist() == [1]
    assert peer.sender.room == 97


def test_the_end_of_each_frame_without_an_acknowledgement_is_known() -> None:
    peer = Peer()
    rows = [{**row, "qos": qos} for row, qos in zip(numbered(0, 4), (0, 1, 0, 2), strict=True)]
    packets = peer.send(*rows)
    assert len(packets) == 4
    first, third = peer.out.ends.tolist()
    assert told(peer.packets(bytes(peer.out.data[:first]))) == [(0, 0, 0, False)]
    assert [p[0] for p in told(peer.packets(bytes(peer.out.data[:third])))] == [0, 1, 2]


def test_the_wire_qos_is_what_is_sent() -> None:
    peer = Peer()
    assert told(peer.send({"payload": b"0", "qos": 2, "wire_qos": 1}, {"payload": b"1", "qos": 1, "wire_qos": 0})) == [
        (0, 1, 1, False),
        (1, 0, 0, False),
    ]


def test_an_acknowledged_row_is_finished_and_its_room_is_free() -> None:
    peer = Peer(window=3)
    peer.send(*numbered(0, 3))
    assert peer.sender.room == 0
    replies, [finished] = peer.acked((PUBACK, 2), (PUBACK, 1))
    assert replies == []
    assert finished.delivered.tolist() == [1, 0]
    assert peer.sender.room == 2


def test_a_qos_2_row_is_finished_by_pubcomp() -> None:
    peer = Peer()
    peer.send(*numbered(0, 1, qos=2))
    assert peer.acked((PUBREC, 1)) == ([Pubrel(1)], [])
    _, [finished] = peer.acked((PUBCOMP, 1))
    assert finished.delivered.tolist() == [0]


def test_a_refused_row_is_finished_with_its_reason() -> None:
    peer = Peer()
    peer.send(*numbered(0, 2), *numbered(2, 1, qos=2))
    _, [finished] = peer.acked((PUBACK, 1, 0x87), (PUBACK, 2, 0x10), (PUBREC, 3, 0x97))
    assert finished.delivered.tolist() == [1], "nobody to hear it is no refusal"
    assert (finished.refused.tolist(), finished.reasons.tolist()) == ([0, 2], [0x87, 0x97])


def test_acknowledgements_find_the_queue_of_their_row() -> None:
    peer = Peer()
    peer.send(*numbered(0, 2), owner=7)
    peer.send(*numbered(0, 2), owner=3)
    peer.send(*numbered(2, 1), owner=7)
    _, finished = peer.acked(*[(PUBACK, i) for i in (5, 3, 1)])
    assert {rows.owner: rows.delivered.tolist() for rows in finished} == {7: [2, 0], 3: [0]}


def test_an_acknowledgement_that_nobody_waits_for_finishes_nothing() -> None:
    peer = Peer()
    assert peer.acked((PUBACK, 9), (PUBCOMP, 9)) == ([], [])


def test_rows_past_their_expiry_are_not_sent_and_the_others_lose_the_time_they_waited() -> None:
    peer = Peer()
    rows = [
        {"payload": b"0", "message_expiry": 5, "received_at": 0},
        {"payload": b"1", "message_expiry": 60, "received_at": 0},
        {"payload": b"2", "received_at": 0},
    ]
    first, second = peer.send(*rows, now_us=10 * SECOND)
    assert peer.out.expired.tolist() == [0]
    assert isinstance(first, Publish)
    assert isinstance(second, Publish)
    assert first.properties["message_expiry_interval"] == 50
    assert "message_expiry_interval" not in second.properties
    assert told([first, second]) == [(1, 1, 1, False), (2, 1, 2, False)]


def test_a_batch_of_nothing_but_expired_rows_sends_nothing() -> None:
    peer = Peer()
    assert peer.send(*numbered(0, 3, message_expiry=1, received_at=0), now_us=10 * SECOND) == []
    assert peer.out.expired.tolist() == [0, 1, 2]
    assert peer.sender.room == 100


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_rows_larger_than_the_peer_takes_are_not_sent(qos: int) -> None:
    peer = Peer(max_packet=100)
    sent = peer.send(*numbered(0, 1, qos=qos), *numbered(1, 1, qos=qos, topic="t" * 100), *numbered(2, 1, qos=qos))
    assert [number for number, *_ in told(sent)] == [0, 2]
    assert peer.out.oversized.tolist() == [1]


def test_a_row_exactly_as_large_as_the_peer_takes_is_sent() -> None:
    size = len(Peer().sender.send(0, np.arange(1), outbox_rows({"topic": "t" * 100}), 0).data)
    exact, short = Peer(max_packet=size), Peer(max_packet=size - 1)
    assert len(exact.send({"topic": "t" * 100})) == 1
    assert len(short.send({"topic": "t" * 100})) == 0


def test_a_topic_that_mqtt_cannot_express_is_not_sent_and_stops_nobody() -> None:
    peer = Peer()
    sent = peer.send(*numbered(0, 1), *numbered(1, 1, topic="t" * 70_000), *numbered(2, 1))
    assert [number for number, *_ in told(sent)] == [0, 2]
    assert peer.out.oversized.tolist() == [1]


def test_subscription_identifiers_join_every_frame() -> None:
    peer = Peer()
    sent = peer.send(*numbered(0, 2), subscription_ids=(3, 300))
    assert [p.properties["subscription_identifier"] for p in sent if isinstance(p, Publish)] == [[3, 300]] * 2


def test_a_resumed_session_sends_again_in_the_order_of_the_first_time_with_dup_and_the_same_ids() -> None:
    peer = Peer()
    peer.send(*numbered(0, 3), owner=1)
    peer.send(*numbered(10, 2, qos=2), owner=2)
    peer.send(*numbered(3, 1), owner=1)
    peer.acked((PUBACK, 2))
    peer.sender.resume()
    assert peer.sender.resending
    packets, finished = peer.resend()
    assert told(packets) == [(0, 1, 1, True), (2, 1, 3, True), (10, 2, 4, True), (11, 2, 5, True), (3, 1, 6, True)]
    assert finished == []
    assert not peer.sender.resending


def test_what_has_its_pubrec_is_not_published_again_but_released_in_its_place() -> None:
    peer = Peer()
    peer.send(*numbered(0, 4, qos=2))
    peer.acked((PUBREC, 2), (PUBREC, 3))
    peer.sender.resume()
    packets, _ = peer.resend()
    assert [(type(p), p.packet_id) for p in packets if isinstance(p, Publish | Pubrel)] == [
        (Publish, 1),
        (Pubrel, 2),
        (Pubrel, 3),
        (Publish, 4),
    ]


def test_ids_that_wrapped_around_are_still_sent_again_in_the_order_of_sending() -> None:
    peer = Peer(window=4)
    peer.sender = Sender(5, 4, last_id=4)
    peer.send(*numbered(0, 4))
    peer.acked((PUBACK, 1), (PUBACK, 2))
    assert told(peer.send(*numbered(4, 2))) == [(4, 1, 1, False), (5, 1, 2, False)]
    peer.sender.resume()
    assert [(number, packet_id) for number, _, packet_id, _ in told(peer.resend()[0])] == [(2, 3), (3, 4), (4, 1), (5, 2)]


def test_a_smaller_window_holds_for_what_is_sent_again() -> None:
    peer = Peer(window=50)
    peer.send(*numbered(0, 10))
    peer.sender.flow.window = 3
    peer.sender.resume()
    assert [number for number, *_ in told(peer.resend()[0])] == [0, 1, 2]
    assert peer.resend() == ([], [])
    assert peer.sender.room == 0
    peer.acked((PUBACK, 2))
    assert [number for number, *_ in told(peer.resend()[0])] == [3]
    seen = []
    while peer.sender.resending:
        oldest = int(peer.sender.flow.unacknowledged().ids[0])
        peer.acked((PUBACK, oldest))
        seen += [number for number, *_ in told(peer.resend()[0])]
    assert seen == list(range(4, 10))


def test_a_large_window_is_sent_again_in_bites() -> None:
    peer = Peer(window=1000)
    peer.send(*numbered(0, 1000))
    peer.sender.resume()
    seen: list[int] = []
    while peer.sender.resending:
        bite = [number for number, *_ in told(peer.resend()[0])]
        assert 0 < len(bite) <= RESEND_ROWS
        seen += bite
    assert seen == list(range(1000))


def test_acknowledgements_between_two_bites_are_respected() -> None:
    peer = Peer(window=1000)
    peer.send(*numbered(0, 200))
    peer.sender.resume()
    peer.resend()
    peer.acked((PUBACK, 150))
    seen = []
    while peer.sender.resending:
        seen += [number for number, *_ in told(peer.resend()[0])]
    assert 149 not in seen
    assert seen == [n for n in range(RESEND_ROWS, 200) if n != 149]


def test_a_row_that_became_too_large_is_refused_in_the_name_of_the_peer() -> None:
    peer = Peer()
    peer.send(*numbered(0, 1), *numbered(1, 1, qos=2, topic="t" * 200), *numbered(2, 1, topic="t" * 200), *numbered(3, 1))
    peer.sender.max_packet = 100
    peer.sender.resume()
    packets, finished = peer.resend()
    assert packets[0] == Pubrel(2), "the peer may hold it half-way: only PUBREL frees its id"
    assert [number for number, *_ in told(packets[1:])] == [0, 3]
    assert sorted(seq for rows in finished for seq in rows.refused.tolist()) == [1, 2]
    assert peer.sender.flow.in_flight == 3
    assert peer.acked((PUBCOMP, 2)) == ([], [])
    assert peer.sender.flow.in_flight == 2


def test_an_expired_row_is_sent_again_with_nothing_left_because_its_id_must_be_settled() -> None:
    peer = Peer()
    peer.send(*numbered(0, 1, message_expiry=5, received_at=0))
    peer.sender.resume()
    [packet], _ = peer.resend(now_us=60 * SECOND)
    assert isinstance(packet, Publish)
    assert packet.properties["message_expiry_interval"] == 0


def test_a_lost_session_gives_every_row_back_to_its_queue_in_order() -> None:
    peer = Peer()
    peer.send(*numbered(0, 3), owner=1)
    peer.send(*numbered(0, 2, qos=2), owner=2)
    peer.acked((PUBACK, 2), (PUBREC, 4))
    assert {owner: seqs.tolist() for owner, seqs in peer.sender.forget().items()} == {1: [0, 2], 2: [0, 1]}
    assert peer.sender.flow.in_flight == 0
    peer.sender.resume()
    assert not peer.sender.resending


def test_a_client_of_3_1_1_gets_no_properties() -> None:
    peer = Peer(version=4)
    [packet] = peer.send({"payload": b"0", "content_type": "x", "user_properties": [{"key": "k", "value": "v"}]})
    assert isinstance(packet, Publish)
    assert packet.properties == {}


def test_a_packet_that_only_its_properties_make_too_large_for_mqtt_is_not_sent_and_stops_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A device can send 256 MiB of properties; the hop count of the bridge is then one too many."""
    monkeypatch.setattr(module, "MAX_PACKET", 1000)
    monkeypatch.setattr(module, "PROPERTIES_LARGE", 300)
    peer = Peer()
    many = [{"key": "k" * 50, "value": "v" * 50}] * 10
    sent = peer.send(*numbered(0, 1), *numbered(1, 1, user_properties=many), *numbered(2, 1))
    assert [number for number, *_ in told(sent)] == [0, 2]
    assert peer.out.oversized.tolist() == [1]
    assert peer.sender.flow.in_flight == 2
