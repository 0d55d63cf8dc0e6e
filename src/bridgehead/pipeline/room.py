"""How much room a route has left, where a full queue makes publishers wait (strategy ``refuse``).

What is on its way through the pipeline counts as much as what is in the outbox: so a message that was admitted always lands.
It counts as what the rules of its route will make of it. As long as a route is far from its limit, a bound on that is enough;
near to it every row is weighed, once. What a transform makes of a message nobody knows before: there it counts as it came.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bridgehead.columns.batches import Batch, row_weights
from bridgehead.pipeline.rules import RouteRules, made_weights, most_added, routes_of
from bridgehead.storage.journal import Journal, Log
from bridgehead.storage.outbox import Outbox

Numbers = npt.NDArray[np.int64]

TOGETHER: Final = 4096
"""Rows whose weights are kept together: turns bring a row or two each."""

STEP_BYTES: Final = 4 << 20
"""What waits is weighed before it is more than this: a long backlog is not read in one turn when its route gets full."""


class Room:
    """The room of one route: its limits less its outbox and what waits for it in the journal."""

    def __init__(self, outbox: Outbox, journal: Journal, rules: RouteRules | None = None) -> None:
        """``rules``: None where a transform stands between the journal and the outbox."""
        self.rules = rules
        self._outbox = outbox
        self._journal = journal
        self._weighed: dict[str, _Weighed] = {}  # by log

    def surely_fits(self, rows: int, size: int, log: Log) -> bool:
        """Whether so much on its way into this log fits, told without counting; False means that somebody has to count."""
        outbox, route = self._outbox, self._outbox.route
        if outbox.depth + self._journal.waiting_of(route) + rows > outbox.max_rows:
            return False
        size += outbox.live_weight
        if self.rules is None:
            return size + self._journal.waiting_weight_of(route) <= outbox.max_bytes
        size += rows * most_added(self.rules, log.name)
        for each in self._waiting_in():
            if each.behind > STEP_BYTES:
                return False
            size += each.at_most
        return size <= outbox.max_bytes

    def weights(self, batch: Batch, clients: pa.Array, log: Log) -> Numbers:
        """What rows that want to enter this log will weigh in the outbox."""
        if self.rules is None:
            return np.diff(row_weights(batch))
        # An id may get a digit more, where rows of other routes come between these.
        return made_weights(batch, self.rules, log.name, np.arange(log.end, log.end + batch.num_rows), clients)

    def fitting(self, weights: Numbers) -> int:
        """How many leading ones of rows with these weights fit: those in front of which a row and a byte are free."""
        outbox, route = self._outbox, self._outbox.route
        rows = outbox.max_rows - outbox.depth - self._journal.waiting_of(route)
        size = outbox.max_bytes - outbox.live_weight - self._waiting_weight()
        within = int(np.searchsorted(np.cumsum(weights) - weights, size))
        return max(min(rows, within, len(weights)), 0)

    def _waiting_weight(self) -> int:
        if self.rules is None:
            return self._journal.waiting_weight_of(self._outbox.route)
        return sum(each.weigh() for each in self._waiting_in())

    def _waiting_in(self) -> list[_Weighed]:
        """The logs in which rows of the route wait."""
        assert self.rules is not None
        found = []
        for name, log in self._journal.logs.items():
            if log.waiting_of.get(self._outbox.route):
                if name not in self._weighed:
                    self._weighed[name] = _Weighed(log, self.rules)
                found.append(self._weighed[name])
            else:
                self._weighed.pop(name, None)
        return found


class _Weighed:
    """What the rows of a route that wait in a log will weigh in the outbox; known of those that somebody had to count."""

    def __init__(self, log: Log, rules: RouteRules) -> None:
        self._log = log
        self._rules = rules
        self._pieces: deque[tuple[Numbers, Numbers]] = deque()  # offsets in rising order, and their weights
        self._weight = 0  # of all pieces
        self._end = 0  # rows below this offset are weighed

    @property
    def at_most(self) -> int:
        """No more than this, told without a look at any row."""
        log = self._log
        return log.waiting_weight + log.waiting_of[self._rules.route] * most_added(self._rules, log.name)

    @property
    def behind(self) -> int:
        """About how many bytes of the log would have to be read to know it."""
        log = self._log
        return log.waiting_weight * log.rows_between(max(self._end, log.consumed), log.end) // log.waiting

    def weigh(self) -> int:
        log = self._log
        self._forget(log.consumed)
        for first, stored in log.read(max(self._end, log.consumed), log.end):
            self._add(first, stored)
        self._end = log.end
        return self._weight

    def _forget(self, below: int) -> None:
        while self._pieces:
            offsets, weights = self._pieces.popleft()
            gone = int(np.searchsorted(offsets, below))
            self._weight -= int(weights[:gone].sum())
            if gone < len(offsets):
                self._pieces.appendleft((offsets[gone:], weights[gone:]))
                return

    def _add(self, first: int, stored: Batch) -> None:
        routes = routes_of(stored)
        if self._rules.route not in routes.names:
            return
        rows = np.flatnonzero(routes.of_row == routes.names.index(self._rules.route))
        own = stored if len(rows) == stored.num_rows else stored.take(pa.array(rows))
        offsets = first + rows
        weights = made_weights(own, self._rules, self._log.name, offsets, own.column("client_id"))
        self._weight += int(weights.sum())
        if self._pieces and len(self._pieces[-1][0]) + len(rows) <= TOGETHER:
            before, their_weights = self._pieces.pop()
            offsets, weights = np.concatenate((before, offsets)), np.concatenate((their_weights, weights))
        self._pieces.append((offsets, weights))
