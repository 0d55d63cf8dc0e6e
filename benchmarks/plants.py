"""Systems that live through an outage: killed or without power, and started again on what is left of their data."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.systems import STOP_SECONDS, NotStarted, await_none, document, executable, free_port, unreachable, unready
from benchmarks.usage import resident_bytes, tree

UNBOUNDED = 10_000_000   # messages that a queue holds where the scenario sets no limit


class Plant:
    """One system under test with its data directory."""

    def __init__(self, name: str, port: int, command: list[str], log: Path, obstacle: Callable[[], str]) -> None:
        self.name = name
        self.port = port
        self._command, self._log, self._obstacle = command, log, obstacle
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as output:
            self._child = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        await_none(self._obstacle, self._child, self._log)

    def kill(self) -> None:
        """Gone without a word, and all that it had started."""
        if self._child is None:
            return
        family = tree(self._child.pid)
        self._child.kill()
        self._child.wait()
        for pid in family[1:]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + STOP_SECONDS
        while any(resident_bytes([pid]) for pid in family):   # they end with it, but not in the same moment
            if time.monotonic() > deadline:
                raise NotStarted(f"not all of {family} have ended {STOP_SECONDS:.0f} s after their kill")
            time.sleep(0.01)

    def stop(self) -> None:
        if self._child is None or self._child.poll() is not None:
            return
        self._child.terminate()
        try:
            self._child.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            print(f"{self.name} did not stop within {STOP_SECONDS:.0f} s and is killed", file=sys.stderr)
            self.kill()

    def resident(self) -> int:
        """Bytes of all its processes."""
        return resident_bytes(tree(self._child.pid)) if self._child is not None else 0


@dataclass(frozen=True)
class Ground:
    """Where a plant is built."""

    folder: Path         # configuration and logs
    data: Path           # what a loss of power strikes
    counter_port: int
    limit: int           # messages its queue may hold


def mosquitto(name: str, ground: Ground) -> Plant:
    """Mosquitto with everything that makes it lose less: no clean session, QoS 0 queued, its database written every second."""
    port = free_port()
    file, log = ground.folder / "mosquitto.conf", ground.folder / "mosquitto.log"
    file.write_text(MOSQUITTO.format(port=port, data=ground.data, counter_port=ground.counter_port, limit=ground.limit))
    return Plant(name, port, [executable(), "-c", str(file)], log, lambda: unreachable(port))


MOSQUITTO = """\
user root
listener {port} 127.0.0.1
allow_anonymous true
persistence true
persistence_location {data}/
autosave_interval 1
sys_interval 0
log_dest stderr
log_type error
log_type warning
set_tcp_nodelay true
max_inflight_messages 1000
max_queued_messages {limit}
queue_qos0_messages true
connection bench
address 127.0.0.1:{counter_port}
bridge_protocol_version mqttv50
try_private false
notifications false
cleansession false
restart_timeout 1
topic bench/# out 2
"""


def node(engine: str, mode: str) -> Callable[[str, Ground], Plant]:
    """Our node, by this engine and in this mode."""

    def build(name: str, ground: Ground) -> Plant:
        port, console = free_port(), free_port()
        file, log = ground.folder / "node.yaml", ground.folder / "node.log"
        parts: dict[str, Any] = {
            "persistence": {"mode": mode}, "pipeline": {"engine": engine},
            "queuedMessages": {"maxQueuedMessages": ground.limit, "maxQueueBytes": "8GiB"},
        }
        file.write_text(yaml.safe_dump(document(ground.data, port, console, ground.counter_port, **parts)))
        program = Path(sys.executable).with_name("bridgehead")
        return Plant(name, port, [str(program), "run", "-c", str(file)], log, lambda: unready(console))

    return build


PLANTS = {
    "mosquitto": mosquitto,
    "inline": node("inline", "file-native"),
    "inline-memory": node("inline", "in-memory"),
    "spark": node("spark", "file-native"),
}
