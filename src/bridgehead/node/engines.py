"""What moves rows from the journal into the outboxes: engines in the node itself, and the pipeline on Spark."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from dataclasses import replace

from bridgehead.errors import StartError
from bridgehead.node.routes import INLINE, Plan, Routes, live, log_name
from bridgehead.pipeline.archive.spec import ArchiveSpec
from bridgehead.pipeline.door import into_the_log
from bridgehead.pipeline.gate import Gate
from bridgehead.pipeline.inline import MAX_ROWS, InlineEngine
from bridgehead.pipeline.jobconfig import NodeJob, QueryConfig
from bridgehead.pipeline.lease import LeaseDesk
from bridgehead.pipeline.rehoming import rehome, strays_in
from bridgehead.pipeline.replay import Replay
from bridgehead.pipeline.rules import RouteRules
from bridgehead.pipeline.service import Service
from bridgehead.pipeline.submissions import Submissions
from bridgehead.pipeline.supervisor import PipelineSettings, Supervisor
from bridgehead.reach import entrance
from bridgehead.settings.model import Settings
from bridgehead.settings.route import Route
from bridgehead.storage.engine import Engine
from bridgehead.storage.journal import SHARED, Journal, Log

log = logging.getLogger(__name__)


class Engines:
    """At each moment every log has one reader, or none that reads: then a change may move what waits there."""

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
        self._paused = False
        self._wanted: tuple[QueryConfig, ...] = ()  # what the settings say
        self._running: tuple[QueryConfig, ...] = ()  # with what else is in their logs
        self._bridge_names: dict[str, str] = {}  # of each route
        self._log_names: dict[str, str] = {}

    async def begin(self) -> None:
        """Once, before anybody brings rows: what the earlier life of a route left with another engine goes first.

        Spark's start is slow: it runs beside whatever else starts.
        """
        homes = self._homes(self._routes.configured)
        await self._move_ahead(homes, self._rules)
        self._bring_along(homes)
        self._arrange()
        if self._running:
            self._begin_pipeline(self._running)

    # -- changing -----------------------------------------------------------------------------------------------------

    async def make_way(self, plan: Plan) -> None:
        """Before a change: whoever reads what the change concerns lets its batch end, and reads no more.

        What waits in a log that a route leaves is brought along; only the last of it is left for the turn of the change.
        """
        if self._queries(plan) and self.service is None:
            self.service = self._open_service()  # now, while nothing has changed that a taken port could spoil
        homes = self._homes(plan.configured)
        strays = any(strays_in(self._journal.log(query.log), homes) for query in self._running)
        if self.pipeline is not None and (strays or self._queries(plan) != self._wanted):
            await self._pause()
        await self._move_ahead(homes, {**self._rules, **plan.rules})

    def change(self, plan: Plan) -> None:
        """The routes have changed, in this very turn of the loop: no row has come since."""
        self._bring_along(self._homes(plan.configured))
        self._arrange()

    async def go_on(self) -> None:
        """After a change."""
        if self._paused:
            self._paused = False
            if self._running and self.pipeline is not None:
                self.pipeline.go_on(self._running)
            elif self.pipeline is not None:
                pipeline, self.pipeline = self.pipeline, None
                await pipeline.stop()
                assert self.service is not None
                self.service.give_no_lease()
        if self._running and self.pipeline is None:
            self._begin_pipeline(self._running)
        self.wake()

    async def let_go(self, routes: Collection[str]) -> None:
        """What waits for these removed routes, wherever it does, goes."""
        read = [self._journal.log(query.log).waiting_of for query in self._running]
        if self.pipeline is not None and any(waiting.get(route) for waiting in read for route in routes):
            await self._pause()
        await self._move_ahead({}, self._rules, routes)
        self._bring_along({}, routes)

    async def _pause(self) -> None:
        assert self.pipeline is not None
        self._paused = True
        await self.pipeline.pause()

    async def _move_ahead(
        self, homes: Mapping[str, Log], rules: Mapping[str, RouteRules], purged: Collection[str] = ()
    ) -> None:
        """A long backlog in many turns of the loop."""
        for log_left in list(self._journal.logs.values()):
            if log_left.waiting > MAX_ROWS and strays_in(log_left, homes, purged):
                for _ in rehome(self._gate.landing, log_left, homes, rules, purged):
                    if log_left.waiting <= MAX_ROWS:
                        break
                    await asyncio.sleep(0)

    def _bring_along(self, homes: Mapping[str, Log], purged: Container[str] = ()) -> None:
        """What waits for a route that lives elsewhere goes along with it, safe or not: it is safe where it comes."""
        for log_left in list(self._journal.logs.values()):
            if strays_in(log_left, homes, purged):
                log_left.publish()
                moved = sum(rehome(self._gate.landing, log_left, homes, self._rules, purged))
                if moved:
                    log.info("%d messages that waited in the log %s go to queries of their own", moved, log_left.name)

    @property
    def _rules(self) -> dict[str, RouteRules]:
        """Of every route: a log may hold rows of one that had another engine before, or is removed."""
        return {**self._routes.removed, **self._routes.rules}

    def _homes(self, configured: Mapping[str, Route]) -> dict[str, Log]:
        return {route.id: self._journal.log(log_name(route)) for route in configured.values()}

    def _arrange(self) -> None:
        """Every log has its reader."""
        routes = self._routes
        self._wanted = self._queries(Plan(dict(routes.configured), {}, dict(routes.rules), dict(routes.transforms)))
        self._running = tuple(self._with_strangers(query) for query in self._wanted)
        read = {query.log for query in self._running}
        self._inline = []
        for door in routes.doors.values():
            door.pass_through = into_the_log
        for name in self._inline_logs(read):
            log_of_engine = self._journal.log(name)
            engine = InlineEngine(self._engine, self._gate.landing, log_of_engine, self._rules.values())
            self._inline.append(engine)
            log_of_engine.on_visible = self.wake
            for door in routes.doors.values():
                if door.log is log_of_engine:
                    door.pass_through = engine.pass_through
        if self._running or self._guests_may_come:
            self._serve(read)

    def _serve(self, read: Iterable[str]) -> None:
        routes = self._routes
        logs = {name: self._journal.log(name) for name in read}
        live(self._bridge_names, {route.id: route.bridge for route in routes.configured.values()})
        live(self._log_names, {route: door.log.name for route, door in routes.doors.items()})
        if self.service is None:
            self.service = self._open_service()
        self.service.serve(logs)

    def _open_service(self) -> Service:
        """StartError if it cannot listen."""
        replay = Replay(self._journal, self._log_names, self._bridge_names)
        flight = entrance(self._settings.pipeline.flight)
        return Service(
            self._gate, {}, self._settings.node, self._bridge_names, flight, replay=replay, submissions=self._submissions
        )

    def _begin_pipeline(self, queries: tuple[QueryConfig, ...]) -> None:
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
        self.pipeline.start()

    @property
    def _guests_may_come(self) -> bool:
        """Whether there is something for those who only look, or somebody was given a key."""
        return self._journal.retention.on or self._settings.pipeline.flight.token is not None

    def _queries(self, plan: Plan) -> tuple[QueryConfig, ...]:
        """One for all routes without a transform or an archive, and one for each with one."""
        routes = plan.configured.values()
        shared = tuple(plan.rules[route.id] for route in routes if log_name(route) == SHARED)
        queries = [QueryConfig(SHARED, shared)] if shared else []
        for route in (route for route in routes if route.has_own_query):
            own = (plan.rules[route.id],)
            queries.append(QueryConfig(route.id, own, plan.transforms.get(route.id), self._archive(route)))
        return tuple(queries)

    def _with_strangers(self, query: QueryConfig) -> QueryConfig:
        """A log may still hold rows of routes that are removed, or had this log in an earlier life."""
        known, waiting = {rules.route for rules in query.rules}, self._journal.log(query.log).waiting_of
        others = (rules for route, rules in self._rules.items() if waiting.get(route) and route not in known)
        return replace(query, rules=(*query.rules, *others))

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

    def _inline_logs(self, queries: set[str]) -> list[str]:
        """The logs that the node itself moves on: that of inline routes, and any that others have left rows in."""
        routes = self._routes
        inline = any(route.engine == "inline" for route in routes.configured.values()) or routes.removed
        names = [INLINE] if inline else []
        return names + [name for name, each in self._journal.logs.items() if name not in (INLINE, *queries) and each.waiting]

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
