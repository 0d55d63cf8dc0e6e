"""The session of a client: subscriptions, QoS 2 ids received, and the queue of what it is to get. It outlives connections."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from bridgehead.broker.outgoing import Outgoing, begin_record, forget_record
from bridgehead.broker.rowidentifiers import RowIdentifiers
from bridgehead.columns.batches import Batch
from bridgehead.link.link import Link
from bridgehead.storage.engine import Changes, Engine
from bridgehead.storage.inboundids import InboundIds
from bridgehead.storage.memory import MemoryEngine
from bridgehead.storage.outbox import Outbox
from bridgehead.wire.packets import Subscription
from bridgehead.wire.topicnames import matches

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
        self.connected = False
        self._outgoing: Outgoing | None = None
        self._row_identifiers = RowIdentifiers()

    def over(self, now: float) -> bool:
        """Whether its time has passed since its last connection ended."""
        return self.ended_at is not None and self.expiry != NEVER and now >= self.ended_at + self.expiry

    def attach(self, link: Link, version: int, window: int, max_packet: int, now_us: int) -> None:
        """A connection takes the session over: what was unacknowledged goes out again, then what waits."""
        self.connected = True
        if self._outgoing is None:
            self._outgoing = Outgoing(self.client_id, self._engine, self.outbox, self._row_identifiers, kept=self.kept)
        self._outgoing.attach(link, version, window, max_packet, now_us)

    def detach(self) -> None:
        self.connected = False
        if self._outgoing is not None:
            self._outgoing.detach()

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
            self._row_identifiers.forget(self.outbox.first)
            self._row_identifiers.add(start, identifiers)
        if not self.kept:
            self._engine.write(write)
            self.outbox.landed()

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
                self._row_identifiers.add(first + row, found[topic])

    def landed(self, end: int, now_us: int) -> None:
        """Rows below this number are safe."""
        self.outbox.landed(end)
        self.pump(now_us)

    def begin(self, changes: Changes) -> None:
        """It is new, and kept from this write on."""
        begin_record(changes, self.client_id)

    def give_up(self, changes: Changes) -> None:
        """Nobody will ask for this session again: what is on the disk of it goes."""
        self.inbound.forget(changes)
        forget_record(self._engine, changes, self.client_id)
        self.outbox.give_up(changes)

    def pump(self, now_us: int) -> None:
        """Send what waits, if anybody is there."""
        if self._outgoing is not None:
            self._outgoing.pump(now_us)

    def acked(self, acks: npt.NDArray[np.int64], now_us: int) -> None:
        if self._outgoing is not None:
            self._outgoing.acked(acks, now_us)
