"""Runs the demo: starts everything, publishes at a rate, shows the table, stops everything."""

from __future__ import annotations

import asyncio
import itertools
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live

from bridgehead.app import Node
from bridgehead.clock import monotonic
from bridgehead.demo.client import DemoClient
from bridgehead.demo.factory import Arrivals, commands, readings
from bridgehead.demo.table import table
from bridgehead.settings.load import from_document
from bridgehead.settings.model import Settings

TICK = 0.02
REFRESH = 0.25


@dataclass(frozen=True, slots=True)
class Ports:
    """Where the demo listens."""

    plant: int = 1883
    cloud: int = 1884
    console: int = 8080


class Demo:
    """One showing. With ``messages`` it ends by itself when so many have crossed each way."""

    def __init__(self, messages: int, rate: int, persistence: str, engine: str, ports: Ports) -> None:
        self._messages = messages
        self._rate = rate
        self._ports = ports
        self._directory = tempfile.TemporaryDirectory(prefix="bridgehead-demo-")
        home = Path(self._directory.name)
        self._cloud_settings, self._plant_settings = _settings(home, persistence, engine, ports)
        self._stop = asyncio.Event()
        self._published = {"push": 0, "pull": 0}
        self._arrivals = {"push": Arrivals(), "pull": Arrivals()}
        self._rates = {"push": 0.0, "pull": 0.0}
        self._console = Console()
        self._started = monotonic()
        self._first_crossing: float | None = None

    async def run(self) -> None:
        for name in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(name, self._stop.set)
        cloud, plant = Node(self._cloud_settings), Node(self._plant_settings)
        try:
            await cloud.start()
            try:
                await plant.start()
                await self._show(plant)
            finally:
                await plant.stop()
        finally:
            await cloud.stop()
            self._directory.cleanup()

    async def _show(self, plant: Node) -> None:
        watcher = DemoClient("cloud-dashboard", self._arrivals["push"].batch)
        panel = DemoClient("operator-panel", self._arrivals["pull"].batch)
        machines, control = DemoClient("machines"), DemoClient("control-room")
        plant_port, cloud_port = self._ports.plant, self._ports.cloud
        for client, port in ((watcher, cloud_port), (control, cloud_port), (panel, plant_port), (machines, plant_port)):
            await client.connect(port)
        await watcher.subscribe("cloud/#")
        await panel.subscribe("commands/#")
        publishing = [
            asyncio.create_task(self._publish("push", machines, readings(), plant)),
            asyncio.create_task(self._publish("pull", control, commands(), plant)),
        ]
        for task in publishing:
            task.add_done_callback(self._publishing_ended)
        try:
            await self._watch(plant)
        finally:
            for task in publishing:
                task.cancel()
            outcomes = await asyncio.gather(*publishing, return_exceptions=True)
            for client in (watcher, panel, machines, control):
                client.close()
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome

    def _publishing_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._stop.set()

    async def _publish(
        self, way: str, client: DemoClient, source: Iterator[tuple[str, bytes]], plant: Node
    ) -> None:
        """Keep to the rate; what the window has no room for waits for the next tick.

        Begins when Spark runs: what came before would wait for it and show its start as latency.
        """
        while not _all_running(plant):  # noqa: ASYNC110 - seen from outside
            await asyncio.sleep(TICK)
        start = monotonic()
        limit = self._messages or None
        while limit is None or self._published[way] < limit:
            due = int((monotonic() - start) * self._rate) - self._published[way]
            if limit is not None:
                due = min(due, limit - self._published[way])
            if due > 0:
                pairs = list(itertools.islice(source, due))
                sent = 0
                while sent < len(pairs):
                    topics, payloads = zip(*pairs[sent:], strict=True)
                    sent += client.publish(list(topics), list(payloads))
                    if sent < len(pairs):
                        await asyncio.sleep(TICK)
                self._published[way] += sent
            await asyncio.sleep(TICK)

    async def _watch(self, plant: Node) -> None:
        seen = dict.fromkeys(self._arrivals, 0)
        at = monotonic()
        with Live(self._table(plant), console=self._console, auto_refresh=False, transient=False) as live:
            while not self._stop.is_set() and not self._all_crossed():
                try:
                    await asyncio.wait_for(self._stop.wait(), REFRESH)
                except TimeoutError:
                    now = monotonic()
                    for way, arrivals in self._arrivals.items():
                        self._rates[way] = (arrivals.count - seen[way]) / (now - at)
                        seen[way] = arrivals.count
                    at = now
                if self._first_crossing is None and all(arrivals.count for arrivals in self._arrivals.values()):
                    self._first_crossing = monotonic() - self._started
                live.update(self._table(plant), refresh=True)
            await self._settle()
            live.update(self._table(plant), refresh=True)

    async def _settle(self) -> None:
        """The last acknowledgements are on their way: let them arrive before the last table."""
        await asyncio.sleep(4 * TICK)

    def _all_crossed(self) -> bool:
        return bool(self._messages) and all(arrivals.count >= self._messages for arrivals in self._arrivals.values())

    def _table(self, plant: Node) -> Any:
        snapshot = plant.view().snapshot()
        return table(snapshot, self._published, self._arrivals, self._rates, self._note(snapshot))

    def _note(self, snapshot: dict[str, Any]) -> str:
        ports = self._ports
        where = f"mqtt 127.0.0.1:{ports.plant} (plant), :{ports.cloud} (cloud); console http://127.0.0.1:{ports.console}"
        if self._first_crossing is not None:
            return f"{where}\nfirst crossing both ways after {self._first_crossing:.1f} s. Ctrl-C stops."
        pipeline = snapshot["pipeline"]
        waiting = "connecting" if pipeline is None else f"Spark is {pipeline['state']} {pipeline['reason'] or ''}"
        return f"{where}\n{waiting.strip()} … {monotonic() - self._started:.0f} s"


def _all_running(plant: Node) -> bool:
    if plant.view().unready():
        return False
    bridges = plant.view().snapshot()["bridges"].values()
    return all(bridge["state"] == "connected" and bridge["subscribed"] for bridge in bridges)


def _settings(home: Path, persistence: str, engine: str, ports: Ports) -> tuple[Settings, Settings]:
    cloud = {
        "node": "cloud",
        "dataDir": str(home / "cloud"),
        "listeners": [{"type": "tcp", "host": "127.0.0.1", "port": ports.cloud}],
        "console": {"host": "127.0.0.1", "port": 0},
    }
    plant = {
        "node": "plant",
        "dataDir": str(home / "plant"),
        "listeners": [{"type": "tcp", "host": "127.0.0.1", "port": ports.plant}],
        "console": {"host": "127.0.0.1", "port": ports.console},
        "persistence": {"mode": persistence},
        "pipeline": {"engine": engine},
        "bridges": [
            {
                "id": "cloud",
                "host": "127.0.0.1",
                "port": ports.cloud,
                "clientId": "plant",
                "localSubscriptions": [{"filters": ["factory/#"], "destination": "cloud/{#}"}],
                "remoteSubscriptions": [{"filters": ["commands/#"]}],
            }
        ],
    }
    return from_document(cloud), from_document(plant)
