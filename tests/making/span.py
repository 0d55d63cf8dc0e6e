"""A bridge's moving parts without a pipeline: outboxes that a test fills, an uplink, a consumer with one pull route."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from bridgehead.bridge.backoff import Backoff
from bridgehead.bridge.consumer import Consumer
from bridgehead.bridge.forwarder import Forwarder
from bridgehead.bridge.poison import Poison
from bridgehead.bridge.uplink import Uplink
from bridgehead.bridge.uplinkrule import UplinkRule
from bridgehead.pipeline.door import Door, DoorRule
from bridgehead.pipeline.room import Room
from bridgehead.storage.engine import Changes, Engine
from bridgehead.storage.freespace import FreeSpace
from bridgehead.storage.journal import SHARED, Journal
from bridgehead.storage.memory import MemoryEngine
from bridgehead.storage.outbox import Outbox
from bridgehead.wire.packets import Subscription
from making.rows import numbered, outbox_rows


class Span:
    """``land`` numbers the rows of each route from 0; delays between attempts of any kind are milliseconds."""

    def __init__(
        self,
        port: int,
        *,
        routes: int = 1,
        names: list[str] | None = None,
        tier2: int = 10_000,
        pull: bool = False,
        engine: Engine | None = None,
        pull_limit: int | None = None,
        space: FreeSpace | None = None,
        level: bool = False,
        **rule: Any,
    ) -> None:
        self.engine = MemoryEngine() if engine is None else engine
        self.journal = Journal(self.engine, 1 << 30)
        self.log = self.journal.log(SHARED)
        names = names or [f"r{i}" for i in range(routes)]
        self.outboxes = [Outbox(name, self.engine, 1_000_000, 1 << 30) for name in names]
        self.forwarders = [Forwarder(i, outbox, tier2) for i, outbox in enumerate(self.outboxes)]
        for forwarder in self.forwarders:
            forwarder.poison = Poison((0.001, 0.002, 0.004))
        self.door = Door(DoorRule(route="pull", bridge="b", filters=("in/#",)), self.log)
        version = rule.get("version", 5)
        if pull_limit is not None:
            self.door.room = Room(Outbox("pull", self.engine, pull_limit, 1 << 30, strategy="refuse"), self.journal)
        levelled = frozenset({"pull"}) if level else frozenset[str]()
        self.consumer = Consumer(
            self.engine,
            self.journal,
            [self.door],
            "edge",
            (),
            bridge="b",
            drop_retained=version < 5,
            space=space,
            stored=levelled,
            levelled=levelled,
        )
        given: dict[str, Any] = {
            "bridge": "b",
            "addresses": (("127.0.0.1", port),),
            "client_id": "edge",
            "version": 5,
            "keep_alive": 60,
            "session_expiry": 3600,
            "clean_start": False,
            "identified": False,
            "subscriptions": (Subscription("in/#", 2),) if pull else (),
            **rule,
        }
        self.uplink = Uplink(UplinkRule(**given), self.forwarders, self.consumer, self.engine)
        self.uplink._backoff = Backoff(first=0.001, longest=0.004)
        self._next = [0] * len(names)

    async def die(self) -> None:
        """End without a word, as a kill does."""
        if (link := self.uplink._link) is not None and link.opened:
            link.abort()
            await self.uplink._closed.wait()
        await self.uplink.stop()

    def land(self, count: int, route: int = 0, **given: Any) -> None:
        changes = Changes()
        given = {"topic": f"t{route}", **given}
        self.outboxes[route].land(changes, outbox_rows(*numbered(self._next[route], count, **given)))
        self._next[route] += count
        self.engine.write(changes)
        self.outboxes[route].landed()

    def consume(self) -> None:
        """Everything in the journal has gone its way."""
        changes = Changes()
        self.log.consume(changes, self.log.end)
        self.engine.write(changes)
        self.consumer.room_again()

    def journalled(self) -> list[bytes]:
        pieces = self.log.read(0, self.log.visible)
        return [payload for _, batch in pieces for payload in batch.column("payload").to_pylist()]

    @property
    def sums_hold(self) -> bool:
        left = [sum([o.delivered, *o.dropped.values(), *o.dead_lettered.values()]) for o in self.outboxes]
        return all(o.entered == gone + o.depth for o, gone in zip(self.outboxes, left, strict=True))


async def until(condition: Callable[[], bool], within: float = 20.0) -> None:
    """Turn the loop until the condition holds."""
    deadline = asyncio.get_running_loop().time() + within
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "it did not come to that"
        await asyncio.sleep(0.001)
