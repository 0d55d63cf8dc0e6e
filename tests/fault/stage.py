"""Where faults happen: a node, a mosquitto that keeps its sessions, wires between device, node and remote, steady traffic."""

from __future__ import annotations

import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from subprocess import CalledProcessError, run
from typing import Any

from support.client import Client, Message
from support.device import Device
from support.disk import MIB, SmallDisk
from support.mosquitto import Mosquitto
from support.node import COMMAND, NodeProcess
from support.oracle import Oracle, Topic, sums_that_do_not_hold
from support.packets import PUBREC, PUBREL, payload_of
from support.proxy import Proxy
from support.waiting import PATIENCE, run_dry, until

BURST = 8
PAUSE = 0.03
KEEP_ALIVE = 4
WATCHDOG = 3
WINDOW = 5000
"""The remote's Receive Maximum: so many may be on the wire to it when a node is killed. It is mosquitto's window towards its
own subscribers, too, and never full: what mosquitto has to queue behind a full one it hands on out of order."""
LOCAL_WINDOW = 20
"""The same of the subscriber at the node."""
DISK = 1024 * MIB
"""Of a file-native node: a small one, because it is there to be filled."""


class Publisher:
    """Bursts on one topic, each answered before the next, until it is told to stop."""

    def __init__(self, port: int, oracle: Oracle, topic: Topic) -> None:
        self.device = Device(port)
        self._oracle, self._topic = oracle, topic
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"publisher {topic.name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(2 * PATIENCE)
        assert not self._thread.is_alive()
        self.check()

    def check(self) -> None:
        assert self._error is None, self._error

    def _run(self) -> None:
        try:
            while not self._stop.wait(PAUSE):
                burst = self._oracle.hand_out(self._topic, BURST)
                taken = self.device.publish_all(
                    [Message(self._topic.name, payload, self._topic.qos) for _, payload in burst]
                )
                numbers = [number for (number, _), good in zip(burst, taken, strict=True) if good]
                self._oracle.acknowledged(self._topic, numbers)
        except BaseException as error:
            self._error = error
        finally:
            self.device.close()


