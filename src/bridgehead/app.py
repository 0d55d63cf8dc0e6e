"""The one place that knows every part: builds a node from its settings, starts it in order, stops it in order."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Container
from functools import partial
from pathlib import Path
from typing import Any, Final

from bridgehead.bridge.outgoing import forget_ids
from bridgehead.bridge.service import BridgeService
from bridgehead.broker.broker import Broker
from bridgehead.broker.listener import Listener
from bridgehead.console import deadletters
from bridgehead.console.backup import backup_router
from bridgehead.console.bridges import bridges_router
from bridgehead.console.server import Console
from bridgehead.errors import CommandError, RefusedError, SettingsError, StartError
from bridgehead.interpreter import end_without_storage
from bridgehead.node.bridges import Bridges
from bridgehead.node.engines import Engines
from bridgehead.node.filewatch import FileWatch
from bridgehead.node.management import Management
from bridgehead.node.routes import Routes, live
from bridgehead.pipeline.gate import Gate
from bridgehead.pipeline.submissions import MAX_SUBMITTED_BYTES, Submissions
from bridgehead.settings.bridge import Bridge
from bridgehead.settings.configuration import Configuration
from bridgehead.settings.model import Settings
from bridgehead.storage import kernels as storage_kernels
from bridgehead.storage.deaddesk import DeadLetterDesk
from bridgehead.storage.engine import Changes, Engine
from bridgehead.storage.freespace import LOOK_EVERY, FreeSpace, free_bytes
from bridgehead.storage.journal import Journal
from bridgehead.storage.memory import MemoryEngine
from bridgehead.storage.retention import Retention
from bridgehead.telemetry.snapshot import NodeView, RouteView
from bridgehead.wire import kernels

log = logging.getLogger(__name__)

STAGED_BATCHES: Final = 4
"""A driver may stage the bytes of so many batches before it commits."""

EPOCHS_OF_A_LIFE: Final = 32
"""Bits for the number of a driver within one life of the node; those above them name the life."""

RETENTION_EVERY: Final = 10.0
"""Seconds between two looks at what has grown too old to be retained."""


class Node:
    """One Bridgehead node. ``start`` returns when listeners accept; the pipeline may still be on its way."""

    def __init__(self, settings: Settings, configuration: Configuration | None = None) -> None:
        """``configuration``: where the settings are from, if they can change while the node runs."""
        self.settings = settings
        self._configuration = configuration or Configuration.of(settings)
        self._engine = self._storage()
        retain = settings.journal.retain
        self._journal = Journal(self._engine, settings.journal.max_bytes, Retention(retain.hours, retain.bytes))
        stopped = self._configuration.overlay.stopped
        self._routes = Routes(settings, self._engine, self._journal, self._room_again, stopped)
        staged = STAGED_BATCHES * settings.pipeline.max_bytes_per_batch
        self._space = self._free_space()
        self._space_watch: asyncio.TimerHandle | None = None
        self._retention_watch: asyncio.TimerHandle | None = None
        # A token may outlive the node: no epoch of an earlier life may mean anything in this one.
        epochs = secrets.randbits(48) << EPOCHS_OF_A_LIFE
        self._gate = Gate(self._engine, self._journal, self._routes.outboxes, staged, epochs, self._routes.transforms)
        self._desk = DeadLetterDesk(self._engine, {})
        self._follow_dead_letters()
        self._listeners: list[Listener] = []
        self._bridges = Bridges(self._bridge)
        self._view: NodeView | None = None  # what telemetry looks at
        self._engines: Engines | None = None
        self._backing_up = False
        self._console: Console | None = None
        self._management = Management(self._configuration, self)
        self._file_watch: FileWatch | None = None
        self._reloads: set[asyncio.Task[None]] = set()

    def _storage(self) -> Engine:
        persistence = self.settings.persistence
        if persistence.mode == "in-memory":
            return MemoryEngine()
        from bridgehead.storage.rocks import RocksEngine  # a library of 30 MB: only for those who use it

        engine = RocksEngine(Path(self.settings.data_dir) / "store", sync=persistence.sync)
        engine.on_failure = end_without_storage
        return engine

    def _free_space(self) -> FreeSpace | None:
        min_free = self.settings.persistence.min_free
        if not self._engine.durable or not min_free:
            return None
        return FreeSpace(partial(free_bytes, self.settings.data_dir), min_free, self._spoken_for)

    def _spoken_for(self) -> int:
        """What waits in a journal goes to an outbox, into the front log and from there into a table, before it is gone here."""
        return self._engine.spoken_for + 2 * self._journal.stored_waiting_weight

    async def _back_up(self, destination: Path) -> dict[str, Any]:
        """Copied beside the running node: only the moment itself is taken in its store."""
        from bridgehead.storage.backup import back_up
        from bridgehead.storage.rocks import RocksEngine

        if not isinstance(self._engine, RocksEngine):
            raise CommandError("persistence.mode is in-memory: nothing is on the disk")
        if self._backing_up:
            raise CommandError("a backup is being made already")
        self._backing_up = True
        try:
            return await back_up(self._engine, destination, self.settings.node)
        finally:
            self._backing_up = False

    def _follow_dead_letters(self) -> None:
        """Messages die on their way to a remote, and in either direction by a transform or for want of a destination."""
        routes = self._routes
        dying = [route.id for route in routes.configured.values() if route.has_dead_letters]
        anew = [each.id for each in routes.configured.values() if each.transform is not None or each.changes_topics]
        again = {route: routes.doors[route].admit_again for route in anew}
        removed = [routes.outboxes[route] for route in routes.removed]
        self._desk.follow({route: routes.outboxes[route] for route in dying}, again, removed)

    async def start(self) -> None:
        """Ports first, so that a taken one ends it at once; then Spark's slow start beside ours; clients last."""
        limits = self.settings.queued_messages
        bounds = (limits.max_queued_messages, limits.max_queue_bytes)
        self.broker = Broker(self._engine, self._journal, self._routes.pushes, *bounds, self._space)
        self._gate.landing.on_commit = lambda _: self._room_again()
        submissions = Submissions(self._engine, self.broker.publish_all, MAX_SUBMITTED_BYTES)
        parts = (self._engine, self._journal, self._gate, self._routes, submissions)
        self._engines = Engines(self.settings, *parts, landed=self._pump)
        self._bridges.arrange(self.settings, self._configuration.overlay.stopped)
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
            routers = (backup_router(self._back_up), deadletters.router(self._desk), bridges_router(self._management))
            token = None if console.token is None else console.token.get_secret_value()
            self._console = Console(console.host, console.port, self.view(), *routers, token=token)
            await self._console.start()
            await self._engines.begin()
            self._show()
            # The first start on a machine compiles the kernels; the loop stays free, so health answers meanwhile.
            await asyncio.to_thread(kernels.warm)
            if self._engine.durable:
                await asyncio.to_thread(storage_kernels.warm)
            for bound in self._listeners:
                await bound.start()
        except BaseException:
            await self.stop()
            raise
        self._bridges.on_change = self._show
        self._bridges.begin()
        self._engines.wake()  # rows of an earlier life may wait
        self._management.begin()
        if self.settings.watch_file and self._configuration.path is not None:
            self._file_watch = FileWatch(self._configuration.path, self._configuration.text, self.reload)
            self._file_watch.start()

    # -- changing while it runs ---------------------------------------------------------------------------------------

    async def change(self, settings: Settings, stopped: Container[str], save: Callable[[], None]) -> None:
        """Become what these settings say, as far as that is possible; ``save`` is called before anything is changed.

        One at a time. Routes, doors and engines change in one turn of the loop; bridges follow in the background.
        """
        assert self._engines is not None
        plan = self._routes.plan(settings, stopped)
        try:
            await self._engines.make_way(plan)
            save()
            self._routes.change(plan)
            self._engines.change(plan)
            self.broker.distributor.routes_changed()
            self.settings = settings
            self._bridges.arrange(settings, stopped)
            self._follow_dead_letters()
        finally:
            await self._engines.go_on()
            self._show()

    async def purge(self, bridge: str) -> int:
        """Throw away the queues of routes that this bridge had; how many routes."""
        assert self._engines is not None
        routes = self._routes.removed_of(bridge)
        if routes:
            try:
                await self._engines.let_go(routes)
                self._routes.purge(routes)
                if bridge not in self._bridges.services:
                    forget_ids(self._engine, bridge)  # numbers of rows begin anew with the queues
                self._follow_dead_letters()
            finally:
                await self._engines.go_on()
                self._show()
        return len(routes)

    def reload(self) -> None:
        """Read the configuration file again, in the background; what is wrong with it is said, and changes nothing."""
        task = asyncio.get_running_loop().create_task(self._reload())
        self._reloads.add(task)
        task.add_done_callback(self._reloads.discard)

    async def _reload(self) -> None:
        try:
            await self._management.reload()
        except SettingsError as error:
            log.error("the configuration file has %d faults, nothing is changed:\n%s", len(error.faults), error)
        except (OSError, RefusedError, StartError) as error:
            log.error("the configuration file was read again, and nothing is changed: %s", error)

    @property
    def bridges(self) -> Bridges:
        return self._bridges

    def left_by(self, bridge: str) -> bool:
        """Whether queues are here of routes that this bridge had."""
        return bool(self._routes.removed_of(bridge))

    def _show(self) -> None:
        """Telemetry sees what is there now."""
        if self._view is not None:
            assert self._engines is not None
            self._view.pipeline = self._engines.pipeline
            self._view.routes[:] = self._route_views()
            live(self._view.removed, {route: self._routes.outboxes[route] for route in self._routes.removed})

    def _bridge(self, bridge: Bridge, before: BridgeService | None) -> BridgeService:
        routes, publish = self._routes, partial(self.broker.publish, waits=True)
        pulls = routes.doors_of("pull", bridge.id)
        own = routes.of(bridge.id)
        parts = (routes.outboxes, pulls, self._engine, self._journal, publish, self._space)
        return BridgeService(bridge, own, *parts, before=before)

    def _room_again(self) -> None:
        """Rows have left the journal or an outbox, or the disk has space again: whoever waits for that may look."""
        self.broker.room_again()
        for service in self._bridges.services.values():
            service.room_again()

    def _pump(self) -> None:
        """What the node itself has moved into outboxes leaves now, not a turn of the loop later."""
        for service in self._bridges.services.values():
            service.uplink.outgoing.pump_if_due()

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

    def view(self) -> NodeView:
        """What telemetry may look at: kept up to date when something changes."""
        assert self._engines is not None
        if self._view is None:
            self._view = NodeView(
                name=self.settings.node,
                listening=lambda: self._listening,
                broker=self.broker,
                journal=self._journal,
                gate=self._gate,
                pipeline=self._engines.pipeline,
                bridges=self._bridges.services,
                routes=self._route_views(),
                storage=self._storage_now,
                removed={route: self._routes.outboxes[route] for route in self._routes.removed},
                space=self._space,
                file_refused=lambda: self._management.refused,
            )
        return self._view

    def _storage_now(self) -> dict[str, Any]:
        times = self._engine.sync_times
        synced = {} if times is None else times.snapshot()
        return {"mode": self.settings.persistence.mode, **self._engine.losses.snapshot(), **synced}

    def _route_views(self) -> list[RouteView]:
        routes = self._routes
        pushing = {f.outbox.route: f for service in self._bridges.services.values() for f in service.forwarders}
        return [
            RouteView(
                route=route,
                door=routes.doors[route.id],
                outbox=routes.outboxes[route.id],
                forwarder=pushing.get(route.id),
            )
            for route in routes.configured.values()
        ]

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
        if self._file_watch is not None:
            self._file_watch.stop()
        await self._management.end()
        for listener in self._listeners:
            await listener.stop()
        if self._engines is not None:
            await self._engines.stop()
        await self._bridges.stop()
        self.broker.close()
        if self._engines is not None:
            await self._engines.close()
        if self._console is not None:
            await self._console.stop()
        self._engine.close()
