"""The one place that knows every part: builds a node from its settings, starts it in order, stops it in order."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Container
from functools import partial
from pathlib import Path
from typing import Any, Final

from bridgehead.bridge.service import BridgeService
from bridgehead.broker.broker import Broker
from bridgehead.broker.listener import Listener
from bridgehead.console import deadletters
from bridgehead.console.backup import backup_router
from bridgehead.console.server import Console
from bridgehead.errors import CommandError, StartError, StorageError
from bridgehead.pipeline.archive.spec import ArchiveSpec
from bridgehead.pipeline.door import Door, DoorRule
from bridgehead.pipeline.gate import Gate
from bridgehead.pipeline.inline import InlineEngine
from bridgehead.pipeline.jobconfig import NodeJob, QueryConfig, TransformRule
from bridgehead.pipeline.lease import LeaseDesk
from bridgehead.pipeline.rehoming import rehome
from bridgehead.pipeline.remembered import remember, removed_routes
from bridgehead.pipeline.replay import Replay
from bridgehead.pipeline.room import Room
from bridgehead.pipeline.rules import RouteRules
from bridgehead.pipeline.service import Service
from bridgehead.pipeline.submissions import MAX_SUBMITTED_BYTES, Submissions
from bridgehead.pipeline.supervisor import PipelineSettings, Supervisor
from bridgehead.reach import entrance
from bridgehead.settings.bridge import Bridge
from bridgehead.settings.model import Settings
from bridgehead.settings.route import Route
from bridgehead.settings.transform import Transform
from bridgehead.storage.deaddesk import DeadLetterDesk
from bridgehead.storage.engine import Changes, Engine
from bridgehead.storage.freespace import LOOK_EVERY, FreeSpace, free_bytes
from bridgehead.storage.journal import SHARED, Journal
from bridgehead.storage.ledger import Ledger, settle
from bridgehead.storage.memory import MemoryEngine
from bridgehead.storage.outbox import Outbox
from bridgehead.storage.retention import Retention
from bridgehead.telemetry.snapshot import NodeView, RouteView
from bridgehead.wire import kernels

log = logging.getLogger(__name__)

STAGED_BATCHES: Final = 4
"""A driver may stage the bytes of so many batches before it commits."""

EPOCHS_OF_A_LIFE: Final = 32
"""Bits for the number of a driver within one life of the node; those above them name the life."""

UNBOUNDED: Final = 1 << 62
"""The bounds of a removed route's outbox: what lands there was accepted when the route was there."""

RETENTION_EVERY: Final = 10.0
"""Seconds between two looks at what has grown too old to be retained."""

INLINE: Final = "inline"
"""The log of all routes that run in the node."""


def _log_name(route: Route) -> str:
    """The log that the rows of a route go to."""
    if route.has_own_query:
        return route.id
    return INLINE if route.engine == "inline" else SHARED


