"""The systems under test: each takes MQTT on a port of its own and forwards `bench/#` to the counter, or says why not."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.board import Board, Slot
from benchmarks.usage import tree

READY_SECONDS = 90.0
STOP_SECONDS = 30.0


class NotStarted(Exception):
    """The system under test did not come up."""


@dataclass(frozen=True)
class System:
    name: str
    port: int          # where the generator connects
    root: int | None   # the process whose tree is measured; None: nothing is between generator and counter
    log: Path | None
    console: int | None = None   # where a node tells its status


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def await_none(obstacle: Callable[[], str], child: subprocess.Popen[bytes], log: Path) -> None:
    """Until nothing is in the way any more, or the child ends, or patience does."""
    deadline = time.monotonic() + READY_SECONDS
    while reason := obstacle():
        if child.poll() is not None:
            raise NotStarted(f"ended with {child.returncode}: {tail(log)}")
        if time.monotonic() > deadline:
            raise NotStarted(f"after {READY_SECONDS:.0f} s still: {reason}; {tail(log)}")
        time.sleep(0.05)


def tail(log: Path) -> str:
    return " | ".join(log.read_text(errors="replace").strip().splitlines()[-5:])


def unreachable(port: int) -> str:
    with socket.socket() as sock:
        return "" if sock.connect_ex(("127.0.0.1", port)) == 0 else f"port {port} does not answer"


def unbridged(board: Board) -> str:
    return "" if board.get(Slot.CONNECTED) else "its bridge has not connected to the counter"


def unready(console_port: int) -> str:
    """Why the node is not ready; empty when it is."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{console_port}/api/v1/health/readiness", timeout=5):
            return ""
    except urllib.error.HTTPError as refusal:
        return refusal.read().decode(errors="replace")
    except OSError as reason:
        return str(reason)


@contextlib.contextmanager
def running(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The command as a child; on the way out it is asked to stop, and what is left of its tree is killed by pid."""
    with log.open("wb") as output:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield child
    finally:
        family = tree(child.pid)
        child.terminate()
        try:
            child.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            print(f"{command[0]} did not stop within {STOP_SECONDS:.0f} s and is killed", file=sys.stderr)
            child.kill()
            child.wait()
        for pid in family[1:]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def direct(counter_port: int, board: Board, folder: Path) -> Iterator[System]:
    """Nothing at all: what generator and counter can do between themselves."""
    yield System("direct", counter_port, None, None)


def executable() -> str:
    program = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
    if not Path(program).exists():
        raise NotStarted("no mosquitto on this machine: apt-get install mosquitto")
    return program


@contextlib.contextmanager
def mosquitto(counter_port: int, board: Board, folder: Path) -> Iterator[System]:
    program = executable()
    port = free_port()
    file = folder / "mosquitto.conf"
    log = folder / "mosquitto.log"
    file.write_text(MOSQUITTO.format(port=port, counter_port=counter_port))
    with running([program, "-c", str(file)], log) as child:
        await_none(lambda: unreachable(port) or unbridged(board), child, log)
        yield System("mosquitto", port, child.pid, log)


# The settings that suit Mosquitto best: nothing on disk, no limit at which it drops, no window that makes it wait.
MOSQUITTO = """\
listener {port} 127.0.0.1
allow_anonymous true
persistence false
sys_interval 0
log_dest stderr
log_type error
log_type warning
set_tcp_nodelay true
max_inflight_messages 1000
max_queued_messages 0
connection bench
address 127.0.0.1:{counter_port}
bridge_protocol_version mqttv50
try_private false
notifications false
cleansession true
restart_timeout 1
topic bench/# out 2
"""


Starter = Callable[[int, Board, Path], contextlib.AbstractContextManager[System]]


def document(
    data: Path, port: int, console: int, counter_port: int, filters: tuple[str, ...] = ("bench/#",), **parts: Any
) -> dict[str, Any]:
    """The configuration of a node with a push route for each filter."""
    return {
        "node": "bench",
        "dataDir": str(data),
        "listeners": [{"type": "tcp", "host": "127.0.0.1", "port": port}],
        "console": {"host": "127.0.0.1", "port": console},
        "bridges": [{
            "id": "bench", "host": "127.0.0.1", "port": counter_port,
            "localSubscriptions": [{"filters": [each], "destination": None, "maxQoS": 2} for each in filters],
        }],
        **parts,
    }


def node(
    name: str, engine: str, mode: str = "in-memory", conf: dict[str, str] | None = None, filters: tuple[str, ...] = ("bench/#",)
) -> Starter:
    """Our node with a push route for each filter, by this engine and in this mode, Spark with this configuration."""

    @contextlib.contextmanager
    def start(counter_port: int, board: Board, folder: Path) -> Iterator[System]:
        program = Path(sys.executable).with_name("bridgehead")
        port, console = free_port(), free_port()
        file = folder / f"{name}.yaml"
        log = folder / f"{name}.log"
        file.write_text(yaml.safe_dump(document(
            folder / f"{name}-data", port, console, counter_port, filters,
            persistence={"mode": mode}, pipeline={"engine": engine, "conf": conf or {}})))
        with running([str(program), "run", "-c", str(file)], log) as child:
            await_none(lambda: unready(console) or unbridged(board), child, log)
            yield System(name, port, child.pid, log, console)

    return start


STARTERS = {
    "direct": direct,
    "mosquitto": mosquitto,
    "inline": node("inline", "inline"),
    "spark": node("spark", "spark"),
    "messages": node("messages", "spark", conf={"spark.bridgehead.messages": "true"}),
    "spark-50": node("spark-50", "spark", filters=tuple(f"bench/{topic:02}" for topic in range(50))),
    "inline-synced": node("inline-synced", "inline", "file-native"),
    "spark-synced": node("spark-synced", "spark", "file-native"),
}
