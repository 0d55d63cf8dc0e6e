"""What a user does with the dead letters of a node: look at them, send them again, drop them.

Whoever asks for something gets all of it or a reason why not: an id that is not there, a route that is no more, a full queue.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from bridgehead.columns.batches import Batch, concat
from bridgehead.errors import RefusedError
from bridgehead.storage.deadletters import (
    AS_THEY_CAME,
    DROPPED,
    NO_DESTINATION,
    RESENT,
    TRANSFORM,
    TRANSFORM_FAILED,
    DeadLetters,
    Seqs,
    routes_with_dead_letters,
)
from bridgehead.storage.engine import Changes, Engine
from bridgehead.storage.outbox import BURY_ROWS, Outbox

Again = Callable[[Changes, Batch], None]
"""Takes OUTBOX rows into the journal by this write."""

PREVIEW_BYTES: Final = 64
"""How much of a payload is shown."""


class DeadLetterDesk:
    """The dead letters of all routes. ``outboxes`` are those of the routes that can send.

    Which ones are meant is said by a route (None = any) and ids (None = all).
    """

    def __init__(self, engine: Engine, outboxes: Mapping[str, Outbox], again: Mapping[str, Again] | None = None) -> None:
        """``again``: by route, how a message that its transform failed on, or that has no destination, begins its way anew."""
        self._engine = engine
        self.follow(outboxes, again)

    def follow(
        self, outboxes: Mapping[str, Outbox], again: Mapping[str, Again] | None = None, removed: Iterable[Outbox] = ()
    ) -> None:
        """These are the routes from now on, and those that are removed. Whoever else has dead letters is of an earlier life."""
        self._again = again or {}
        self._outboxes = outboxes
        self.shelves = {outbox.route: outbox.dead for outbox in (*outboxes.values(), *removed)}
        for route in routes_with_dead_letters(self._engine):
            if route not in self.shelves:
                self.shelves[route] = DeadLetters(route, self._engine)

    def listed(self, route: str | None, most: int) -> dict[str, Any]:
        """The oldest of each route first, and how many there are in all."""
        shelves = self._shelves(route)
        found: list[dict[str, Any]] = []
        for shelf in shelves:
            for ids, batch in shelf.rows():
                found += _described(shelf.route, ids, batch.slice(0, most - len(found)))
                if len(found) == most:
                    break
        return {"deadLetters": found, "total": sum(len(shelf) for shelf in shelves)}

    def resend(self, route: str | None, ids: Collection[int] | None) -> int:
        """Each goes to the end of its route's outbox as a new row, in the write in which it leaves here."""
        chosen = self._chosen(route, ids)
        for shelf, some in chosen:
            outbox = self._outboxes.get(shelf.route)
            if outbox is None:
                raise RefusedError(f"there is no route {shelf.route} any more: its dead letters can only be dropped")
            if outbox.depth + len(some) > outbox.max_rows or outbox.weight >= outbox.max_bytes:
                raise RefusedError(f"the queue of route {shelf.route} has no room for {len(some)} messages")
            self._must_be_messages(shelf, some)
        for shelf, part in _parts(chosen):
            failed = np.array([reason in AS_THEY_CAME for reason in shelf.reasons(part)])
            if failed.any():
                self._begin_again(shelf, part[failed])
            if not failed.all():
                self._resend(shelf, self._outboxes[shelf.route], part[~failed])
        return sum(len(some) for _, some in chosen)

    def _must_be_messages(self, shelf: DeadLetters, ids: Seqs) -> None:
        for number, reason in zip(ids.tolist(), shelf.reasons(ids), strict=True):
            if reason == TRANSFORM_FAILED and shelf.route not in self._again:
                raise RefusedError(f"route {shelf.route} has no transform any more for the dead letter {number}")
            if reason == NO_DESTINATION and shelf.route not in self._again:
                raise RefusedError(f"only a running node can try the dead letter {number} of route {shelf.route} again")
            if reason.startswith(TRANSFORM) and reason != TRANSFORM_FAILED:
                raise RefusedError(f"the dead letter {number} of route {shelf.route} is no message: it can only be dropped")

    def _begin_again(self, shelf: DeadLetters, ids: Seqs) -> None:
        """These begin their way anew, at the end of the journal: what becomes of them is for transform and rules to say."""
        changes = Changes()
        self._again[shelf.route](changes, concat(shelf.remove(changes, ids, RESENT)))
        self._engine.write(changes)

    def _resend(self, shelf: DeadLetters, outbox: Outbox, ids: Seqs) -> None:
        changes = Changes()
        rows = concat(shelf.remove(changes, ids, RESENT))
        safe = outbox.ledger.safe_rows(rows)
        outbox.ledger.receive(rows.num_rows, safe)  # it begins its way anew: both sums of the route count it once more
        outbox.ledger.consume(rows.num_rows, safe)
        outbox.land(changes, rows)
        self._engine.write(changes)
        end = outbox.end
        self._engine.when_synced(lambda: outbox.landed(end))

    def drop(self, route: str | None, ids: Collection[int] | None) -> int:
        chosen = self._chosen(route, ids)
        for shelf, part in _parts(chosen):
            changes = Changes()
            shelf.remove(changes, part, DROPPED)
            self._engine.write(changes)
        return sum(len(some) for _, some in chosen)

    def _shelves(self, route: str | None) -> list[DeadLetters]:
        if route is None:
            return list(self.shelves.values())
        if route not in self.shelves:
            raise RefusedError(f"there is no route {route}, and no dead letter of one")
        return [self.shelves[route]]

    def _chosen(self, route: str | None, ids: Collection[int] | None) -> list[tuple[DeadLetters, Seqs]]:
        """The shelves that hold something of it, each with the ids in question."""
        shelves = [(shelf, shelf.ids()) for shelf in self._shelves(route)]
        if ids is None:
            return [(shelf, here) for shelf, here in shelves if len(here)]
        wanted = np.unique(np.array(list(ids), np.int64))
        for one in wanted.tolist():
            holders = [shelf.route for shelf, here in shelves if one in here]
            if not holders:
                raise RefusedError(f"there is no dead letter {one}" + (f" of route {route}" if route is not None else ""))
            if len(holders) > 1:
                raise RefusedError(f"several routes have a dead letter {one}: name one of {', '.join(holders)}")
        found = [(shelf, np.intersect1d(here, wanted)) for shelf, here in shelves]
        return [(shelf, some) for shelf, some in found if len(some)]


def _parts(chosen: list[tuple[DeadLetters, Seqs]]) -> Iterator[tuple[DeadLetters, Seqs]]:
    """Some rows at a time: payloads may be large."""
    for shelf, ids in chosen:
        for first in range(0, len(ids), BURY_ROWS):
            yield shelf, ids[first : first + BURY_ROWS]


def _described(route: str, ids: Seqs, batch: Batch) -> Iterator[dict[str, Any]]:
    for number, row in zip(ids.tolist(), batch.to_pylist(), strict=False):
        yield {
            "id": number,
            "route": route,
            "topic": row["topic"],
            "qos": row["wire_qos"],
            "retain": row["retain"],
            "reason": row["reason"],
            "diedAt": row["died_at"].isoformat(),
            "attempts": row["attempts"],
            "size": len(row["payload"]),
            "payload": row["payload"][:PREVIEW_BYTES].decode(errors="replace"),
        }
