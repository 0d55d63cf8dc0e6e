"""The addresses of a remote: which one is tried next, and whose session it is that is found there.

The one that works is kept: after a lost connection it is tried first, after a restart as well. One that fails makes way for the
next at once; only when all have failed there is a pause.

Brokers behind several addresses may share their sessions, or each may have its own. What we have in flight belongs to one
session. Another host that says ``session present`` has that very session if we never had one of its own there. If we had, it is
that old one, with packet ids half-way that mean other messages by now: as good as lost, and its ids must be settled first.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from bridgehead.storage.engine import Changes, Engine, Shelf

Address = tuple[str, int]


class Found(Enum):
    """What a remote has of our session."""

    OURS = "the session that what is in flight belongs to"
    NONE = "none: it starts anew"
    OLD = "one of an earlier time, of which we know nothing any more"


class Hosts:
    """With one address there is nothing to remember: the session there is always the one."""

    def __init__(self, addresses: tuple[Address, ...], engine: Engine, bridge: str) -> None:
        self._addresses = addresses
        self._engine = engine
        self._name: Shelf = ("hosts", "bridge", bridge)
        self._alone = len(addresses) == 1
        kept: dict[str, Any] = {} if self._alone else engine.state(self._name) or {}
        self._sessions: dict[Address, int] = {(host, port): number for host, port, number in kept.get("sessions", [])}
        # The number of the session that what is in flight belongs to; None: nobody knows which.
        self._current: int | None = kept.get("current", 0 if engine.durable else None)
        at = tuple(kept.get("at", ()))
        self._at = addresses.index(at) if at in addresses else 0
        self._failures = 0  # addresses that have failed since one worked

    @property
    def address(self) -> Address:
        """Where to connect next."""
        return self._addresses[self._at]

    def ended(self, *, stood: bool) -> bool:
        """A connection has ended, or came to nothing; whether it is time for a pause."""
        if stood:
            self._failures = 0
            return True
        self._failures += 1
        self._at = (self._at + 1) % len(self._addresses)
        return self._failures % len(self._addresses) == 0

    def connected(self, *, session_present: bool) -> Found:
        """The remote at this address has answered. Unless it is OURS, ``settled`` is to follow when ids are forgotten."""
        self._failures = 0
        if self._alone:
            return Found.OURS if session_present else Found.NONE
        known = self._sessions.get(self.address)
        if session_present and self._current is not None and known in (None, self._current):
            self._sessions[self.address] = self._current
            self._keep()
            return Found.OURS
        # Between this write and that of ``settled`` nobody could say whose ids are on the disk.
        self._sessions[self.address] = known if session_present and known is not None else self._unused()
        self._current = None
        self._keep()
        return Found.OLD if session_present else Found.NONE

    def settled(self) -> None:
        """What is in flight from here on belongs to the session of this address."""
        if not self._alone:
            self._current = self._sessions[self.address]
            self._keep()

    def _unused(self) -> int:
        return max(self._sessions.values(), default=0) + 1

    def _keep(self) -> None:
        sessions = [[host, port, number] for (host, port), number in self._sessions.items()]
        kept = {"at": list(self.address), "sessions": sessions, "current": self._current}
        if self._engine.durable and self._engine.state(self._name) != kept:
            self._engine.write(Changes(state={self._name: kept}))
