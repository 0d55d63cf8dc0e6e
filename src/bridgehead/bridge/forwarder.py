"""The forwarder of one push route: polls its outbox, and holds tier 2 while the remote is away.

Tier 2 is what has been polled and not sent: it is filled up to its bound while there is no connection, and goes first
when there is one. Beyond the bound the outbox keeps the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from typing import Final

import numpy as np
import pyarrow as pa

from bridgehead.bridge.poison import Poison
from bridgehead.bridge.tier2 import Tier2
from bridgehead.clock import now_us
from bridgehead.columns.expiry import older_than
from bridgehead.session.sender import Finished
from bridgehead.storage.deadletters import Deaths
from bridgehead.storage.marks import Seqs
from bridgehead.storage.outbox import TOO_OLD, Outbox
from bridgehead.storage.polled import Polled

log = logging.getLogger(__name__)

DUE_ROWS: Final = 64
"""Rows that leave a hold in one turn: they are read one by one, and may be large."""
TOO_LARGE: Final = "too-large"
"""The reason of a dead letter that was never sent: the remote, or MQTT itself, takes no packet of its size."""


class Lane(Enum):
    """Which of its rows a route is asked for."""

    EVERY = "in the order they came"
    LIVE = "those that have come since there is a connection"
    BACKLOG = "those that were there before"


class _Live:
    """The rows that have come since there is a connection, polled while older ones wait."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self.start = outbox.visible
        self._next = self.start
        self.back = Tier2(0)  # polled, and found no room

    def poll(self, max_rows: int) -> Polled | None:
        if self.back:
            return self.back.take(max_rows)
        polled, self._next = self._outbox.poll_behind(self._next, max_rows)
        return polled


