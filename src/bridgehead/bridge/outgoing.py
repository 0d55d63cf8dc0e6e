"""The outgoing half of an uplink: rows of all its routes onto one connection, with the promise their QoS makes.

One turn each route, as far as the window and the socket go. On reconnect: unacknowledged rows first, with DUP, then tier 2,
then tier 1. If the remote has lost the session, everything unacknowledged is sent again as new, in order.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from bridgehead.bridge.forwarder import Forwarder
from bridgehead.bridge.watchdog import Work
from bridgehead.clock import now_us
from bridgehead.link.link import Link
from bridgehead.session.sender import Finished, Sender, Sent
from bridgehead.storage.outbox import Polled

log = logging.getLogger(__name__)

WINDOW: Final = 16_384
"""QoS 1 and 2 messages in flight at most, and the highest packet id of a PUBLISH; the remote may allow fewer."""
WINDOW_QOS2_V4: Final = 20
"""MQTT 3.1.1 has no Receive Maximum; mosquitto silently drops QoS 2 messages beyond its 20 (docs/decisions/0003)."""
SEND_ROWS: Final = 4096
SETTLE_EVERY: Final = 0.005


@dataclass(slots=True)
class _InSocket:
    """Rows sent without an acknowledgement to come: each is done when the kernel has taken its last byte."""

    forwarder: Forwarder
    seqs: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]  # the position of each row's last byte among all that were written


class Outgoing:
    """Sends what the forwarders have while a link is attached; holds it in tier 2 while none is."""

    def __init__(self, bridge: str, version: int, forwarders: list[Forwarder]) -> None:
        self._bridge = bridge
        self._forwarders = forwarders
        self._sender = Sender(version, WINDOW, last_id=WINDOW)
        self._link: Link | None = None
        self._turn = 0  # whose turn it is among the forwarders
        self._pump_due = False
        self._in_socket: deque[_InSocket] = deque()
        self._settler: asyncio.TimerHandle | None = None
        self._acknowledged = 0  # acknowledgements that moved something, ever
        self._expect_after = 0  # no acknowledgement can be expected before the kernel has taken this many bytes
        for forwarder in forwarders:
            forwarder.outbox.on_waiting = self.wake

    @property
    def in_flight(self) -> int:
        return self._sender.flow.in_flight

    def work(self) -> Work:
        """What the watchdog looks at."""
        link = self._link
        if link is None:
            return Work(False, 0, 0, False, 0, 0)
        taken = min(link.taken, self._expect_after) if self.in_flight else link.taken if self._in_socket else 0
        return Work(
            listening=link.reading,
            in_flight=self.in_flight,
            in_socket=sum(len(run.seqs) for run in self._in_socket),
            waiting=any(forwarder.has_rows for forwarder in self._forwarders),
            acknowledged=self._acknowledged,
            taken=taken,
        )

    def limit(self, window: int, max_packet: int) -> None:
        """What the remote allows on this connection."""
        self._sender.flow.window = min(window, WINDOW)
        self._sender.max_packet = max_packet

    def resume(self) -> None:
        """The remote has kept the session: what is unacknowledged goes out again, first."""
        self._sender.resume()

    def start_anew(self) -> int:
        """The remote knows nothing of us: what is unacknowledged waits again in its old place. Returns how many."""
        lost = self._sender.forget()
        for owner, seqs in lost.items():
            self._forwarders[owner].return_all(seqs)
        return sum(len(seqs) for seqs in lost.values())

    def attach(self, link: Link) -> None:
        self._link = link
        self.pump()
        self._expect_after = link.written

    def detach(self) -> None:
        """The connection is gone: what the kernel did not take goes back; tier 2 fills while we are away."""
        if self._link is None:
            return
        self._settle()
        unsent: dict[int, list[npt.NDArray[np.int64]]] = {forwarder.number: [] for forwarder in self._forwarders}
        for run in self._in_socket:
            unsent[run.forwarder.number].append(run.seqs)
        self._in_socket.clear()
        self._link = None
        for forwarder in self._forwarders:
            forwarder.return_all(np.concatenate([np.zeros(0, np.int64), *unsent[forwarder.number]]))
            forwarder.hold()

    def stop(self) -> None:
        if self._settler is not None:
            self._settler.cancel()

    def wake(self) -> None:
        """Something may wait in an outbox."""
        if not self._pump_due:
            self._pump_due = True
            asyncio.get_running_loop().call_soon(self.pump)

    def pump_if_due(self) -> None:
        """Whoever has just woken us need not wait for the next turn of the loop."""
        if self._pump_due:
            self.pump()

    def pump(self) -> None:
        """Send while there is something to send, room in the window and room in the socket; one turn each route."""
        self._pump_due = False
        if self._link is None:
            for forwarder in self._forwarders:
                forwarder.hold()
            return
        self._resend()
        idle = 0
        while idle < len(self._forwarders) and self._link is not None and self._link.writable and self._sender.room:
            self._turn = (self._turn + 1) % len(self._forwarders)
            idle = 0 if self._send_some(self._forwarders[self._turn], self._link) else idle + 1
        self._settle()

    def _resend(self) -> None:
        """What was unacknowledged when the last connection ended comes first."""
        while self._link is not None and self._link.writable and self._sender.resending:
            chunks, finished = self._sender.resend(lambda owner, seqs: self._forwarders[owner].outbox.rows(seqs), now_us())
            for chunk in chunks:
                self._link.write(chunk)
            self._finish(finished)
            if not chunks:
                return

    def _send_some(self, forwarder: Forwarder, link: Link) -> bool:
        polled = forwarder.next(min(self._sender.room, SEND_ROWS))
        if polled is not None and self._sender.version < 5:
            polled = self._within_qos2_window(forwarder, polled)
        if polled is None:
            return False
        first_in_flight = not self.in_flight
        sent = self._sender.send(forwarder.number, polled.seqs, polled.batch, now_us())
        link.write(sent.data)
        if first_in_flight:
            self._expect_after = link.written
        self._account(forwarder, sent, link)
        return True

    def _account(self, forwarder: Forwarder, sent: Sent, link: Link) -> None:
        for reason, seqs in (("expired", sent.expired), ("too-large", sent.oversized)):
            if len(seqs):
                forwarder.outbox.drop(seqs, reason)
        if len(sent.unacknowledged):
            start = link.written - len(sent.data)
            self._in_socket.append(_InSocket(forwarder, sent.unacknowledged, start + sent.ends))

    def _within_qos2_window(self, forwarder: Forwarder, polled: Polled) -> Polled | None:
        qos2 = polled.batch.column("wire_qos").to_numpy(zero_copy_only=False) == 2
        if not qos2.any():
            return polled
        room = WINDOW_QOS2_V4 - self._sender.flow.in_flight_qos2
        over = np.flatnonzero(np.cumsum(qos2) > max(room, 0))
        if not len(over):
            return polled
        fits = int(over[0])
        polled, rest = polled.split(fits)
        forwarder.give_back(rest)
        return polled if fits else None

    def _settle(self) -> None:
        """Rows whose last byte the kernel has taken are done."""
        if self._link is None or not self._in_socket:
            return
        taken = self._link.taken
        while self._in_socket:
            run = self._in_socket[0]
            done = int(np.searchsorted(run.ends, taken, side="right"))
            run.forwarder.outbox.acknowledge(run.seqs[:done])
            if done < len(run.seqs):
                run.seqs, run.ends = run.seqs[done:], run.ends[done:]
                break
            self._in_socket.popleft()
        if self._in_socket and self._settler is None:
            self._settler = asyncio.get_running_loop().call_later(SETTLE_EVERY, self._settle_later)

    def _settle_later(self) -> None:
        self._settler = None
        self._settle()

    def acked(self, acks: npt.NDArray[np.int64]) -> None:
        replies, finished = self._sender.acked(acks)
        if self._link is not None:
            self._link.write(replies)
            if finished or replies:
                self._acknowledged += 1
                self._expect_after = self._link.written
        self._finish(finished)
        self.wake()

    def _finish(self, finished: list[Finished]) -> None:
        for rows in finished:
            outbox = self._forwarders[rows.owner].outbox
            outbox.acknowledge(rows.delivered)
            if len(rows.refused):
                for reason in np.unique(rows.reasons):
                    outbox.drop(rows.refused[rows.reasons == reason], f"refused-{int(reason):#04x}")
                log.warning("bridge %s: the remote refused %d messages", self._bridge, len(rows.refused))
