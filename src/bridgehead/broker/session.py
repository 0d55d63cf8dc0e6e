"""The session of a client: subscriptions, QoS 2 ids received, and the queue of what it is to get. It outlives connections."""

from __future__ import annotations

from collections import deque
from typing import Final

import numpy as np
import numpy.typing as npt

from bridgehead.columns.batches import Batch
from bridgehead.link.link import Link
from bridgehead.session.sender import PUBREL, Finished, Sender
from bridgehead.storage.engine import Changes, Engine
from bridgehead.storage.inboundids import InboundIds
from bridgehead.storage.memory import MemoryEngine
from bridgehead.storage.outbox import Outbox
from bridgehead.wire.frames import encode_acks
from bridgehead.wire.packets import Subscription
from bridgehead.wire.topicnames import matches

SEND_CHUNK: Final = 4096
CLIENT_WINDOW: Final = 1024
"""Messages in flight to one client at most; a client may ask for fewer."""
NEVER: Final = 0xFFFFFFFF


class ClientSession:
    """What the broker keeps for one client id."""

    def __init__(self, client_id: str, engine: Engine, max_rows: int, max_bytes: int, *, kept: bool = False) -> None:
        self.client_id = client_id
        self.kept = kept  # whether it is on the node's disk: for all of its life, or never
        self.expiry = 0  # seconds after the connection ends; NEVER for 3.1.1 sessions that are kept
        self.ended_at: float | None = None  # when the last connection ended; None while one is there
        self.subscriptions: dict[str, Subscription] = {}
        self.identifiers: dict[str, int] = {}  # subscription identifier by filter
        self.inbound = InboundIds(engine, ("inbound", "client", client_id), kept=kept)
        self._engine = engine if kept else MemoryEngine()
        self.outbox = Outbox(client_id, self._engine, max_rows, max_bytes, shelf=("queue", client_id))
        self._ids_unknown = self.outbox.has_waiting  # what an earlier life had in flight is among these rows
        self._link: Link | None = None
        self._sender: Sender | None = None
        # Subscription identifiers of queued rows as change points: (first sequence number, identifiers from there on).
        self._identifiers_from: deque[tuple[int, tuple[int, ...]]] = deque([(0, ())])

    @property
    def connected(self) -> bool:
        return self._link is not None

    def over(self, now: float) -> bool:
        """Whether its time has passed since its last connection ended."""
        return self.ended_at is not None and self.expiry != NEVER and now - self.ended_at >= self.expiry

    def attach(self, link: Link, version: int, window: int, max_packet: int, now_us: int) -> None:
        """A connection takes the session over: what was unacknowledged goes out again, then what waits."""
        self._link = link
        if self._sender is None:
            self._sender = Sender(version, window, last_id=CLIENT_WINDOW)
        self._sender.version = version
        self._sender.flow.window = window
        self._sender.max_packet = max_packet
        if self._ids_unknown:
            # An id that the client still holds half-way through QoS 2 would swallow our next message with that id.
            link.write(encode_acks(PUBREL, np.arange(1, CLIENT_WINDOW + 1, dtype=np.uint16)))
            self._ids_unknown = False
        self._sender.resume()
        self.pump(now_us)

    def detach(self) -> None:
        self._link = None

    def queue(self, changes: Changes, batch: Batch, identifiers: tuple[int, ...]) -> None:
        """OUTBOX rows for this client; while it is away only those it was promised (QoS 1 and 2).

        If the session is kept they are part of this write, and may be sent when it is safe (``landed``); else they may at once.
        """
        if not self.connected:
            wire_qos = batch.column("wire_qos").to_numpy(zero_copy_only=False)
            if not wire_qos.all():
                self.outbox.refuse("offline-qos0", int((wire_qos == 0).sum()))
                batch = batch.take(np.flatnonzero(wire_qos))
                if batch.num_rows == 0:
                    return
        write = changes if self.kept else Changes()
        start = self.outbox.end
        if self.outbox.land(write, batch):
            self._identify(start, identifiers)
        if not self.kept:
            self._engine.write(write)
            self.outbox.landed()

    def _identify(self, start: int, identifiers: tuple[int, ...]) -> None:
        """Rows from here on came by subscriptions with these identifiers."""
        if identifiers != self._identifiers_from[-1][1]:
            self._identifiers_from.append((start, identifiers))

    def recall_identifiers(self) -> None:
        """Rows of an earlier life do not say by which subscriptions they came: by those that match them now."""
        if not any(self.identifiers.values()):
            return
        found: dict[str, tuple[int, ...]] = {}
        for first, batch in self.outbox.pieces():
            for row, topic in enumerate(batch.column("topic").to_pylist()):
                if topic is None:
                    continue  # a row of QoS 0 that did not survive
                if topic not in found:
                    found[topic] = tuple(own for each, own in self.identifiers.items() if own and matches(each, topic))
                self._identify(first + row, found[topic])

    def landed(self, end: int, now_us: int) -> None:
        """Rows below this number are safe."""
        self.outbox.landed(end)
        self.pump(now_us)

    def give_up(self, changes: Changes) -> None:
        """Nobody will ask for this session again: what is on the disk of it goes."""
        self.inbound.forget(changes)
        self.outbox.give_up(changes)

    def pump(self, now_us: int) -> None:
        """Send what waits, as far as the window and the socket go: first what is due again."""
        self._resend(now_us)
        while self._link is not None and self._sender is not None and self._link.writable and self._sender.room:
            polled = self.outbox.poll(min(self._sender.room, SEND_CHUNK, self._rows_until_change()))
            if polled is None:
                return
            identifiers = self._identifiers_at(polled.first)
            out = self._sender.send(0, polled.seqs, polled.batch, now_us, identifiers)
            self._link.write(out.data)
            self.outbox.acknowledge(out.unacknowledged)
            for reason, seqs in (("expired", out.expired), ("too-large", out.oversized)):
                if len(seqs):
                    self.outbox.drop(seqs, reason)

    def _resend(self, now_us: int) -> None:
        while self._link is not None and self._sender is not None and self._link.writable and self._sender.resending:
            chunks, finished = self._sender.resend(lambda _, seqs: self.outbox.rows(seqs), now_us)
            for chunk in chunks:
                self._link.write(chunk)
            self._finish(finished)
            if not chunks:
                return

    def acked(self, acks: npt.NDArray[np.int64], now_us: int) -> None:
        if self._sender is None or self._link is None:
            return
        replies, finished = self._sender.acked(acks)
        self._link.write(replies)
        self._finish(finished)
        self.pump(now_us)

    def _finish(self, finished: list[Finished]) -> None:
        for rows in finished:
            self.outbox.acknowledge(rows.delivered)
            if len(rows.refused):
                # A subscriber that refuses a message has had it [MQTT-4.4.0-2]: it is not sent again.
                self.outbox.drop(rows.refused, "refused")

    def _identifiers_at(self, seq: int) -> tuple[int, ...]:
        while len(self._identifiers_from) > 1 and self._identifiers_from[1][0] <= seq:
            self._identifiers_from.popleft()
        return self._identifiers_from[0][1]

    def _rows_until_change(self) -> int:
        """How many rows from the cursor on share their subscription identifiers."""
        for start, _ in self._identifiers_from:
            if start > self.outbox.cursor:
                return start - self.outbox.cursor
        return SEND_CHUNK
