"""What a node tells its driver: one JSON line on standard input, token included, nothing on a command line."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from bridgehead.pipeline.access import Access
from bridgehead.pipeline.archive.spec import ArchiveSpec
from bridgehead.pipeline.rules import RouteRules


@dataclass(frozen=True, slots=True)
class TransformRule:
    """What a user's transform is; exactly one of the first three is given."""

    sql: str | None = None
    sql_file: str | None = None
    python: str | None = None  # package.module:function
    options: dict[str, Any] = field(default_factory=dict, repr=False)
    output_mode: str = "append"
    on_error: str = "fail"


@dataclass(frozen=True, slots=True)
class QueryConfig:
    """One query: its log, and what stands between that log and the outboxes."""

    log: str
    rules: tuple[RouteRules, ...]  # of the routes in that log
    transform: TransformRule | None = None  # then all rows of the log are of one route
    archive: ArchiveSpec | None = None  # then too

    @staticmethod
    def from_json(value: dict[str, Any]) -> QueryConfig:
        transform, archive = value["transform"], value["archive"]
        return QueryConfig(
            log=value["log"],
            rules=tuple(RouteRules.from_json(rules) for rules in value["rules"]),
            transform=None if transform is None else TransformRule(**transform),
            archive=None if archive is None else ArchiveSpec.from_json(archive),
        )


@dataclass(frozen=True, slots=True)
class JobConfig:
    """Plain values only."""

    access: Access  # to the node's Flight service
    epoch: int
    queries: tuple[QueryConfig, ...]
    data_dir: str
    java_home: str
    master: str
    conf: dict[str, str] = field(repr=False)  # the user's: it has the last word
    max_rows: int = 200_000
    max_bytes: int = 256 << 20
    checkpoint: str | None = None  # where queries with a memory keep it; None = in data_dir
    modules: str = ""  # a directory in which the modules of transforms are looked for

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> JobConfig:
        value = json.loads(text)
        queries = tuple(QueryConfig.from_json(query) for query in value["queries"])
        return JobConfig(**{**value, "access": Access(**value["access"]), "queries": queries})
