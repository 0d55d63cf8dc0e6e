"""The other side of a lease: takes that of one node, renews it, and takes it again when it was lost."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyarrow import flight

from bridgehead.errors import RefusedError
from bridgehead.pipeline.access import Access
from bridgehead.pipeline.client import NodeClient
from bridgehead.pipeline.jobconfig import NodeJob

RETRY: Final = 1.0
"""Seconds between two tries for a lease that somebody else holds, or of a node that is away."""

RENEWALS: Final = 3
"""How often a lease is renewed within its time."""

CALL_PATIENCE: Final = 8.0
"""Seconds for one call to a node; giving up waits for running batches, a little less."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Granted:
    """A lease, as the node gave it."""

    access: Access
    epoch: int
    seconds: float
    job: NodeJob


class Tenant:
    """For one node, on the event loop; calls block, so they run on threads of their own."""

    def __init__(self, access: Access, holder: str, on_granted: Callable[[Granted], None]) -> None:
        """``on_granted``: there is a new epoch."""
        self.access = access
        self._holder = holder
        self._on_granted = on_granted
        self._client = NodeClient(access, epoch=0, patience=CALL_PATIENCE)
        self._ending = asyncio.Event()
        self._ended = asyncio.Event()
        self._said = ""
        self.granted: Granted | None = None

    async def run(self) -> None:
        """Hold the lease until ``finish``."""
        while not self._ending.is_set():
            pause = await self._once()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._ending.wait()
        self._ended.set()

    async def _once(self) -> float:
        """Take or renew; how long to wait before the next time."""
        epoch = None if self.granted is None else self.granted.epoch
        try:
            answer = await asyncio.to_thread(self._client.lease, self._holder, epoch)
        except RefusedError as error:
            self.granted = None
            self._say(f"waits: {error}")
            return RETRY
        except (flight.FlightError, pa.ArrowException) as error:
            # The lease may still be ours: whether it is, the node says when it is back.
            self._say(f"cannot be reached: {_first_line(error)}")
            return RETRY
        granted = Granted(self.access, answer["epoch"], answer["seconds"], NodeJob.from_json(answer["job"]))
        if granted.epoch != epoch:
            self.granted = granted
            self._on_granted(granted)
        self._say("lease held")
        return granted.seconds / RENEWALS

    async def finish(self, wait: float) -> None:
        """Let running batches end, then the lease; the node ends that of a holder it does not hear any more."""
        self._ending.set()
        await self._ended.wait()  # a call on its way could take the lease again behind our back
        if self.granted is not None:
            try:
                await asyncio.to_thread(self._client.give_up, self._holder, self.granted.epoch, wait)
                self._say("lease given up")
            except (RefusedError, flight.FlightError, pa.ArrowException) as error:
                self._say(f"the lease ends by itself: {_first_line(error)}")
        self._client.close()

    def _say(self, what: str) -> None:
        """Once for each change, not for each try."""
        if what != self._said:
            self._said = what
            log.info("node at %s: %s", self.access.address, what)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].split(". gRPC client debug context", 1)[0]
