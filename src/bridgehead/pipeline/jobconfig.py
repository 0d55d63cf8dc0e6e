"""What a node tells its driver: one JSON line on standard input, token included, nothing on a command line."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from bridgehead.pipeline.access import Access
from bridgehead.pipeline.rules import RouteRules


@dataclass(frozen=True, slots=True)
class JobConfig:
    """Plain values only."""

    access: Access  # to the node's Flight service
    epoch: int
    log: str  # the log of this driver's query
    rules: tuple[RouteRules, ...]  # of the routes in that log
    data_dir: str
    java_home: str
    master: str
    conf: dict[str, str] = field(repr=False)  # the user's: it has the last word
    max_rows: int = 200_000
    max_bytes: int = 256 << 20

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> JobConfig:
        value = json.loads(text)
        rules = tuple(RouteRules.from_json(each) for each in value["rules"])
        return JobConfig(**{**value, "access": Access(**value["access"]), "rules": rules})
