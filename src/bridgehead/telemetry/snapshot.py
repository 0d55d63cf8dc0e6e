"""The snapshot of a node: plain values, read from the parts that own them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bridgehead.clock import monotonic, now_us, utc_text

if TYPE_CHECKING:
    from bridgehead.bridge.forwarder import Forwarder
    from bridgehead.bridge.service import BridgeService
    from bridgehead.broker.broker import Broker
    from bridgehead.pipeline.door import Door
    from bridgehead.pipeline.gate import Gate
    from bridgehead.pipeline.watch import State, Watch
    from bridgehead.settings.archive import Archive
    from bridgehead.settings.route import Route
    from bridgehead.storage.freespace import FreeSpace
    from bridgehead.storage.journal import Journal, Log
    from bridgehead.storage.outbox import Outbox


@dataclass(frozen=True, slots=True)
class RouteView:
    """The parts of one route."""

    route: Route
    door: Door
    outbox: Outbox
    forwarder: Forwarder | None


@dataclass(slots=True)
class NodeView:
    """The parts of a node that telemetry reads; the node keeps them up to date when its bridges change."""

    name: str
    listening: Callable[[], bool]
    broker: Broker
    journal: Journal
    gate: Gate
    pipeline: Watch | None  # None: no route needs Spark
    bridges: dict[str, BridgeService]
    routes: list[RouteView]
    storage: Callable[[], dict[str, Any]] = dict
    removed: dict[str, Outbox] = field(default_factory=dict)  # of routes that are not in the file any more
    space: FreeSpace | None = None  # None: nothing is kept on a disk, or its space is not watched
    file_refused: Callable[[], str | None] = lambda: None  # why the configuration file is not followed as it is

    def degraded(self) -> list[str]:
        """What does not work as it should while the node is ready all the same."""
        found = []
        refused = self.file_refused()
        if refused is not None:
            found.append(f"the configuration file is not followed: {refused}")
        if self.space is not None and self.space.low:
            spoken = f", less {self.space.spoken_for} that storage needs for what it has" if self.space.spoken_for else ""
            sizes = f"{self.space.free} of {self.space.min_free} bytes{spoken}"
            found.append(f"free disk space is below persistence.minFree ({sizes})")
        for view in self.routes:
            state = self._query(view.route)
            if state is not None and state.phase == "failed":
                found.append(f"the query of {view.route.id} fails: {state.reason}")
            lost = self.gate.stats(view.route.id).state_lost if view.route.transform is not None else None
            if lost is not None:
                found.append(f"state lost: the transform of {view.route.id} has forgotten the offsets [{lost[0]}, {lost[1]})")
        return found

    def _query(self, route: Route) -> State | None:
        """How the query of a route that has its own is doing."""
        if not route.has_own_query or self.pipeline is None:
            return None
        return self.pipeline.queries.get(route.id)

    def unready(self) -> list[str]:
        """Why the node is not ready; empty when it is."""
        reasons = [] if self.listening() else ["listeners do not accept yet"]
        if self.pipeline is not None and not self.pipeline.ready:
            state = self.pipeline.state
            reasons.append(f"pipeline is {state.phase}" + (f": {state.reason}" if state.reason else ""))
        return reasons

    def snapshot(self) -> dict[str, Any]:
        return {
            "node": self.name,
            "ready": not self.unready(),
            "unready": self.unready(),
            "broker": {
                "connections": len(self.broker.connections),
                "sessions": len(self.broker.sessions),
                "received": self.broker.received_rows,
                "retained": len(self.broker.distributor.retained),
                "refused": dict(self.broker.refusals),
                "heldBack": len(self.broker.doorkeeper),
                "heldLost": self.broker.doorkeeper.lost,
            },
            "storage": {**self.storage(), **_space(self.space)},
            "journal": {name: _log(self, name) for name in self.journal.logs},
            "pipeline": _pipeline(self.pipeline),
            "bridges": {name: _bridge(service) for name, service in self.bridges.items()},
            "routes": {view.route.id: _route(view, self.journal, self._query(view.route)) for view in self.routes},
            "removedRoutes": {route: _numbers(outbox, self.journal) for route, outbox in self.removed.items()},
        }


def _space(space: FreeSpace | None) -> dict[str, Any]:
    if space is None:
        return {}
    return {
        "free": space.free,
        "spokenFor": space.spoken_for,
        "minFree": space.min_free,
        "refusing": space.low,
        "refused": space.refused,
    }


def _log(view: NodeView, name: str) -> dict[str, Any]:
    log = view.journal.logs[name]
    stats = view.gate.stats(name)
    return {
        "end": log.end,
        "consumed": log.consumed,
        "waiting": log.waiting,
        "oldestAge": _age(log.oldest),
        "bytes": log.weight,
        "retained": _retained(log),
        "batches": stats.batches,
        "rowsIn": stats.rows_in,
        "rowsOut": stats.rows_out,
        "lastBatchRows": stats.last_rows,
        "stateLost": None if stats.state_lost is None else dict(zip(("from", "to"), stats.state_lost, strict=True)),
    }


def _retained(log: Log) -> dict[str, Any] | None:
    """What can be read again; None if nothing is kept for that."""
    if not log.retains:
        return None
    earliest = log.earliest_us
    return {
        "rows": log.retained,
        "bytes": log.retained_weight,
        "earliestOffset": log.trimmed,
        "earliestAt": None if earliest is None else utc_text(earliest),
    }


def _pipeline(watch: Watch | None) -> dict[str, Any] | None:
    if watch is None:
        return None
    return {**_state(watch.state), "starts": watch.starts, "holder": watch.holder, "ui": watch.ui}


def _state(state: State) -> dict[str, Any]:
    return {"state": state.phase, "reason": state.reason or None, "nextAttemptIn": _seconds_until(state.next_attempt)}


def _bridge(service: BridgeService) -> dict[str, Any]:
    status = service.uplink.status
    return {
        "state": status.state,
        "remote": "{}:{}".format(*service.uplink.hosts.address),
        "lastError": status.last_error,
        "lastErrorAt": None if status.last_error_at is None else utc_text(status.last_error_at),
        "nextAttemptIn": _seconds_until(status.next_attempt),
        "connects": status.connects,
        "inFlight": service.uplink.in_flight,
        "sessionExpiry": service.uplink.rule.session_expiry,
        "possiblyDoubled": status.possibly_doubled,
        "watchdogResets": status.watchdog_resets,
        "watchdogReason": status.watchdog_reason,
        "subscribed": status.subscribed,
        "subscribeRefused": dict(status.subscribe_refused),
        "received": service.consumer.received,
        "unmatched": service.consumer.unmatched,
        "retainedSkipped": service.consumer.retained_skipped,
        "retainedDeleted": service.consumer.deleted,
        "copiesSkipped": service.consumer.copies_skipped,
        "echoesSkipped": service.consumer.echoes_skipped,
        "heldLost": service.consumer.held_lost,
    }


def _archive(archive: Archive, query: State) -> dict[str, Any]:
    return {"path": str(archive.path), "format": archive.format, **_state(query)}


def _route(view: RouteView, journal: Journal, query: State | None) -> dict[str, Any]:
    tier2 = view.forwarder.tier2 if view.forwarder is not None else 0
    held = view.forwarder.poison.held if view.forwarder is not None else 0
    return {
        "bridge": view.route.bridge,
        "direction": view.route.direction,
        "filters": list(view.route.filters),
        "engine": view.route.engine,
        "transform": None if query is None or view.route.transform is None else _state(query),
        "archive": None if query is None or view.route.archive is None else _archive(view.route.archive, query),
        **_numbers(view.outbox, journal),
        "inFlight": view.outbox.in_flight - tier2 - held,
        "tier2": tier2,
        "heldBack": held,
        "reordered": view.forwarder.poison.reordered if view.forwarder is not None else 0,
        "deadLetters": _dead(view.outbox) if view.route.has_dead_letters else None,
        "refused": view.door.refused,
    }


def _numbers(outbox: Outbox, journal: Journal) -> dict[str, Any]:
    """What the two sums of a route are made of."""
    ledger = outbox.ledger
    found = [each for each in (outbox.oldest, journal.oldest_of(outbox.route)) if each is not None]
    return {
        "received": ledger.received,
        "droppedBefore": ledger.dropped_before,
        "waiting": journal.waiting_of(outbox.route),
        "consumed": ledger.consumed,
        "entered": ledger.entered,
        "delivered": ledger.delivered,
        "dropped": ledger.dropped,
        "deadLettered": ledger.dead_lettered,
        "transformed": ledger.transformed,
        "depth": outbox.depth,
        "oldestAge": _age(min(found, default=None)),
    }


def _age(received_us: int | None) -> float | None:
    """Seconds since then; the wall clock may have been set back."""
    return None if received_us is None else round(max(now_us() - received_us, 0) / 1_000_000, 1)


def _dead(outbox: Outbox) -> dict[str, Any]:
    dead = outbox.dead
    return {"kept": len(dead), "bytes": dead.weight, "left": dict(dead.left)}


def _seconds_until(moment: float | None) -> float | None:
    return None if moment is None else round(max(moment - monotonic(), 0.0), 1)
