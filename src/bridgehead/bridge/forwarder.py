"""The forwarder of one push route: polls its outbox, and holds tier 2 while the remote is away.

Tier 2 is what has been polled and not sent: it is filled up to its bound while there is no connection, and goes first
when there is one. Beyond the bound the outbox keeps the rest.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bridgehead.bridge.poison import Poison
from bridgehead.clock import now_us
from bridgehead.columns.expiry import older_than
from bridgehead.session.sender import Finished
from bridgehead.storage.deadletters import Deaths
from bridgehead.storage.outbox import TOO_OLD, Outbox
from bridgehead.storage.polled import Polled

log = logging.getLogger(__name__)

TIER2_BYTES: Final = 64 * 1024 * 1024
DUE_ROWS: Final = 64
"""Rows that leave a hold in one turn: they are read one by one, and may be large."""
TOO_LARGE: Final = "too-large"
"""The reason of a dead letter that was never sent: the remote, or MQTT itself, takes no packet of its size."""


class Forwarder:
    """One route's way to the uplink. ``number`` is its owner number in the uplink's packet id flow."""

    def __init__(self, number: int, outbox: Outbox, tier2_limit: int, max_age: float | None = None) -> None:
        self.number = number
        self.outbox = outbox
        self.poison = Poison()
        self._limit = tier2_limit
        self._max_age_us = None if max_age is None else round(max_age * 1_000_000)
        self._tier2: deque[Polled] = deque()
        self._tier2_bytes = 0
        outbox.holder = self

    @property
    def tier2(self) -> int:
        return sum(polled.rows for polled in self._tier2)

    @property
    def has_rows(self) -> bool:
        """Rows that could leave; those behind a refused one cannot."""
        return not self.poison.full and (bool(self._tier2) or self.outbox.has_waiting)

    def hold(self) -> None:
        """There is no connection: take what comes into tier 2, up to its bound."""
        room = self._limit - self.tier2
        while room > 0 and self._tier2_bytes < TIER2_BYTES:
            polled = self.outbox.poll(room)
            if polled is None:
                return
            self._tier2.append(polled)
            self._tier2_bytes += polled.batch.nbytes
            room -= polled.rows

    def next(self, max_rows: int, now: float) -> Polled | None:
        """The rows to send now, oldest first; what has grown too old is dropped on the way."""
        while (polled := self._next(max_rows, now)) is not None and self._max_age_us is not None:
            old = older_than(polled.batch, self._max_age_us, now_us())
            if not old.any():
                break
            seqs = polled.seqs
            self._drop(seqs[old], TOO_OLD)
            if not old.all():
                young = seqs[~old]
                return Polled(int(young[0]), polled.batch.filter(pa.array(~old)), young)
        return polled

    def _next(self, max_rows: int, now: float) -> Polled | None:
        """Rows whose time has come first; rows of a topic that is held wait behind the refused one."""
        if not self.poison.holding:
            return self._oldest(max_rows)
        due = self.poison.due(now, min(max_rows, DUE_ROWS))
        if len(due):
            return Polled(int(due[0]), self.outbox.rows(due), due)
        while not self.poison.full:
            polled = self._oldest(max_rows)
            if polled is None:
                return None
            polled = self._not_held(polled)
            if polled is not None:
                return polled
        return None

    def _not_held(self, polled: Polled) -> Polled | None:
        """Those of these rows that may leave; the others wait behind a refused one."""
        leave = self.poison.park(polled.seqs, polled.batch.column("topic"))
        if leave.all():
            return polled
        seqs = polled.seqs[leave]
        return Polled(int(seqs[0]), polled.batch.filter(pa.array(leave)), seqs) if len(seqs) else None

    def _oldest(self, max_rows: int) -> Polled | None:
        if not self._tier2:
            return self.outbox.poll(max_rows) if self.outbox.has_waiting else None
        polled = self._tier2.popleft()
        if polled.rows > max_rows:
            polled, rest = polled.split(max_rows)
            self.give_back(rest)
        if not self._tier2:
            self._tier2_bytes = 0
        return polled

    def give_back(self, polled: Polled) -> None:
        """Rows taken and not sent: they go first again."""
        free = self._not_held(polled) if self.poison.holding else polled
        if free is not None:
            self._tier2.appendleft(free)

    def held(self) -> npt.NDArray[np.int64]:
        """The numbers of the oldest run in tier 2."""
        if not self._tier2:
            return np.zeros(0, np.int64)
        return self._tier2[0].seqs

    def let_go(self, rows: int) -> None:
        """The outbox is full and drops its oldest rows: the first so many of that run."""
        oldest = self._tier2.popleft()
        self._tier2_bytes -= oldest.batch.nbytes
        if rows < oldest.rows:
            _, rest = oldest.split(rows)
            self._tier2.appendleft(rest)
            self._tier2_bytes += rest.batch.nbytes

    def delivered(self, seqs: npt.NDArray[np.int64]) -> None:
        """These rows have reached the remote, as far as their QoS tells."""
        self.poison.delivered(seqs)
        self.outbox.acknowledge(seqs)

    def expired(self, seqs: npt.NDArray[np.int64]) -> None:
        if len(seqs):
            self._drop(seqs, "expired")

    def _drop(self, seqs: npt.NDArray[np.int64], reason: str) -> None:
        self.poison.gone(seqs)
        self.outbox.drop(seqs, reason)

    def too_large(self, seqs: npt.NDArray[np.int64]) -> None:
        """These rows can never leave."""
        if len(seqs):
            attempts = self.poison.gone(seqs)
            self._bury(Deaths(seqs, [TOO_LARGE] * len(seqs), attempts))

    def refused(self, rows: Finished, in_flight: Callable[[], npt.NDArray[np.int64]], now: float) -> None:
        """The remote has refused rows: dead, or tried again. ``in_flight`` tells what is on the wire of this route."""
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

    def lost(self, seqs: npt.NDArray[np.int64]) -> None:
        """The remote knows nothing of these rows any more: they wait again, in their old places."""
        self.return_all(self.poison.lost(seqs, self.outbox.topics(seqs)) if self.poison.remembers else seqs)

    def return_all(self, unsent: npt.NDArray[np.int64]) -> None:
        """The connection is gone: these rows, and all of tier 2 behind them, wait in the outbox again, in order."""
        held = [polled.seqs for polled in self._tier2]
        self._tier2.clear()
        self._tier2_bytes = 0
        seqs = np.concatenate([unsent, *held])
        if len(seqs):
            self.outbox.reset(seqs)
