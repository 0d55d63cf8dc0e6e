"""A node with nothing but its pipeline: journal, gate, Flight service, supervisor. No MQTT."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from bridgehead import clock
from bridgehead.columns.batches import Batch
from bridgehead.columns.labels import Labels
from bridgehead.columns.schema import STORED, TIMESTAMP, USER_PROPERTIES
from bridgehead.pipeline.entrance import LOOPBACK, Entrance
from bridgehead.pipeline.gate import Gate
from bridgehead.pipeline.jobconfig import QueryConfig, TransformRule
from bridgehead.pipeline.replay import Replay
from bridgehead.pipeline.rules import RouteRules
from bridgehead.pipeline.service import Service
from bridgehead.pipeline.supervisor import PipelineSettings, Supervisor
from bridgehead.storage.engine import Changes
from bridgehead.storage.journal import SHARED, Journal
from bridgehead.storage.memory import MemoryEngine
from bridgehead.storage.outbox import Outbox
from bridgehead.storage.retention import NOTHING, Retention

UNBOUNDED = 1 << 60


def stored_rows(payloads: Sequence[bytes], topics: Sequence[str], routes: Sequence[str]) -> Batch:
    """Rows as the journal keeps them; topics and routes take turns."""
    rows = len(payloads)
    turn = np.arange(rows)
    topic = pa.DictionaryArray.from_arrays(pa.array((turn % len(topics)).astype(np.int32)), pa.array(topics, pa.string()))
    return pa.RecordBatch.from_arrays(
        [
            topic.dictionary_decode(),
            pa.array(payloads, pa.binary()),
            pa.array(np.ones(rows, np.int32)),
            pa.array(np.zeros(rows, bool)),
            pa.array(np.full(rows, clock.now_us()), TIMESTAMP),
            Labels.one("device", rows).column(),
            Labels(tuple(routes), (turn % len(routes)).astype(np.int32)).column(),
            pa.nulls(rows, pa.int64()),
            pa.nulls(rows, pa.int32()),
            pa.nulls(rows, pa.string()),
            pa.nulls(rows, pa.string()),
            pa.nulls(rows, pa.binary()),
            pa.ListArray.from_arrays(
                pa.array(np.zeros(rows + 1, np.int32)), pa.nulls(0, USER_PROPERTIES.value_type), type=USER_PROPERTIES
            ),
        ],
        schema=STORED,
    )


class Host:
    """Create and use it on a running event loop."""

    def __init__(
        self,
        data_dir: Path,
        routes: Sequence[str] = ("route",),
        master: str = "local[2]",
        conf: dict[str, str] | None = None,
        max_rows: int = 200_000,
        max_bytes: int = 256 << 20,
        entrance: Entrance = LOOPBACK,
        retention: Retention = NOTHING,
        transform: TransformRule | None = None,
    ) -> None:
        """``transform``: of the one route there is, which then has its own log."""
        self.routes = list(routes)
        name = SHARED if transform is None else self.routes[0]
        self.engine = MemoryEngine()
        self.journal = Journal(self.engine, UNBOUNDED, retention)
        self.log = self.journal.log(name)
        self.outboxes = {route: Outbox(route, self.engine, UNBOUNDED, UNBOUNDED) for route in routes}
        self.gate = Gate(self.engine, self.journal, self.outboxes, transformed=() if transform is None else {name})
        self._moved = asyncio.Event()
        self.gate.landing.on_commit = lambda log: self._moved.set()
        bridges = dict.fromkeys(routes, "cloud")
        replay = Replay(self.journal, dict.fromkeys(routes, name), bridges)
        self.service = Service(self.gate, self.journal.logs, "plant", bridges, entrance, replay=replay)
        self.rules = tuple(RouteRules(route, destination="cloud/{#}") for route in routes)
        queries = (QueryConfig(name, self.rules, transform),)
        settings = PipelineSettings(
            data_dir, queries, master=master, conf=conf or {}, max_rows=max_rows, max_bytes=max_bytes
        )
        self.supervisor = Supervisor(settings, self.gate, self.service)
        self._asked = asyncio.Event()
        report = self.service.on_report
        self.service.on_report = lambda told: (report(told), self._asked.set())[0]
        self._changed = asyncio.Event()
        self.supervisor.on_change = lambda state: self._changed.set()

    def append(self, batch: Batch) -> None:
        changes = Changes()
        self.log.append(changes, batch)
        self.engine.write(changes)
        self.log.publish()

    async def ready(self) -> None:
        while not self.supervisor.ready:
            self._changed.clear()
            await self._changed.wait()

    async def asked_for_rows(self) -> None:
        """Return when the query looks for rows the next time."""
        self._asked.clear()
        await self._asked.wait()

    async def consumed(self, offset: int | None = None) -> None:
        """Return when everything below the offset (default: everything appended so far) is in the outboxes."""
        target = self.log.end if offset is None else offset
        while self.log.consumed < target:
            self._moved.clear()
            await self._moved.wait()

    def take(self, route: str) -> list[Batch]:
        """Everything that landed for a route and was not taken before, in order."""
        outbox = self.outboxes[route]
        taken = []
        while (polled := outbox.poll(1 << 20)) is not None:
            taken.append(polled.batch)
            outbox.acknowledge(np.arange(polled.first, polled.first + polled.rows))
        return taken

    async def close(self) -> None:
        await self.supervisor.stop(patience=10.0)
        await self.service.stop()
