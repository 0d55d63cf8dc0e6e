"""Where faults happen: a node, a mosquitto that keeps its sessions, wires between device, node and remote, steady traffic."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from support.client import Client, Message
from support.mosquitto import Mosquitto
from support.node import NodeProcess
from support.oracle import Oracle, Topic, sums_that_do_not_hold
from support.packets import PUBREC, PUBREL
from support.proxy import Proxy
from support.waiting import PATIENCE, until

BURST = 8
PAUSE = 0.03
KEEP_ALIVE = 4
WATCHDOG = 3


class Publisher:
    """Bursts on one topic, each acknowledged before the next, until it is told to stop."""

    def __init__(self, client: Client, oracle: Oracle, topic: Topic) -> None:
        self._client, self._oracle, self._topic = client, oracle, topic
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"publisher {topic.name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        self.check()

    def check(self) -> None:
        assert self._error is None, self._error

    def _run(self) -> None:
        try:
            while not self._stop.wait(PAUSE):
                burst = self._oracle.hand_out(self._topic, BURST)
                self._client.publish_all([Message(self._topic.name, payload, self._topic.qos) for _, payload in burst])
                self._oracle.acknowledged(self._topic, [number for number, _ in burst])
        except BaseException as error:
            self._error = error


class Stage:
    """``wire`` is between node and remote, ``porch`` between device and node."""

    def __init__(self, directory: Path, engine: str, version: Any = 5, mode: str = "in-memory") -> None:
        self.oracle = Oracle()
        self._stack = ExitStack()
        self.remote = Mosquitto(directory / "remote").start()
        self._stack.callback(self.remote.stop)
        self.wire = Proxy(self.remote.port).open()
        self._stack.callback(self.wire.close)
        bridge = {
            "id": "stage",
            "host": "127.0.0.1",
            "port": self.wire.port,
            "mqttVersion": version,
            "keepAlive": KEEP_ALIVE,
            "watchdog": WATCHDOG,
            "localSubscriptions": [{"filters": ["push/#"]}],
            "remoteSubscriptions": [{"filters": ["pull/#"]}],
        }
        document = {"pipeline": {"engine": engine}, "persistence": {"mode": mode}, "bridges": [bridge]}
        self.node = NodeProcess(directory / "node", document).start()
        self._stack.callback(self.node.close)
        self.porch = Proxy(self.node.port).open()
        self._stack.callback(self.porch.close)
        self.here, self.there = (self._client(port) for port in (self.node.port, self.remote.port))
        self.here.subscribe("pull/#")
        self.there.subscribe("push/#")
        sources = {"push": self._client(self.porch.port), "pull": self._client(self.remote.port)}
        self._publishers = [
            Publisher(source, self.oracle, self.oracle.topic(f"{way}/{qos}", qos))
            for way, source in sources.items()
            for qos in (0, 1, 2)
        ]

    def _client(self, port: int) -> Client:
        return self._stack.enter_context(Client(port))

    def came(self) -> dict[str, list[bytes]]:
        return {**self.here.topics(), **self.there.topics()}

    def wait_flow(self) -> None:
        """Something that is published from now on arrives, both ways."""
        for publisher in self._publishers:
            publisher.check()
        marks = {name: topic.handed_out for name, topic in self.oracle.topics.items() if topic.qos}
        until(
            lambda: all(len(self.came().get(name, [])) > mark for name, mark in marks.items()),
            "messages flow",
            detail=self.detail,
        )

    def calm(self) -> list[str]:
        """Everything is well again; what is wrong all the same?"""
        self.wire.heal()
        self.porch.heal()
        for publisher in self._publishers:
            publisher.stop()
        self.node.wait_ready()
        self.node.wait_connected()
        until(lambda: not self.oracle.missing(self.came()), "all obligations are met", detail=self.detail)
        self.node.wait_drained()
        self.here.barrier()
        self.there.barrier()
        resent = {"push": self.wire.resent["out"], "pull": self.wire.resent["back"]}
        status = self.node.status()
        # The remote hands a QoS 2 message on when PUBREL comes: without PUBREC there is none before the next connection.
        late = {"push": self.wire.swallowed["back", PUBREC] + self.wire.swallowed["out", PUBREL]}
        faults = self.oracle.judge(self.came(), resent, late) + sums_that_do_not_hold(status)
        faults += [f"dropped: {route['dropped']}" for route in status["routes"].values() if route["dropped"]]
        handed = sum(topic.handed_out for name, topic in self.oracle.topics.items() if name.startswith("push/"))
        entered = sum(route["entered"] for route in self.node.routes("stage", "push"))
        if entered != handed:
            faults.append(f"{handed} were published and {entered} entered the push route")
        if status["bridges"]["stage"]["possiblyDoubled"]:
            faults.append("the session was lost, though nobody made the remote forget it")
        return faults

    def detail(self) -> object:
        missing = {name: (len(lost), lost[:5]) for name, lost in self.oracle.missing(self.came()).items()}
        status = self.node.status()
        return missing, status["bridges"], status["routes"], status["pipeline"], self.node.log()

    def close(self) -> None:
        self._stack.close()
