"""A broker without listeners, its journal, and a route: clients come in as ``Device``."""

from __future__ import annotations

from typing import Final

from bridgehead.broker.broker import Broker
from bridgehead.pipeline.door import Door, DoorRule
from bridgehead.pipeline.gate import Gate
from bridgehead.pipeline.inline import InlineEngine
from bridgehead.pipeline.room import Room
from bridgehead.pipeline.rules import RouteRules
from bridgehead.storage.engine import Engine
from bridgehead.storage.freespace import FreeSpace
from bridgehead.storage.journal import SHARED, Journal
from bridgehead.storage.memory import MemoryEngine
from bridgehead.storage.outbox import Outbox

AS_USUAL: Final = RouteRules("out")


class House:
    """A broker, its journal, and one push route for ``out/#`` except ``out/secret/#``."""

    def __init__(
        self,
        max_bytes: int = 1 << 30,
        max_rows: int = 10_000,
        engine: Engine | None = None,
        space: FreeSpace | None = None,
    ) -> None:
        self.engine = MemoryEngine() if engine is None else engine
        self.journal = Journal(self.engine, max_bytes)
        self.log = self.journal.log(SHARED)
        rule = DoorRule(route="out", bridge="b", filters=("out/#",), excludes=("out/secret/#",))
        self.door = Door(rule, self.log)
        self.doors = [self.door]
        self.broker = Broker(self.engine, self.journal, self.doors, max_rows, 1 << 30, space)

    def journalled(self) -> list[str]:
        pieces = self.log.read(0, self.log.visible)
        return [topic for _, batch in pieces for topic in batch.column("topic").to_pylist()]


class FullHouse(House):
    """The same house, but its route refuses when it is full; and a second route for ``out/both/#`` that never is."""

    def __init__(
        self,
        limit: int,
        max_bytes: int = 1 << 40,
        space: FreeSpace | None = None,
        engine: Engine | None = None,
        rules: RouteRules = AS_USUAL,
    ) -> None:
        super().__init__(space=space, engine=engine)
        self.outbox = Outbox("out", self.engine, limit, max_bytes, strategy="refuse")
        self.door.room = Room(self.outbox, self.journal, rules)
        self.outbox.on_left = self.broker.room_again
        self.other = Door(DoorRule(route="other", bridge="b", filters=("out/both/#",)), self.log)
        self.doors.append(self.other)
        self.other_outbox = Outbox("other", self.engine, 1 << 40, 1 << 40)
        self.gate = Gate(self.engine, self.journal, {"out": self.outbox, "other": self.other_outbox})
        self.inline = InlineEngine(self.engine, self.gate.landing, self.log, [rules, RouteRules("other")])

    def move(self) -> None:
        """The pipeline does its work."""
        while self.inline.run():
            continue

    def leave(self, rows: int) -> list[bytes]:
        """So many messages of the route are delivered; their payloads."""
        self.move()
        found: list[bytes] = []
        while len(found) < rows and (polled := self.outbox.poll(rows - len(found))) is not None:
            found += polled.batch.column("payload").to_pylist()
            self.outbox.acknowledge(polled.seqs)
        return found
