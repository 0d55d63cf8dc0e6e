"""The lease of a node whose pipeline is elsewhere: one holder at a time may be its driver.

Whoever takes the lease gets an epoch, the job of this node (its queries and bounds), and some seconds; it renews them as
long as it lives. A holder that is silent for longer has lost it: from that moment its epoch is over, so whatever it
still does is refused, and another may take the lease. A holder that goes in peace gives it up when its batches are done.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import Any, Final

from bridgehead.errors import RefusedError
from bridgehead.pipeline.gate import Gate
from bridgehead.pipeline.jobconfig import NodeJob, QueryConfig
from bridgehead.pipeline.protocol import Action
from bridgehead.pipeline.service import Service
from bridgehead.pipeline.watch import Phase, State, Watch

LEASE_SECONDS: Final = 10.0
"""A holder that is silent so long is gone. It renews three times as often, so one lost call costs nothing."""

REST_PATIENCE: Final = 7.0
"""The longest that a holder which gives up waits for its running batches."""

NOBODY: Final = "no pipeline holds the lease of this node"


class LeaseDesk(Watch):
    """Used from the node's event loop, as the Supervisor is by a node that has its own driver."""

    def __init__(self, gate: Gate, service: Service, job: NodeJob, seconds: float = LEASE_SECONDS) -> None:
        """``job``: what a holder must know of this node."""
        super().__init__((query.log for query in job.queries), service)
        self._gate = gate
        self._service = service
        self._job = job
        self._seconds = seconds
        self._until: asyncio.TimerHandle | None = None  # when the lease ends
        self._paused = False  # there will be another job in a moment
        service.actions[Action.LEASE] = self._take
        service.actions[Action.GIVE_UP] = self._give_up

    def start(self) -> None:
        self.set(State("waiting", NOBODY))

    async def stop(self, patience: float = REST_PATIENCE) -> None:
        """Let the running batches end; the holder finds the node gone."""
        await self._rest(patience)
        self._end("stopped", "")

    async def pause(self, patience: float = REST_PATIENCE) -> None:
        """Let the running batches end: what the holder does from now on is refused, until it has the next job."""
        self._paused = True
        await self._rest(patience)
        self._gate.new_epoch()

    def go_on(self, queries: tuple[QueryConfig, ...]) -> None:
        """After a pause, with these queries: the holder gets them with its next renewal."""
        self._job = replace(self._job, queries=queries)
        self.watch(query.log for query in queries)
        self._paused = False
        self._gate.new_epoch()
        self._service.thaw()

    async def _take(self, told: dict[str, Any]) -> dict[str, Any]:
        holder = str(told["holder"])
        if self._paused:
            raise RefusedError(f"node {self._job.node} changes its routes")
        if self.holder is not None and self.holder != holder:
            raise RefusedError(f"{self.holder} holds the lease of node {self._job.node}")
        if self.holder is None or told["epoch"] != self._gate.epoch:
            self._grant(holder)
        self._extend()
        return {"epoch": self._gate.epoch, "seconds": self._seconds, "job": self._job.to_json()}

    def _grant(self, holder: str) -> None:
        self.holder = holder
        self.starts += 1
        self._gate.new_epoch()
        self._service.thaw()
        self.forget_queries("starting")
        self.set(State("starting", f"{holder} has taken the lease"))

    def _extend(self) -> None:
        if self._until is not None:
            self._until.cancel()
        self._until = asyncio.get_running_loop().call_later(self._seconds, self._expire)

    def _expire(self) -> None:
        self._end("waiting", f"{self.holder} has been silent for {self._seconds:.0f} s and lost the lease")

    async def _give_up(self, told: dict[str, Any]) -> dict[str, Any]:
        """The holder ends: no batch begins any more, the running ones may end. Afterwards its epoch is over."""
        if self._is_holder(told):
            await self._rest(min(float(told["wait"]), REST_PATIENCE))
        if self._is_holder(told):  # still, after the wait
            self._end("waiting", f"{self.holder} has ended")
        return {}

    def _is_holder(self, told: dict[str, Any]) -> bool:
        return bool(told["holder"] == self.holder and told["epoch"] == self._gate.epoch)

    async def _rest(self, patience: float) -> None:
        if self.holder is None:
            return
        self._service.freeze()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._service.at_rest.wait()

    def _end(self, phase: Phase, reason: str) -> None:
        """Nobody holds the lease any more, and nothing the last holder says counts."""
        if self._until is not None:
            self._until.cancel()
        self.holder = None
        self._gate.new_epoch()
        self.forget_queries("stopped")
        self.set(State(phase, reason))
