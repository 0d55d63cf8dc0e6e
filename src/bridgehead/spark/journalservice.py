"""The Flight service of an embedded journal: where a reader asks for offsets and its tasks fetch their rows.

| call | says | answer |
|---|---|---|
| reach | | when the broker is reached, or ever was |
| offsets | | incarnation, earliest, latest |
| catch_up | within | when what the broker has kept is here |
| plan | start, max_rows, max_bytes, wait | where a batch from start would end |
| split | start, end, parts, least | the ranges of its tasks |
| release | end | |
| leave | | a journal that only stays for late tasks ends |
| do_get | ticket: incarnation, start, end | message rows, each batch with the offset of its first row |

Handlers run on gRPC's threads; the recorder belongs to its loop, so every touch of it goes there.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final, TypeVar

import pyarrow as pa
from pyarrow import flight

from bridgehead.clock import monotonic
from bridgehead.columns.batches import Batch
from bridgehead.columns.schema import MESSAGE
from bridgehead.errors import RefusedError, StartError
from bridgehead.pipeline.callguard import Refusals, TokenCheck
from bridgehead.pipeline.protocol import pack, unpack
from bridgehead.pipeline.service import bounded
from bridgehead.spark.keptrows import message_rows
from bridgehead.spark.recorder import Recorder

MAX_WAIT: Final = 5.0
"""The longest a call for a plan may wait for rows, whatever it asks for."""

T = TypeVar("T")
Told = dict[str, Any]


class JournalService(flight.FlightServerBase):  # type: ignore[misc]
    """Serves one recorder. Create it on the recorder's loop; it listens at once."""

    def __init__(self, recorder: Recorder, host: str, port: int, token: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._recorder = recorder
        self._news = asyncio.Event()
        recorder.log.on_visible = self._news.set
        self._guard = threading.Lock()
        self._reading = 0  # streams that are open
        self.last_call = monotonic()
        self.on_leave: Callable[[], None] | None = None  # set where the journal gives way when asked
        self._actions: dict[str, Callable[[Told], Awaitable[Told]]] = {
            "reach": self._reach,
            "offsets": self._offsets,
            "catch_up": self._catch_up,
            "plan": self._plan,
            "split": self._split,
            "release": self._release,
            "leave": self._leave,
        }
        try:
            super().__init__(f"grpc://{host}:{port}", middleware={"token": TokenCheck(token)})
        except (pa.ArrowException, OSError) as error:
            raise StartError(f"the journal cannot listen on {host}:{port}: {error}") from error
        self.address = f"grpc://{host}:{self.port}"

    @property
    def idle_for(self) -> float:
        """Seconds since anybody wanted anything."""
        return 0.0 if self._reading else monotonic() - self.last_call

    # Flight's handlers, on gRPC's threads

    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> Iterator[bytes]:
        with Refusals():
            if action.type not in self._actions:
                raise RefusedError(f"no action {action.type}")
            return iter([pack(self._on_loop(self._actions[action.type](unpack(action.body.to_pybytes()))))])

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.FlightDataStream:
        with Refusals():
            asked = unpack(ticket.ticket)
            pieces = self._on_loop(self._read(asked))
        return flight.GeneratorStream(MESSAGE, self._rows(pieces))

    def _rows(self, pieces: list[tuple[int, Batch]]) -> Iterator[tuple[Batch, bytes]]:
        self._count(1)
        try:
            for first, batch in bounded(pieces):
                yield message_rows(batch, first), str(first).encode()
        finally:
            self._count(-1)

    def _count(self, change: int) -> None:
        with self._guard:
            self._reading += change
            self.last_call = monotonic()

    def _on_loop(self, call: Awaitable[T]) -> T:
        async def run() -> T:
            self.last_call = monotonic()
            return await call

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result()

    # The same on the loop

    async def _reach(self, told: Told) -> Told:
        await self._recorder.reach()
        return {}

    async def _offsets(self, told: Told) -> Told:
        recorder = self._recorder
        return {"incarnation": recorder.incarnation, "earliest": recorder.earliest, "latest": recorder.latest}

    async def _catch_up(self, told: Told) -> Told:
        await self._recorder.catch_up(told["within"])
        return {}

    async def _plan(self, told: Told) -> Told:
        """With nothing to read it waits for news, so that nobody has to ask in a circle."""
        start, limits = told["start"], (told["max_rows"], told["max_bytes"])
        deadline = monotonic() + min(told["wait"], MAX_WAIT)
        while (end := self._recorder.log.plan(start, *limits)) == start and (left := deadline - monotonic()) > 0:
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._news.wait()
        return {"end": end}

    async def _split(self, told: Told) -> Told:
        return {"ranges": self._recorder.split(told["start"], told["end"], told["parts"], told["least"])}

    async def _release(self, told: Told) -> Told:
        self._recorder.release(told["end"])
        return {}

    async def _leave(self, told: Told) -> Told:
        if self.on_leave is not None and not self._reading:
            self.on_leave()
        return {}

    async def _read(self, told: Told) -> list[tuple[int, Batch]]:
        return self._recorder.read(told["incarnation"], told["start"], told["end"])
