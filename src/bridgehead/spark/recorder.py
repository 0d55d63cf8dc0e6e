"""The recorder: takes what a broker sends into an embedded journal, and acknowledges it when it is synced.

The same parts as in a node: the uplink's connection, the consumer, a log on RocksDB. Everything runs on one event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from bridgehead.bridge.consumer import Consumer
from bridgehead.bridge.subscriptions import needed
from bridgehead.bridge.uplink import PATIENCE, Uplink
from bridgehead.bridge.uplinkrule import UplinkRule
from bridgehead.columns.batches import Batch
from bridgehead.errors import RefusedError
from bridgehead.pipeline.door import DoorRule
from bridgehead.spark.keptrows import KeepingDoor
from bridgehead.spark.options import Source
from bridgehead.spark.reaching import credentials_at, way_to
from bridgehead.storage.engine import Changes, Shelf, synced
from bridgehead.storage.journal import Journal
from bridgehead.storage.rocks import RocksEngine
from bridgehead.wire.packets import Subscription

log = logging.getLogger(__name__)

LOG: Final = "mqtt"
"""The one log of an embedded journal."""
RELEASED: Final[Shelf] = ("spark", "released")
"""Offsets below this were committed by Spark, and may be gone."""
FIRST_CONTACT: Final = 10.0
"""Seconds in which a reader that has never reached its broker must reach it."""
QUIET_ROUNDS: Final = 2
BETWEEN_ROUNDS: Final = 0.1
"""A broker that answers so many pings in a row, with this pause between, without sending a message has none left for us."""
LOOK_AGAIN: Final = 0.05
LONGEST_WAIT: Final = 15.0
"""Seconds between two attempts to reach a broker that is away: somebody may be looking at this query."""
RETAINED_IF_NEW: Final = 1
"""Retain handling: stored messages come with a new subscription, not with every connection."""


class Recorder:
    """One client id's messages, on the disk and by offset. Create it on the loop that it runs on."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._engine = RocksEngine(source.journal_dir / "store")
        journal = Journal(self._engine, source.max_journal_bytes)
        self.log = journal.log(LOG)
        self._released: int = self._engine.state(RELEASED) or 0
        # Whose session it is: what it subscribed to at one broker says nothing about another one.
        self._filters: Shelf = ("spark", "filters", source.url, source.client_id)
        known: list[str] = self._engine.state(self._filters) or []
        self._reached_before = bool(known)
        rule = _uplink_rule(source, known)
        self._subscribes = {wish.filter for wish in rule.subscriptions}
        door = KeepingDoor(DoorRule(LOG, LOG, source.topics, hop_limit=None), self.log)
        identified = tuple(wish.filter for wish in rule.subscriptions) if rule.identified else ()
        self._consumer = Consumer(
            self._engine, journal, [door], source.client_id, identified, bridge=LOG, drop_retained=False
        )
        self._uplink = Uplink(rule, [], self._consumer, self._engine)
        self._uplink.asking.on_subscribed = self._subscribed
        if known:
            self._remember({*known, *self._subscribes})

    def start(self, on_failure: Callable[[BaseException], None]) -> None:
        self._engine.on_failure = on_failure
        self._uplink.start()

    async def stop(self) -> None:
        await self._uplink.stop(PATIENCE)
        self._engine.close()

    def _subscribed(self) -> None:
        log.info("subscribed to %s as %s", ", ".join(self._source.topics), self._source.client_id)
        self._remember(self._subscribes)

    def _remember(self, filters: set[str]) -> None:
        if self._engine.state(self._filters) != sorted(filters):
            self._engine.write(Changes(state={self._filters: sorted(filters)}))

    # -- offsets ------------------------------------------------------------------------------------------------------

    @property
    def incarnation(self) -> str:
        return self._engine.incarnation

    @property
    def earliest(self) -> int:
        return self._released

    @property
    def latest(self) -> int:
        return self.log.visible

    def read(self, incarnation: str, start: int, end: int) -> list[tuple[int, Batch]]:
        if incarnation != self.incarnation:
            raise RefusedError(f"this journal is {self.incarnation}, rows of {incarnation} are not in it")
        if start < self._released:
            raise RefusedError(f"rows from {start} on are asked for, but those below {self._released} are gone")
        return self.log.read(start, end)

    def split(self, start: int, end: int, parts: int, least: int) -> list[tuple[int, int]]:
        """[start, end) in at most so many contiguous ranges with about as many rows each, none with fewer than ``least``."""
        rows = self.log.rows_between(start, end)
        count = max(1, min(parts, rows // least))
        bounds = [start]
        for number in range(1, count):
            bounds.append(self._offset_behind(start, end, rows * number // count))
        return list(zip(bounds, [*bounds[1:], end], strict=True))

    def _offset_behind(self, start: int, end: int, rows: int) -> int:
        """The first offset with so many rows between ``start`` and itself."""
        low, high = start, end
        while low < high:
            middle = (low + high) // 2
            if self.log.rows_between(start, middle) < rows:
                low = middle + 1
            else:
                high = middle
        return low

    def release(self, end: int) -> None:
        """Spark has committed everything below ``end``: it may go."""
        if end <= self._released:
            return
        self._released = end
        changes = Changes(state={RELEASED: end})
        if end > self.log.consumed:
            self.log.consume(changes, min(end, self.log.end))
        self.log.trim(changes, end)
        self._engine.write(changes)
        self._uplink.room_again()

    # -- the broker ---------------------------------------------------------------------------------------------------

    async def reach(self) -> None:
        """Return when the broker is reached, or if it ever was; a reader that never does is told why."""
        if not self._reached_before:
            await self._connected(FIRST_CONTACT)
            self._reached_before = True

    async def catch_up(self, within: float) -> None:
        """Return when the broker has sent what it kept for us, or when the time is over: then some of it is here, in order."""
        deadline = asyncio.get_running_loop().time() + within
        await self._connected(within)
        try:
            async with asyncio.timeout_at(deadline):
                await self._quiet()
        except TimeoutError:
            log.warning("the broker still sends after %.0f s: what has come so far is taken", within)
        await self._synced()

    async def _connected(self, within: float) -> None:
        status = self._uplink.status
        try:
            async with asyncio.timeout(within):
                while True:
                    if self._uplink.connected and status.subscribed:
                        break
                    await asyncio.sleep(LOOK_AGAIN)
        except TimeoutError:
            raise RefusedError(f"{self._source.url}: {status.last_error or 'no answer'}") from None
        for refused, reason in status.subscribe_refused.items():
            raise RefusedError(f"{self._source.url}: subscribing to {refused} was refused: {reason}")

    async def _quiet(self) -> None:
        rounds = 0
        while rounds < QUIET_ROUNDS:
            await self._synced()  # everything is acknowledged, so that a window is no reason for silence
            before = self._consumer.received
            try:
                await self._uplink.round_trip()
            except ConnectionError:
                rounds = 0
                await asyncio.sleep(LOOK_AGAIN)
                continue
            self._consumer.gathering.flush()
            rounds = rounds + 1 if self._consumer.received == before else 0
            if rounds:
                await asyncio.sleep(BETWEEN_ROUNDS)

    async def _synced(self) -> None:
        self._consumer.gathering.flush()
        await synced(self._engine)


def _uplink_rule(source: Source, known: list[str]) -> UplinkRule:
    version5 = source.version == 5
    filters, identified = needed(source.topics, version5=version5)
    return UplinkRule(
        bridge=LOG,
        addresses=(source.address,),
        client_id=source.client_id,
        version=source.version,
        keep_alive=source.keep_alive,
        session_expiry=source.session_expiry,
        clean_start=False,
        subscriptions=tuple(
            Subscription(
                each,
                qos=source.qos,
                retain_as_published=version5,
                retain_handling=RETAINED_IF_NEW if version5 else 0,
            )
            for each in filters
        ),
        identified=identified,
        unwanted=tuple(each for each in known if each not in filters),
        credentials=credentials_at(source),
        way=way_to(source),
        longest_wait=LONGEST_WAIT,
    )
