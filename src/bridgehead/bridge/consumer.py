"""The consumer: what the remote broker sends goes into the journal of its pull routes, and is acknowledged when it is safe."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bridgehead.broker.plans import TopicPlans
from bridgehead.clock import now_us
from bridgehead.link.gathering import Gathering, Source
from bridgehead.pipeline.door import Door, timestamps
from bridgehead.session.rows import wire_batch
from bridgehead.storage.engine import Changes, Engine
from bridgehead.wire.intake import Rows


@dataclass(frozen=True, slots=True)
class _Wanting:
    doors: tuple[Door, ...]


class Consumer:
    """Matches each message against the bridge's own pull filters: once per route, whatever the remote's overlaps do."""

    def __init__(self, engine: Engine, doors: list[Door], client_id: str, *, drop_retained: bool) -> None:
        self.gathering: Gathering[Source] = Gathering(engine, self._accept)
        self._engine = engine
        self._doors = doors
        self._client = pa.array([client_id], pa.string())
        self._drop_retained = drop_retained
        self._plans: TopicPlans[_Wanting] = TopicPlans(self._wanting)
        self.received = 0
        self.unmatched = 0
        self.retained_skipped = 0

    def _wanting(self, topic: str) -> _Wanting:
        return _Wanting(tuple(door for door in self._doors if door.filters_match(topic)))

    def _accept(self, rows: Rows, sources: list[Source]) -> None:
        batch = wire_batch(rows)
        self.received += batch.num_rows
        if self._drop_retained and batch.column("retain").true_count:
            # MQTT 3.1.1 has no way to ask for no stored messages when subscribing: they are told by their flag.
            self.retained_skipped += batch.column("retain").true_count
            batch = batch.filter(pc.invert(batch.column("retain")))
            if batch.num_rows == 0:
                return
        changes = Changes()
        times = timestamps(now_us(), batch.num_rows)
        clients = pa.DictionaryArray.from_arrays(pa.array(np.zeros(batch.num_rows, np.int32)), self._client)
        touched: dict[int, Door] = {}
        for plan, chosen in self._plans.groups(batch.column("topic")):
            if chosen is None:
                part, part_times, part_clients = batch, times, clients
            else:
                index = pa.array(chosen)
                part, part_times, part_clients = batch.take(index), times.take(index), clients.take(index)
            if not plan.doors:
                self.unmatched += part.num_rows
            for door in plan.doors:
                door.admit(changes, part, part_clients, part_times)
                touched[id(door.log)] = door
        if changes.puts:
            self._engine.write(changes)
            self._engine.when_synced(lambda: _publish(touched))


def _publish(touched: dict[int, Door]) -> None:
    for door in touched.values():
        door.log.publish()
