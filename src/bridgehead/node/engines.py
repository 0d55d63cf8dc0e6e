"""What moves rows from the journal into the outboxes: engines in the node itself, and the pipeline on Spark."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container

from bridgehead.errors import StartError
from bridgehead.node.routes import INLINE, Routes, log_name
from bridgehead.pipeline.archive.spec import ArchiveSpec
from bridgehead.pipeline.gate import Gate
from bridgehead.pipeline.inline import InlineEngine
from bridgehead.pipeline.jobconfig import NodeJob, QueryConfig
from bridgehead.pipeline.lease import LeaseDesk
from bridgehead.pipeline.rehoming import rehome
from bridgehead.pipeline.replay import Replay
from bridgehead.pipeline.rules import RouteRules
from bridgehead.pipeline.service import Service
from bridgehead.pipeline.submissions import Submissions
from bridgehead.pipeline.supervisor import PipelineSettings, Supervisor
from bridgehead.reach import entrance
from bridgehead.settings.model import Settings
from bridgehead.settings.route import Route
from bridgehead.storage.engine import Engine
from bridgehead.storage.journal import SHARED, Journal

log = logging.getLogger(__name__)


class Engines:
    """Every engine knows the rules of every route: its log may hold rows of one that had another engine before."""

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        journal: Journal,
        gate: Gate,
        routes: Routes,
        submissions: Submissions,
        landed: Callable[[], None],
    ) -> None:
        """``landed``: rows may be in outboxes by what ran in this turn of the loop."""
        if settings.pipeline.nodes:
            raise StartError("pipeline.nodes is for `bridgehead pipeline`; a node works for itself")
        self._settings = settings
        self._engine = engine
        self._journal = journal
        self._gate = gate
        self._routes = routes
        self._submissions = submissions
        self._landed = landed
        self._inline: list[InlineEngine] = []
        self._due = False
        self.service: Service | None = None  # where Spark, and whoever has a key, reads and writes
        self.pipeline: Supervisor | LeaseDesk | None = None  # who has the driver: we, or somebody else
        self._arrange()

    def _arrange(self) -> None:
        routes = self._routes
        left = (rules for route, rules in routes.removed.items() if self._journal.waiting_of(route))
        rules = (*routes.rules.values(), *left)
        queries = self._queries(rules)
        self._rehome({each.route: each for each in rules}, {query.log for query in queries} - {SHARED})
        for name in self._inline_logs({query.log for query in queries}):
            log_of_engine = self._journal.log(name)
            engine = InlineEngine(self._engine, self._gate, log_of_engine, rules)
            self._inline.append(engine)
            log_of_engine.on_visible = self.wake
            for door in routes.doors.values():
                if door.log is log_of_engine:
                    door.pass_through = engine.pass_through
        if queries or self._guests_may_come:
            self._serve(queries)
        if queries:
            self._start_pipeline(queries)

    def _serve(self, queries: tuple[QueryConfig, ...]) -> None:
        routes = self._routes
        names = {route.id: route.bridge for route in routes.configured.values()}
        logs = {query.log: self._journal.log(query.log) for query in queries}
        replay = Replay(self._journal, {route: door.log.name for route, door in routes.doors.items()}, names)
        flight = entrance(self._settings.pipeline.flight)
        self.service = Service(
            self._gate, logs, self._settings.node, names, flight, replay=replay, submissions=self._submissions
        )

    def _start_pipeline(self, queries: tuple[QueryConfig, ...]) -> None:
        assert self.service is not None
        pipeline = self._settings.pipeline
        settings = PipelineSettings(
            data_dir=self._settings.data_dir,
            queries=queries,
            master=pipeline.master,
            conf=dict(pipeline.conf),
            max_rows=pipeline.max_rows_per_batch,
            max_bytes=pipeline.max_bytes_per_batch,
            checkpoint=pipeline.checkpoint,
            modules=str(self._settings.directory),
        )
        if pipeline.external:
            job = NodeJob(self._settings.node, queries, settings.max_rows, settings.max_bytes)
            self.pipeline = LeaseDesk(self._gate, self.service, job)
        else:
            self.pipeline = Supervisor(settings, self._gate, self.service)

    @property
    def _guests_may_come(self) -> bool:
        """Whether there is something for those who only look, or somebody was given a key."""
        return self._journal.retention.on or self._settings.pipeline.flight.token is not None

    def _rehome(self, rules: dict[str, RouteRules], own: set[str]) -> None:
        """What waits for a route that has its own query now, and had none before, goes through it too."""
        homes = {route: self._journal.log(route) for route in own}
        for log_left in list(self._journal.logs.values()):
            moved = rehome(self._gate, log_left, homes, rules)
            if moved:
                log.info("%d messages that waited in the log %s go to queries of their own", moved, log_left.name)

    def _queries(self, rules: tuple[RouteRules, ...]) -> tuple[QueryConfig, ...]:
        """One for all routes without a transform or an archive, and one for each with one."""
        routes = self._routes.configured.values()
        shared = any(log_name(route) == SHARED for route in routes)
        queries = [QueryConfig(SHARED, rules)] if shared else []
        for route in (route for route in routes if route.has_own_query):
            queries.append(QueryConfig(route.id, rules, self._routes.transforms.get(route.id), self._archive(route)))
        return tuple(queries)

    def _archive(self, route: Route) -> ArchiveSpec | None:
        archive = route.archive
        if archive is None:
            return None
        return ArchiveSpec(
            path=str(archive.path),
            node=self._settings.node,
            route=route.id,
            bridge=route.bridge,
            format=archive.format,
            partition_by=archive.partition_by,
        )

    def _inline_logs(self, queries: Container[str]) -> list[str]:
        """The logs that the node itself moves on: that of inline routes, and any that an earlier life left rows in."""
        names = [INLINE] if any(route.engine == "inline" for route in self._routes.configured.values()) else []
        left = [name for name, log in self._journal.logs.items() if name not in names and name not in queries and log.waiting]
        return names + (left if self._engine.durable else [])

    def start(self) -> None:
        """Spark's start is slow: it runs beside whatever else starts."""
        if self.pipeline is not None:
            self.pipeline.start()

    def wake(self) -> None:
        """Rows may wait in a log that the node itself moves on."""
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._due = False
        for engine in self._inline:
            engine.run()
        self._landed()
        if any(engine.has_work for engine in self._inline):
            self.wake()

    async def stop(self) -> None:
        """Let the running batch end; afterwards nobody reads the journal."""
        if self.pipeline is not None:
            await self.pipeline.stop()

    async def close(self) -> None:
        """Answer no more."""
        if self.service is not None:
            await self.service.stop()
