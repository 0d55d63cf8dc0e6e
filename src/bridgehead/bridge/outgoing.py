"""The outgoing half of an uplink: rows of all its routes onto one connection, with the promise their QoS makes.

One turn each route, as far as the window, the socket and the pace go. On reconnect: unacknowledged rows first, with DUP, and
rows of QoS 0 that never left in their places between them, then tier 2, then tier 1. If the remote has lost the session,
everything unacknowledged is sent again as new, in order.

In an engine that outlives the process the packet ids of QoS 2 do, too (``PacketIds``): after a restart a message for which
PUBREC had come gets its PUBREL, and any other goes out in its old place in the queue, with its old id. So the rows of QoS 1
before and between them, whose ids are not kept, do not lose their place. An uplink that is rebuilt in a running node goes on in
the same way, whatever the engine: the old side leaves its record (``retire``), the new one takes it up.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bridgehead.bridge.acklatency import AckLatency
from bridgehead.bridge.between import Between
from bridgehead.bridge.echoes import EchoWindow
from bridgehead.bridge.forwarder import Forwarder, Lane
from bridgehead.bridge.lateacks import Acks, LateAcks, can_wait
from bridgehead.bridge.pace import Pace
from bridgehead.bridge.watchdog import Work
from bridgehead.clock import monotonic, now_us
from bridgehead.columns.batches import concat, payload_bytes
from bridgehead.delivery.departures import Departure, Departures
from bridgehead.delivery.packetids import PacketIds, forget
from bridgehead.link.link import Link
from bridgehead.session.sender import Finished, Sender, Sent, leading
from bridgehead.storage.engine import Changes, Engine, Shelf
from bridgehead.storage.marks import Seqs
from bridgehead.storage.outbox import POLL_BYTES
from bridgehead.storage.polled import Polled
from bridgehead.wire.frames import encode_acks

log = logging.getLogger(__name__)

WINDOW: Final = 16_384
"""QoS 1 and 2 messages in flight at most; the remote may allow fewer."""
LAST_ID: Final = WINDOW + 256
"""The highest packet id of a PUBLISH. Above the window, so that a whole window of kept ids leaves some for rows before them."""
WINDOW_QOS2_V4: Final = 20
"""MQTT 3.1.1 has no Receive Maximum; mosquitto silently drops QoS 2 messages beyond its 20 (docs/decisions/0003)."""
SEND_ROWS: Final = 4096
BACKLOG_BYTES: Final = 64 * 1024
BACKLOG_LOOKS: Final = 0.005
"""Where what is live goes first: how much of a backlog may wait in the socket, and after how many seconds to look again."""
PUBREL: Final = 6


class Outgoing:
    """Sends what the forwarders have while a link is attached; holds it in tier 2 while none is.

    ``session`` says whose packet ids these are: in the session of another client id they would mean nothing.
    """

    def __init__(
        self,
        bridge: str,
        version: int,
        forwarders: list[Forwarder],
        engine: Engine,
        session: Sequence[Any] = (),
        clock: Callable[[], float] = monotonic,
        pace: Pace | None = None,
        live_first: bool = False,
    ) -> None:
        """``live_first``: what comes while there is a connection goes before what waited when it was made."""
        self._bridge = bridge
        self._pace = pace
        self._live_first = live_first
        self._clock = clock
        self._forwarders = forwarders
        self.echoes: EchoWindow | None = None  # where the remote may send back what we send
        self._sender = Sender(version, WINDOW, last_id=LAST_ID)
        self._departures = Departures(engine.when_synced, self.wake)
        self._late = LateAcks(engine, self._acked_late)
        self.ack_latency = AckLatency(LAST_ID)
        self._record: PacketIds | None = None
        self._link: Link | None = None
        self._turn = 0  # whose turn it is among the forwarders
        self._pump_due = False
        self._due_timer: asyncio.TimerHandle | None = None  # when something that waits for its time may leave
        self._look_again: float | None = None  # when rows may leave that may not leave now
        self._acknowledged = 0  # acknowledgements that moved something, ever
        self._answered_last = -1  # of what was answered on this connection: when the last one was sent, by the order of sending
        self._between = Between()
        self._never_left = np.zeros(0, np.uint16)  # ids of rows that were about to leave when the last connection ended
        self._doubted = 0  # rows of an earlier life that may have left in a session which is not ours
        self._fresh = True  # the remote may hold ids half-way that this process knows nothing of
        self._resumed = False  # the remote has kept the session of this connection
        self._silent: asyncio.Event | None = None  # nothing new is sent; set when nothing is in flight any more
        self._barrier = False  # nothing leaves on this connection before what we know is safe
        for forwarder in forwarders:
            forwarder.outbox.on_waiting = self.wake
        self._engine = engine
        routes = [forwarder.outbox.route for forwarder in forwarders]
        record = PacketIds(engine, _record_name(bridge), session, routes, self._sender.flow, LAST_ID)
        if engine.durable or engine.state(_record_name(bridge)) is not None:
            self._fresh, self._doubted = record.take_up([forwarder.outbox for forwarder in forwarders], WINDOW)
        self._left = record  # where the ids are found by whoever comes next
        if engine.durable:
            self._record = record
        else:
            self._forget_record()  # it is not kept up to date from here on

    @property
    def in_flight(self) -> int:
        return self._sender.flow.in_flight

    def work(self) -> Work:
        """What the watchdog looks at."""
        if self._link is None:
            return Work(False, 0, 0, False, 0, 0, None)
        return Work(
            listening=self._link.reading and not self._departures.holding,
            in_flight=self.in_flight,
            in_socket=self._departures.in_socket,
            waiting=self._look_again is None and any(forwarder.has_rows for forwarder in self._forwarders),
            acknowledged=self._acknowledged,
            taken=self._departures.taken(in_flight=self.in_flight > 0),
            overtaken=oldest if 0 <= (oldest := self._sender.flow.oldest_unanswered) < self._answered_last else None,
        )

    def limit(self, window: int, max_packet: int) -> None:
        """What the remote allows on this connection."""
        self._sender.flow.window = min(window, WINDOW)
        self._sender.max_packet = max_packet

    def resume(self) -> int:
        """The remote has kept the session: what is unacknowledged goes out again. Returns how many may come twice."""
        self._resumed = True
        self._barrier = self._record is not None and self._record.known
        self._sender.resume()
        doubted, self._doubted = self._doubted, 0
        return doubted

    def start_anew(self, *, settle: bool = False) -> int:
        """The remote knows nothing of us: what is unacknowledged waits again in its old place, and may come twice: how many.

        ``settle``: it may hold ids half-way all the same, of which nobody knows.
        """
        flow = self._sender.flow
        doubted, self._doubted = self._doubted + flow.reserved - len(flow.among(self._never_left).ids), 0
        self._resumed = self._fresh = settle
        self._barrier = self._record is not None and self._record.known
        lost = self._sender.forget()
        for owner, seqs in (*lost.items(), *self._between.give_all_back().items()):
            self._forwarders[owner].lost(seqs)
        if self._record is not None and self._barrier:
            self._record.begin()
        return doubted + sum(len(seqs) for seqs in lost.values())

    def attach(self, link: Link) -> None:
        self._link = link
        self._answered_last = -1
        if self._live_first:
            for forwarder in self._forwarders:
                forwarder.connected()
        self._departures.attach(link)
        if self._barrier:
            self._departures.send(Departure(b""), after_sync=True)
        if self._resumed and self._fresh:
            # An id that the remote holds half-way through QoS 2 would swallow our next message with that id.
            self._departures.send(Departure(encode_acks(PUBREL, self._sender.flow.unused())), after_sync=False)
        self.pump()
        self._departures.expect()

    def detach(self) -> None:
        """The connection is gone: what the kernel did not take goes back; tier 2 fills while we are away."""
        if self._link is None:
            return
        self._late.work_off()
        self._link = None
        if self._silent is not None:
            self._silent.set()
        remains = self._departures.detach()
        self._never_left = remains.ids
        for forwarder in self._forwarders:
            unsent = [seqs for number, seqs in remains.rows if number == forwarder.number]
            if self.echoes is not None and unsent:
                self.echoes.unsent(forwarder.outbox.rows(np.concatenate(unsent)))
            forwarder.lost(self._not_between(forwarder, unsent))
            forwarder.hold()

    def _not_between(self, forwarder: Forwarder, unsent: list[Seqs]) -> Seqs:
        """Those of the rows that never left which wait again. Where rows were refused order has its own rules: there all do."""
        never_left = np.concatenate([self._between.give_back(forwarder.number), *unsent])
        if not len(never_left) or forwarder.poison.remembers:
            return never_left
        return self._between.keep(forwarder.number, never_left, self._sender.in_flight_of(forwarder.number))

    async def fall_silent(self, patience: float) -> None:
        """Send nothing new, and wait so long for what is in flight: what is acknowledged now does not come twice."""
        self._late.work_off()
        self._silent = asyncio.Event()
        if self.in_flight and self._link is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._silent.wait(), patience)

    def stop(self) -> None:
        self._departures.stop()
        if self._due_timer is not None:
            self._due_timer.cancel()

    def retire(self) -> None:
        """The end of this side, with the connection gone: its rows wait in their outboxes, its ids are in the record."""
        self.detach()
        self.stop()
        forwarders, self._forwarders = self._forwarders, []
        for forwarder in forwarders:
            between = self._between.give_back(forwarder.number)
            forwarder.retire(np.concatenate((self._sender.in_flight_of(forwarder.number), between)))
        if self._fresh and not self.in_flight:
            self._forget_record()  # the remote may hold ids that nobody knows of: whoever comes next must not think otherwise
        elif self._record is None:
            self._left.begin()

    def _forget_record(self) -> None:
        forget_ids(self._engine, self._bridge)

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
        if self._silent is not None:
            return
        self._look_again = None
        self._resend()
        if not self._sender.resending and not self._between:
            for lane in (Lane.LIVE, Lane.BACKLOG) if self._live_first else (Lane.EVERY,):
                while self._has_room(lane) and self._send_round(lane):
                    pass
        self._departures.settle()
        self._come_back_when_due()

    def _has_room(self, lane: Lane) -> bool:
        """Whether rows of this lane may leave now. Room in the window and in the socket comes by itself, time does not."""
        if not self._departures.writable or self._sender.room <= self._kept_for_live(lane) or not self._within_pace():
            return False
        assert self._link is not None
        if lane is Lane.BACKLOG and self._link.written - self._link.taken >= BACKLOG_BYTES:
            self._look_again = self._clock() + BACKLOG_LOOKS
            return False
        return True

    def _kept_for_live(self, lane: Lane) -> int:
        """A backlog leaves a part of the window to what is live."""
        return self._sender.flow.window // 4 if lane is Lane.BACKLOG else 0

    def _within_pace(self) -> int:
        """How many messages may leave now."""
        if self._pace is None:
            return SEND_ROWS
        allowed = self._pace.allowance(self._clock())
        if not allowed:
            self._look_again = self._pace.due
        return allowed

    def _spend(self, messages: int) -> None:
        if self._pace is not None:
            self._pace.spend(messages)

    def _come_back_when_due(self) -> None:
        """Refused rows have their time, and so have those that may not leave too fast.

        What is due and finds no room is sent when there is some: no timer for that.
        """
        if self._due_timer is not None:
            self._due_timer.cancel()
            self._due_timer = None
        holding = [forwarder.poison for forwarder in self._forwarders if forwarder.poison.holding]
        times = [due for poison in holding if (due := poison.next_due) is not None]
        if self._look_again is not None:
            times.append(self._look_again)
        if times and self._departures.writable and self._sender.room:
            self._due_timer = asyncio.get_running_loop().call_later(max(min(times) - self._clock(), 0.0), self.pump)

    def _resend(self) -> None:
        """What was unacknowledged when the last connection ended comes first, with what stands between."""
        while self._departures.writable and (self._sender.resending or self._between) and self._within_pace():
            if self._between and self._send_between():
                continue
            due = self._sender.due_again
            chunks, finished = self._sender.resend(
                lambda owner, seqs: self._forwarders[owner].outbox.rows(seqs), now_us(), before=self._between.first
            )
            self._spend(due - self._sender.due_again)
            for chunk in chunks:
                self._departures.send(Departure(chunk), after_sync=False)
            self._finish(finished)
            if not chunks and self._sender.resending:
                return

    def _send_between(self) -> bool:
        """False if nothing stands before what goes again next; a PUBREL brings no message, and nothing stands before it."""
        following = self._sender.first_again()
        if following is None and self._sender.resending:
            return False
        rows = self._between.take(following, self._within_pace())
        if rows is None:
            return False
        forwarder, seqs = self._forwarders[rows[0]], rows[1]
        self._send(forwarder, Polled(int(seqs[0]), forwarder.outbox.rows(seqs), seqs))
        return True

    def _send_round(self, lane: Lane) -> bool:
        """One turn each route, as far as one write should go; False if none of them can send anything."""
        if len(self._forwarders) == 1 or self._sender.flow.reserved:  # ids of an earlier life are looked for route by route
            most = min(self._most(lane), self._share())
            for forwarder in self._in_turn():
                polled = self._next_of(forwarder, most, lane)
                if polled is not None and self._send(forwarder, polled):
                    return True
            return False
        turns = self._take_turns(lane)
        if len(turns) > 1 and self._send_together(turns):
            return True
        sent = [self._send(forwarder, polled) for forwarder, polled in turns]
        return any(sent)

    def _most(self, lane: Lane) -> int:
        """Rows that one round may take."""
        return min(self._sender.room - self._kept_for_live(lane), self._within_pace(), SEND_ROWS)

    def _share(self) -> int:
        """Rows that each route may take of it: where time is short, it is shared."""
        if self._pace is None:
            return SEND_ROWS
        sharing = sum(forwarder.has_rows for forwarder in self._forwarders)
        return max(self._within_pace() // max(sharing, 1), 1)

    def _in_turn(self) -> Iterator[Forwarder]:
        """Every route once, from the one whose turn it is on."""
        for _ in self._forwarders:
            self._turn = (self._turn + 1) % len(self._forwarders)
            yield self._forwarders[self._turn]

    def _next_of(self, forwarder: Forwarder, most: int, lane: Lane) -> Polled | None:
        polled = forwarder.next(most, self._clock(), lane)
        gone = self._sender.let_go(forwarder.number, polled.first if polled is not None else None, forwarder.outbox.holds)
        if gone:
            self._departures.send(Departure(gone), after_sync=False)
        return polled

    def _take_turns(self, lane: Lane) -> list[tuple[Forwarder, Polled]]:
        """What the routes have to send next."""
        turns: list[tuple[Forwarder, Polled]] = []
        rows, share, size = self._most(lane), self._share(), 0
        for forwarder in self._in_turn():
            polled = None if forwarder.idle else self._next_of(forwarder, min(rows, share), lane)
            if polled is not None:
                turns.append((forwarder, polled))
                rows, size = rows - polled.rows, size + payload_bytes(polled.batch)
                if not rows or size >= POLL_BYTES:
                    break
        return turns

    def _send_together(self, turns: list[tuple[Forwarder, Polled]]) -> bool:
        """Rows of several routes in one; False if some of them need a look of their own."""
        flow, batch = self._sender.flow, concat([polled.batch for _, polled in turns])
        if flow.free < batch.num_rows or (self._sender.version < 5 and pc.max(batch.column("wire_qos")).as_py() > 1):
            return False
        first_in_flight = not self.in_flight
        sent = self._sender.send_together([(forwarder.number, polled.seqs) for forwarder, polled in turns], batch, now_us())
        if sent is None:
            return False
        if self.echoes is not None:
            self.echoes.sent(batch)
        self._spend(batch.num_rows)
        self._depart(sent, None, first_in_flight)
        return True

    def _send(self, forwarder: Forwarder, rows: Polled) -> bool:
        polled = self._within_window(forwarder, rows)
        if polled is None:
            return False
        first_in_flight = not self.in_flight
        sent = self._sender.send(forwarder.number, polled.seqs, polled.batch, now_us())
        if self.echoes is not None:
            left_out = np.isin(polled.seqs, np.concatenate((sent.expired, sent.oversized)))
            self.echoes.sent(polled.batch.filter(pa.array(~left_out)))
        self._spend(polled.rows - len(sent.expired) - len(sent.oversized))
        self._depart(sent, forwarder, first_in_flight)
        forwarder.expired(sent.expired)
        forwarder.too_large(sent.oversized)
        return True

    def _depart(self, sent: Sent, queue: Forwarder | None, first_in_flight: bool) -> None:
        """``queue``: whose rows without an acknowledgement to come these are, if there are any."""
        after_sync = self._record is not None and len(sent.exactly_once) > 0
        if self._record is not None and after_sync:
            self._record.took(sent.exactly_once)
        departure = Departure(sent.data, queue, sent.unacknowledged, sent.ends, sent.ids, first_in_flight)
        self._departures.send(departure, after_sync=after_sync)
        self.ack_latency.sent(sent.ids, self._clock())

    def _within_window(self, forwarder: Forwarder, polled: Polled) -> Polled | None:
        """As many of the rows as there are ids for, and as MQTT 3.1.1 lets us send without a word about its window."""
        flow = self._sender.flow
        if self._sender.version == 5 and flow.free >= polled.rows:
            return polled
        qos = polled.batch.column("wire_qos").to_numpy(zero_copy_only=False)
        fitting = self._sender.fitting(forwarder.number, polled.seqs, polled.batch)
        if self._sender.version < 5 and (qos == 2).any():
            fitting = min(fitting, leading(np.cumsum(qos == 2) <= WINDOW_QOS2_V4 - flow.in_flight_qos2))
        if fitting == polled.rows:
            return polled
        polled, rest = polled.split(fitting)
        forwarder.give_back(rest)
        return polled if polled.rows else None

    def acked(self, acks: Acks) -> None:
        now = self._clock()
        if can_wait(acks) and self._silent is None and 2 * self._sender.room >= self._sender.flow.window:
            self._late.put(acks, now)
        else:
            self._late.work_off()
            self._acked(acks, now)

    def _acked_late(self, acks: Acks, now: float) -> None:
        """A fault here ends the connection as one in the middle of a read does: on the next one it is seen what is owed."""
        try:
            self._acked(acks, now)
        except Exception:
            if self._link is not None:
                self._link.abort()
            raise

    def _acked(self, acks: Acks, now: float) -> None:
        answered = self._sender.answered(acks)
        self.ack_latency.acknowledged(answered.freed, now)
        if answered.finished:
            self._fresh = False
        self._finish(answered.finished)
        after_sync = self._record is not None and self._record.answered(answered.received, answered.freed)
        if self._link is not None:
            if answered.replies:
                self._departures.send(Departure(answered.replies), after_sync=after_sync)
            if answered.finished or answered.replies:
                self._acknowledged += 1
                self._departures.expect()
            for ids in (answered.received, answered.freed):  # nearly always in order: the last one tells
                if len(ids):
                    self._answered_last = max(self._answered_last, self._sender.flow.sent_at(int(ids[-1])))
            if self._silent is not None and not self.in_flight:
                self._silent.set()
        self.wake()

    def _finish(self, finished: list[Finished]) -> None:
        for rows in finished:
            forwarder = self._forwarders[rows.owner]
            if len(rows.refused):
                log.warning("bridge %s: the remote refused %d messages", self._bridge, len(rows.refused))
                forwarder.refused(rows, partial(self._sender.in_flight_of, rows.owner), self._clock())
            forwarder.delivered(rows.delivered)


def forget_ids(engine: Engine, bridge: str) -> None:
    """What is half-way in the session of this bridge nobody knows any more: whoever comes next settles every id first."""
    changes = Changes()
    forget(engine, changes, _record_name(bridge), LAST_ID)
    if changes.state:
        engine.write(changes)


def _record_name(bridge: str) -> Shelf:
    return ("ids", "bridge", bridge)
