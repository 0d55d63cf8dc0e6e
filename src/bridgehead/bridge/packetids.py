"""The packet ids of QoS 2 on the disk: what lets an uplink go on after a restart of the node as if it had only reconnected.

On the disk: under ("ids", bridge) whose session these ids belong to (client id, addresses) and which routes the numbers mean;
under ("ids", bridge, page) PAGE ids each: state, route and row number, only those that are half-way through QoS 2. Routes are
named by their id; their numbers are valid for one life and written anew at each start.

The order of writes is the promise (the engine's log is one sequence, a restart finds a beginning of it):

- taken: the page is synced before the first byte of PUBLISH leaves;
- PUBREC: the page is synced before PUBREL leaves;
- done: the row leaves the outbox first; the page follows with the next write of any page. Until then the disk knows an id whose
  row is gone: a restart sends PUBREL for it, which the remote answers whether it knows the id or not;
- used again: for QoS 2 the new page is synced first, and all stale pages with it. For QoS 1 nothing is written: if the stale
  page is found again its row is gone (PUBREL, as above), or it was refused (the remote does not know the id: it is as new).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from bridgehead.storage.engine import Changes, Engine, Shelf
from bridgehead.wire.flow import AWAIT_PUBCOMP, AWAIT_PUBREC, FREE, NOBODY, RESERVED, InFlight, OutboundFlow

PAGE: Final = 64
"""Ids in one value: a single message writes 700 bytes, a thousand messages write 16 values."""

_SLOT: Final = np.dtype([("state", "u1"), ("route", "<i2"), ("seq", "<i8")])
_KEPT: Final = np.zeros(RESERVED + 1, np.uint8)  # what the disk says of a state; all others are not kept
_KEPT[AWAIT_PUBREC] = _KEPT[RESERVED] = AWAIT_PUBREC
_KEPT[AWAIT_PUBCOMP] = AWAIT_PUBCOMP

Ids = npt.NDArray[np.uint16]


class Recalled(NamedTuple):
    """What an earlier life had half-way, in order of routes and rows; routes that are gone are NOBODY."""

    kept: InFlight
    first: bool  # there is no record: whatever the remote holds half-way, nobody knows
    ours: bool  # False: it belongs to another session, and its ids mean nothing in this one


class PacketIds:
    """The record of one uplink, for an engine whose content outlives the process."""

    def __init__(
        self, engine: Engine, bridge: str, session: Sequence[Any], routes: Sequence[str], flow: OutboundFlow, last_id: int
    ) -> None:
        self._engine = engine
        self._shelf: Shelf = ("ids", bridge)
        self._session = list(session)
        self._routes = list(routes)
        self._flow = flow
        self._last_id = last_id
        self._on_disk = np.zeros(last_id + 1, np.bool_)  # which ids the disk may know
        self._stale: set[int] = set()  # pages that know ids which are free

    @property
    def known(self) -> bool:
        """Whether the disk knows any id."""
        return bool(self._on_disk.any())

    def recall(self) -> Recalled:
        """What is on the disk."""
        found = self._engine.state(self._shelf)
        head = found or {"session": self._session, "routes": []}
        pages = [(name[2], value) for name, value in self._engine.states(self._shelf) if len(name) > len(self._shelf)]
        slots = np.zeros(self._last_id + 1, _SLOT)
        for number, value in pages:
            first = int(number) * PAGE
            page = np.frombuffer(value, _SLOT)[: max(len(slots) - first, 0)]
            slots[first : first + len(page)] = page
        ids = np.flatnonzero(slots["state"])
        numbers = {route: number for number, route in enumerate(self._routes)}
        # One more at the end, for the route -1 of ids that were nobody's already.
        owners = np.array([*(numbers.get(route, NOBODY) for route in head["routes"]), NOBODY], np.int32)
        ids = ids[np.lexsort((slots["seq"][ids], owners[slots["route"][ids]]))]
        owner, seq = owners[slots["route"][ids]], slots["seq"][ids].astype(np.int64)
        kept = InFlight(ids.astype(np.uint16), owner, seq, slots["state"][ids].copy())
        return Recalled(kept, found is None, head["session"] == self._session)

    def begin(self) -> None:
        """The record of this life takes the place of the last one's: exactly what the flow has now."""
        changes = Changes(state={name: None for name, _ in self._engine.states(self._shelf)})
        changes.state[self._shelf] = {"session": self._session, "routes": self._routes}
        self._on_disk.fill(False)
        self._stale.clear()
        kept = np.flatnonzero(_KEPT[self._flow.at(np.arange(self._last_id + 1, dtype=np.uint16)).state])
        self._put(changes, np.unique(kept // PAGE).tolist())
        self._engine.write(changes)

    def took(self, ids: Ids) -> None:
        """These ids belong to rows now; they may leave when this is synced."""
        self._write(ids)

    def answered(self, received: Ids, freed: Ids) -> bool:
        """What acknowledgements have changed; whether it must be synced before the replies leave."""
        self._stale.update(np.unique(freed[self._on_disk[freed]] // PAGE).tolist())
        if not len(received):
            return False
        self._write(received)
        return True

    def _write(self, ids: Ids) -> None:
        self._stale.update(np.unique(ids // PAGE).tolist())
        changes = Changes()
        self._put(changes, sorted(self._stale))
        self._stale.clear()
        self._engine.write(changes)

    def _put(self, changes: Changes, pages: Sequence[int]) -> None:
        for page in pages:
            ids = np.arange(page * PAGE, min((page + 1) * PAGE, len(self._on_disk)), dtype=np.uint16)
            _, owner, seq, state = self._flow.at(ids)
            kept = _KEPT[state]
            self._on_disk[ids] = kept != FREE
            name = (*self._shelf, f"{page:04d}")
            if kept.any():
                slots = np.zeros(len(ids), _SLOT)
                slots["state"] = kept
                slots["route"] = np.where(kept != FREE, owner, 0)
                slots["seq"] = np.where(kept != FREE, seq, 0)
                changes.state[name] = slots.tobytes()
            elif self._engine.state(name) is not None:
                changes.state[name] = None
