"""The outbound flow against a model of two dicts, over random lives: takes, acknowledgements, losses, restarts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from bridgehead.wire.flow import AWAIT_PUBACK, AWAIT_PUBCOMP, AWAIT_PUBREC, NOBODY, InFlight, OutboundFlow

FIRST, LAST = 3, 9


@dataclass
class Sent:
    owner: int
    seq: int
    state: int


class FlowLife(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.flow = OutboundFlow(5, FIRST, LAST)
        self.sent: dict[int, Sent] = {}  # in order of sending
        self.reserved: dict[int, Sent] = {}
        self.next_id = FIRST
        self.seq = 0

    @rule(owner=st.integers(0, 3), wishes=st.lists(st.integers(0, 2), max_size=8))
    def send(self, owner: int, wishes: list[int]) -> None:
        room, qos = self.flow.room, []
        for wish in wishes:
            if wish and sum(map(bool, qos)) == min(room, self.flow.free):
                break
            qos.append(wish)
        seqs = np.arange(self.seq, self.seq + len(qos))
        ids = self.flow.take(owner, seqs, np.array(qos, np.uint8)).tolist()
        for packet_id, level, seq in zip(ids, qos, seqs.tolist(), strict=True):
            if level == 0:
                assert packet_id == 0
                continue
            while self.next_id in self.sent or self.next_id in self.reserved:
                self.next_id = FIRST if self.next_id == LAST else self.next_id + 1
            assert packet_id == self.next_id
            self.sent[packet_id] = Sent(owner, seq, AWAIT_PUBACK if level == 1 else AWAIT_PUBREC)
            self.next_id = FIRST if self.next_id == LAST else self.next_id + 1
        self.seq += len(qos)

    @rule(
        acks=st.lists(
            st.tuples(
                st.sampled_from([4, 5, 5, 7, 7]),
                st.integers(1, 12) | st.just(65535),
                st.sampled_from([0, 0, 0x10, 0x97]),
            ),
            max_size=8,
        ),
        version=st.sampled_from([4, 5]),
    )
    def acknowledge(self, acks: list[tuple[int, int, int]], version: int) -> None:
        done, received, replies, unknown = [], [], b"", 0
        for kind, packet_id, reason in acks:
            sent = self.sent.get(packet_id)
            state = sent.state if sent else None
            number = packet_id.to_bytes(2, "big")
            if packet_id in self.reserved:
                unknown += 1
            elif sent and (kind, state) in ((4, AWAIT_PUBACK), (7, AWAIT_PUBCOMP)):
                done.append((packet_id, sent.owner, sent.seq, reason if kind == 4 else 0))
                del self.sent[packet_id]
            elif sent and kind == 5 and state == AWAIT_PUBREC and reason >= 0x80:
                done.append((packet_id, sent.owner, sent.seq, reason))
                del self.sent[packet_id]
            elif sent and kind == 5 and state in (AWAIT_PUBREC, AWAIT_PUBCOMP) and reason < 0x80:
                if state == AWAIT_PUBREC:
                    received.append(packet_id)
                sent.state = AWAIT_PUBCOMP
                replies += b"\x62\x02" + number
            else:
                unknown += 1
                if kind == 5 and reason < 0x80:
                    replies += b"\x62\x03" + number + b"\x92" if version == 5 else b"\x62\x02" + number
        result = self.flow.acks(np.array(acks, np.int64).reshape(-1, 3), version)
        rows = (result.done_id, result.done_owner, result.done_seq, result.done_reason)
        assert list(zip(*(column.tolist() for column in rows), strict=True)) == done
        assert (result.received.tolist(), result.replies, result.unknown) == (received, replies, unknown)

    @rule(window=st.integers(1, 20))
    def reconnect(self, window: int) -> None:
        self.flow.window = window

    @rule()
    def restart(self) -> None:
        both = [*self.reserved.items(), *self.sent.items()]
        kept = [(packet_id, sent) for packet_id, sent in both if sent.state != AWAIT_PUBACK]
        columns = np.array([(i, s.owner, s.seq, s.state) for i, s in kept], np.int64).reshape(-1, 4).T
        types = (np.uint16, np.int32, np.int64, np.uint8)
        self.flow = OutboundFlow(self.flow.window, FIRST, LAST)
        self.flow.restore(InFlight(*(column.astype(kind) for column, kind in zip(columns, types, strict=True))))
        self.reserved = {packet_id: sent for packet_id, sent in kept if sent.state == AWAIT_PUBREC}
        self.sent = {packet_id: sent for packet_id, sent in kept if sent.state == AWAIT_PUBCOMP}
        last = kept[-1][0] if kept else LAST
        self.next_id = FIRST if last == LAST else last + 1

    @rule(count=st.integers(1, 4))
    def send_again(self, count: int) -> None:
        """The next messages with a kept id, of one owner, in their order."""
        owner = next((sent.owner for sent in self.reserved.values()), 0)
        mine = sorted((sent.seq, i) for i, sent in self.reserved.items() if sent.owner == owner)[:count]
        if not mine or len(mine) > self.flow.room:
            return
        seqs = np.array([seq for seq, _ in mine])
        kept = self.flow.kept_ids(owner, seqs)
        assert kept is not None
        assert kept.tolist() == [packet_id for _, packet_id in mine]
        assert self.flow.take(owner, seqs, np.full(len(mine), 2, np.uint8), kept).tolist() == kept.tolist()
        for _, packet_id in mine:
            self.sent[packet_id] = self.reserved.pop(packet_id)

    @rule()
    def settle_one(self) -> None:
        """Its message is gone: only the id is left to be freed."""
        if self.reserved:
            packet_id, sent = self.reserved.popitem()
            self.flow.settle(np.array([packet_id], np.uint16))
            # It keeps its place in the order of sending, which is before all that this life has sent.
            settled = {packet_id: Sent(NOBODY, sent.seq, AWAIT_PUBCOMP)}
            before = self.flow.unacknowledged().ids.tolist().index(packet_id)
            items = list(self.sent.items())
            self.sent = {**dict(items[:before]), **settled, **dict(items[before:])}

    @rule()
    def lose_the_session(self) -> None:
        self.same(self.flow.clear())
        self.sent.clear()
        self.reserved.clear()

    @invariant()
    def what_is_in_flight_is_what_was_sent_and_not_finished(self) -> None:
        self.same(self.flow.unacknowledged())
        assert self.flow.in_flight == len(self.sent)
        assert sorted(self.flow.reservations().ids.tolist()) == sorted(self.reserved)
        assert self.flow.free == LAST - FIRST + 1 - len(self.sent) - len(self.reserved)
        assert self.flow.room == max(0, min(self.flow.window, LAST - FIRST + 1) - len(self.sent))

    def same(self, found: tuple[np.ndarray, ...]) -> None:
        rows = list(zip(*(column.tolist() for column in found), strict=True))
        assert rows == [(packet_id, s.owner, s.seq, s.state) for packet_id, s in self.sent.items()]


FlowLife.TestCase.settings = settings(max_examples=150, stateful_step_count=25, deadline=None)
test_a_flow_lives_as_its_model = FlowLife.TestCase
