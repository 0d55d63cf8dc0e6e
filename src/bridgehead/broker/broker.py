"""The broker: who is connected, what they sent in this tick, and the acknowledgements due for it.

Every connection scans what it reads into one intake. Once per turn of the event loop the intake becomes one batch: columns
are built, the distributor decides, the journal is written, and when that write keeps its promise the acknowledgements leave,
each connection's in the order of its packets.
"""

from __future__ import annotations

import asyncio
import dataclasses
import secrets
from collections.abc import Callable, Iterable
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bridgehead.broker.connection import Connection
from bridgehead.broker.distributor import Distributor, clients_of, single_client
from bridgehead.broker.doorkeeper import Doorkeeper, count_out, verdict_from_within
from bridgehead.broker.session import NEVER, ClientSession
from bridgehead.broker.sessionstore import SessionStore
from bridgehead.clock import monotonic, now_us
from bridgehead.columns.batches import Batch
from bridgehead.columns.schema import WIRE
from bridgehead.link.gathering import Answers, Gathering
from bridgehead.pipeline.admission import judge
from bridgehead.pipeline.door import Door
from bridgehead.session.rows import wire_batch
from bridgehead.storage.engine import Changes, Engine
from bridgehead.storage.freespace import FreeSpace
from bridgehead.storage.inboundids import InboundIds
from bridgehead.storage.journal import Journal, Log
from bridgehead.wire.intake import Rows
from bridgehead.wire.kernels_scan import CONN
from bridgehead.wire.packets import Connack, Connect, Subscribe, Unsubscribe, Will
from bridgehead.wire.reason import Reason
from bridgehead.wire.topicnames import share_of

SWEEP_EVERY: Final = 1.0
SESSIONS_LIMIT: Final = 100_000
"""Sessions at most, with or without a connection: a client that would need one more is refused."""


Also = Callable[[Changes], None]
Taken = Callable[[Changes, int, int], None]
"""A write, how many rows are done with, and how many of those nobody here had subscribed to."""


def _no_matter(changes: Changes, rows: int, unheard: int) -> None:
    """Nothing else changes with what is published."""


