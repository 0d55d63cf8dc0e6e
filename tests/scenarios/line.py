"""A node, a mosquitto of its own, and a wire between them on which every fault can happen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.mosquitto import Mosquitto
from support.node import NodeProcess
from support.proxy import Proxy
from support.waiting import until


class Line:
    """The bridge ``line`` pushes push/# and pulls pull/#. ``remote`` are settings of mosquitto, ``push`` of the push route.

    ``mode`` is the node's persistence; anything else that is given is said of the bridge.
    """

    def __init__(
        self,
        directory: Path,
        version: Any = 5,
        *,
        remote: dict[str, Any] | None = None,
        push: dict[str, Any] | None = None,
        mode: str = "in-memory",
        min_free: int | None = None,
        wire_open: bool = True,
        **bridge: Any,
    ) -> None:
        self.remote = Mosquitto(directory / "remote", **(remote or {})).start()
        self.wire = Proxy(self.remote.port)
        whole = {
            "id": "line",
            "host": "127.0.0.1",
            "port": self.wire.port,
            "mqttVersion": version,
            "localSubscriptions": [{"filters": ["push/#"], **(push or {})}],
            "remoteSubscriptions": [{"filters": ["pull/#"]}],
            **bridge,
        }
        persistence = {"mode": mode} if min_free is None else {"mode": mode, "minFree": min_free}
        document = {"persistence": persistence, "pipeline": {"engine": "inline"}, "bridges": [whole]}
        self.node = NodeProcess(directory / "node", document)
        self.node.wires.append(self.wire)
        if wire_open:
            self.wire.open()
            self.node.start()
        else:
            self.node.launch()
            self.node.wait_ready()

    @property
    def bridge(self) -> dict[str, Any]:
        return self.node.bridge("line")

    @property
    def push(self) -> dict[str, Any]:
        return self.node.routes("line", "push")[0]

    def go_away(self) -> None:
        """The way to the remote is closed, and the node knows it."""
        self.wire.close()
        self.wait_disconnected()

    def come_back(self) -> None:
        """The wire is as good as new, and the bridge has found that out."""
        self.wire.heal()
        if not self.wire.is_open:
            self.wire.open()
        self.node.wait_connected()

    def kill(self) -> None:
        """kill -9, and the next life; a wire that is closed stays so."""
        self.node.kill()
        self.node.launch()
        self.node.wait_ready()

    def wait_disconnected(self) -> None:
        until(lambda: self.bridge["state"] != "connected", "the bridge notices")

    def wait_connects(self, count: int) -> None:
        """So many connections in all, the last of which stands."""
        until(
            lambda: self.bridge["connects"] >= count and self.bridge["state"] == "connected",
            f"the bridge has connected {count} times",
            detail=lambda: (self.bridge, self.node.log()),
        )

    def close(self) -> None:
        self.wire.heal()
        self.node.close()
        self.wire.close()
        self.remote.stop()
