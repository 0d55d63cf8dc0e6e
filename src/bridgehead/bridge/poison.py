"""What becomes of a message that the remote refuses: a dead letter at once, or another try later. Pure: time is passed in.

A topic of which a row is to be tried again is held: its rows wait here, oldest first, and other topics flow past them.

    the hold    on                               becomes     and
    (none)      a row is refused                 suspected   the row waits for its time
    suspected   the time of the oldest row       trying      it leaves, alone
    trying      it is delivered                  flowing
    trying      it is refused, tries are left    suspected   it waits again, twice as long
    trying      it is refused, none is left      flowing     it is dead; those behind it get one chance each
    flowing     there is room on the wire        flowing     rows leave in order; the last one ends the hold
    flowing     one that left is refused         suspected   it is the oldest row here again

One chance each: rows that have waited through all tries of another one do not start over, or a topic that is always refused
would stop its route for ever (docs/decisions/0034). What waits here stays in the outbox, marked: only numbers are kept.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bridgehead.wire.reason import Reason

Seqs = npt.NDArray[np.int64]

RETRIED: Final = frozenset(
    {
        Reason.UNSPECIFIED_ERROR,
        Reason.IMPLEMENTATION_SPECIFIC_ERROR,
        Reason.SERVER_BUSY,
        Reason.PACKET_IDENTIFIER_IN_USE,  # the next try has another one
        Reason.MESSAGE_RATE_TOO_HIGH,
        Reason.QUOTA_EXCEEDED,
    }
)
"""Refusals that may pass; after any other one the message is dead at once."""
DELAYS: Final = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds between a refusal and the next try. A row that is refused once more than there are delays is dead."""
HELD_ROWS: Final = 10_000
"""Rows that wait here at most; from then on the route polls no more until some have left, half a minute later at the latest."""


class Death(NamedTuple):
    """A row that will not be tried again."""

    seq: int
    reason: int
    attempts: int


class Verdict(NamedTuple):
    """What refusals mean: rows that are dead, and whether a topic is suspected that was not before."""

    deaths: list[Death]
    suspects: bool


@dataclass(slots=True)
class _Hold:
    """The rows of one topic that wait."""

    rows: list[int] = field(default_factory=list)  # rising; one that is being tried is still among them, as the first
    suspected: bool = False  # the last answer was a refusal: rows leave one at a time
    trying: bool = False  # the first row is on the wire


@dataclass(slots=True)
class _Tries:
    attempts: int  # refusals so far
    due: float  # not again before this


