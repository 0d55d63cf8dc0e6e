"""One client's connection: the MQTT conversation on the broker's side, from CONNECT to the end."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from bridgehead.clock import monotonic
from bridgehead.link.link import Buffer, Link
from bridgehead.session.rows import receive, unreceive
from bridgehead.session.stream import Fault, PacketStream
from bridgehead.wire.encode import encode
from bridgehead.wire.intake import Rows, ScanResult
from bridgehead.wire.kernels_scan import CONN
from bridgehead.wire.packets import (
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
    Will,
)
from bridgehead.wire.reason import Reason

if TYPE_CHECKING:
    from bridgehead.broker.broker import Broker
    from bridgehead.broker.session import ClientSession

log = logging.getLogger(__name__)

HAVE_RETURN_CODE = (Reason.UNSUPPORTED_PROTOCOL_VERSION, Reason.CLIENT_IDENTIFIER_NOT_VALID)
"""Faults of a CONNECT that also 3.1.1 can be told; an unknown version is answered in that older form too."""

CONNECT_WITHIN = 10.0
"""Seconds a peer has to say CONNECT."""
END_WITHIN = 10.0
"""Seconds a peer has to take our last words."""


class Connection:
    """Speaks MQTT with one client; what it publishes goes to the broker's intake under this connection's number."""

    def __init__(self, broker: Broker, number: int) -> None:
        self.broker = broker
        self.number = number
        self.link = Link(self)
        self.client_id = ""
        self.session: ClientSession | None = None
        self.will: Will | None = None
        self.closing = False
        self.is_bridge = False  # it says so, in a version that has no other way to ask for what a bridge needs
        self._greeted = False  # CONNACK has been written
        self._stream = PacketStream(from_server=False)
        self._keep_alive = CONNECT_WITHIN  # seconds of silence after which the peer is gone; 0 = none
        self._last_heard = monotonic()
        self._ending_since: float | None = None  # when the sweep first saw it closing

    @property
    def version(self) -> int:
        return self._stream.version

    def link_opened(self) -> None:
        self.broker.connection_opened(self)

    def link_data(self, data: Buffer, end: int) -> tuple[int, int]:
        self._last_heard = monotonic()
        for item in self._stream.feed(data, end, self.broker.gathering.intake, self.number):
            if isinstance(item, ScanResult):
                self._scanned(item)
            elif isinstance(item, Fault):
                self.refuse(item.reason, item.text)
            else:
                self._control(item)
            if self.closing:
                # Asking for the next item would scan it: rows of nobody in everybody's intake.
                return end, 0
        return self._stream.taken, self._stream.need

    def _scanned(self, run: ScanResult) -> None:
        if run.row_to > run.row_from or run.replies:  # first: its rows are in everybody's intake, and must have a sender
            changed = self.broker.ids_changed(self, run.ids_from, run.ids_to)
            self.broker.gathering.received(self, run.replies, ids_changed=changed)
        if len(run.acks):
            self.broker.client_acked(self, run.acks)

    def _control(self, packet: Packet) -> None:
        if isinstance(packet, Pingreq):
            if self._greeted:
                self._pong()
            else:
                self._when_kept(self._pong)
            return
        self.broker.gathering.flush()  # whatever came before this packet counts as having happened before it
        if isinstance(packet, Connect):
            self._connect(packet)
        elif isinstance(packet, Subscribe):
            self._subscribe(packet)
        elif isinstance(packet, Unsubscribe):
            reasons = self.broker.unsubscribe(self, packet)
            self._when_kept(lambda: self.link.write(encode(Unsuback(packet.packet_id, reasons), self.version)))
        elif isinstance(packet, Disconnect):
            self._disconnect(packet)
        else:
            self.refuse(Reason.PROTOCOL_ERROR, f"a client may not send {type(packet).__name__.upper()}")

    def _connect(self, packet: Connect) -> None:
        if self.session is not None:
            self.refuse(Reason.PROTOCOL_ERROR, "a second CONNECT")  # [MQTT-3.1.0-2]
            return
        # MQTT 3.1 differs from 3.1.1 only in its CONNECT
        self._stream.version = max(packet.protocol_level, 4)
        self._keep_alive = packet.keep_alive * 1.5
        self.will = packet.will
        self.is_bridge = packet.bridge_bit and packet.protocol_level < 5
        connack = self.broker.connect(self, packet)
        if connack.reason >= 0x80 or self.session is None:
            self.link.write(encode(connack, self.version))
            self.will = None
            self._end()
            return
        self._stream.inbound = self.session.inbound.marks
        self._when_kept(lambda: self._greet(connack, packet))

    def _greet(self, connack: Connack, packet: Connect) -> None:
        self._greeted = True
        self.link.write(encode(connack, self.version))
        self.broker.connected(self, packet)

    def _pong(self) -> None:
        self.link.write(encode(Pingresp(), self.version))

    def _subscribe(self, packet: Subscribe) -> None:
        reasons, new = self.broker.subscribe(self, packet)

        def answer() -> None:
            self.link.write(encode(Suback(packet.packet_id, reasons), self.version))
            self.broker.send_retained(self, packet, new)

        self._when_kept(answer)

    def _when_kept(self, answer: Callable[[], None]) -> None:
        """Answers about a session leave when the disk has it as they say, in order; at once where there is no disk."""
        self.broker.when_kept(lambda: answer() if not self.closing and self.session is not None else None)

    def _disconnect(self, packet: Disconnect) -> None:
        expiry = packet.properties.get("session_expiry_interval")
        if isinstance(expiry, int) and self.session is not None:
            if expiry and not self.session.expiry:
                self.refuse(Reason.PROTOCOL_ERROR, "a session that ends with the connection cannot be kept afterwards")
                return
            self.session.expiry = expiry
        if packet.reason == Reason.NORMAL_DISCONNECTION:
            self.will = None
        self._end()

    def refuse(self, reason: int, text: str) -> None:
        """Tell the peer why, and close; nobody else notices."""
        if self.closing:
            return
        log.info("closing %s (%s): %s", self.client_id or "unknown client", self.link.peer, text)
        self.broker.count_refusal(reason)
        self.broker.gathering.flush()  # what came before the fault was sound: its acknowledgements leave first
        if self.session is None:
            version = self._stream.announced
            if version == 5 or reason in HAVE_RETURN_CODE:
                self.link.write(encode(Connack(False, Reason(reason)), max(version, 4)))
        elif self.version == 5:
            self.link.write(encode(Disconnect(Reason(reason)), 5))
        self._end()

    def taken_over(self) -> None:
        """Another connection has come with the same client id."""
        if self.version == 5:
            self.link.write(encode(Disconnect(Reason.SESSION_TAKEN_OVER), 5))
        self._end()

    def shut(self) -> None:
        if self.version == 5 and self.session is not None:
            self.link.write(encode(Disconnect(Reason.SERVER_SHUTTING_DOWN), 5))
        self._end()

    def _end(self) -> None:
        self.closing = True
        self.link.close()

    def reply(self, data: bytes) -> None:
        if not self.closing:
            self.link.write(data)

    def not_received(self, rows: Rows) -> None:
        """Those of these rows that are ours were not taken: they have not come."""
        unreceive(rows.rows[rows.rows[:, CONN] == self.number], self._stream.inbound)

    def received_again(self, rows: Rows) -> None:
        """These rows of ours, which were held back, are offered once more."""
        self.broker.ids_changed(self, *receive(rows.rows, self._stream.inbound))

    def failed(self, rows: Rows) -> None:
        self.not_received(rows)
        self.refuse(Reason.UNSPECIFIED_ERROR, "its messages could not be kept")

    def lingers(self, now: float) -> bool:
        """True when we have ended it and the peer, given time, does not take what was written before."""
        if self.closing and self._ending_since is None:
            self._ending_since = now
        return self._ending_since is not None and now >= self._ending_since + END_WITHIN

    def silent_since(self, now: float) -> bool:
        """True when the peer has been silent for longer than it may; a connection we do not read from is excused."""
        if not self.link.reading:
            self._last_heard = now
        return bool(self._keep_alive) and now > self._last_heard + self._keep_alive

    def link_writable(self) -> None:
        if self.session is not None:
            self.broker.pump(self.session)

    def link_closed(self, error: Exception | None) -> None:
        self.closing = True
        self.broker.connection_closed(self)
