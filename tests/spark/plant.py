"""A node that remembers, with a key for guests: it pushes ``plant/#`` and ``made/#`` inline to a mosquitto."""

from __future__ import annotations

from pathlib import Path

from support.client import Client, Message
from support.mosquitto import Mosquitto
from support.node import NodeProcess
from support.waiting import free_ports, until

TOKEN = "a-key-for-guests"


class Plant:
    """The node in a process of its own, file-native."""

    def __init__(self, directory: Path) -> None:
        self.remote = Mosquitto(directory / "remote").start()
        (flight,) = free_ports(1)
        self.address = f"grpc://127.0.0.1:{flight}"
        routes = [{"filters": ["plant/#"]}, {"filters": ["made/#"]}]
        document = {
            "persistence": {"mode": "file-native"},
            "journal": {"retain": {"hours": 1}},
            "pipeline": {"engine": "inline", "flight": {"port": flight, "token": TOKEN}},
            "bridges": [{"id": "cloud", "host": "127.0.0.1", "port": self.remote.port, "localSubscriptions": routes}],
        }
        self.node = NodeProcess(directory / "node", document).start()

    def options(self, **given: str) -> dict[str, str]:
        return {"node": self.address, "token": TOKEN, **given}

    @property
    def route(self) -> str:
        """That of ``plant/#``."""
        routes = self.node.status()["routes"]
        return next(name for name, each in routes.items() if each["filters"] == ["plant/#"])

    def publish(self, first: int, end: int) -> None:
        """Numbered messages, delivered to the remote when this returns."""
        with Client(self.node.port) as device:
            device.publish_all([Message(f"plant/{n % 3}", str(n).encode(), 1) for n in range(first, end)])
        self.delivered()

    def delivered(self) -> None:
        until(lambda: all(route["depth"] == 0 for route in self.node.routes("cloud", "push")), "all is delivered")

    def kill(self) -> None:
        self.node.kill()
        self.node.start()

    def close(self) -> None:
        self.node.close()
        self.remote.stop()