class Stage:
    """``wire`` is between node and remote, ``porch`` between node and its clients, ``yard`` between remote and its clients.

    Nothing goes wrong in the yard: it is there to count what the remote or its clients send again.
    """

    def __init__(
        self,
        directory: Path,
        engine: str,
        version: Any = 5,
        mode: str = "in-memory",
        transform: dict[str, Any] | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.oracle = Oracle()
        self._version = version
        self.kills = 0
        self.connects = self.watchdog_resets = 0  # of lives that have ended
        with ExitStack() as self._stack:
            self._build(directory, engine, version, mode, transform, environment)
            self._stack = self._stack.pop_all()

    def _build(
        self,
        directory: Path,
        engine: str,
        version: Any,
        mode: str,
        transform: dict[str, Any] | None,
        environment: dict[str, str] | None,
    ) -> None:
        self.remote = Mosquitto(directory / "remote", window=WINDOW, keeps=True).start()
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
            "localSubscriptions": [{"filters": ["push/#"], "transform": transform}],
            "remoteSubscriptions": [{"filters": ["pull/#"], "transform": transform}],
        }
        document = {"pipeline": {"engine": engine}, "persistence": {"mode": mode}, "bridges": [bridge]}
        self._disk: SmallDisk | None = None
        if mode == "file-native":
            with suppress(CalledProcessError):  # without the right to mount there is no disk to fill, and all else goes on
                self._disk = self._stack.enter_context(SmallDisk(directory / "node" / "data", DISK))
        self.node = NodeProcess(directory / "node", document, environment)
        self._stack.callback(self.node.close)
        self.node.start()
        self.porch = Proxy(self.node.port).open()
        self._stack.callback(self.porch.close)
        self.yard = Proxy(self.remote.port).open()
        self._stack.callback(self.yard.close)
        self.here, self.there = (
            self._stack.enter_context(Client(wire.port, lasting=True, connect={"ReceiveMaximum": window}))
            for wire, window in ((self.porch, LOCAL_WINDOW), (self.yard, WINDOW))
        )
        self.here.subscribe("pull/#")
        self.there.subscribe("push/#")
        self._publishers = [
            Publisher(port, self.oracle, self.oracle.topic(f"{way}/{qos}", qos))
            for way, port in {"push": self.porch.port, "pull": self.yard.port}.items()
            for qos in (0, 1, 2)
        ]

    def kill_node(self) -> None:
        """kill -9, and the next life."""
        self._take_down_counters()
        self.node.kill()
        self.next_life()

    def next_life(self) -> None:
        """The node is dead, or dying."""
        until(lambda: self.node.ended, "the node is gone")
        self.kills += 1
        self.node.launch()

    def fill_disk(self, seconds: float) -> None:
        """Somebody takes all the room there is. A node that cannot write ends, and is started when there is room again."""
        if self._disk is None:
            return
        self._take_down_counters()
        self._disk.fill()
        threading.Event().wait(seconds)
        self._disk.free()
        kept = self.oracle.topics["push/1"].acknowledged
        enough = len(kept) + 2 * BURST  # after a write that failed nothing is acknowledged any more
        until(lambda: self.node.ended or len(kept) > enough, "the node ends or goes on", detail=self.node.log)
        if self.node.ended:
            self.kills += 1
            self.node.launch()

    def kill_on_full_disk(self, seconds: float) -> None:
        """The same, but the node is killed before there is room again, if it has not ended by then."""
        if self._disk is None:
            return
        self._take_down_counters()
        self._disk.fill()
        threading.Event().wait(seconds)
        self.node.kill()
        self._disk.free()
        self.next_life()

    def _take_down_counters(self) -> None:
        bridge = self.node.bridge("stage")
        self.connects += bridge["connects"]
        self.watchdog_resets += bridge["watchdogResets"]

    def restart_remote(self, seconds: float) -> None:
        """A clean end, which is the only one that mosquitto's promises survive, and a new life later."""
        self.remote.stop()
        threading.Event().wait(seconds)
        self.remote.start()

    def came(self) -> dict[str, list[bytes]]:
        return {**self.here.topics(), **self.there.topics()}

    def wait_flow(self) -> None:
        """Something that is published from now on arrives, both ways."""
        for publisher in self._publishers:
            publisher.check()
        marks = {name: topic.handed_out for name, topic in self.oracle.topics.items() if topic.qos}
        until(
            lambda: all(self.here.came[name] + self.there.came[name] > mark for name, mark in marks.items()),
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
        self.porch.cut()  # a broker sends again only on a new connection what the wire to a subscriber has swallowed
        run_dry(lambda: sum(map(len, self.oracle.missing(self.came()).values())), "obligations", detail=self.detail)
        self.node.wait_drained()
        self.here.barrier()
        self.there.barrier()
        return self._judged() + self._counted() + self._audited()

    def _judged(self) -> list[str]:
        """What the oracle says."""
        # What was on the wire at QoS 1 when a node was killed is sent as new by the next life, and may have arrived.
        again = (WINDOW + LOCAL_WINDOW) * self.kills
        resent = {
            "push": self.porch.resent["out"] + self.wire.resent["out"] + again + self.yard.resent["back"],
            "pull": self.yard.resent["out"] + self.wire.resent["back"] + again + self.porch.resent["back"],
        }
        # A receiver hands a QoS 2 message on when PUBREL comes: without PUBREC there is none before the next connection.
        late = {
            "push": self.wire.swallowed["back", PUBREC] + self.wire.swallowed["out", PUBREL],
            "pull": self.porch.swallowed["out", PUBREC] + self.porch.swallowed["back", PUBREL],
        }
        return self.oracle.judge(self.came(), resent, late, self.sent_as_new())

    def sent_as_new(self) -> list[bytes]:
        """What mosquitto sent once more to the node although it had released it (specs/delivery.md, "What is not promised")."""
        return [payload_of(body, self._version) for body in self.wire.releases["back"].broken]

    def _counted(self) -> list[str]:
        """What the node says of itself."""
        status = self.node.status()
        faults = sums_that_do_not_hold(status)
        faults += [f"dropped: {route['dropped']}" for route in status["routes"].values() if route["dropped"]]
        devices = [publisher.device for publisher in self._publishers]
        if all(device.connects == 1 for device in devices) and not self.kills:
            handed = sum(topic.handed_out for name, topic in self.oracle.topics.items() if name.startswith("push/"))
            entered = sum(route["entered"] for route in self.node.routes("stage", "push"))
            if entered != handed:
                faults.append(f"{handed} were published and {entered} entered the push route")
        if status["bridges"]["stage"]["possiblyDoubled"]:
            faults.append("the session was lost, though nobody made the remote forget it")
        if lost := sum(device.sessions_lost for device in devices):
            faults.append(f"{lost} sessions of devices were lost, though nothing was to forget them")
        return faults

    def _audited(self) -> list[str]:
        """What the node's own audit says of it."""
        audit = run([COMMAND, "audit", "-c", str(self.node.file)], capture_output=True, text=True, timeout=PATIENCE)
        return [f"the audit ended with {audit.returncode}: {audit.stdout}{audit.stderr}"] if audit.returncode else []

    def detail(self) -> object:
        missing = {name: (len(lost), lost[:5]) for name, lost in self.oracle.missing(self.came()).items()}
        status = self.node.status()
        return missing, status["bridges"], status["routes"], status["pipeline"], self.node.log()

    def close(self) -> None:
        """The end of a run that came to its end: the node stops in order."""
        self._stack.close()

    def abandon(self) -> None:
        """The end of a run that did not."""
        self.node.kill()
        self._stack.close()
