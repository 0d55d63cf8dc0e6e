"""The live table: both directions, side by side."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from bridgehead.demo.factory import Arrivals


def table(
    snapshot: dict[str, Any], published: dict[str, int], arrivals: dict[str, Arrivals], rates: dict[str, float], note: str
) -> Table:
    """One column for each direction, from a snapshot of the node ``plant``."""
    routes = {route["direction"]: route for route in snapshot["routes"].values()}
    logs = snapshot["journal"]
    batches = sum(log["batches"] for log in logs.values())
    inline = all(route["engine"] == "inline" for route in routes.values())
    result = Table(title="bridgehead demo: node plant ⇄ node cloud", caption=note)
    result.add_column("")
    result.add_column("push  factory/# → cloud/{#}", justify="right")
    result.add_column("pull  commands/# ← cloud", justify="right")

    def row(name: str, values: dict[str, str]) -> None:
        result.add_row(name, values["push"], values["pull"])

    row("published", {way: f"{published[way]:,}" for way in routes})
    row("in journal", {way: f"{_in_journal(route):,}" for way, route in routes.items()})
    row("inline turns" if inline else "Spark batches", dict.fromkeys(routes, f"{batches:,}"))
    row("rows/s", {way: f"{rates[way]:,.0f}" for way in routes})
    row("in outbox", {way: f"{route['depth']:,}" for way, route in routes.items()})
    row("in flight", {way: f"{route['inFlight']:,}" for way, route in routes.items()})
    row("delivered", {way: f"{route['delivered']:,}" for way, route in routes.items()})
    row("arrived", {way: f"{arrivals[way].count:,}" for way in routes})
    row("latency p50 / p99", {way: _latency(arrivals[way]) for way in routes})
    return result


def _in_journal(route: dict[str, Any]) -> int:
    admitted = route["received"] - sum(route["droppedBefore"].values())
    return int(admitted - route["entered"])


def _latency(arrivals: Arrivals) -> str:
    latency = arrivals.latency()
    return "-" if latency is None else f"{latency[0]:,.1f} / {latency[1]:,.1f} ms"