class Poison:
    """The refused rows of one route, and what waits behind them."""

    def __init__(self, delays: Sequence[float] = DELAYS, most: int = HELD_ROWS) -> None:
        self._delays = tuple(delays)
        self._most = most
        self._holds: dict[str, _Hold] = {}  # by topic
        self._tries: dict[int, _Tries] = {}  # rows that were refused, and are not answered for good
        self._trying: dict[int, str] = {}  # the topics of rows that are being tried
        self._last_chance: set[int] = set()  # rows that are dead if they are refused again
        self._behind: dict[int, str] = {}  # the topics of rows that had left behind a refused one, and are not answered
        self._topics: pa.Array | None = None  # the topics that are held, when somebody has asked
        self.reordered = 0  # rows that were delivered before an older one of their topic that had been refused

    @property
    def holding(self) -> bool:
        return bool(self._holds)

    @property
    def remembers(self) -> bool:
        """Whether anything is known of any row: nearly never."""
        return bool(self._holds or self._tries or self._last_chance or self._behind)

    @property
    def held(self) -> int:
        """Rows that wait here; those that are being tried are on the wire."""
        return sum(len(hold.rows) for hold in self._holds.values()) - len(self._trying)

    @property
    def full(self) -> bool:
        return bool(self._holds) and self.held >= self._most

    # -- answers of the remote ----------------------------------------------------------------------------------------

    def refused(self, seqs: Iterable[int], reasons: Iterable[int], topics: Iterable[str], now: float) -> Verdict:
        """The remote has refused these rows."""
        deaths: list[Death] = []
        suspects = False
        for seq, reason, topic in sorted(zip(seqs, reasons, topics, strict=True)):
            tried = self._tries.pop(seq, None)
            attempts = 1 + (tried.attempts if tried is not None else 0)
            self._behind.pop(seq, None)
            exhausted = attempts > len(self._delays)
            if reason in RETRIED and not exhausted and seq not in self._last_chance:
                self._tries[seq] = _Tries(attempts, now + self._delays[attempts - 1])
                suspects |= self._hold(topic, seq)
            else:
                deaths.append(Death(seq, reason, attempts))
                self._resolve(seq, give_up=exhausted and reason in RETRIED)
        return Verdict(deaths, suspects)

    def _hold(self, topic: str, seq: int) -> bool:
        """A row waits for its next try; whether its topic becomes suspected by that."""
        hold = self._holds.get(topic)
        if hold is None:
            hold = self._holds[topic] = _Hold()
            self._topics = None
        if self._trying.pop(seq, None) is not None:
            hold.trying = False
        else:
            insort(hold.rows, seq)
        known, hold.suspected = hold.suspected, True
        return not known

    def left_behind(self, seqs: Iterable[int], topics: Iterable[str]) -> None:
        """These rows were on the wire when a topic became suspected: those behind a refused one may overtake it."""
        for seq, topic in zip(seqs, topics, strict=True):
            hold = self._holds.get(topic)
            if hold is not None and seq not in self._trying and hold.rows[0] < seq:
                self._behind[seq] = topic

    def delivered(self, seqs: Seqs) -> None:
        """The remote has these rows."""
        for seq in self._known(seqs):
            topic = self._behind.pop(seq, None)
            hold = self._holds.get(topic) if topic is not None else None
            if hold is not None and hold.rows[0] < seq:
                self.reordered += 1
            self._resolve(seq)

    def gone(self, seqs: Seqs) -> list[int]:
        """These rows leave for another reason: expired, or too large by now. Returns how often each was refused."""
        refusals = [tries.attempts if (tries := self._tries.get(seq)) is not None else 0 for seq in seqs.tolist()]
        for seq in self._known(seqs):
            self._resolve(seq)
        return refusals

    def lost(self, seqs: Seqs, topics: Iterable[str]) -> Seqs:
        """These rows had left, and nobody will ever answer. Those of topics that are held wait here again, in their old
        places; the others are returned: they are to be polled again."""
        free = []
        for seq, topic in zip(seqs.tolist(), topics, strict=True):
            self._behind.pop(seq, None)
            hold = self._holds.get(topic)
            if self._trying.pop(seq, None) is not None and hold is not None:
                hold.trying = False
            elif hold is not None:
                insort(hold.rows, seq)
            else:
                self._tries.pop(seq, None)
                self._last_chance.discard(seq)
                free.append(seq)
        return np.array(free, np.int64)

    def _known(self, seqs: Seqs) -> list[int]:
        """Those of these rows that something is known of: nearly always none."""
        if not self.remembers:
            return []
        return sorted(
            seq
            for seq in set(seqs.tolist())
            if seq in self._tries or seq in self._trying or seq in self._last_chance or seq in self._behind
        )

    def _resolve(self, seq: int, *, give_up: bool = False) -> None:
        """A row is answered for good. If it was being tried, those behind it follow."""
        self._tries.pop(seq, None)
        self._behind.pop(seq, None)
        self._last_chance.discard(seq)
        topic = self._trying.pop(seq, None)
        if topic is None:
            return
        hold = self._holds[topic]
        hold.rows.remove(seq)
        hold.trying = hold.suspected = False
        if give_up:
            self._last_chance.update(hold.rows)
        self._end_if_empty(topic, hold)

    def _end_if_empty(self, topic: str, hold: _Hold) -> None:
        if not hold.rows:
            del self._holds[topic]
            self._topics = None

    # -- what leaves --------------------------------------------------------------------------------------------------

    def park(self, seqs: Seqs, topics: pa.Array) -> npt.NDArray[np.bool_]:
        """Which of these polled rows may leave; the others wait here, behind a row of their topic."""
        if self._topics is None:
            self._topics = pa.array(list(self._holds), pa.string())
        stays: npt.NDArray[np.bool_] = pc.is_in(topics, value_set=self._topics).to_numpy(zero_copy_only=False)
        at = np.flatnonzero(stays)
        for row, seq, topic in zip(at.tolist(), seqs[at].tolist(), topics.take(pa.array(at)).to_pylist(), strict=True):
            if seq in self._trying:
                stays[row] = False
            else:
                insort(self._holds[topic].rows, seq)
        return ~stays

    def due(self, now: float, most: int) -> Seqs:
        """Rows that leave now, in order; they count as sent."""
        found: list[int] = []
        for topic, hold in list(self._holds.items()):
            if len(found) >= most:
                break
            if hold.trying or not self._ready(hold.rows[0], now):
                continue
            if hold.suspected:
                hold.trying = True
                self._trying[hold.rows[0]] = topic
                found.append(hold.rows[0])
                continue
            count = 0
            while count < len(hold.rows) and len(found) + count < most and self._ready(hold.rows[count], now):
                count += 1
            found += hold.rows[:count]
            del hold.rows[:count]
            self._end_if_empty(topic, hold)
        return np.array(sorted(found), np.int64)

    def waiting(self) -> Seqs:
        """The rows that wait here, in order."""
        rows = [seq for hold in self._holds.values() for seq in hold.rows if seq not in self._trying]
        return np.array(sorted(rows), np.int64)

    def let_go(self, seqs: Seqs) -> None:
        """These of them leave for another reason: their queue has no room for them.

        Where a refused one was the oldest of its topic, the next one waits for the rest of its time: a queue that drops with
        every message that comes must not make us try with every one.
        """
        gone = set(seqs.tolist())
        for topic, hold in list(self._holds.items()):
            kept = [seq for seq in hold.rows if seq not in gone]
            before = self._tries.get(hold.rows[0])
            if kept and before is not None and kept[0] not in self._tries:
                self._tries[kept[0]] = _Tries(0, before.due)
            hold.rows = kept
            self._end_if_empty(topic, hold)
        for seq in gone:
            self._tries.pop(seq, None)
            self._last_chance.discard(seq)

    def _ready(self, seq: int, now: float) -> bool:
        tries = self._tries.get(seq)
        return tries is None or tries.due <= now

    @property
    def next_due(self) -> float | None:
        """When a row that waits for its time may leave; None if none does."""
        heads = (self._tries.get(hold.rows[0]) for hold in self._holds.values() if not hold.trying)
        return min((tries.due for tries in heads if tries is not None), default=None)
