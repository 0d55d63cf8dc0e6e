"""A broker without listeners, its journal, and a route: clients come in as ``Device``."""

from __future__ import annotations

from bridgehead.broker.broker import Broker
from bridgehead.pipeline.door import Door, DoorRule
from bridgehead.storage.engine import Engine
from bridgehead.storage.journal import SHARED, Journal
from bridgehead.storage.memory import MemoryEngine


class House:
    """A broker, its journal, and one push route for ``out/#`` except ``out/secret/#``."""

    def __init__(self, max_bytes: int = 1 << 30, max_rows: int = 10_000, engine: Engine | None = None) -> None:
        self.engine = MemoryEngine() if engine is None else engine
        self.journal = Journal(self.engine, max_bytes)
        self.log = self.journal.log(SHARED)
        rule = DoorRule(route="out", bridge="b", filters=("out/#",), excludes=("out/secret/#",))
        self.door = Door(rule, self.log)
        self.broker = Broker(self.engine, self.journal, [self.door], max_rows, 1 << 30)

    def journalled(self) -> list[str]:
        pieces = self.log.read(0, self.log.visible)
        return [topic for _, batch in pieces for topic in batch.column("topic").to_pylist()]