class Node:
    """One Bridgehead node. ``start`` returns when listeners accept; the pipeline may still be on its way."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._routes = settings.routes()
        self.failure: BaseException | None = None  # why the node must end
        self.on_failure: Callable[[], None] = lambda: None
        self._engine = self._storage()
        retain = settings.journal.retain
        self._journal = Journal(self._engine, settings.journal.max_bytes, Retention(retain.hours, retain.bytes))
        bridges = {bridge.id: bridge for bridge in settings.bridges}
        life = f"{settings.node}:{self._engine.incarnation}"
        self._rules = {route.id: _rules(route, bridges[route.bridge], life) for route in self._routes}
        remember(self._engine, self._rules.values())
        self._removed = removed_routes(self._engine, self._journal, self._rules)
        self._ledgers = {route: Ledger(route, self._engine) for route in (*self._rules, *self._removed)}
        self._outboxes = {route.id: _outbox(route, self._engine, self._ledgers[route.id]) for route in self._routes}
        for removed in self._removed:
            self._outboxes[removed] = Outbox(removed, self._engine, UNBOUNDED, UNBOUNDED, self._ledgers[removed])
        settle(self._engine, self._ledgers.values(), self._journal.waiting_of)
        staged = STAGED_BATCHES * settings.pipeline.max_bytes_per_batch
        self._space = self._free_space()
        self._space_watch: asyncio.TimerHandle | None = None
        self._retention_watch: asyncio.TimerHandle | None = None
        # A token may outlive the node: no epoch of an earlier life may mean anything in this one.
        epochs = secrets.randbits(48) << EPOCHS_OF_A_LIFE
        self._transforms = {route.id: transform_rule(route.transform) for route in self._routes if route.transform is not None}
        self._gate = Gate(self._engine, self._journal, self._outboxes, staged, epochs, self._transforms)
        self._doors = {route.id: self._door(route, bridges[route.bridge]) for route in self._routes}
        self._desk = self._dead_letter_desk()
        self._listeners: list[Listener] = []
        self._bridges: list[BridgeService] = []
        self._inline: list[InlineEngine] = []
        self._inline_due = False
        self._backing_up = False
        self._service: Service | None = None
        self._pipeline: Supervisor | LeaseDesk | None = None  # who has the driver: we, or somebody else
        self._console: Console | None = None

    def _storage(self) -> Engine:
        persistence = self.settings.persistence
        if persistence.mode == "in-memory":
            return MemoryEngine()
        from bridgehead.storage.rocks import RocksEngine  # a library of 30 MB: only for those who use it

        engine = RocksEngine(Path(self.settings.data_dir) / "store", sync=persistence.sync)
        engine.on_failure = self._storage_failed
        return engine

    def _free_space(self) -> FreeSpace | None:
        min_free = self.settings.persistence.min_free
        if not self._engine.durable or not min_free:
            return None
        return FreeSpace(partial(free_bytes, self.settings.data_dir), min_free)

    def _storage_failed(self, error: BaseException) -> None:
        """Nothing can be promised any more: the node ends, and what it had promised is found at the next start."""
        self.failure = error
        self.on_failure()

    async def _back_up(self, destination: Path) -> dict[str, Any]:
        """Copied beside the running node: only the moment itself is taken in its store."""
        from bridgehead.storage.backup import take_backup
        from bridgehead.storage.rocks import RocksEngine

        if not isinstance(self._engine, RocksEngine):
            raise CommandError("persistence.mode is in-memory: nothing is on the disk")
        if self._backing_up:
            raise CommandError("a backup is being made already")
        self._backing_up = True
        try:
            return await asyncio.to_thread(take_backup, self._engine, destination, self.settings.node)
        finally:
            self._backing_up = False

    def _dead_letter_desk(self) -> DeadLetterDesk:
        """Messages die on their way to a remote, or in a transform of either direction."""
        dying = [route.id for route in self._routes if route.direction == "push" or route.transform is not None]
        again = {route: self._doors[route].admit_again for route in self._transforms}
        return DeadLetterDesk(self._engine, {route: self._outboxes[route] for route in dying}, again)

    def _door(self, route: Route, bridge: Bridge) -> Door:
        rule = DoorRule(
            route=route.id,
            bridge=route.bridge,
            filters=route.filters,
            excludes=route.excludes,
            persist=bridge.persist,
            hop_limit=bridge.loop_prevention_hop_count if bridge.loop_prevention_enabled else None,
        )
        door = Door(rule, self._journal.log(_log_name(route)), self._ledgers[route.id])
        if route.strategy == "refuse":
            outbox = self._outboxes[route.id]
            door.room = Room(outbox, self._journal)
            outbox.on_left = self._room_again
        return door

    def _unexpected(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Whoever wanted to write to a disk that has failed; why it failed is said once, at the end."""
        if self.failure is None or not isinstance(context.get("exception"), StorageError):
            loop.default_exception_handler(context)

    async def start(self) -> None:
        """Ports first, so that a taken one ends it at once; then Spark's slow start beside ours; clients last."""
        asyncio.get_running_loop().set_exception_handler(self._unexpected)
        limits = self.settings.queued_messages
        pushes = [self._doors[route.id] for route in self._routes if route.direction == "push"]
        bounds = (limits.max_queued_messages, limits.max_queue_bytes)
        self.broker = Broker(self._engine, self._journal, pushes, *bounds, self._space)
        self._gate.on_commit = lambda _: self._room_again()
        self._start_engines()
        publish = partial(self.broker.publish, waits=True)
        for bridge in self.settings.bridges:
            routes = [route for route in self._routes if route.bridge == bridge.id]
            pulls = [self._doors[route.id] for route in routes if route.direction == "pull"]
            service = BridgeService(bridge, routes, self._outboxes, pulls, self._engine, self._journal, publish, self._space)
            self._bridges.append(service)
        if self._space is not None:
            self._space.on_room = self._room_again
            self._watch_space()
        if self._journal.retention.on:
            self._watch_retention()
        try:
            for listener in self.settings.listeners:
                self._listeners.append(Listener(self.broker, listener.host, listener.port))
                await self._listeners[-1].bind()
            console = self.settings.console
            routers = (backup_router(self._back_up), deadletters.router(self._desk))
            self._console = Console(console.host, console.port, self.view(), *routers)
            await self._console.start()
            if self._pipeline is not None:
                self._pipeline.start()
            # The first start on a machine compiles the kernels; the loop stays free, so health answers meanwhile.
            await asyncio.to_thread(kernels.warm)
            for bound in self._listeners:
                await bound.start()
        except BaseException:
            await self.stop()
            raise
        for service in self._bridges:
            service.start()
        self._inline_wake()  # rows of an earlier life may wait

    def _start_engines(self) -> None:
        pipeline = self.settings.pipeline
        if pipeline.nodes:
            raise StartError("pipeline.nodes is for `bridgehead pipeline`; a node works for itself")
        # Every engine knows the rules of every route: its log may hold rows of one that had another engine before.
        left = (rules for route, rules in self._removed.items() if self._journal.waiting_of(route))
        rules = (*self._rules.values(), *left)
        queries = self._queries(rules)
        self._rehome({each.route: each for each in rules}, {query.log for query in queries} - {SHARED})
        for name in self._inline_logs({query.log for query in queries}):
            log_of_engine = self._journal.log(name)
            engine = InlineEngine(self._engine, self._gate, log_of_engine, rules)
            self._inline.append(engine)
            log_of_engine.on_visible = self._inline_wake
            for door in self._doors.values():
                if door.log is log_of_engine:
                    door.pass_through = engine.pass_through
        if queries or self._guests_may_come:
            names = {route.id: route.bridge for route in self._routes}
            logs = {query.log: self._journal.log(query.log) for query in queries}
            replay = Replay(self._journal, {route: door.log.name for route, door in self._doors.items()}, names)
            submissions = Submissions(self._engine, self.broker.publish_all, MAX_SUBMITTED_BYTES)
            self._service = Service(
                self._gate, logs, self.settings.node, names, entrance(pipeline.flight), replay=replay, submissions=submissions
            )
        if queries:
            assert self._service is not None
            settings = PipelineSettings(
                data_dir=self.settings.data_dir,
                queries=queries,
                master=pipeline.master,
                conf=dict(pipeline.conf),
                max_rows=pipeline.max_rows_per_batch,
                max_bytes=pipeline.max_bytes_per_batch,
                checkpoint=pipeline.checkpoint,
                modules=str(self.settings.directory),
            )
            if pipeline.external:
                job = NodeJob(self.settings.node, queries, settings.max_rows, settings.max_bytes)
                self._pipeline = LeaseDesk(self._gate, self._service, job)
            else:
                self._pipeline = Supervisor(settings, self._gate, self._service)

    @property
    def _guests_may_come(self) -> bool:
        """Whether there is something for those who only look, or somebody was given a key."""
        flight = self.settings.pipeline.flight
        return self._journal.retention.on or flight.token is not None

    def _room_again(self) -> None:
        """Rows have left the journal or an outbox, or the disk has space again: whoever waits for that may look."""
        self.broker.room_again()
        for service in self._bridges:
            service.room_again()

    def _watch_space(self) -> None:
        assert self._space is not None
        self._space_watch = asyncio.get_running_loop().call_later(LOOK_EVERY, self._watch_space)
        self._space.look()
        if self._space.low:
            self._retained_changes(self._journal.retention.give_way)
            self._engine.give_back()

    def _watch_retention(self) -> None:
        """Rows grow old where nothing moves, too."""
        self._retention_watch = asyncio.get_running_loop().call_later(RETENTION_EVERY, self._watch_retention)
        self._retained_changes(self._journal.retention.sweep)

    def _retained_changes(self, change: Callable[[Changes], None]) -> None:
        changes = Changes()
        change(changes)
        if changes.drops:
            self._engine.write(changes)

    def _rehome(self, rules: dict[str, RouteRules], own: set[str]) -> None:
        """What waits for a route that has its own query now, and had none before, goes through it too."""
        homes = {route: self._journal.log(route) for route in own}
        for log_left in list(self._journal.logs.values()):
            moved = rehome(self._gate, log_left, homes, rules)
            if moved:
                log.info("%d messages that waited in the log %s go to queries of their own", moved, log_left.name)

    def _queries(self, rules: tuple[RouteRules, ...]) -> tuple[QueryConfig, ...]:
        """One for all routes without a transform or an archive, and one for each with one."""
        shared = any(_log_name(route) == SHARED for route in self._routes)
        queries = [QueryConfig(SHARED, rules)] if shared else []
        for route in (route for route in self._routes if route.has_own_query):
            queries.append(QueryConfig(route.id, rules, self._transforms.get(route.id), self._archive(route)))
        return tuple(queries)

    def _archive(self, route: Route) -> ArchiveSpec | None:
        archive = route.archive
        if archive is None:
            return None
        return ArchiveSpec(
            path=str(archive.path),
            node=self.settings.node,
            route=route.id,
            bridge=route.bridge,
            format=archive.format,
            partition_by=archive.partition_by,
        )

    def _inline_logs(self, queries: Container[str]) -> list[str]:
        """The logs that the node itself moves on: that of inline routes, and any that an earlier life left rows in."""
        names = [INLINE] if any(route.engine == "inline" for route in self._routes) else []
        left = [name for name, log in self._journal.logs.items() if name not in names and name not in queries and log.waiting]
        return names + (left if self._engine.durable else [])

    def _inline_wake(self) -> None:
        if not self._inline_due:
            self._inline_due = True
            asyncio.get_running_loop().call_soon(self._inline_turn)

    def _inline_turn(self) -> None:
        self._inline_due = False
        for engine in self._inline:
            engine.run()
        for service in self._bridges:
            service.uplink.outgoing.pump_if_due()  # now, not a turn of the loop later
        if any(engine.has_work for engine in self._inline):
            self._inline_wake()

    def view(self) -> NodeView:
        """What telemetry may look at."""
        bridges = {service.id: service for service in self._bridges}
        pushing = {f.outbox.route: f for service in self._bridges for f in service.forwarders}
        routes = [
            RouteView(
                route=route,
                door=self._doors[route.id],
                outbox=self._outboxes[route.id],
                forwarder=pushing.get(route.id),
            )
            for route in self._routes
        ]
        return NodeView(
            name=self.settings.node,
            listening=lambda: self._listening,
            broker=self.broker,
            journal=self._journal,
            gate=self._gate,
            pipeline=self._pipeline,
            bridges=bridges,
            routes=routes,
            storage=lambda: {"mode": self.settings.persistence.mode, **self._engine.losses.snapshot()},
            removed={route: self._outboxes[route] for route in self._removed},
            space=self._space,
        )

    @property
    def _listening(self) -> bool:
        return bool(self._listeners) and all(listener.accepting for listener in self._listeners)

    @property
    def ports(self) -> list[int]:
        return [listener.port for listener in self._listeners]

    @property
    def console_port(self) -> int:
        return self._console.port if self._console is not None else 0

    async def stop(self) -> None:
        """Stop taking, let the pipeline end its batch, say goodbye to the remotes, then close."""
        for watch in (self._space_watch, self._retention_watch):
            if watch is not None:
                watch.cancel()
        for listener in self._listeners:
            await listener.stop()
        if self._pipeline is not None:
            await self._pipeline.stop()
        await asyncio.gather(*(service.stop() for service in self._bridges))
        self.broker.close()
        if self._service is not None:
            await self._service.stop()
        if self._console is not None:
            await self._console.stop()
        self._engine.close()


def _outbox(route: Route, engine: Engine, ledger: Ledger) -> Outbox:
    assert route.queue_limit is not None
    assert route.max_queue_bytes is not None
    assert route.strategy is not None
    return Outbox(route.id, engine, route.queue_limit, route.max_queue_bytes, ledger, route.strategy)


def transform_rule(transform: Transform) -> TransformRule:
    """A transform as the pipeline knows it."""
    return TransformRule(
        sql=transform.sql,
        sql_file=None if transform.sql_file is None else str(transform.sql_file),
        python=transform.python,
        options=transform.options,
        output_mode=transform.output_mode,
        on_error=transform.on_error,
    )


def _rules(route: Route, bridge: Bridge, life: str) -> RouteRules:
    """``life`` names this node and its offsets, in which no two messages share one."""
    return RouteRules(
        route=route.id,
        destination=route.destination,
        user_properties=route.custom_user_properties,
        preserve_retain=route.preserve_retain,
        max_qos=route.max_qos,
        persist=bridge.persist,
        count_hops=bridge.loop_prevention_enabled,
        message_id=None if bridge.message_id_property is None else (bridge.message_id_property, life),
    )
