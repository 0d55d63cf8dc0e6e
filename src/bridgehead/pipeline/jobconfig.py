"""What a driver is told of a node: one JSON line on standard input, token included, nothing on a command line."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from bridgehead.pipeline.access import Access, as_environment
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

    def with_its_text(self) -> QueryConfig:
        """The same for somebody who cannot read our files."""
        if self.transform is None or self.transform.sql_file is None:
            return self
        text = Path(self.transform.sql_file).read_text(encoding="utf-8")
        return replace(self, transform=replace(self.transform, sql=text, sql_file=None))

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
class NodeJob:
    """What a node tells a pipeline elsewhere: all that the pipeline's own file does not say."""

    node: str
    queries: tuple[QueryConfig, ...]
    max_rows: int
    max_bytes: int

    def to_json(self) -> dict[str, Any]:
        """SQL that is in a file is told as text: that file is on the node's machine."""
        return asdict(replace(self, queries=tuple(query.with_its_text() for query in self.queries)))

    @staticmethod
    def from_json(value: dict[str, Any]) -> NodeJob:
        return NodeJob(**{**value, "queries": tuple(QueryConfig.from_json(query) for query in value["queries"])})


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
    accesses: tuple[Access, ...] = ()  # to other nodes that this driver may get a job of

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> JobConfig:
        value = json.loads(text)
        queries = tuple(QueryConfig.from_json(query) for query in value["queries"])
        accesses = tuple(Access(**access) for access in value["accesses"])
        return JobConfig(**{**value, "access": Access(**value["access"]), "queries": queries, "accesses": accesses})

    def environment(self) -> dict[str, str]:
        """What every process of this driver needs to reach its nodes."""
        return as_environment(dict.fromkeys((self.access, *self.accesses)))