class Forwarder:
    """One route's way to the uplink. ``number`` is its owner number in the uplink's packet id flow."""

    def __init__(self, number: int, outbox: Outbox, tier2_limit: int, max_age: float | None = None) -> None:
        self.number = number
        self.outbox = outbox
        self.poison = Poison()
        self.refusals = 0  # how often the remote has refused a message
        self._max_age_us = None if max_age is None else round(max_age * 1_000_000)
        self._tier2 = Tier2(tier2_limit)
        self._live: _Live | None = None  # where what is live goes first, and there is a connection
        outbox.holder = self

    @property
    def tier2(self) -> int:
        return self._tier2.rows + (self._live.back.rows if self._live is not None else 0)

    @property
    def has_rows(self) -> bool:
        """Rows that could leave; those behind a refused one cannot."""
        returned = self._live is not None and self._live.back
        return not self.poison.full and (bool(self._tier2 or returned) or self.outbox.has_waiting)

    @property
    def idle(self) -> bool:
        """There is nothing to ask for: of many routes most are so most of the time."""
        return not self.poison.holding and not self.has_rows

    def connected(self) -> None:
        """What comes from here on is live."""
        self._live = _Live(self.outbox)

    def hold(self) -> None:
        """There is no connection: take what comes into tier 2, up to its bound."""
        while room := self._tier2.room:
            polled = self.outbox.poll(room)
            if polled is None:
                return
            self._tier2.add(polled)

    def next(self, max_rows: int, now: float, lane: Lane = Lane.EVERY) -> Polled | None:
        """The rows to send now, oldest first; what has grown too old is dropped on the way."""
        while (polled := self._next(max_rows, now, lane)) is not None and self._max_age_us is not None:
            old = older_than(polled.batch, self._max_age_us, now_us())
            if not old.any():
                break
            seqs = polled.seqs
            self._drop(seqs[old], TOO_OLD)
            if not old.all():
                young = seqs[~old]
                return Polled(int(young[0]), polled.batch.filter(pa.array(~old)), young)
        return polled

    def _next(self, max_rows: int, now: float, lane: Lane) -> Polled | None:
        """Rows whose time has come first; rows of a topic that is held wait behind the refused one."""
        if not self.poison.holding:
            return self._oldest(max_rows, lane)
        while True:
            due = self.poison.due(now, min(max_rows, DUE_ROWS))
            if len(due):
                return Polled(int(due[0]), self.outbox.rows(due), due)
            polled = None if self.poison.full else self._oldest(max_rows, lane)
            if polled is None:
                return None
            polled = self._not_held(polled)
            if polled is not None:
                return polled

    def _not_held(self, polled: Polled) -> Polled | None:
        """Those of these rows that may leave; the others wait behind a refused one."""
        leave = self.poison.park(polled.seqs, polled.batch.column("topic"))
        if leave.all():
            return polled
        seqs = polled.seqs[leave]
        return Polled(int(seqs[0]), polled.batch.filter(pa.array(leave)), seqs) if len(seqs) else None

    def _oldest(self, max_rows: int, lane: Lane) -> Polled | None:
        if lane is Lane.LIVE:
            return None if self._live is None else self._live.poll(max_rows)
        if self._tier2:
            return self._tier2.take(max_rows)
        return self.outbox.poll(max_rows) if self.outbox.has_waiting else None

    def give_back(self, polled: Polled) -> None:
        """Rows taken and not sent: they go first again."""
        free = self._not_held(polled) if self.poison.holding else polled
        if free is not None:
            live = self._live is not None and free.first >= self._live.start
            (self._live.back if self._live is not None and live else self._tier2).put_back(free)

    def held(self) -> Seqs:
        """The numbers of the oldest rows that were polled and are not on the wire: in tier 2, or behind a refused one."""
        queued, parked = self._tier2.first, self.poison.waiting()
        if not len(queued) or not len(parked):
            return queued if len(queued) else parked
        older, younger = (queued, parked) if queued[0] < parked[0] else (parked, queued)
        return older[: np.searchsorted(older, younger[0])]

    def let_go(self, seqs: Seqs) -> None:
        """The outbox is full and drops its oldest rows: these, the first ones of ``held``."""
        queued = self._tier2.first
        if len(queued) and queued[0] == seqs[0]:
            self._tier2.take(len(seqs))
            self.poison.gone(seqs)
        else:
            self.poison.let_go(seqs)

    def delivered(self, seqs: Seqs) -> None:
        """These rows have reached the remote, as far as their QoS tells."""
        self.poison.delivered(seqs)
        self.outbox.acknowledge(seqs)

    def expired(self, seqs: Seqs) -> None:
        if len(seqs):
            self._drop(seqs, "expired")

    def _drop(self, seqs: Seqs, reason: str) -> None:
        self.poison.gone(seqs)
        self.outbox.drop(seqs, reason)

    def too_large(self, seqs: Seqs) -> None:
        """These rows can never leave."""
        if len(seqs):
            attempts = self.poison.gone(seqs)
            self._bury(Deaths(seqs, [TOO_LARGE] * len(seqs), attempts))

    def refused(self, rows: Finished, in_flight: Callable[[], Seqs], now: float) -> None:
        """The remote has refused rows: dead, or tried again. ``in_flight`` tells what is on the wire of this route."""
        self.refusals += len(rows.refused)
        topics = self.outbox.topics(rows.refused)
        verdict = self.poison.refused(rows.refused.tolist(), rows.reasons.tolist(), topics, now)
        if verdict.suspects:
            sent = np.sort(np.concatenate((rows.delivered, in_flight())))
            self.poison.left_behind(sent.tolist(), self.outbox.topics(sent))
        if verdict.deaths:
            seqs, reasons, attempts = zip(*verdict.deaths, strict=True)
            self._bury(Deaths(np.array(seqs, np.int64), [f"refused-{reason:#04x}" for reason in reasons], list(attempts)))

    def _bury(self, deaths: Deaths) -> None:
        log.warning(
            "route %s: %d messages become dead letters (%s)",
            self.outbox.route, len(deaths.seqs), ", ".join(sorted(set(deaths.reasons))),
        )  # fmt: skip
        self.outbox.bury(deaths, now_us())

    def lost(self, seqs: Seqs) -> None:
        """The remote knows nothing of these rows any more: they wait again, in their old places."""
        self.return_all(self.poison.lost(seqs, self.outbox.topics(seqs)) if self.poison.remembers else seqs)

    def retire(self, in_flight: Seqs) -> None:
        """Nobody sends from here any more: all that was polled waits in the outbox again, for whoever comes next."""
        self.outbox.holder = None
        self.outbox.on_waiting = lambda: None
        self.return_all(np.concatenate([in_flight, self.poison.waiting()]))
        self.poison = Poison()

    def return_all(self, unsent: Seqs) -> None:
        """The connection is gone: these rows, and all of tier 2 behind them, wait in the outbox again, in order."""
        seqs = np.concatenate([unsent, *self._tier2.clear(), *(self._live.back.clear() if self._live is not None else ())])
        self._live = None
        if len(seqs):
            self.outbox.reset(seqs)