class Broker:
    """Owns connections, sessions and the tick."""

    def __init__(
        self, engine: Engine, journal: Journal, doors: list[Door], max_rows: int, max_bytes: int, space: FreeSpace | None = None
    ) -> None:
        self.gathering: Gathering[Connection] = Gathering(engine, self._gathered)
        self.distributor = Distributor(engine, lambda: doors)
        self._store = SessionStore(engine, lambda name, kept: ClientSession(name, engine, max_rows, max_bytes, kept=kept))
        self.sessions = self._store.found()
        self.connections: dict[int, Connection] = {}
        self.by_client: dict[str, Connection] = {}
        self.received_rows = 0
        self.refusals: dict[str, int] = {}
        self._engine = engine
        self._journal = journal
        self._ids_changed: dict[str, InboundIds] = {}  # of clients whose QoS 2 ids changed in this turn
        self._next_number = 1
        self._held: set[Connection] = set()  # connections not read from while the journal is full
        self._loop = asyncio.get_running_loop()
        self.doorkeeper = Doorkeeper(self.distributor.short, self.gathering, self.read_on, space)
        self._sweeper = self._loop.call_later(SWEEP_EVERY, self._sweep_later)
        self._wills: dict[str, tuple[asyncio.TimerHandle, Will]] = {}  # of clients that may still come back
        for session in self.sessions.values():
            self.distributor.resume(session)

    # -- the tick -----------------------------------------------------------------------------------------------------

    def new_connection(self) -> Connection:
        self._next_number += 1
        return Connection(self, self._next_number)

    def _gathered(self, rows: Rows, sources: list[Connection]) -> Answers[Connection] | None:
        ids, self._ids_changed = self._ids_changed, {}

        def write_ids(changes: Changes) -> None:
            for each in ids.values():
                each.write(changes)

        if not len(rows.rows):
            self._write(write_ids)
            return None
        self.doorkeeper.offer_if_due(sources)  # those who were held back came first
        names = {connection.number: connection.client_id for connection in sources}
        batch, clients = wire_batch(rows), clients_of(rows.rows[:, CONN], names.__getitem__)
        verdict = self.doorkeeper.judge(batch, clients, rows, sources)
        answers = None
        if verdict is not None:
            answers = self.doorkeeper.carry_out(verdict, rows, sources)
            admitted = pa.array(verdict.admitted)
            batch, clients = batch.filter(admitted), clients.filter(admitted)
        if batch.num_rows:
            self._accept(batch, clients, write_ids)
        else:
            self._write(write_ids)
        if self._journal.full:
            self._hold(sources)
        return answers

    def _write(self, add: Also) -> None:
        changes = Changes()
        add(changes)
        self._engine.write(changes)

    def ids_changed(self, connection: Connection, ids_from: int, ids_to: int) -> bool:
        """Whether QoS 2 ids that lie in this range have changed, and are to be written with their rows."""
        session = connection.session
        if session is None or not session.inbound.changed(ids_from, ids_to):
            return False
        self._ids_changed[session.client_id] = session.inbound
        return True

    def publish(self, batch: Batch, client_id: str, taken: Taken = _no_matter, *, waits: bool = False) -> int:
        """Rows of WIRE form from inside the node (a pull route, a will), as if a client had published them.

        Returns how many leading ones are done with; ``taken`` adds to the same write what is to be true with that. With
        ``waits`` these may be fewer than all: the next one has no room.
        """
        clients = single_client(client_id, batch.num_rows)
        done = int(batch.num_rows)
        short = self.distributor.short(batch)
        if short:
            verdict = verdict_from_within(batch, waits=waits)
            judge(verdict, short, batch, clients)
            count_out(verdict)
            done = verdict.held[0][0] if verdict.held else done
            admitted = pa.array(verdict.admitted)
            batch, clients = batch.filter(admitted), clients.filter(admitted)
        published, heard = batch.num_rows, self.distributor.heard
        if published:
            self._accept(batch, clients, lambda changes: taken(changes, done, published + heard - self.distributor.heard))
        else:
            self._write(lambda changes: taken(changes, done, 0))
        return done

    def publish_all(self, batch: Batch, client_id: str, with_it: Also) -> bool:
        """The same for rows that come all in one write or not at all: False if there is no room for all of them now."""
        short = self.distributor.short(batch)
        if self._journal.full or self.doorkeeper.disk_is_low(batch):
            return False
        clients = single_client(client_id, batch.num_rows)
        if short:
            verdict = verdict_from_within(batch, waits=True)
            judge(verdict, short, batch, clients)
            if not verdict.admitted.all():
                return False
        self._accept(batch, clients, with_it)
        return True

    def _accept(self, batch: Batch, clients: pa.DictionaryArray, with_it: Also) -> None:
        """What came goes to routes and subscribers; ``with_it`` adds to the same write what is to be true with it."""
        changes = Changes()
        self.received_rows += batch.num_rows
        try:
            self.distributor.distribute(changes, batch, clients, now_us())
            with_it(changes)
        finally:  # whatever a log has given an offset is written, else it could not be read
            self._engine.write(changes)
            if changes.puts:
                ends = [(log, log.end) for log in self._journal.logs.values()]
                self._engine.when_synced(lambda: _journal_safe(ends))
        dirty, self.distributor.dirty = self.distributor.dirty, {}
        self._queued(dirty.values())

    def _queued(self, sessions: Iterable[ClientSession]) -> None:
        """Rows for these sessions are written: they are sent now, those of a kept session when they are safe."""
        kept = []
        for session in sessions:
            if session.kept:
                kept.append((session, session.outbox.end))
            else:
                self.pump(session)
        if kept:
            self._engine.when_synced(lambda: _landed(kept))

    def _hold(self, connections: list[Connection]) -> None:
        """The journal is full: stop reading from those who fill it until there is room."""
        for connection in connections:
            connection.link.pause_reading()
            self._held.add(connection)

    def room_again(self) -> None:
        """There may be room, in the journal, in an outbox or on the disk, for those who wait for it."""
        if self._held and not self._journal.full:
            held, self._held = self._held, set()
            for connection in held:
                self.read_on(connection)
        self.doorkeeper.room_again()

    def read_on(self, connection: Connection) -> None:
        """Read from this client, unless there is a reason left not to."""
        if connection not in self._held and connection not in self.doorkeeper:
            connection.link.resume_reading()

    # -- connections and sessions -------------------------------------------------------------------------------------

    def connection_opened(self, connection: Connection) -> None:
        self.connections[connection.number] = connection

    def connect(self, connection: Connection, packet: Connect) -> Connack:
        """Decide on a CONNECT: take over, resume or start a session."""
        properties: dict[str, object] = {}
        client_id = packet.client_id
        if not client_id:
            if packet.protocol_level < 5 and not packet.clean_start:
                return Connack(False, Reason.CLIENT_IDENTIFIER_NOT_VALID)  # [MQTT-3.1.3-8]
            client_id = f"auto-{secrets.token_hex(8)}"
            properties["assigned_client_identifier"] = client_id
        if "authentication_method" in packet.properties:
            return Connack(False, Reason.BAD_AUTHENTICATION_METHOD)
        connection.client_id = client_id
        previous = self.by_client.get(client_id)
        if previous is not None:
            previous.taken_over()
            self._detach(previous)
        session = self.sessions.get(client_id)
        present = session is not None and not packet.clean_start
        if not present:
            if session is not None:
                self._discard(session)
            elif len(self.sessions) >= SESSIONS_LIMIT:
                self.count_refusal(Reason.QUOTA_EXCEEDED)
                return Connack(False, Reason.QUOTA_EXCEEDED)
            session = self._store.new(client_id, _session_expiry(packet))
            self.sessions[client_id] = session
        assert session is not None
        session.expiry = _session_expiry(packet)
        session.ended_at = None
        self._store.connected(session, new=not present)
        connection.session = session
        self.by_client[client_id] = connection
        if client_id in self._wills:
            timer, will = self._wills.pop(client_id)
            timer.cancel()
            if not present:
                self._publish_will(client_id, will)  # its session has ended [MQTT-3.1.2-8]
        if packet.protocol_level == 5:
            properties["shared_subscription_available"] = 0
        return Connack(present, Reason.SUCCESS, properties)

    def connected(self, connection: Connection, packet: Connect) -> None:
        """CONNACK has been written: the session may speak."""
        session = connection.session
        assert session is not None
        window = packet.properties.get("receive_maximum", 65_535)
        max_packet = packet.properties.get("maximum_packet_size", 0)
        assert isinstance(window, int)
        assert isinstance(max_packet, int)
        session.attach(connection.link, connection.version, window, max_packet, now_us())

    def connection_closed(self, connection: Connection) -> None:
        self.gathering.flush()
        self.connections.pop(connection.number, None)
        self._held.discard(connection)
        self._detach(connection)

    def _detach(self, connection: Connection) -> None:
        self.doorkeeper.forget(connection)
        session = connection.session
        if session is None:
            return
        connection.session = None
        self.by_client.pop(connection.client_id, None)
        session.detach()
        session.ended_at = monotonic()
        if connection.will is not None:
            self._will_later(connection.client_id, connection.will, session.expiry)
            connection.will = None
        if session.expiry == 0:
            self._discard(session)
        else:
            self._store.ended(session)

    def when_kept(self, callback: Callable[[], None]) -> None:
        """Call back when what was said about sessions so far survives the node; at once where nothing does."""
        if self._engine.durable:
            self._engine.when_synced(callback)
        else:
            callback()

    def _discard(self, session: ClientSession) -> None:
        self._store.give_up(session)
        for topic_filter in list(session.subscriptions):
            self.distributor.unsubscribe(session, topic_filter)
        if self.sessions.get(session.client_id) is session:
            del self.sessions[session.client_id]

    def _will_later(self, client_id: str, will: Will, session_expiry: int) -> None:
        delay = will.properties.get("will_delay_interval", 0)
        assert isinstance(delay, int)
        delay = min(delay, session_expiry)
        if delay:
            self._wills[client_id] = self._loop.call_later(delay, self._publish_will, client_id, will), will
        else:
            self._publish_will(client_id, will)

    def _publish_will(self, client_id: str, will: Will) -> None:
        self._wills.pop(client_id, None)
        self.publish(_will_row(will), client_id)

    def client_acked(self, connection: Connection, acks: npt.NDArray[np.int64]) -> None:
        if connection.session is not None:
            connection.session.acked(acks, now_us())

    def pump(self, session: ClientSession) -> None:
        session.pump(now_us())

    def subscribe(self, connection: Connection, packet: Subscribe) -> tuple[list[Reason], set[str]]:
        """The answer to each subscription, and which filters the session did not have before."""
        session = connection.session
        assert session is not None
        identifier = packet.properties.get("subscription_identifier", 0)
        assert isinstance(identifier, int)
        reasons = []
        new: set[str] = set()
        for wish in packet.subscriptions:
            if share_of(wish.filter)[0] is not None:
                reasons.append(Reason.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED)
                continue
            if connection.is_bridge:  # as mosquitto does: nothing of its own comes back, and retained is retained
                wish = dataclasses.replace(wish, no_local=True, retain_as_published=True)
            if self.distributor.subscribe(session, wish, identifier):
                new.add(wish.filter)
            reasons.append(Reason(wish.qos))
        self._store.subscribed(session, [wish.filter for wish in packet.subscriptions if wish.filter in session.subscriptions])
        return reasons, new

    def send_retained(self, connection: Connection, packet: Subscribe, new: set[str]) -> None:
        """The retained messages that subscriptions are due, after their SUBACK."""
        session = connection.session
        assert session is not None
        changes = Changes()
        for wish in packet.subscriptions:
            if wish.filter not in session.subscriptions or wish.retain_handling == 2:
                continue
            if wish.retain_handling == 1 and wish.filter not in new:
                continue
            identifier = session.identifiers[wish.filter]
            rows = self.distributor.retained.matching(wish.filter)
            if rows is not None:
                qos = pc.min_element_wise(rows.column("qos"), pa.scalar(wish.qos, pa.int32()))
                at = rows.schema.get_field_index("wire_qos")
                rows = rows.set_column(at, rows.schema.field(at), qos)
                session.queue(changes, rows, (identifier,) if identifier else ())
        self._engine.write(changes)
        self._queued([session])

    def unsubscribe(self, connection: Connection, packet: Unsubscribe) -> list[Reason]:
        session = connection.session
        assert session is not None
        known = [self.distributor.unsubscribe(session, one) for one in packet.filters]
        self._store.subscribed(session, [one for one, had in zip(packet.filters, known, strict=True) if had])
        return [Reason.SUCCESS if one else Reason.NO_SUBSCRIPTION_EXISTED for one in known]

    def count_refusal(self, reason: int) -> None:
        name = Reason(reason).name.lower()
        self.refusals[name] = self.refusals.get(name, 0) + 1

    def _sweep_later(self) -> None:
        self._sweeper = self._loop.call_later(SWEEP_EVERY, self._sweep_later)
        self.sweep(monotonic())

    def sweep(self, now: float) -> None:
        """Once a second: silent connections end, sessions past their time are forgotten."""
        for connection in list(self.connections.values()):
            if connection.lingers(now):
                connection.link.abort()
            elif connection.silent_since(now):
                connection.refuse(Reason.KEEP_ALIVE_TIMEOUT, "silent for longer than its keep alive allows")
        for session in list(self.sessions.values()):
            if session.over(now):
                self._discard(session)

    def close(self) -> None:
        """Nobody is served any more; what was acknowledged is in the journal."""
        self.gathering.flush()
        self._sweeper.cancel()
        for connection in list(self.connections.values()):
            connection.shut()
            self._detach(connection)  # now, while there is a disk to note it on
        for timer, _ in self._wills.values():
            timer.cancel()


def _landed(queues: list[tuple[ClientSession, int]]) -> None:
    for session, end in queues:
        session.landed(end, now_us())


def _journal_safe(ends: list[tuple[Log, int]]) -> None:
    for log, end in ends:
        log.publish(end)


def _session_expiry(packet: Connect) -> int:
    if packet.protocol_level < 5:
        return 0 if packet.clean_start else NEVER
    expiry = packet.properties.get("session_expiry_interval", 0)
    assert isinstance(expiry, int)
    return expiry


def _will_row(will: Will) -> Batch:
    properties = will.properties
    pairs = properties.get("user_property", [])
    row = {
        "topic": will.topic,
        "payload": will.payload,
        "qos": will.qos,
        "retain": will.retain,
        "message_expiry": properties.get("message_expiry_interval"),
        "payload_format": properties.get("payload_format_indicator"),
        "content_type": properties.get("content_type"),
        "response_topic": properties.get("response_topic"),
        "correlation_data": properties.get("correlation_data"),
        "user_properties": [{"key": key, "value": value} for key, value in pairs],
    }
    return pa.RecordBatch.from_pylist([row], schema=WIRE)
