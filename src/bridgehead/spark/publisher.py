"""A task's way to the broker: the uplink of a bridge, with a queue in memory that only this task fills.

So the window, the resending after a cut and what becomes of a refused message are those of a bridge. The task waits until the
broker has acknowledged everything; a message that it refuses for good, or no progress for too long, fails the task.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from typing import Final

from bridgehead.bridge.consumer import Consumer
from bridgehead.bridge.forwarder import Forwarder
from bridgehead.bridge.uplink import Uplink
from bridgehead.bridge.uplinkrule import UplinkRule
from bridgehead.clock import monotonic
from bridgehead.columns.batches import Batch
from bridgehead.errors import RefusedError
from bridgehead.spark.options import Sink
from bridgehead.spark.reaching import credentials_at, way_to
from bridgehead.storage.engine import Changes
from bridgehead.storage.journal import Journal
from bridgehead.storage.memory import MemoryEngine
from bridgehead.storage.outbox import Outbox
from bridgehead.wire.reason import Reason

ROUTE: Final = "sink"
AHEAD_ROWS: Final = 20_000
AHEAD_BYTES: Final = 32 << 20
"""What a task takes from Spark before the broker has acknowledged it."""
SESSION: Final = 60
"""Seconds that the broker keeps a task's session (MQTT 5): a cut in the middle of QoS 2 doubles nothing within them."""
FIRST_CONTACT: Final = 15.0
"""Seconds in which a task must reach the broker for the first time."""
LONGEST_WAIT: Final = 5.0
"""Seconds between two attempts to reach the broker: a task that waits holds one of Spark's cores."""
LOOK_AGAIN: Final = 0.02


async def publish(sink: Sink, batches: Iterator[Batch]) -> int:
    """Publish OUTBOX rows and return how many, when all are acknowledged; raises RefusedError where one is not."""
    engine = MemoryEngine()
    journal = Journal(engine, max_bytes=1)
    outbox = Outbox(ROUTE, engine, max_rows=2**62, max_bytes=2**62)
    name = f"{sink.client_id or 'bridgehead-spark'}-{secrets.token_hex(6)}"
    consumer = Consumer(engine, journal, [], name, (), bridge=ROUTE, drop_retained=False)
    uplink = Uplink(_uplink_rule(sink, name), [Forwarder(0, outbox, tier2_limit=AHEAD_ROWS)], consumer, engine)
    watch = _Watch(sink, outbox, uplink)
    uplink.start()
    try:
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:
            changes = Changes()
            outbox.land(changes, batch)
            engine.write(changes)
            outbox.landed()
            await watch.until(AHEAD_ROWS, AHEAD_BYTES)
        await watch.until(1, 1)
    finally:
        await uplink.stop()
    return outbox.delivered


class _Watch:
    """Waits for acknowledgements, as long as there is any progress."""

    def __init__(self, sink: Sink, outbox: Outbox, uplink: Uplink) -> None:
        self._sink = sink
        self._outbox = outbox
        self._uplink = uplink

    async def until(self, rows: int, size: int) -> None:
        """Return when fewer rows and bytes than these wait."""
        outbox = self._outbox
        seen, since = outbox.depth, monotonic()
        while outbox.depth and (outbox.depth >= rows or outbox.live_weight >= size):
            self._look_for_refusals()
            if outbox.depth != seen:
                seen, since = outbox.depth, monotonic()
            elif monotonic() - since > self._patience:
                why = self._uplink.status.last_error or "it acknowledges nothing"
                raise RefusedError(f"{self._sink.url}: {seen} messages are not acknowledged: {why}")
            await asyncio.sleep(LOOK_AGAIN)
        self._look_for_refusals()

    @property
    def _patience(self) -> float:
        """A wrong password, or a wrong address, is not waited for as a broker is that was there before."""
        patience = self._sink.give_up_after
        return patience if self._uplink.status.connects else min(patience, FIRST_CONTACT)

    def _look_for_refusals(self) -> None:
        refused = self._outbox.dead_lettered
        if refused:
            told = ", ".join(f"{count} with {_reason(reason)}" for reason, count in refused.items())
            raise RefusedError(f"{self._sink.url}: the broker refused messages: {told}")


def _reason(text: str) -> str:
    """``refused-0x87`` in words."""
    code = text.removeprefix("refused-")
    return f"{Reason(int(code, 16)).name.lower().replace('_', ' ')} ({code})" if code != text else text


def _uplink_rule(sink: Sink, name: str) -> UplinkRule:
    return UplinkRule(
        bridge=ROUTE,
        addresses=(sink.address,),
        client_id=name,
        version=sink.version,
        keep_alive=sink.keep_alive,
        session_expiry=SESSION,
        clean_start=sink.version < 5,  # MQTT 3.1.1 has no end for a session that is kept
        subscriptions=(),
        watchdog=max(sink.give_up_after / 4, 5.0),
        credentials=credentials_at(sink),
        way=way_to(sink),
        longest_wait=LONGEST_WAIT,
    )
