"""What can be asked of a running node about its bridges: add, change, remove, start, stop, restart, read the file again.

One change at a time; a fault changes nothing, and all faults are told. Each change is saved before it is made.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Container
from contextlib import asynccontextmanager
from typing import Any, Protocol

from bridgehead.errors import ConflictError, NotThereError, RefusedError, SettingsError
from bridgehead.node.bridges import Bridges
from bridgehead.node.difference import Difference, difference, followed
from bridgehead.node.documents import shown, taken
from bridgehead.node.theirnames import place_in
from bridgehead.settings.configuration import Configuration, in_overlay
from bridgehead.settings.model import Settings

log = logging.getLogger(__name__)


class Running(Protocol):
    """The node, as far as it can be changed."""

    settings: Settings

    @property
    def bridges(self) -> Bridges: ...

    async def change(self, settings: Settings, stopped: Container[str], save: Callable[[], None]) -> None: ...

    async def purge(self, bridge: str) -> int: ...

    def left_by(self, bridge: str) -> bool: ...


class Management:
    """Used from the node's event loop. ``purge`` asks to throw away queues of routes that are configured no more."""

    def __init__(self, configuration: Configuration, node: Running) -> None:
        self._configuration = configuration
        self._node = node
        self._changing = asyncio.Lock()
        self._begun = asyncio.Event()
        self._ended = False
        self.refused: str | None = None  # why the file, as it was read last, is not followed

    def begin(self) -> None:
        """The node has started: whoever wanted a change before that has waited for it."""
        self._begun.set()

    async def end(self) -> None:
        """The node is about to stop: the change that is being made is the last one."""
        self._ended = True
        self._begun.set()  # whoever waits for that is refused
        async with self._changing:
            return

    @asynccontextmanager
    async def _one_at_a_time(self) -> AsyncIterator[None]:
        await self._begun.wait()
        async with self._changing:
            if self._ended:
                raise RefusedError("the node stops")
            yield

    # -- asking -------------------------------------------------------------------------------------------------------

    def listed(self) -> list[dict[str, Any]]:
        return [self.shown(bridge) for bridge in self._configuration.bridges]

    def shown(self, bridge: str) -> dict[str, Any]:
        """All of a bridge but its secrets, with its status."""
        written = self._configuration.bridges[self._known(bridge)]
        settings = next(each for each in self._node.settings.bridges if each.id == bridge)
        return {**shown(settings, written), "status": self.status(bridge)}

    def statuses(self) -> list[dict[str, Any]]:
        return [self.status(bridge) for bridge in self._configuration.bridges]

    def status(self, bridge: str) -> dict[str, Any]:
        service = self._node.bridges.services.get(self._known(bridge))
        connected = service is not None and service.uplink.connected
        error = None if service is None or connected else service.uplink.status.last_error
        return {
            "connection": "CONNECTED" if connected else "DISCONNECTED",
            "runtime": "STARTED" if self._node.bridges.runs(bridge) else "STOPPED",
            "id": bridge,
            "type": "bridge",
            **({"message": error} if error is not None else {}),
        }

    # -- changing -----------------------------------------------------------------------------------------------------

    async def add(self, body: dict[str, Any], *, purge: bool = False) -> None:
        async with self._one_at_a_time():
            bridge = body.get("id")
            if isinstance(bridge, str) and bridge in self._configuration.bridges:
                raise ConflictError(f"there is a bridge {bridge} already")
            candidate = self._checked(str(bridge), body, *taken(body, None))
            if purge:
                await self._node.purge(str(bridge))
            await self._become(candidate)
        await self._node.bridges.settled([str(bridge)])

    async def replace(self, bridge: str, body: dict[str, Any], *, purge: bool = False) -> None:
        """The bridge runs afterwards."""
        async with self._one_at_a_time():
            document, faults = taken(body, self._configuration.bridges[self._known(bridge)])
            if document.setdefault("id", bridge) != bridge:
                raise SettingsError([("id", f"must be that of the address: {bridge}")])
            await self._become(self._checked(bridge, body, document, faults).told_to_stop(bridge, stop=False))
        await self._node.bridges.settled([bridge])
        if purge:
            await self._purge(bridge)

    async def remove(self, bridge: str, *, purge: bool = False) -> None:
        """Without ``purge`` its queues stay aside: a bridge of this id with the same routes finds them again."""
        async with self._one_at_a_time():
            gone = bridge not in self._configuration.bridges
            if gone and not (purge and self._node.left_by(bridge)):
                self._known(bridge)
            if not gone:
                await self._become(self._configuration.changed(bridge, None))
        await self._node.bridges.settled([bridge])
        if purge:
            await self._purge(bridge)

    async def _purge(self, bridge: str) -> None:
        async with self._one_at_a_time():
            routes = await self._node.purge(bridge)
            log.info("bridge %s: the queues of %d removed routes are purged", bridge, routes)

    async def start(self, bridge: str) -> None:
        await self._told(bridge, stop=False)

    async def stop(self, bridge: str) -> None:
        await self._told(bridge, stop=True)

    async def _told(self, bridge: str, *, stop: bool) -> None:
        async with self._one_at_a_time():
            await self._become(self._configuration.told_to_stop(self._known(bridge), stop=stop))
        await self._node.bridges.settled([bridge])

    async def restart(self, bridge: str) -> None:
        """End the connection and begin it anew; a bridge that is stopped stays so."""
        async with self._one_at_a_time():
            self._node.bridges.restart(self._known(bridge))
        await self._node.bridges.settled([bridge])

    async def reload(self) -> Difference:
        """Read the configuration file again; SettingsError if it is faulty, and nothing has changed."""
        async with self._one_at_a_time():
            try:
                candidate = self._configuration.reread()
                found = difference(self._node.settings, candidate.settings)
                await self._become(candidate)
            except SettingsError as error:
                (place, text), *others = error.faults
                self.refused = f"{place}: {text}" + (f" (and {len(others)} more)" if others else "")
                raise
            self.refused = None
        if found.at_next_start:
            log.warning("the file has changed in what takes effect at the next start: %s", ", ".join(found.at_next_start))
        log.info("the file was read again: %s", _words(found, frozenset(), frozenset()))
        await self._node.bridges.settled(found.bridges.changed)
        return found

    def _known(self, bridge: str) -> str:
        if bridge not in self._configuration.bridges:
            raise NotThereError(f"there is no bridge {bridge}")
        return bridge

    def _checked(
        self, bridge: str, body: dict[str, Any], document: dict[str, Any], faults: list[tuple[str, str]]
    ) -> Configuration:
        """With this bridge; the faults of it are told by their places in what was sent."""
        try:
            candidate = self._configuration.changed(bridge, document)
        except SettingsError as error:
            own = in_overlay(bridge)
            more = [(place_in(body, path.removeprefix(own).removeprefix(": ")), text) for path, text in error.faults]
            raise SettingsError([*faults, *more]) from None
        if faults:
            raise SettingsError(faults)
        return candidate

    async def _become(self, candidate: Configuration) -> None:
        before = self._configuration
        settings = followed(self._node.settings, candidate.settings)
        found = difference(self._node.settings, settings)
        if not found and candidate.overlay == before.overlay:
            self._configuration = candidate
            return

        def save() -> None:
            if candidate.overlay != before.overlay:
                candidate.overlay.save(self._node.settings.data_dir)
            self._configuration = candidate

        await self._node.change(settings, candidate.overlay.stopped, save)
        log.info("bridges: %s", _words(found, before.overlay.stopped, candidate.overlay.stopped))


def _words(found: Difference, before: frozenset[str], stopped: frozenset[str]) -> str:
    """``before``, ``stopped``: the bridges that were stopped, and those that are."""
    told = [
        f"{what} {', '.join(ids)}"
        for what, ids in (
            ("added", found.bridges.added),
            ("changed", found.bridges.changed),
            ("removed", found.bridges.removed),
            ("stopped", sorted(stopped - before)),
            ("started", sorted(before - stopped)),
        )
        if ids
    ]
    kept = len(found.bridges.kept)
    return "; ".join([*told, f"{kept} bridge{'s' if kept != 1 else ''} as before"])
