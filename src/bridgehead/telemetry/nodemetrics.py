"""The metrics of the node itself: local broker, disk, pipeline and its logs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from prometheus_client import Metric

from bridgehead.clock import now_us
from bridgehead.telemetry.families import Family, Values

if TYPE_CHECKING:
    from bridgehead.pipeline.landing import QueryStats
    from bridgehead.storage.journal import Log
    from bridgehead.telemetry.snapshot import NodeView

PHASES: Final = ("stopped", "waiting", "starting", "running", "failed")
"""What Spark's driver or one of its queries may be in."""


class LogNow(NamedTuple):
    """A log of the journal, and what is known of the query that reads it."""

    log: Log
    stats: QueryStats
    phase: str | None  # None: it is not read by Spark

    @property
    def lag(self) -> float:
        """Seconds since the oldest message that the pipeline has not taken arrived; 0 where there is none."""
        oldest = self.log.oldest
        return 0.0 if oldest is None else max(now_us() - oldest, 0) / 1_000_000


def _one_of(phase: str | None) -> Values:
    return None if phase is None else {each: float(each == phase) for each in PHASES}


NODE: Final[tuple[Family[NodeView], ...]] = (
    Family("gauge", "ready", "1 when the node is ready.", lambda view: not view.unready()),
    Family("gauge", "bridges", "Bridges of the configuration.", lambda view: len(view.bridges)),
    Family("gauge", "broker_connections", "Clients that are connected.", lambda view: len(view.broker.connections)),
    Family("gauge", "broker_sessions", "Sessions of clients, connected or kept.", lambda view: len(view.broker.sessions)),
    Family("gauge", "broker_retained_messages", "Retained messages.", lambda view: len(view.broker.distributor.retained)),
    Family("gauge", "broker_held_back_clients", "Clients that wait for room.", lambda view: len(view.broker.doorkeeper)),
    Family(
        "counter", "broker_held_lost_messages", "QoS 0 messages of clients that went away while they waited for room.",
        lambda view: view.broker.doorkeeper.lost,
    ),
    Family(
        "counter", "broker_received_messages", "Messages that the local broker has taken.",
        lambda view: view.broker.received_rows,
    ),
    Family(
        "counter", "broker_refusals", "Clients that were refused or sent away, by reason code.",
        lambda view: {**view.broker.refusals}, ("reason",),
    ),
    Family(
        "gauge", "storage_free_bytes", "Free space of the disk.",
        lambda view: None if view.space is None else view.space.free,
    ),
    Family(
        "gauge", "storage_spoken_for_bytes", "Of the free space, what storage may need for what it has already.",
        lambda view: None if view.space is None else view.space.spoken_for,
    ),
    Family(
        "gauge", "storage_min_free_bytes", "persistence.minFree.",
        lambda view: None if view.space is None else view.space.min_free,
    ),
    Family(
        "counter", "storage_refused_messages", "Messages without room on the disk whose publisher was told.",
        lambda view: None if view.space is None else view.space.refused,
    ),
    Family("counter", "storage_syncs", "Syncs to the disk.", lambda view: view.storage().get("syncs")),
    Family("counter", "storage_sync_seconds", "What they have taken.", lambda view: view.storage().get("syncSeconds")),
    Family("counter", "storage_lost_messages", "Messages lost by damage.", lambda view: view.storage().get("lostRows", 0)),
    Family(
        "gauge", "pipeline_state", "1 for the state that Spark's driver is in.",
        lambda view: None if view.pipeline is None else _one_of(view.pipeline.state.phase), ("state",),
    ),
    Family(
        "counter", "pipeline_starts", "Starts of Spark's driver.",
        lambda view: None if view.pipeline is None else view.pipeline.starts,
    ),
    Family(
        "gauge", "removed_route_messages", "Messages that wait for a route that is not in the file any more.",
        lambda view: {route: outbox.depth + view.journal.waiting_of(route) for route, outbox in view.removed.items()},
        ("route",),
    ),
)  # fmt: skip

LOGS: Final[tuple[Family[LogNow], ...]] = (
    Family("gauge", "pipeline_lag_rows", "Messages that the pipeline has not taken.", lambda now: now.log.waiting),
    Family("gauge", "pipeline_lag_seconds", "Age of the oldest of them.", lambda now: now.lag),
    Family("gauge", "pipeline_query_state", "1 for the state that a query is in.", lambda now: _one_of(now.phase), ("state",)),
    Family("counter", "pipeline_batches", "Batches committed.", lambda now: now.stats.batches),
    Family("counter", "pipeline_rows_in", "Rows that committed batches have taken.", lambda now: now.stats.rows_in),
    Family("counter", "pipeline_rows_out", "Rows that committed batches have made.", lambda now: now.stats.rows_out),
    Family("gauge", "journal_bytes", "Bytes in the journal.", lambda now: now.log.weight),
    Family("gauge", "journal_retained_messages", "Messages taken, and kept to be read again.", lambda now: now.log.retained),
    Family("gauge", "journal_retained_bytes", "Bytes of them.", lambda now: now.log.retained_weight),
)


def node_metrics(view: NodeView) -> Iterator[Metric]:
    for family in NODE:
        yield family.of((), [((), view)])
    logs = [((name,), _log(view, name)) for name in view.journal.logs]
    for each in LOGS:
        yield each.of(("log",), logs)


def _log(view: NodeView, name: str) -> LogNow:
    query = None if view.pipeline is None else view.pipeline.queries.get(name)
    return LogNow(view.journal.logs[name], view.gate.stats(name), None if query is None else query.phase)
