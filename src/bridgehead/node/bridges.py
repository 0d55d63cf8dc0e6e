"""The bridges of a running node: for each what it should be, and what it is.

Whoever changes a bridge only says what it should be. A bridge that is not that yet has a task that brings it there: the old
connection ends, then the new one begins. If it should be something else again meanwhile, it becomes that: nobody waits in a
queue of changes, and two connections of a bridge never stand beside each other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, replace

from bridgehead.bridge.service import BridgeService
from bridgehead.settings.bridge import Bridge
from bridgehead.settings.model import Settings
from bridgehead.settings.route import Route

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Target:
    """What a bridge should be."""

    bridge: Bridge
    routes: tuple[Route, ...]
    runs: bool = True
    restarts: int = 0  # one more: it should be the same, begun anew


Build = Callable[[Bridge, BridgeService | None], BridgeService]
"""Makes a bridge from what is there now; the other one is that which has ended before."""


class Slot:
    """One bridge. ``service`` is the one that runs, or ran last: its status is what a user sees."""

    def __init__(self, build: Build, on_built: Callable[[], None], *, begun: bool) -> None:
        """``begun``: it starts when it is built, not later by ``begin``."""
        self._build = build
        self._on_built = on_built
        self._begun = begun
        self.target: Target | None = None  # None: it should not be
        self.reached: Target | None = None
        self.service: BridgeService | None = None
        self._connected = False  # the service was started and has not ended
        self._task: asyncio.Task[None] | None = None

    def aim(self, target: Target | None) -> None:
        self.target = target
        if target == self.reached or self._task is not None:
            return
        if self._connected:
            self._task = asyncio.get_running_loop().create_task(self._settle())
        else:
            self._become(target)

    async def settled(self) -> None:
        """Return when the bridge is what it should be."""
        while self._task is not None:
            await asyncio.shield(self._task)

    async def _settle(self) -> None:
        try:
            while self.target != self.reached:
                if self._connected:
                    await self.end()
                self._become(self.target)
        finally:
            self._task = None

    async def end(self) -> None:
        """The connection ends; its rows wait in their outboxes."""
        if self.service is not None and self._connected:
            await self.service.stop()
        self._connected = False

    def _become(self, target: Target | None) -> None:
        if self.service is not None:
            self.service.let_go()
        if target is None:
            self.service = None
        else:
            self.service = self._build(target.bridge, self.service)
            if self._begun:
                self._start(self.service, target)
        self.reached = target
        self._on_built()

    def begin(self) -> None:
        self._begun = True
        if self.service is not None and self.reached is not None:
            self._start(self.service, self.reached)

    def _start(self, service: BridgeService, target: Target) -> None:
        self._connected = target.runs
        service.start() if target.runs else service.rest()


class Bridges:
    """All of them, by their ids. ``services`` is kept in place, in the order of the settings."""

    def __init__(self, build: Build, on_change: Callable[[], None] = lambda: None) -> None:
        self._build = build
        self.on_change = on_change  # other services than before are there
        self._begun = False
        self._slots: dict[str, Slot] = {}
        self._order: list[str] = []
        self.services: dict[str, BridgeService] = {}

    def arrange(self, settings: Settings, stopped: Container[str]) -> None:
        """From now on these. Those that are as before do not notice; what others need is done in the background."""
        routes = settings.routes()
        for slot in self._slots.values():
            if slot.service is not None:
                slot.service.consumer.doors_changed()  # also those whose connection is about to end
        self._order = [bridge.id for bridge in settings.bridges]
        for name, slot in self._slots.items():
            if name not in self._order:
                slot.aim(None)
        for bridge in settings.bridges:
            own = tuple(route for route in routes if route.bridge == bridge.id)
            if bridge.id not in self._slots:
                self._slots[bridge.id] = Slot(self._build, self._show, begun=self._begun)
            slot = self._slots[bridge.id]
            restarts = slot.target.restarts if slot.target is not None else 0
            slot.aim(Target(bridge, own, bridge.id not in stopped, restarts))
        self._show()

    def begin(self) -> None:
        """The node has started: whoever should run does from now on."""
        self._begun = True
        for slot in self._slots.values():
            slot.begin()

    def restart(self, bridge: str) -> None:
        slot = self._slots[bridge]
        assert slot.target is not None
        slot.aim(replace(slot.target, restarts=slot.target.restarts + 1))

    def runs(self, bridge: str) -> bool:
        """Whether it should."""
        target = self._slots[bridge].target
        return target is not None and target.runs

    async def settled(self, bridges: Iterable[str] | None = None) -> None:
        """Return when these (or all) are what they should be."""
        wanted = list(self._slots if bridges is None else bridges)
        await asyncio.gather(*(self._slots[name].settled() for name in wanted if name in self._slots))
        for name in [name for name, slot in self._slots.items() if slot.target is None and slot.reached is None]:
            del self._slots[name]

    async def stop(self) -> None:
        """The node ends: every connection does."""
        await self.settled()
        await asyncio.gather(*(slot.end() for slot in self._slots.values()))

    def _show(self) -> None:
        there = {name: self._slots[name].service for name in self._order if name in self._slots}
        self.services.clear()
        self.services.update({name: service for name, service in there.items() if service is not None})
        self.on_change()
