"""The outgoing half of a client's session: rows of its queue onto its connection, with the promise their QoS makes.

It outlives connections: what is unacknowledged when one ends goes out first on the next, with DUP. Of a session that is kept
the packet ids of QoS 2 outlive the node (``PacketIds``): after a restart a message for which PUBREC had come gets its PUBREL,
and any other goes out in its old place in the queue, with its old id. Of all others nothing is written and nothing waits.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from bridgehead.broker.rowidentifiers import RowIdentifiers
from bridgehead.clock import now_us
from bridgehead.delivery import packetids
from bridgehead.delivery.departures import Departure, Departures
from bridgehead.delivery.packetids import PacketIds
from bridgehead.link.link import Link
from bridgehead.session.sender import PUBREL, Finished, Sender
from bridgehead.storage.engine import Changes, Engine, Shelf
from bridgehead.storage.outbox import Outbox
from bridgehead.storage.polled import Polled
from bridgehead.wire.frames import encode_acks

SEND_CHUNK: Final = 4096
CLIENT_WINDOW: Final = 1024
"""Messages in flight to one client at most; a client may ask for fewer."""
LAST_ID: Final = CLIENT_WINDOW + 256
"""The highest packet id. Above the window, so that a whole window of kept ids leaves some for rows before them."""
RECORDS: Final[Shelf] = ("ids", "client")
"""Under this name, and that of the client, are the ids that are half-way."""


def begin_record(changes: Changes, client_id: str) -> None:
    """A session that is to be kept begins with this write: no id of it is half-way."""
    changes.state[_record(client_id)] = packetids.head([], [client_id])


def forget_record(engine: Engine, changes: Changes, client_id: str) -> None:
    """The session ends with this write, whether or not anybody has asked for its ids in this life."""
    packetids.forget(engine, changes, _record(client_id), LAST_ID)


def _record(client_id: str) -> Shelf:
    return (*RECORDS, client_id)


class Outgoing:
    """Made when the client first connects in this life of the node: many sessions wait for theirs at a start."""

    def __init__(self, client_id: str, engine: Engine, outbox: Outbox, identifiers: RowIdentifiers, *, kept: bool) -> None:
        self._outbox = outbox
        self._identifiers = identifiers
        self._sender = Sender(5, CLIENT_WINDOW, last_id=LAST_ID)
        self._departures = Departures(engine.when_synced, lambda: self.pump(now_us()))
        self._attached = False
        self._fresh = False  # the client may hold ids half-way that this process knows nothing of
        self._record: PacketIds | None = None
        if kept:
            self._record = PacketIds(engine, _record(client_id), [], [client_id], self._sender.flow, LAST_ID)
            self._fresh = self._record.take_up([outbox], CLIENT_WINDOW).fresh

    def attach(self, link: Link, version: int, window: int, max_packet: int, now_us: int) -> None:
        """CONNACK has left, and so all that was written before it is safe: what we know of ids may be said at once."""
        self._attached = True
        self._departures.attach(link)
        self._sender.version = version
        self._sender.flow.window = min(window, CLIENT_WINDOW)
        self._sender.max_packet = max_packet
        if self._fresh:
            # An id that the client still holds half-way through QoS 2 would swallow our next message with that id.
            self._depart(encode_acks(PUBREL, self._sender.flow.unused()))
        self._sender.resume()
        self.pump(now_us)

    def detach(self) -> None:
        """The connection is gone. What was about to leave has its id, and is due again; rows of QoS 0 were sent once."""
        self._attached = False
        self._departures.detach()

    def pump(self, now_us: int) -> None:
        """Send what waits, as far as the window and the socket go: first what is due again."""
        self._resend(now_us)
        while self._departures.writable and self._sender.room:
            polled = self._outbox.poll(min(self._sender.room, SEND_CHUNK, self._rows_until_change()))
            self._depart(self._sender.let_go(0, polled.first if polled is not None else None, self._outbox.holds))
            if polled is not None:
                polled = self._with_ids(polled)
            if polled is None:
                return
            self._send(polled, now_us)

    def _send(self, polled: Polled, now_us: int) -> None:
        sent = self._sender.send(0, polled.seqs, polled.batch, now_us, self._identifiers.at(polled.first))
        after_sync = self._record is not None and len(sent.exactly_once) > 0
        if self._record is not None and after_sync:
            self._record.took(sent.exactly_once)
        self._depart(sent.data, after_sync=after_sync)
        self._outbox.acknowledge(sent.unacknowledged)
        for reason, seqs in (("expired", sent.expired), ("too-large", sent.oversized)):
            if len(seqs):
                self._outbox.drop(seqs, reason)

    def _with_ids(self, polled: Polled) -> Polled | None:
        """As many of the rows as there are ids for."""
        fitting = self._sender.fitting(0, polled.seqs, polled.batch)
        if fitting == polled.rows:
            return polled
        polled, rest = polled.split(fitting)
        self._outbox.reset(rest.seqs)
        return polled if polled.rows else None

    def _resend(self, now_us: int) -> None:
        while self._departures.writable and self._sender.resending:
            chunks, finished = self._sender.resend(lambda _, seqs: self._outbox.rows(seqs), now_us, self._identifiers.at)
            for chunk in chunks:
                self._depart(chunk)
            self._finish(finished)
            if not chunks:
                return

    def acked(self, acks: npt.NDArray[np.int64], now_us: int) -> None:
        if not self._attached:
            return
        answered = self._sender.answered(acks)
        if answered.finished:
            self._fresh = False
        self._finish(answered.finished)
        after_sync = self._record is not None and self._record.answered(answered.received, answered.freed)
        self._depart(answered.replies, after_sync=after_sync)
        self.pump(now_us)

    def _depart(self, data: Any, *, after_sync: bool = False) -> None:
        if len(data):
            self._departures.send(Departure(data), after_sync=after_sync)

    def _finish(self, finished: list[Finished]) -> None:
        for rows in finished:
            self._outbox.acknowledge(rows.delivered)
            if len(rows.refused):
                # A subscriber that refuses a message has had it [MQTT-4.4.0-2]: it is not sent again.
                self._outbox.drop(rows.refused, "refused")

    def _rows_until_change(self) -> int:
        """How many rows from the cursor on share their subscription identifiers."""
        cursor = self._outbox.cursor
        change = self._identifiers.change_after(cursor)
        return SEND_CHUNK if change is None else change - cursor
