"""Two session halves over a link that cuts where it likes: QoS 2 arrives exactly once, QoS 1 at least once and in order."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.columns.batches import Batch
from bridgehead.session.rows import wire_batch
from bridgehead.session.sender import Sender
from bridgehead.session.stream import Fault, PacketStream, no_inbound_ids
from bridgehead.wire.intake import Intake, ScanResult
from making.rows import outbox_rows


class Pipe:
    """One direction: bytes on their way, and those that arrived and are not yet a whole packet."""

    def __init__(self) -> None:
        self.on_the_way = bytearray()
        self.arrived = bytearray()

    def cut(self) -> None:
        self.on_the_way.clear()
        self.arrived.clear()

    def deliver(self, size: int) -> np.ndarray:
        self.arrived += self.on_the_way[:size]
        del self.on_the_way[:size]
        return np.frombuffer(bytearray(self.arrived), np.uint8)


class Exchange:
    def __init__(self, version: int, window: int, last_id: int) -> None:
        self.version = version
        self.sender = Sender(version, window, last_id=last_id)
        self.rows: list[dict[str, object]] = []
        self.sent = 0  # rows handed to the sender
        self.done: set[int] = set()
        self.got: list[int] = []  # what the receiver took, by number
        self.there, self.back = Pipe(), Pipe()
        self.inbound = no_inbound_ids()
        self.intake = Intake()
        self._new_connection()

    def _new_connection(self) -> None:
        self.forward = PacketStream(from_server=False, version=self.version)
        self.forward.inbound = self.inbound
        self.backward = PacketStream(from_server=True, version=self.version)

    def rows_of(self, _: int, seqs: np.ndarray) -> Batch:
        return outbox_rows(*[self.rows[seq] for seq in seqs])

    def pump(self) -> None:
        while self.sender.resending:
            chunks, finished = self.sender.resend(self.rows_of, 0)
            assert finished == []
            for chunk in chunks:
                self.there.on_the_way += bytes(chunk)
            if not chunks:
                return
        count = min(self.sender.room, len(self.rows) - self.sent)
        if count:
            batch = outbox_rows(*self.rows[self.sent : self.sent + count])
            out = self.sender.send(0, self.sent + np.arange(count), batch, 0)
            self.there.on_the_way += bytes(out.data)
            self.done.update(out.unacknowledged.tolist())
            self.sent += count
        assert self.sender.flow.in_flight <= self.sender.flow.window

    def there_arrive(self, size: int) -> None:
        data = self.there.deliver(size)
        for item in self.forward.feed(data, len(data), self.intake, 0):
            assert isinstance(item, ScanResult), item
            self.back.on_the_way += item.replies
        del self.there.arrived[: self.forward.taken]
        if self.intake.rows_used:
            batch = wire_batch(self.intake.take())
            self.got += [int(payload) for payload in batch.column("payload").to_pylist()]

    def back_arrive(self, size: int) -> None:
        data = self.back.deliver(size)
        for item in self.backward.feed(data, len(data), self.intake, 0):
            assert not isinstance(item, Fault), item
            assert isinstance(item, ScanResult)
            replies, finished = self.sender.acked(item.acks)
            self.there.on_the_way += replies
            for rows in finished:
                assert not len(rows.refused)
                self.done.update(rows.delivered.tolist())
        del self.back.arrived[: self.backward.taken]
        self.pump()

    def cut(self) -> None:
        self.there.cut()
        self.back.cut()
        self._new_connection()
        self.sender.resume()
        self.pump()

    def calm(self) -> None:
        self.cut()
        while self.there.on_the_way or self.back.on_the_way:
            self.there_arrive(1 << 20)
            self.back_arrive(1 << 20)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.lists(st.integers(0, 2), min_size=1, max_size=8)),
        st.tuples(st.just("there"), st.integers(1, 60)),
        st.tuples(st.just("back"), st.integers(1, 12)),
        st.tuples(st.just("cut"), st.none()),
    ),
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(steps, st.sampled_from([4, 5]), st.integers(1, 6), st.integers(6, 9))
def test_a_link_that_cuts_anywhere_loses_and_doubles_no_more_than_the_qos_allows(
    script: list[tuple[str, object]], version: int, window: int, last_id: int
) -> None:
    exchange = Exchange(version, window, last_id)
    for name, value in script:
        if name == "send":
            assert isinstance(value, list)
            start = len(exchange.rows)
            exchange.rows += [{"payload": str(start + i).encode(), "qos": qos} for i, qos in enumerate(value)]
            exchange.pump()
        elif name == "there":
            exchange.there_arrive(int(str(value)))
        elif name == "back":
            exchange.back_arrive(int(str(value)))
        else:
            exchange.cut()
    exchange.calm()
    assert exchange.done == set(range(len(exchange.rows)))
    assert exchange.sender.flow.in_flight == 0
    by_qos = {qos: [n for n in exchange.got if exchange.rows[n]["qos"] == qos] for qos in (0, 1, 2)}
    wanted = {qos: [n for n, row in enumerate(exchange.rows) if row["qos"] == qos] for qos in (0, 1, 2)}
    assert by_qos[2] == wanted[2], "exactly once, in order"
    assert list(dict.fromkeys(by_qos[1])) == wanted[1], "at least once, each first time in order"
    assert len(set(by_qos[0])) == len(by_qos[0]), "at most once"
    assert by_qos[0] == sorted(by_qos[0])
    assert not exchange.inbound.any()
