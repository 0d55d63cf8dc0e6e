"""``bridgehead status``: what a running node says of itself, for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from bridgehead.commands.nodeapi import NodeApi
from bridgehead.settings.model import Settings

NOTHING: Final = "-"
BRIDGE: Final = ("bridge", "state", "connects", "in flight", "exactly-once window", "possibly doubled", "watchdog resets")
ROUTE: Final = ("route", "journal", "outbox", "oldest", "in flight", "tier 2", "delivered", "dropped", "dead letters")


def status(settings: Settings) -> dict[str, Any]:
    """The snapshot of the node that these settings describe; CommandError if none answers."""
    found = NodeApi(settings).get("/api/v1/status")
    assert isinstance(found, dict)
    return found


def text_of(snapshot: dict[str, Any]) -> str:
    ready = "ready" if snapshot["ready"] else f"not ready: {'; '.join(snapshot['unready'])}"
    lines = [f"node {snapshot['node']}: {ready}", *_storage(snapshot["storage"]), *_pipeline(snapshot["pipeline"])]
    for name, each in snapshot["journal"].items():
        lines += [*_retained(name, each["retained"]), *_state_lost(name, each["stateLost"])]
    if snapshot["bridges"]:
        lines += ["", *_table(BRIDGE, [_bridge(name, each) for name, each in snapshot["bridges"].items()])]
        lines += [line for name, each in snapshot["bridges"].items() for line in _troubles(name, each)]
    routes = [*snapshot["routes"].items(), *snapshot["removedRoutes"].items()]
    if routes:
        lines += ["", *_table(ROUTE, [_route(name, each) for name, each in routes])]
        lines += [f"{name}: dropped {_reasons(lost)}" for name, each in routes if (lost := _dropped(each))]
        lines += [line for name, each in snapshot["routes"].items() for line in _transform(name, each.get("transform"))]
        lines += [f"{name}: not in the file any more" for name in snapshot["removedRoutes"]]
    return "\n".join(lines)


def _storage(storage: dict[str, Any]) -> list[str]:
    lost = storage.get("lostRows", 0)
    return [f"storage {storage['mode']}" + (f", {lost} messages lost by damage" if lost else "")] if storage else []


def _transform(name: str, transform: dict[str, Any] | None) -> list[str]:
    """Worth a line when it does not run."""
    if transform is None or transform["state"] == "running":
        return []
    reason = f": {transform['reason']}" if transform["reason"] else ""
    return [f"{name}: transform {transform['state']}{reason}{_soon(transform['nextAttemptIn'])}"]


def _pipeline(pipeline: dict[str, Any] | None) -> list[str]:
    if pipeline is None:
        return []
    reason = f": {pipeline['reason']}" if pipeline["reason"] else ""
    told = f"pipeline {pipeline['state']}{reason}{_soon(pipeline['nextAttemptIn'])}, started {pipeline['starts']} times"
    holder = f", its lease is held by {pipeline['holder']}" if pipeline["holder"] else ""
    return [told + holder + (f", Spark's pages on {pipeline['ui']}" if pipeline["ui"] else "")]


def _retained(log: str, kept: dict[str, Any] | None) -> list[str]:
    if kept is None:
        return []
    since = "" if kept["earliestAt"] is None else f", received since {kept['earliestAt']}"
    return [f"log {log} retains {kept['rows']} messages, {kept['bytes']} bytes, from offset {kept['earliestOffset']}{since}"]


def _state_lost(log: str, lost: dict[str, int] | None) -> list[str]:
    if lost is None:
        return []
    return [f"log {log}: state lost, its transform has forgotten the offsets [{lost['from']}, {lost['to']})"]


def _bridge(name: str, bridge: dict[str, Any]) -> list[str]:
    state = bridge["state"] + _soon(bridge["nextAttemptIn"] if bridge["state"] != "connected" else None)
    before, behind = ("connects", "inFlight"), ("possiblyDoubled", "watchdogResets")
    window = f"{bridge['sessionExpiry']} s"
    return [name, state, *(str(bridge[key]) for key in before), window, *(str(bridge[key]) for key in behind)]


def _troubles(name: str, bridge: dict[str, Any]) -> list[str]:
    """What went wrong last, also when it is over."""
    found = [f"{name}: last error {bridge['lastErrorAt']}: {bridge['lastError']}"] if bridge["lastError"] else []
    found += [f"{name}: the remote refused {what}: {why}" for what, why in bridge["subscribeRefused"].items()]
    return found


def _route(name: str, route: dict[str, Any]) -> list[str]:
    oldest = NOTHING if route["oldestAge"] is None else f"{route['oldestAge']} s"
    sent = [str(route.get(key, NOTHING)) for key in ("inFlight", "tier2")]
    lost, dead = sum(_dropped(route).values()), sum(route["deadLettered"].values())
    return [name, str(route["waiting"]), str(route["depth"]), oldest, *sent, str(route["delivered"]), str(lost), str(dead)]


def _dropped(route: dict[str, Any]) -> dict[str, int]:
    """Before the outbox and in it; what an exclude keeps out was never wanted, and is no loss."""
    before = {reason: rows for reason, rows in route["droppedBefore"].items() if reason != "excluded"}
    return {reason: before.get(reason, 0) + route["dropped"].get(reason, 0) for reason in {**before, **route["dropped"]}}


def _reasons(dropped: dict[str, int]) -> str:
    return ", ".join(f"{reason} {rows}" for reason, rows in dropped.items())


def _soon(seconds: float | None) -> str:
    return "" if seconds is None else f", next attempt in {seconds} s"


def _table(heads: Sequence[str], rows: list[list[str]]) -> list[str]:
    """Names to the left, numbers to the right, nothing cut off."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    lines = []
    for first, *others in [list(heads), *rows]:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]))
    return lines
