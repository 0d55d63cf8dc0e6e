"""The ledger of a route: every number of it, owned in one place, and the two sums that hold at any moment.

    journal: received = consumed + dropped before + waiting
    outbox:  entered  = delivered + dropped + dead letters + waiting

What is consumed enters, row for row; of a route with a transform, which makes fewer rows or more, it is known how many
went in and how many came out: consumed - in = entered - out.

Each number is kept twice, apart: for rows that are on the disk (``kept``: queued QoS above 0, file-native), and for all others
(``passing``: they start anew with the process, as their rows do). What is kept changes in the write that changes its rows,
so after a crash at any moment the sums hold with the rows that are found. What waits is counted where the rows are (``Log``
and ``Outbox``), never here: a sum that is made from itself says nothing.
"""

from __future__ import annotations

import json
import logging
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from bridgehead import clock
from bridgehead.columns.batches import Batch, durable_rows
from bridgehead.storage.engine import Changes, Engine, Shelf

log = logging.getLogger(__name__)

LEDGER: Final = "ledger"
"""The numbers of a route are the state under (LEDGER, route)."""
ROUTE: Final = "route"
"""What is known of a route is the state under (ROUTE, route)."""
DAMAGED: Final = "damaged"
"""The reason of rows that were promised and not found at a start."""

Reasons = dict[str, int]

_NUMBERS = struct.Struct(">4Q")
_REASONS = ("dropped_before", "dropped", "dead_lettered", "transformed")

IN: Final = "in"
OUT: Final = "out"


@dataclass(slots=True)
class Tally:
    """The numbers of one route, in the order in which a row meets them."""

    received: int = 0  # matched the filters
    dropped_before: Reasons = field(default_factory=dict)  # never became outbox rows, by reason
    consumed: int = 0  # taken out of the journal by a commit
    entered: int = 0  # came to the outbox
    delivered: int = 0
    dropped: Reasons = field(default_factory=dict)
    dead_lettered: Reasons = field(default_factory=dict)
    transformed: Reasons = field(default_factory=dict)  # rows IN and OUT of the route's transform

    @property
    def journal_waiting(self) -> int:
        """How many rows wait in the journal if the sum holds."""
        return self.received - self.consumed - sum(self.dropped_before.values())

    @property
    def outbox_waiting(self) -> int:
        return self.entered - self.delivered - sum(self.dropped.values()) - sum(self.dead_lettered.values())

    def pack(self, reasons: bytes) -> bytes:
        return _NUMBERS.pack(self.received, self.consumed, self.entered, self.delivered) + reasons

    def pack_reasons(self) -> bytes:
        """They change seldom: whoever packs often keeps this."""
        found = {name: given for name in _REASONS if (given := getattr(self, name))}
        return json.dumps(found).encode() if found else b""

    @staticmethod
    def unpack(state: bytes) -> Tally:
        received, consumed, entered, delivered = _NUMBERS.unpack_from(state)
        reasons = json.loads(state[_NUMBERS.size :] or b"{}")
        return Tally(received=received, consumed=consumed, entered=entered, delivered=delivered, **reasons)


