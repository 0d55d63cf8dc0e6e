"""``bridgehead audit``: the two sums of every route, of the running node or of what a stopped one has left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bridgehead.commands.nodeapi import NodeApi
from bridgehead.errors import CommandError, NotRunningError, NotThereError
from bridgehead.settings.model import Settings
from bridgehead.storage.ledger import Tally
from bridgehead.telemetry.audit import equation, sums, with_faults


def audit(settings: Settings) -> dict[str, Any]:
    """The account of the node that these settings describe; CommandError if there is nothing to audit."""
    try:
        found = NodeApi(settings).get("/api/v1/audit")
    except NotRunningError as not_running:
        return account_of_store(settings, str(not_running))
    assert isinstance(found, dict)
    return found


def account_of_store(settings: Settings, why: str) -> dict[str, Any]:
    """What waits is counted row by row, and held against the ledgers. ``why`` is why no node was asked."""
    if settings.persistence.mode != "file-native":
        raise CommandError(f"{why}, and persistence.mode in-memory leaves nothing behind: there is nothing to audit")
    from bridgehead.storage.recount import recount

    try:
        found = recount(Path(settings.data_dir) / "store")
    except NotThereError as error:
        raise CommandError(f"{why}, and {error}: there is nothing to audit") from None
    present = {route.id for route in settings.routes()}
    names = sorted(present | found.routes | found.journal.keys())
    routes = {
        name: {
            **_numbers(found.tallies.get(name, Tally())),
            "waiting": found.journal[name],
            "depth": found.outbox[name],
            "removed": name not in present,
        }
        for name in names
    }
    account = {
        "node": settings.node,
        "source": "store",
        "routes": routes,
        "journal": {"all": sum(found.journal.values())},
        "faults": found.damage,
    }
    return with_faults(account)


def _numbers(tally: Tally) -> dict[str, Any]:
    return {
        "received": tally.received,
        "consumed": tally.consumed,
        "droppedBefore": tally.dropped_before,
        "entered": tally.entered,
        "delivered": tally.delivered,
        "dropped": tally.dropped,
        "deadLettered": tally.dead_lettered,
        "transformed": tally.transformed,
    }


def text_of(account: dict[str, Any]) -> str:
    """For people: both sums of each route, then what does not add up."""
    of = "running" if account["source"] == "node" else "stopped; messages of QoS 0 left nothing on the disk"
    lines = [f"node {account['node']} ({of})"]
    for route, numbers in account["routes"].items():
        lines.append(f"{route} (not in the file any more)" if numbers["removed"] else route)
        for place, (left, parts) in zip(("journal", "outbox "), sums(numbers), strict=True):
            total = sum(rows for _, rows in parts)
            sign = "=" if total == numbers[left] else "≠"
            lines.append(f"  {place}  {left} {numbers[left]} {sign} {equation(parts)}")
    lines += [f"does not add up: {fault}" for fault in account["faults"]] or ["everything adds up"]
    return "\n".join(lines)
