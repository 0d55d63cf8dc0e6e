"""`python -m benchmarks.backlog`: ten million messages wait on the disk while the remote is away; a restart; the drain.

One node, inline, file-native, synced, fed at QoS 1 with 100-byte payloads. Printed as it goes: the node's memory and the size
of its dataDir while the backlog grows, how long a start takes on top of it, how fast it drains into the counting remote end,
and what the disk holds afterwards.
"""

import argparse
import json
import shutil
import sys
import tempfile
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from benchmarks import disk, fillings
from benchmarks.board import Board, Slot
from benchmarks.systems import await_none, free_port, running, unready
from benchmarks.tools import Tool
from benchmarks.usage import resident_bytes, tree

MIB = 1 << 20
SAMPLE_SECONDS = 0.2
STEPS = 10            # lines while the backlog grows
RUN = 1
FILL_SECONDS = 900.0
QUIET_SECONDS = 15.0  # nothing arrives for this long: the drain has ended


class Resident:
    """The memory of a process while the block runs: now, and its peak."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self.peak = 0

    @property
    def now(self) -> int:
        return resident_bytes(tree(self._pid))

    def _sample(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            self.peak = max(self.peak, self.now)

    def __enter__(self) -> "Resident":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


class Backlog:
    def __init__(self, folder: Path, messages: int, filling: str, remote: int) -> None:
        self._folder = folder
        self._messages = messages
        self._filling = filling
        self.port, self.console = free_port(), free_port()
        self.file = folder / "node.yaml"
        self.log = folder / "node.log"
        self.data = folder / "data"
        self.file.write_text(yaml.safe_dump({
            "node": "backlog",
            "dataDir": str(self.data),
            "listeners": [{"type": "tcp", "host": "127.0.0.1", "port": self.port}],
            "console": {"host": "127.0.0.1", "port": self.console},
            "persistence": {"mode": "file-native"},
            "pipeline": {"engine": "inline"},
            "queuedMessages": {"maxQueuedMessages": 2 * messages, "maxQueueBytes": "64GiB"},
            "bridges": [{
                "id": "backlog", "host": "127.0.0.1", "port": remote,
                "localSubscriptions": [{"filters": ["bench/#"], "destination": None, "maxQoS": 2}],
            }],
        }))

    @property
    def command(self) -> list[str]:
        return [str(Path(sys.executable).with_name("bridgehead")), "run", "-c", str(self.file)]

    def status(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.console}/api/v1/status", timeout=60) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    @property
    def depth(self) -> int:
        return int(sum(route["depth"] for route in self.status()["routes"].values()))

    def disk(self) -> int:
        return sum(each.stat().st_size for each in self.data.rglob("*") if each.is_file())

    def say(self, what: str, resident: Resident) -> None:
        now, peak, disk = resident.now / MIB, resident.peak / MIB, self.disk() / MIB
        print(f"{what:44} RSS {now:7.0f} MiB, peak {peak:7.0f}; dataDir {disk:7.0f} MiB", flush=True)

    def fill(self, board: Board, board_file: Path) -> None:
        """The remote is away: nobody listens on its port."""
        with Tool("benchmarks.generator", board_file) as generator, running(self.command, self.log) as child:
            await_none(lambda: unready(self.console), child, self.log)
            with Resident(child.pid) as resident:
                self.say("ready, nothing waits", resident)
                generator.ask({"do": "connect", "port": self.port, "connections": 1, "level": 5, "topics": 12,
                               "window": 400, "payload": 100, "filling": self._filling})
                with ThreadPoolExecutor(1) as aside:
                    run = aside.submit(generator.ask, {
                        "do": "run", "run": RUN, "qos": 1, "seconds": FILL_SECONDS, "messages": self._messages, "rate": 0,
                        "backlog": 1 << 40, "gather": 0.0003}, FILL_SECONDS + 60)
                    began, steps = time.monotonic(), self._messages // STEPS
                    for step in range(1, STEPS + 1):
                        while board.get(Slot.SENT) < step * steps and not run.done():
                            time.sleep(SAMPLE_SECONDS)
                        rate = board.get(Slot.SENT) / (time.monotonic() - began)
                        self.say(f"{board.get(Slot.SENT):12,} taken, {rate:9,.0f}/s", resident)
                    run.result()
                depth = self.depth
                self.say(f"{depth:12,} wait", resident)
                if depth != self._messages:
                    raise SystemExit(f"{self._messages - depth} of {self._messages} are not there")

    def restart_and_drain(self, counter: Tool) -> None:
        counter.ask({"do": "begin", "run": RUN, "capacity": self._messages, "topics": 12, "gather": 0.0003})
        began = time.monotonic()
        with running(self.command, self.log) as child, Resident(child.pid) as resident:
            await_none(lambda: unready(self.console), child, self.log)
            self.say(f"{'started again':14} in {time.monotonic() - began:5.1f} s", resident)
            began, left, since = time.monotonic(), self._messages, time.monotonic()
            while left and time.monotonic() - since < QUIET_SECONDS:
                time.sleep(1.0)
                if (now := self.depth) != left:
                    left, since = now, time.monotonic()
            rate = (self._messages - left) / (time.monotonic() - began)
            self.say(f"{self._messages - left:12,} drained, {rate:9,.0f}/s", resident)
            time.sleep(5.0)
            self.say("five seconds later", resident)
            print(json.dumps(counter.ask({"do": "report"})), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=10_000_000)
    parser.add_argument("--filling", choices=fillings.FILLINGS, default=fillings.DEFAULT, help="of payloads (%(default)s)")
    parser.add_argument("--keep", action="store_true", help="keep the folder with the store and the log")
    options = parser.parse_args()
    disk.on_disk(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix="bridgehead-backlog-"))
    board_file = folder / "board"
    board = Board(board_file, create=True)
    try:
        with Tool("benchmarks.counter", board_file) as counter:
            away = free_port()
            backlog = Backlog(folder, options.messages, options.filling, away)
            backlog.fill(board, board_file)
            backlog.file.write_text(backlog.file.read_text().replace(f"port: {away}", f"port: {counter.hello['port']}"))
            backlog.restart_and_drain(counter)
    finally:
        if not options.keep:
            shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