class Ledger:
    """Used by the door, the gate and the outbox of a route. ``rows`` are all rows concerned, ``safe`` those on the disk."""

    def __init__(self, route: str, engine: Engine | None = None) -> None:
        """Without an engine the ledger is not kept: it lives as long as its process."""
        self.route = route
        self.keeps = engine is not None and engine.durable
        self.kept = Tally()
        self.passing = Tally()
        self._name: Shelf = (LEDGER, route)
        self._dirty = False  # what is kept has changed since the last write
        self.progress_at = clock.monotonic()  # when rows were last delivered; before that, the beginning of this life
        state = engine.state(self._name) if engine is not None and self.keeps else None
        if state is not None:
            self.kept = Tally.unpack(state)
        self._reasons = self.kept.pack_reasons()

    def safe_rows(self, batch: Batch) -> int:
        """How many of these rows go to the disk."""
        return durable_rows(batch) if self.keeps else 0

    # -- what happens to rows -----------------------------------------------------------------------------------------

    def receive(self, rows: int, safe: int) -> None:
        """They are in the journal."""
        self.passing.received += rows - safe
        if safe:
            self.kept.received += safe
            self._dirty = True

    def turn_away(self, reason: str, rows: int) -> None:
        """They came to the door and were not let in: they never were on the disk, whatever their QoS."""
        if rows:
            self.passing.received += rows
            _add(self.passing.dropped_before, reason, rows)

    def consume(self, rows: int, safe: int) -> None:
        self.passing.consumed += rows - safe
        if safe:
            self.kept.consumed += safe
            self._dirty = True

    def enter(self, rows: int, safe: int) -> None:
        """They came to the outbox; what it does not keep is also dropped."""
        self.passing.entered += rows - safe
        if safe:
            self.kept.entered += safe
            self._dirty = True

    def deliver(self, rows: int, safe: int) -> None:
        if rows:
            self.progress_at = clock.monotonic()
        self.passing.delivered += rows - safe
        if safe:
            self.kept.delivered += safe
            self._dirty = True

    def drop(self, reason: str, rows: int, safe: int) -> None:
        """They leave the outbox, or never got in, and nobody gets them."""
        self._by_reason(self.passing.dropped, self.kept.dropped, reason, rows, safe)

    def dead_letter(self, reason: str, rows: int, safe: int) -> None:
        """They leave the outbox for the dead letters."""
        self._by_reason(self.passing.dead_lettered, self.kept.dead_lettered, reason, rows, safe)

    def _by_reason(self, passing: Reasons, kept: Reasons, reason: str, rows: int, safe: int) -> None:
        if rows > safe:
            _add(passing, reason, rows - safe)
        if safe:
            _add(kept, reason, safe)
            self._reasons = self.kept.pack_reasons()
            self._dirty = True

    def transform_in(self, rows: int, safe: int) -> None:
        """These rows were consumed by a transform."""
        self._by_reason(self.passing.transformed, self.kept.transformed, IN, rows, safe)

    def transform_out(self, rows: int, safe: int) -> None:
        """These rows were made by a transform, and enter the outbox."""
        self._by_reason(self.passing.transformed, self.kept.transformed, OUT, rows, safe)

    def write(self, changes: Changes) -> None:
        """What is kept goes into the write that changes its rows, or keeps none of them: who sent them is answered after it."""
        if self._dirty and self.keeps:
            changes.state[self._name] = self.kept.pack(self._reasons)
            self._dirty = False

    # -- after a restart ----------------------------------------------------------------------------------------------

    def found_in_outbox(self, rows: int) -> None:
        """So many rows wait there: fewer than there should be are dropped as damaged, others count as if they came now."""
        tally = self.kept if self.keeps else self.passing
        lost = tally.outbox_waiting - rows
        if lost > 0:
            log.error("route %s: %d messages that waited in its outbox are lost by damage", self.route, lost)
            self.drop(DAMAGED, lost, lost)
        elif lost < 0:
            self._say_unknown(-lost)
            tally.received -= lost
            tally.consumed -= lost
            tally.entered -= lost
            self._dirty = True

    def found_in_journal(self, rows: int) -> None:
        """So many rows wait there, in whatever logs."""
        lost = self.kept.journal_waiting - rows
        if lost > 0:
            log.error("route %s: %d messages that waited in the journal are lost by damage", self.route, lost)
            self._by_reason(self.passing.dropped_before, self.kept.dropped_before, DAMAGED, lost, lost)
        elif lost < 0:
            self._say_unknown(-lost)
            self.receive(-lost, -lost)

    def _say_unknown(self, rows: int) -> None:
        if self.keeps:
            log.error("route %s: its ledger knows nothing of %d messages that were found", self.route, rows)

    # -- what a user sees ---------------------------------------------------------------------------------------------

    @property
    def received(self) -> int:
        return self.kept.received + self.passing.received

    @property
    def consumed(self) -> int:
        return self.kept.consumed + self.passing.consumed

    @property
    def entered(self) -> int:
        return self.kept.entered + self.passing.entered

    @property
    def delivered(self) -> int:
        return self.kept.delivered + self.passing.delivered

    @property
    def dropped_before(self) -> Reasons:
        return _joined(self.kept.dropped_before, self.passing.dropped_before)

    @property
    def dropped(self) -> Reasons:
        return _joined(self.kept.dropped, self.passing.dropped)

    @property
    def dead_lettered(self) -> Reasons:
        return _joined(self.kept.dead_lettered, self.passing.dead_lettered)

    @property
    def transformed(self) -> Reasons:
        return _joined(self.kept.transformed, self.passing.transformed)


def settle(engine: Engine, ledgers: Iterable[Ledger], waiting_of: Callable[[str], int]) -> None:
    """At a start, with the outboxes found: what ledgers say and what is there agree from here on, also on the disk."""
    found = Changes()
    for ledger in ledgers:
        ledger.found_in_journal(waiting_of(ledger.route))
        ledger.write(found)
    if found.state:
        engine.write(found)


def _add(reasons: Reasons, reason: str, rows: int) -> None:
    reasons[reason] = reasons.get(reason, 0) + rows


def _joined(one: Reasons, other: Reasons) -> Reasons:
    return {reason: one.get(reason, 0) + other.get(reason, 0) for reason in [*one, *(r for r in other if r not in one)]}
