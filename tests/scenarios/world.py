"""A node with every bridge that the matrix and the rules need, between local clients and one mosquitto."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from support.client import Client
from support.mosquitto import Mosquitto
from support.node import NodeProcess

DIRECTIONS = ("push", "pull")


class World:
    """Topics of a world begin with its engine: the worlds share their mosquitto."""

    def __init__(self, engine: str, remote: Mosquitto, directory: Path) -> None:
        self.engine = engine
        self.remote = remote
        self.node = NodeProcess(
            directory, {"node": f"edge-{engine}", "pipeline": {"engine": engine}, "bridges": self._bridges()}
        )
        self.node.start()

    @contextmanager
    def clients(self, direction: str, version: str = "5") -> Iterator[tuple[Client, Client]]:
        """(who publishes, who receives) of a direction: one on the node, one on mosquitto."""
        ports = (self.node.port, self.remote.port)
        with ExitStack() as stack:
            source, target = (
                stack.enter_context(Client(port, version)) for port in (ports if direction == "push" else ports[::-1])
            )
            yield source, target

    def _bridges(self) -> list[dict[str, Any]]:
        return [
            self._bridge("five", mqttVersion=5),
            self._bridge("four", mqttVersion="3.1.1"),
            self._bridge("rules", _rules),
            self._bridge("volatile", persist=False),
            self._bridge("far", loopPreventionHopCount=2),
            self._bridge("uncounted", loopPreventionEnabled=False),
            self._circle("circle-a"),
            self._circle("circle-b"),
        ]

    def _bridge(self, name: str, rules: Any = None, **settings: Any) -> dict[str, Any]:
        """Topics <engine>/<bridge>/push/# and <engine>/<bridge>/pull/#, unless rules say more."""
        rules = rules or (lambda prefix, direction: [{"filters": [f"{prefix}/#"]}])
        return {
            **self._address(name),
            "localSubscriptions": rules(f"{self.engine}/{name}/push", "push"),
            "remoteSubscriptions": rules(f"{self.engine}/{name}/pull", "pull"),
            **settings,
        }

    def _circle(self, name: str) -> dict[str, Any]:
        """Both ways with the same filter: a loop but for the hop count."""
        both = [{"filters": [f"{self.engine}/circle/#"]}]
        return {**self._address(name), "localSubscriptions": both, "remoteSubscriptions": both}

    def _address(self, name: str) -> dict[str, Any]:
        return {"id": name, "clientId": f"{self.engine}-{name}", "host": "127.0.0.1", "port": self.remote.port}


def _rules(prefix: str, direction: str) -> list[dict[str, Any]]:
    """One route for each thing that a rule can say."""
    excluding = [{"filters": [f"{prefix}/most/#"], "excludes": [f"{prefix}/most/test/#", f"{prefix}/most/+/secret"]}]
    return [
        *(excluding if direction == "push" else []),
        {"filters": [f"{prefix}/whole/#"], "destination": "cloud/{#}"},
        {"filters": [f"{prefix}/around/#"], "destination": "before/{#}/after"},
        {"filters": [f"{prefix}/literal/#"], "destination": f"one/place/{prefix}"},
        *({"filters": [f"{prefix}/max{qos}/#"], "maxQoS": qos} for qos in (0, 1, 2)),
        {
            "filters": [f"{prefix}/labelled/#"],
            "customUserProperties": [{"key": "site", "value": "plant-7"}, {"key": "site", "value": "hall-a"}],
        },
        {"filters": [f"{prefix}/retain/#"], "preserveRetain": True},
        {"filters": [f"{prefix}/overlap/#", f"{prefix}/overlap/+/x", f"{prefix}/+/a/x"]},
        {"filters": [f"{prefix}/both/#"], "destination": "first/{#}"},
        {"filters": [f"{prefix}/both/+"], "destination": "second/{#}"},
        {"filters": [f"{prefix}/levels/#"], "destination": "${bridge.name}/${node}/{1}-{3}/{6}/\\{5}/{5-#}"},
        {"filters": [f"{prefix}/wild/+/x/#"], "destination": "wild/{1}/{3}/{+#}/{+1}"},
        {"filters": [f"{prefix}/who/#"], "destination": "who/{1}/{3}/${client.id}"},
        {"filters": [f"{prefix}/short/#"], "destination": "{6}"},
        {"filters": [f"{prefix}/old/#"], "rewrite": [{"pattern": "/old/([^/]+)", "replacement": "/new/\\1\\1"}]},
        {"filters": [f"{prefix}/end"]},
    ]
