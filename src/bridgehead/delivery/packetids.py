"""The packet ids of QoS 2 on the disk: what lets a session go on after a restart of the node as if it had only reconnected.

On the disk: under the name of the session's record its head, which says whose session these ids belong to (of an uplink: client
id, addresses) and which routes the numbers mean; under the name and a page number PAGE ids each: state, route and row number,
only those that are half-way through QoS 2. Routes are named by their id; their numbers are valid for one life and written anew
at each start. The session of a client has one queue, which stands for the route.

The order of writes is the promise (the engine's log is one sequence, a restart finds a beginning of it):

- taken: the page is synced before the first byte of PUBLISH leaves;
- PUBREC: the page is synced before PUBREL leaves;
- done: the row leaves the outbox first; the page follows with the next write of any page. Until then the disk knows an id whose
  row is gone: a restart sends PUBREL for it, which the peer answers whether it knows the id or not;
- used again: for QoS 2 the new page is synced first, and all stale pages with it. For QoS 1 nothing is written: if the stale
  page is found again its row is gone (PUBREL, as above), or it was refused (the peer does not know the id: it is as new).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from bridgehead.storage.engine import Changes, Engine, Shelf
from bridgehead.storage.outbox import Outbox
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
    first: bool  # there is no record: whatever the peer holds half-way, nobody knows
    ours: bool  # False: it belongs to another session, and its ids mean nothing in this one


class TakenUp(NamedTuple):
    """How much of an earlier life a session can go on with."""

    fresh: bool  # the peer may hold ids half-way that nobody knows of
    doubted: int  # rows that may have left, and whose ids mean nothing any more


def head(session: Sequence[Any], routes: Sequence[str]) -> dict[str, Any]:
    """What a record begins with: from here on the disk knows every id that is half-way."""
    return {"session": list(session), "routes": list(routes)}


def forget(engine: Engine, changes: Changes, name: Shelf, last_id: int) -> None:
    """The session is over: let this write take its record away."""
    every = [name, *(_page(name, page) for page in range(last_id // PAGE + 1))]
    changes.state.update({each: None for each in every if engine.state(each) is not None})


class PacketIds:
    """The record of one session, under this name, for an engine whose content outlives the process."""

    def __init__(
        self, engine: Engine, name: Shelf, session: Sequence[Any], routes: Sequence[str], flow: OutboundFlow, last_id: int
    ) -> None:
        self._engine = engine
        self._name = name
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

    def take_up(self, outboxes: Sequence[Outbox], most: int) -> TakenUp:
        """Let the flow go on where an earlier life ended; the outboxes are those of the routes.

        Ids whose rows are gone, or that are more than ``most`` and would find no place, are only to be settled.
        """
        kept, first, ours = self.recall()
        there = np.zeros(len(kept.ids), np.bool_)
        for number, outbox in enumerate(outboxes):
            mine = kept.owner == number
            there[mine] = outbox.holds(kept.seq[mine])
        if not ours:
            self.begin()
            return TakenUp(True, int(there.sum()))
        surplus = there & (kept.state == AWAIT_PUBREC)
        surplus &= np.cumsum(surplus) > most
        there &= ~surplus
        for number, outbox in enumerate(outboxes):
            outbox.mark(kept.seq[there & (kept.owner == number) & (kept.state == AWAIT_PUBCOMP)])
        owner = np.where(there, kept.owner, NOBODY).astype(np.int32)
        self._flow.restore(InFlight(kept.ids, owner, kept.seq, np.where(there, kept.state, AWAIT_PUBCOMP)))
        self.begin()
        return TakenUp(first, int(surplus.sum()))

    def recall(self) -> Recalled:
        """What is on the disk."""
        found = self._engine.state(self._name)
        begun = found or head(self._session, [])
        slots = np.zeros(self._last_id + 1, _SLOT)
        for page, value in self._pages():
            first = page * PAGE
            there = np.frombuffer(value, _SLOT)[: len(slots) - first]
            slots[first : first + len(there)] = there
        ids = np.flatnonzero(slots["state"])
        numbers = {route: number for number, route in enumerate(self._routes)}
        # One more at the end, for the route -1 of ids that were nobody's already.
        owners = np.array([*(numbers.get(route, NOBODY) for route in begun["routes"]), NOBODY], np.int32)
        ids = ids[np.lexsort((slots["seq"][ids], owners[slots["route"][ids]]))]
        owner, seq = owners[slots["route"][ids]], slots["seq"][ids].astype(np.int64)
        kept = InFlight(ids.astype(np.uint16), owner, seq, slots["state"][ids].copy())
        return Recalled(kept, found is None, begun["session"] == self._session)

    def begin(self) -> None:
        """The record of this life takes the place of the last one's: exactly what the flow has now."""
        changes = Changes()
        begun = head(self._session, self._routes)
        if self._engine.state(self._name) != begun:
            changes.state[self._name] = begun
        self._on_disk.fill(False)
        self._stale.clear()
        kept = np.flatnonzero(_KEPT[self._flow.at(np.arange(self._last_id + 1, dtype=np.uint16)).state])
        self._put(changes, sorted({*np.unique(kept // PAGE).tolist(), *(page for page, _ in self._pages())}))
        if changes.state:
            self._engine.write(changes)

    def _pages(self) -> list[tuple[int, bytes]]:
        """The pages on the disk, asked for one by one: with many sessions a look through all names takes its time."""
        found = ((page, self._engine.state(_page(self._name, page))) for page in range(self._last_id // PAGE + 1))
        return [(page, value) for page, value in found if value is not None]

    def took(self, ids: Ids) -> None:
        """These ids belong to rows now; they may leave when this is synced."""
        self._write(ids)

    def answered(self, received: Ids, freed: Ids) -> bool:
        """What acknowledgements have changed; whether it must be synced before the replies leave."""
        known = freed[self._on_disk[freed]]
        if len(known):  # at QoS 1 none is
            self._stale.update(np.unique(known // PAGE).tolist())
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
        """Write these pages, in rising order, as the flow has them now."""
        if not pages:
            return
        whole = (np.array(pages)[:, None] * PAGE + np.arange(PAGE)).ravel()
        ids = whole[whole < len(self._on_disk)].astype(np.uint16)  # the last page of all may be a short one
        _, owner, seq, state = self._flow.at(ids)
        kept = _KEPT[state]
        there = kept != FREE
        self._on_disk[ids] = there
        slots = np.zeros(len(ids), _SLOT)
        slots["state"] = kept
        slots["route"] = np.where(there, owner, 0)
        slots["seq"] = np.where(there, seq, 0)
        values, size = slots.tobytes(), PAGE * _SLOT.itemsize
        used = np.logical_or.reduceat(there, np.arange(0, len(ids), PAGE)).tolist()
        for place, page in enumerate(pages):
            name = _page(self._name, page)
            if used[place]:
                changes.state[name] = values[place * size : (place + 1) * size]
            elif self._engine.state(name) is not None:
                changes.state[name] = None


def _page(name: Shelf, page: int) -> Shelf:
    return (*name, f"{page:04d}")
