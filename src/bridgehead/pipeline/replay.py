"""The journal for those who only look: read again by offset or from a time, without changing what the pipeline consumes.

A guest asks for the logs it wants (all, one, or those of a route or a bridge), plans by itself where its batches end, and reads
ranges. It sees what is synced, consumed or not. What is not there any more it is told; with ``lossy`` it gets the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from bridgehead.clock import monotonic
from bridgehead.columns.batches import Batch
from bridgehead.errors import NotRetainedError, RefusedError, StaleEpochError
from bridgehead.storage.journal import Journal, Log

MAX_WAIT: Final = 5.0
"""The longest a guest may wait for news in one call, whatever it asks for."""

Told = dict[str, Any]


class Replay:
    """Used from the node's event loop only; the Flight service brings its calls there."""

    def __init__(self, journal: Journal, homes: Mapping[str, str], bridges: Mapping[str, str]) -> None:
        """``homes`` names the log of each route, ``bridges`` its bridge."""
        self._journal = journal
        self._homes = homes
        self._bridges = bridges
        self._news = asyncio.Event()  # of any log; whoever waits holds the event that was there
        self._watched: set[str] = set()

    async def offsets(self, told: Told) -> Told:
        """What there is of the wanted logs: the first and the next offset of each, and that of a moment if one is given."""
        logs, routes = self._wanted(told)
        found: dict[str, dict[str, int]] = {}
        for log in logs:
            found[log.name] = {"earliest": log.trimmed, "latest": log.visible}
            if told.get("time") is not None:
                found[log.name]["at"] = max(log.offset_at(int(told["time"])), log.trimmed)
        return {"incarnation": self._incarnation, "logs": found, "routes": routes}

    async def ahead(self, told: Told) -> Told:
        """Where a batch from these offsets would end; with nothing to read it waits a while for news."""
        starts: dict[str, int] = told["starts"]
        deadline = monotonic() + min(told["wait"], MAX_WAIT)
        while True:
            news = self._news
            ends = self._plan(told, starts)
            patience = deadline - monotonic()
            if ends != starts or patience <= 0:
                return {"ends": ends}
            for name in starts:
                self._watch(self._log(name))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await news.wait()

    def _plan(self, told: Told, starts: Mapping[str, int]) -> dict[str, int]:
        self._must_be_ours(told)
        behind = [name for name, start in starts.items() if start < self._log(name).visible]
        share = max(len(behind), 1)
        rows, size = max(told["max_rows"] // share, 1), max(told["max_bytes"] // share, 1)
        ends = dict(starts)
        for name in behind:
            log = self._log(name)
            ends[name] = log.plan(self._begin(log, starts[name], log.visible, told), rows, size)
        return ends

    async def read(self, told: Told, start: int, max_rows: int, max_bytes: int) -> tuple[list[tuple[int, Batch]], int]:
        """The rows from ``start`` on, at most so many, and where to go on: a long range is no one turn of the loop."""
        self._must_be_ours(told)
        log, end = self._log(told["log"]), told["end"]
        start = self._begin(log, start, end, told)
        stop = min(log.plan(start, max_rows, max_bytes), end)
        return log.read_again(start, stop), stop if stop > start else end

    def _begin(self, log: Log, start: int, end: int, told: Told) -> int:
        gone = min(log.trimmed, end)
        if start < gone and not told["lossy"]:
            raise NotRetainedError(log.name, start, gone)
        return max(start, gone)

    def _must_be_ours(self, told: Told) -> None:
        if told["incarnation"] != self._incarnation:
            raise StaleEpochError(f"offsets of the journal {told['incarnation']} mean nothing: it is {self._incarnation} now")

    @property
    def _incarnation(self) -> str:
        return self._journal.incarnation

    def _wanted(self, told: Told) -> tuple[list[Log], list[str] | None]:
        """The logs, and the routes in them if not all are wanted."""
        if (name := told.get("log")) is not None:
            return [self._log(name)], None
        routes = None
        if (route := told.get("route")) is not None:
            routes = [route] if route in self._homes else []
        elif (bridge := told.get("bridge")) is not None:
            routes = [each for each in self._homes if self._bridges.get(each) == bridge]
        if routes is None:
            return list(self._journal.logs.values()), None
        if not routes:
            wanted = f"route {told['route']}" if told.get("route") is not None else f"bridge {told['bridge']}"
            raise RefusedError(f"no {wanted} here: there are the routes {', '.join(sorted(self._homes))}")
        names = sorted({self._homes[each] for each in routes})
        return [self._log(name) for name in names], routes

    def _log(self, name: str) -> Log:
        log = self._journal.logs.get(name)
        if log is None:
            raise RefusedError(f"no log {name}: there are {', '.join(sorted(self._journal.logs))}")
        return log

    def _watch(self, log: Log) -> None:
        if log.name not in self._watched:
            self._watched.add(log.name)
            log.when_more(lambda: self._tell(log.name))

    def _tell(self, name: str) -> None:
        self._watched.discard(name)
        news, self._news = self._news, asyncio.Event()
        news.set()


def of_routes(rows: Batch, routes: Iterable[str] | None) -> Batch:
    """Rows of the message table that belong to these routes; None stands for all."""
    if routes is None:
        return rows
    return rows.filter(pc.is_in(rows.column("route"), pa.array(list(routes), pa.string())))
