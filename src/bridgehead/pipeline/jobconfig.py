"""What a node tells its driver: one JSON line on standard input, token included, nothing on a command line."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from bridgehead.pipeline.rules import RouteRules


@dataclass(frozen=True, slots=True)
class JobConfig:
    """Plain values only."""

    address: str  # of the Flight service
    token: str = field(repr=False)
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
        return JobConfig(**{**value, "rules": tuple(RouteRules.from_json(rules) for rules in value["rules"])})
