"""The Flight service of a node: where Spark reads the journal and brings outbox rows.

Handlers run on gRPC's threads. Gate, journal and outboxes belong to the event loop, so every touch of them goes there;
what is heavy and needs none of them (joining and cutting batches, building message rows, checksums) stays on the
handler's thread. Each call carries the token (the user's, or one made for this start of the node), else it is refused
before anything is looked at.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

import pyarrow as pa
from pyarrow import flight

from bridgehead import clock
from bridgehead.columns.batches import Batch, concat, message_rows
from bridgehead.columns.schema import MESSAGE, OUTBOX
from bridgehead.errors import RefusedError, StartError
from bridgehead.pipeline.callguard import Refusals, TokenCheck
from bridgehead.pipeline.entrance import LOOPBACK, Entrance
from bridgehead.pipeline.gate import Gate
from bridgehead.pipeline.lastbatch import BatchName
from bridgehead.pipeline.protocol import (
    MAX_BATCH_BYTES,
    MAX_BATCH_ROWS,
    ROUTED,
    ROUTED_CLIENTS,
    Action,
    Form,
    pack,
    unpack,
)
from bridgehead.pipeline.replay import Replay, of_routes
from bridgehead.pipeline.staging import Part, Staged
from bridgehead.pipeline.submissions import Submissions, must_be_messages
from bridgehead.storage.journal import PARTITION, Log

LOOP_PATIENCE: Final = 30.0
"""Seconds a handler waits for the loop: a loop that is away longer is not coming back."""

MAX_WAIT: Final = 5.0
"""The longest a call for the latest offset may wait for rows, whatever it asks for."""

PACE: Final = 0.15
"""Seconds between the beginnings of two batches under load: a batch costs some 40 ms of CPU time whatever it holds. A
row that comes after a pause does not wait."""

T = TypeVar("T")


class Report(NamedTuple):
    """How the query of a log is doing."""

    log: str
    state: str
    reason: str = ""
    pause: float | None = None  # seconds until it is tried again


class Service(flight.FlightServerBase):  # type: ignore[misc]
    """Serves one gate. Create it on the node's event loop; it listens at once."""

    def __init__(
        self,
        gate: Gate,
        logs: Mapping[str, Log],
        node: str,
        bridges: Mapping[str, str],
        entrance: Entrance = LOOPBACK,
        pace: float = PACE,
        replay: Replay | None = None,
        submissions: Submissions | None = None,
    ) -> None:
        token = entrance.token or secrets.token_urlsafe(32)
        self._freezing = asyncio.Event()  # no batch begins any more: latest answers with its start
        self.at_rest = asyncio.Event()  # while frozen: every query has asked for its next batch, so none is running
        self.on_report: Callable[[Report], None] = lambda report: None
        self.on_ui: Callable[[str], None] = lambda address: None  # where Spark's own pages are
        self._running: set[str] = set()  # logs whose query asks for rows
        self._rested: set[str] = set()  # of these, while frozen: those whose query runs no batch
        self._loop = asyncio.get_running_loop()
        self._gate = gate
        self._logs = logs
        self._node = node
        self._bridges = bridges
        self._pace = pace
        self._replay = replay
        self._submissions = submissions
        self._began: dict[str, float] = {}  # when the last batch of each log did
        self._news: dict[str, asyncio.Event] = {}
        self.serve(logs)
        self.actions: dict[Action, Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]] = {
            Action.BEGIN: self._begin,
            Action.IDLE: self._idle,
            Action.LATEST: self._latest,
            Action.PLAN: self._plan,
            Action.PLANNED: self._planned,
            Action.FINISH: self._finish,
            Action.COMMIT: self._commit,
            Action.ARCHIVED: self._archived,
            Action.RELEASE: self._release,
            Action.REPORT: self._report,
            Action.LEASE: self._no_lease,
            Action.GIVE_UP: self._no_lease,
        }
        if replay is not None:
            self.actions |= {Action.OFFSETS: replay.offsets, Action.AHEAD: replay.ahead}
        if submissions is not None:
            self.actions |= {Action.SUBMIT: submissions.commit, Action.ABORT: submissions.abort}
        try:
            super().__init__(entrance.location, middleware={"token": TokenCheck(token)}, **entrance.tls_options())
        except (pa.ArrowException, OSError) as error:
            raise StartError(f"the Flight service cannot listen on {entrance.location}: {error}") from error
        self.access = entrance.access(self.port, token)  # for our own driver and its tasks

    def serve(self, logs: Mapping[str, Log]) -> None:
        """These are the logs with a query from now on; whoever waits for news of one that stays still hears them."""
        self._logs = logs
        self._began = {name: self._began.get(name, 0.0) for name in logs}
        self._news = {name: self._news.get(name) or asyncio.Event() for name in logs}
        for name, log in logs.items():
            log.on_visible = self._news[name].set

    def give_no_lease(self) -> None:
        """There is no job here for a pipeline elsewhere."""
        self.actions |= {Action.LEASE: self._no_lease, Action.GIVE_UP: self._no_lease}

    def freeze(self) -> None:
        """Begin no further batch: the running one may end, then the driver can stop."""
        self._freezing.set()
        self._look_for_rest()
        for news in self._news.values():
            news.set()

    def thaw(self) -> None:
        self._freezing.clear()
        self.at_rest.clear()
        self._running.clear()
        self._rested.clear()

    def _look_for_rest(self) -> None:
        if self._freezing.is_set() and self._running <= self._rested:
            self.at_rest.set()

    async def stop(self) -> None:
        """Answer what was asked, then listen no more."""
        self.freeze()
        await asyncio.to_thread(self.shutdown)

    # Flight's handlers, on gRPC's threads

    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> Iterator[bytes]:
        with Refusals():
            if action.type not in self.actions:
                raise RefusedError(f"no action {action.type}")
            body = unpack(action.body.to_pybytes())
            return iter([pack(self._on_loop(self.actions[Action(action.type)](body)))])

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.FlightDataStream:
        with Refusals():
            asked = unpack(ticket.ticket)
            form = Form(asked["form"])
            if form is Form.AGAIN:
                return flight.GeneratorStream(MESSAGE, self._again(asked))
            pieces = self._on_loop(self._read(asked))
        schema = _SCHEMAS[form]
        make = self._message_rows if form is Form.MESSAGES else partial(_routed_rows, schema=schema)
        return flight.GeneratorStream(schema, (make(first, batch) for first, batch in bounded(pieces)))

    def do_put(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.FlightMetadataWriter,
    ) -> None:
        with Refusals():
            told = unpack(descriptor.command)
            if "app" in told and self._submissions is not None:
                staged = Staged.of([_as_it_says(chunk.data) for chunk in reader])
                must_be_messages(staged.batches)
                self._on_loop(self._submissions.stage(told, staged))
                return
            if reader.schema != OUTBOX:
                raise RefusedError("a part has the outbox's schema")
            chunks = [(chunk.app_metadata.to_pybytes().decode(), _as_it_says(chunk.data)) for chunk in reader]
            self._on_loop(self._stage(told, Staged.of([rows for _, rows in chunks], [route for route, _ in chunks])))

    def _again(self, asked: dict[str, Any]) -> Iterator[Batch]:
        """A guest's range, page by page."""
        with Refusals():
            if self._replay is None:
                raise RefusedError("nothing is read again here")
            start, end, routes = asked["start"], asked["end"], asked["routes"]
            while start < end:
                pieces, start = self._on_loop(self._replay.read(asked, start, MAX_BATCH_ROWS, MAX_BATCH_BYTES))
                for first, batch in bounded(pieces):
                    yield of_routes(self._message_rows(first, batch), routes)

    def _message_rows(self, first: int, batch: Batch) -> Batch:
        return message_rows(batch, first, PARTITION, self._node, self._bridges)

    def _on_loop(self, call: Awaitable[T]) -> T:
        async def run() -> T:
            return await call

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(LOOP_PATIENCE)

    # The same on the loop

    async def _begin(self, told: dict[str, Any]) -> dict[str, Any]:
        offset = self._gate.begin(told["epoch"], told["log"], anew=told["anew"])
        if told.get("ui") is not None:
            self.on_ui(str(told["ui"]))
        return {"incarnation": self._logs[told["log"]].incarnation, "offset": offset}

    async def _idle(self, told: dict[str, Any]) -> dict[str, Any]:
        return {"now": clock.now_us() // 1000 if self._gate.idle(told["epoch"], told["log"]) else None}

    async def _latest(self, told: dict[str, Any]) -> dict[str, Any]:
        """Where a batch would end; with nothing to read it waits for news, so that nobody has to ask in a circle."""
        start, log = told["start"], told["log"]
        plan = partial(self._gate.latest, told["epoch"], log, start, told["max_rows"], told["max_bytes"])
        plan()  # refuses whoever may not ask
        self._running.add(log)
        self.on_report(Report(log, "running"))  # a query that asks for rows runs
        if self._gate.pauses(told["epoch"], log, start):
            return {"offset": start}
        deadline = clock.monotonic() + min(told["wait"], MAX_WAIT)
        while not self._freezing.is_set():
            now = clock.monotonic()
            end = plan()
            full = end < self._logs[log].visible  # more than one batch waits: there is nothing to collect
            due = deadline if end == start else self._began[log] + self._pace
            if full or now >= due:
                if end > start:
                    self._began[log] = now
                return {"offset": end}
            # With rows in hand only time matters; each tick's news would wake us for nothing.
            self._news[log].clear()
            await _happened(self._news[log] if end == start else self._freezing, due - now)
        self._rested.add(log)
        self._look_for_rest()
        return {"offset": start}

    async def _plan(self, told: dict[str, Any]) -> dict[str, Any]:
        self._gate.plan(told["epoch"], told["log"], told["start"], told["end"])
        return {}

    async def _planned(self, told: dict[str, Any]) -> dict[str, Any]:
        return self._gate.planned(told["epoch"], told["log"])._asdict()

    async def _finish(self, told: dict[str, Any]) -> dict[str, Any]:
        parts = [Part(**part) for part in told["parts"]]
        self._gate.finish(told["epoch"], told["log"], told["start"], told["end"], parts)
        return {}

    async def _commit(self, told: dict[str, Any]) -> dict[str, Any]:
        of = told["epoch"], told["log"], told["start"], told["end"]
        if told["parts"] is None:
            return {"moved": self._gate.commit_finished(*of)}
        parts = [Part(**part) for part in told["parts"]]
        batch, archived = told["batch"], told["archived"]
        moved = self._gate.commit(*of, parts, None if batch is None else BatchName(*batch), archived)
        if batch is None and archived is None:
            return {"moved": moved}
        # Spark goes on from what it writes down next, and files of an archive are shown next: neither may be ahead of what
        # we find after a crash.
        await self._gate.synced()
        return {"moved": moved}

    async def _archived(self, told: dict[str, Any]) -> dict[str, Any]:
        return {"archived": self._gate.archived(told["epoch"], told["log"])}

    async def _release(self, told: dict[str, Any]) -> dict[str, Any]:
        self._gate.release(told["epoch"], told["log"], told["end"])
        return {}

    async def _report(self, told: dict[str, Any]) -> dict[str, Any]:
        if told["epoch"] == self._gate.epoch:
            if told["state"] != "running":
                self._running.discard(told["log"])
                self._look_for_rest()
            self.on_report(Report(told["log"], told["state"], told["reason"], told["pause"]))
        return {}

    async def _no_lease(self, told: dict[str, Any]) -> dict[str, Any]:
        raise RefusedError(f"node {self._node} gives no lease: it runs its own pipeline, or has no route on Spark")

    async def _read(self, told: dict[str, Any]) -> list[tuple[int, Batch]]:
        return self._gate.read(told["epoch"], told["incarnation"], told["log"], told["start"], told["end"])

    async def _stage(self, told: dict[str, Any], staged: Staged) -> None:
        self._gate.stage(told["epoch"], told["log"], told["part"], staged)


async def _happened(event: asyncio.Event, patience: float) -> None:
    """Return when it does, or after so long."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(patience):
            await event.wait()


def bounded(pieces: list[tuple[int, Batch]]) -> Iterator[tuple[int, Batch]]:
    """The same rows in batches within the bounds: neighbours joined, large ones cut."""
    run: list[Batch] = []
    first = rows = size = 0
    for start, piece in pieces:
        for offset, batch in _cut(start, piece):
            weight = batch.nbytes
            if run and (first + rows != offset or rows + batch.num_rows > MAX_BATCH_ROWS or size + weight > MAX_BATCH_BYTES):
                yield first, concat(run)
                run, rows, size = [], 0, 0
            if not run:
                first = offset
            run.append(batch)
            rows += batch.num_rows
            size += weight
    if run:
        yield first, concat(run)


def _cut(first: int, batch: Batch) -> Iterator[tuple[int, Batch]]:
    """Halves, until each is within the bounds or is a single row."""
    rows = batch.num_rows
    if rows > 1 and (rows > MAX_BATCH_ROWS or batch.nbytes > MAX_BATCH_BYTES):
        half = rows // 2
        yield from _cut(first, batch.slice(0, half))
        yield from _cut(first + half, batch.slice(half))
    elif rows:
        yield first, batch


_SCHEMAS: Final = {Form.MESSAGES: MESSAGE, Form.ROUTED: ROUTED, Form.CLIENTS: ROUTED_CLIENTS}


def _as_it_says(rows: Batch) -> Batch:
    """Arrow takes what it is sent as it is, and whoever stores it believes where its texts end."""
    try:
        rows.validate()
    except pa.ArrowInvalid as error:
        raise RefusedError(f"rows that are not what they say: {error}") from None
    return rows


def _routed_rows(first: int, batch: Batch, schema: pa.Schema = ROUTED) -> tuple[Batch, bytes]:
    """Flight's streams of a generator carry no dictionaries: routes and clients are spelled out."""
    spelled = {name: batch.column(name).dictionary_decode() for name in ("route", "client_id") if name in schema.names}
    columns = [spelled[name] if name in spelled else batch.column(name) for name in schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=schema), str(first).encode()
