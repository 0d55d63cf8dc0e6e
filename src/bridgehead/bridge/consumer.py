"""The consumer: what the remote broker sends goes into the journal of its pull routes, and is acknowledged when it is safe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bridgehead.clock import now_us
from bridgehead.link.gathering import Gathering, Source
from bridgehead.pipeline.door import Arrived, Door, timestamps
from bridgehead.pipeline.plans import Rows as Chosen
from bridgehead.pipeline.plans import TopicPlans, in_order
from bridgehead.session.rows import wire_batch
from bridgehead.storage.engine import Changes, Engine
from bridgehead.storage.inboundids import InboundIds
from bridgehead.storage.journal import Journal, Log
from bridgehead.wire.fields import Reader, write_varint
from bridgehead.wire.intake import Rows
from bridgehead.wire.kernels_scan import PROPS_LEN, PROPS_START
from bridgehead.wire.packettype import PacketType
from bridgehead.wire.properties import decode_properties
from bridgehead.wire.topicnames import matches


@dataclass(frozen=True, slots=True)
class _Wanting:
    doors: tuple[Door, ...]
    identifier: int  # where several copies may come: the subscription whose copy counts; else 0


class Consumer:
    """Matches each message against the bridge's own pull filters: once per route, whatever the remote's overlaps do."""

    def __init__(
        self,
        engine: Engine,
        journal: Journal,
        doors: list[Door],
        client_id: str,
        identified: tuple[str, ...],
        *,
        bridge: str,
        drop_retained: bool,
    ) -> None:
        self.gathering: Gathering[Source] = Gathering(engine, self._accept)
        self._engine = engine
        # Ids of one client id: what another one has received says nothing about the messages for this one.
        self.inbound = InboundIds(engine, ("inbound", "uplink", bridge, client_id))
        self._journal = journal
        self._doors = doors
        self._client = pa.array([client_id], pa.string())
        self._identified = identified  # filters that overlap, in the order of their subscription identifiers from 1 on
        self._drop_retained = drop_retained
        self._plans: TopicPlans[_Wanting] = TopicPlans(self._wanting)
        self.received = 0
        self.unmatched = 0
        self.retained_skipped = 0
        self.copies_skipped = 0

    @property
    def full(self) -> bool:
        """The journal takes no more than what is on its way: whoever brings messages waits."""
        return self._journal.full

    def session_lost(self, then: Callable[[], None]) -> None:
        """The remote starts anew, with the first id again: what we know of ids is forgotten, and only then ``then`` comes."""
        changes = Changes()
        self.inbound.forget(changes)
        if changes.state:
            self._engine.write(changes)
            self._engine.when_synced(then)
        else:
            then()

    def _wanting(self, topic: str) -> _Wanting:
        by = [at for at, each in enumerate(self._identified, 1) if matches(each, topic)]
        return _Wanting(tuple(door for door in self._doors if door.filters_match(topic)), by[0] if len(by) > 1 else 0)

    def _accept(self, rows: Rows, sources: list[Source]) -> None:
        """What came, and the QoS 2 ids it came with, in one write."""
        changes = Changes()
        touched: dict[str, Log] = {}
        try:
            if len(rows.rows):
                self._admit(changes, touched, rows)
            self.inbound.write(changes)
        finally:  # whatever a log has given an offset is written, else it could not be read
            if changes.puts or changes.state:
                self._engine.write(changes)
                ends = [(log, log.end) for log in touched.values()]
                self._engine.when_synced(lambda: _publish(ends))

    def _admit(self, changes: Changes, touched: dict[str, Log], rows: Rows) -> None:
        batch = wire_batch(rows)
        self.received += batch.num_rows
        if self._drop_retained and batch.column("retain").true_count:
            # MQTT 3.1.1 has no way to ask for no stored messages when subscribing: they are told by their flag.
            self.retained_skipped += batch.column("retain").true_count
            batch = batch.filter(pc.invert(batch.column("retain")))
            if batch.num_rows == 0:
                return
        times = timestamps(now_us(), batch.num_rows)
        clients = pa.DictionaryArray.from_arrays(pa.array(np.zeros(batch.num_rows, np.int32)), self._client)
        wanted: dict[Door, list[Chosen]] = {}
        for plan, chosen in self._plans.groups(batch.column("topic")):
            if plan.identifier:
                chosen = self._without_copies(rows, plan.identifier, chosen)
                if not len(chosen):
                    continue
            if not plan.doors:
                self.unmatched += batch.num_rows if chosen is None else len(chosen)
            for door in plan.doors:
                wanted.setdefault(door, []).append(chosen)
        arrived = Arrived(batch, clients, times)
        for door, parts in wanted.items():
            touched[door.log.name] = door.log
            door.admit(changes, *arrived.only(in_order(parts)))

    def _without_copies(self, rows: Rows, identifier: int, chosen: npt.NDArray[np.int64] | None) -> npt.NDArray[np.int64]:
        """Of several copies of a message the one that came by this subscription; all, if the remote names none."""
        candidates = np.arange(len(rows.rows)) if chosen is None else chosen
        kept = [row for row in candidates if identifier in (_identifiers(rows, int(row)) or (identifier,))]
        self.copies_skipped += len(candidates) - len(kept)
        return np.array(kept, np.int64)


def _identifiers(rows: Rows, row: int) -> list[int]:
    start, size = (int(rows.rows[row, column]) for column in (PROPS_START, PROPS_LEN))
    section = write_varint(size) + rows.arena[start : start + size].tobytes()
    found = decode_properties(Reader(section), PacketType.PUBLISH).get("subscription_identifier", [])
    assert isinstance(found, list)
    return found


def _publish(touched: list[tuple[Log, int]]) -> None:
    for log, end in touched:
        log.publish(end)
