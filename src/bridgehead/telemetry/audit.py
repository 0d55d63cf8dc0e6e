"""The two sums of every route, as an account of plain values, and what does not add up in it.

    journal: received = consumed + dropped before, by reason + waiting
    outbox:  entered  = delivered + dropped, by reason + dead-lettered, by reason + depth

What a batch takes out of the journal enters the outbox: consumed = entered. A transform makes fewer rows or more, and it is
known how many went in and came out of it: consumed - in = entered - out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bridgehead.telemetry.snapshot import NodeView


def account(view: NodeView) -> dict[str, Any]:
    """The account of a running node, of one moment."""
    snapshot = view.snapshot()
    removed = snapshot["removedRoutes"]
    routes = {**snapshot["routes"], **removed}
    found = {
        "node": snapshot["node"],
        "source": "node",
        "routes": {route: {**_parts(numbers), "removed": route in removed} for route, numbers in routes.items()},
        "journal": {name: log["waiting"] for name, log in snapshot["journal"].items()},
    }
    return with_faults(found)


def with_faults(found: dict[str, Any]) -> dict[str, Any]:
    faults = [*found.get("faults", []), *faults_of(found)]
    return {**found, "addsUp": not faults, "faults": faults}


def faults_of(account: dict[str, Any]) -> list[str]:
    """Every sum that does not hold, in words."""
    faults = []
    for route, has in account["routes"].items():
        for left, parts in sums(has):
            total = sum(rows for _, rows in parts)
            if has[left] != total:
                faults.append(f"{route}: {left} {has[left]}, but {equation(parts)} = {total}")
        went_in, came_out = (has["transformed"].get(way, 0) for way in ("in", "out"))
        if has["consumed"] - went_in != has["entered"] - came_out:
            passed = f", with {went_in} into a transform and {came_out} out of it" if went_in or came_out else ""
            faults.append(f"{route}: consumed {has['consumed']}, but entered {has['entered']}{passed}")
    by_route = sum(has["waiting"] for has in account["routes"].values())
    by_log = sum(account["journal"].values())
    if by_route != by_log:
        faults.append(f"journal: {by_log} messages wait, but {by_route} by route")
    return faults


def sums(numbers: dict[str, Any]) -> list[tuple[str, list[tuple[str, int]]]]:
    """Both sums: what is on the left, and the parts on the right."""
    before = [(f"dropped {reason}", rows) for reason, rows in numbers["droppedBefore"].items()]
    dropped = [(f"dropped {reason}", rows) for reason, rows in numbers["dropped"].items()]
    dead = [(f"dead-lettered {reason}", rows) for reason, rows in numbers["deadLettered"].items()]
    return [
        ("received", [("consumed", numbers["consumed"]), *before, ("waiting", numbers["waiting"])]),
        ("entered", [("delivered", numbers["delivered"]), *dropped, *dead, ("waiting", numbers["depth"])]),
    ]


def equation(parts: list[tuple[str, int]]) -> str:
    return " + ".join(f"{name} {rows}" for name, rows in parts)


_PARTS = (
    "received", "consumed", "droppedBefore", "waiting", "transformed",
    "entered", "delivered", "dropped", "deadLettered", "depth",
)  # fmt: skip


def _parts(numbers: dict[str, Any]) -> dict[str, Any]:
    return {name: numbers[name] for name in _PARTS}
