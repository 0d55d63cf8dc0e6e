"""`make outage`: what becomes of messages while the remote is away, and how fast they leave when it is back.

One scenario after the other against Mosquitto's bridge and our node.  See docs/benchmarks.md for what is measured and how.
"""

import argparse
import contextlib
import json
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import disk, fillings, machine, outage_page, powercut
from benchmarks.board import Board, Slot
from benchmarks.outage_cases import CASES, NOT_MEASURED, Case, Outcome
from benchmarks.plants import PLANTS, Ground, Plant
from benchmarks.systems import NotStarted
from benchmarks.tools import Tool, ToolFailed

TOPICS = 12
WINDOW = 400
PUBLISH_SECONDS = 120.0     # a system that takes longer for a scenario's messages is given fewer
RETURN_SECONDS = 200.0      # until the bridge has found its remote again: back-offs are up to two minutes
QUIET_SECONDS = 10.0        # nothing arrives for this long: what is missing is lost
SAMPLE_SECONDS = 0.1


@dataclass(frozen=True)
class Rig:
    """What stands around the system under test."""

    generator: Tool
    counter: Tool
    board: Board


class Memory:
    """The memory of a plant, sampled while the `with` block runs."""

    def __init__(self, plant: Plant) -> None:
        self._plant = plant
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="memory", daemon=True)
        self.samples: list[tuple[float, int]] = []   # (monotonic seconds, bytes)

    def _sample(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            self.samples.append((time.monotonic(), self._plant.resident()))

    def peak(self, since: float = 0.0, until: float = float("inf")) -> int:
        return max((size for when, size in self.samples if since <= when <= until), default=0)

    def __enter__(self) -> "Memory":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()


class Outage:
    """Plays a scenario with one system: remote away, messages published, perhaps a catastrophe, remote back."""

    def __init__(self, folder: Path, scale: float) -> None:
        self._folder = folder
        self._scale = scale
        self._run = 0

    def outcome(self, case: Case, name: str) -> Outcome:
        folder = Path(tempfile.mkdtemp(prefix=f"{case.key}-{name}-", dir=self._folder))
        try:
            with contextlib.ExitStack() as stack:
                return self._play(stack, case, name, folder)
        except (NotStarted, ToolFailed) as reason:
            return Outcome(case.key, name, error=str(reason))

    def _play(self, stack: contextlib.ExitStack, case: Case, name: str, folder: Path) -> Outcome:
        messages = max(1000, int(case.messages * self._scale))
        board_file = folder / "board"
        board = Board(board_file, create=True)
        counter = stack.enter_context(Tool("benchmarks.counter", board_file))
        generator = stack.enter_context(Tool("benchmarks.generator", board_file))
        disk = stack.enter_context(powercut.Disk(folder)) if case.catastrophe == "power" else None
        data = (disk.path if disk else folder) / "data"
        data.mkdir()
        plant = PLANTS[name](name, Ground(folder, data, counter.hello["port"], max(1, int(case.limit * self._scale))))
        stack.callback(plant.stop)
        plant.start()
        wait(lambda: board.get(Slot.CONNECTED) > 0, RETURN_SECONDS, "its bridge connects")
        memory = stack.enter_context(Memory(plant))
        time.sleep(10 * SAMPLE_SECONDS)
        counter.ask({"do": "close"})
        begun = time.monotonic()
        sent = self._publish(Rig(generator, counter, board), case, plant.port, messages)
        done = time.monotonic()
        if case.catastrophe:
            plant.kill()
            if disk is not None:
                disk.lose_power()
            plant.start()
        counter.ask({"do": "open"})
        wait(lambda: board.get(Slot.CONNECTED) > 0, RETURN_SECONDS, "its bridge comes back")
        self._drain(board, sent)
        report = counter.ask({"do": "report"})
        arrived = report["arrived"]
        half = (begun + done) / 2
        return Outcome(
            case.key, name, sent=sent, arrived=arrived, lost=sent - arrived, doubled=report["doubled"],
            reordered=report["reordered"], publish_seconds=done - begun,
            drain_seconds=max(0, report["last_arrival"] - report["last_connect"]) / 1e9 if arrived else 0.0,
            rss_before=memory.peak(until=begun), rss_half=memory.peak(begun, half), rss_end=memory.peak(half, done),
            rss_peak=memory.peak())

    def _publish(self, rig: Rig, case: Case, port: int, messages: int) -> int:
        """Publish and be acknowledged; how many."""
        self._run += 1
        rig.generator.ask({
            "do": "connect", "port": port, "connections": 1, "level": 5, "topics": TOPICS, "window": WINDOW,
            "payload": case.payload, "filling": fillings.DEFAULT})
        rig.counter.ask({
            "do": "begin", "run": self._run, "capacity": messages, "topics": TOPICS, "gather": case.gather})
        sent = rig.generator.ask({
            "do": "run", "run": self._run, "qos": case.qos, "seconds": PUBLISH_SECONDS, "messages": messages, "rate": 0,
            "backlog": 1 << 40, "gather": case.gather}, patience=PUBLISH_SECONDS + 60)
        if sent["missing"] or sent["refused"] or sent["strange"]:
            raise ToolFailed(f"acknowledgements: {sent}")
        return int(sent["sent"])

    @staticmethod
    def _drain(board: Board, sent: int) -> None:
        """Until all has arrived, or nothing more comes."""
        arrived, since = -1, time.monotonic()
        while time.monotonic() - since < QUIET_SECONDS and board.get(Slot.ARRIVED) < sent:
            if board.get(Slot.ARRIVED) != arrived:
                arrived, since = board.get(Slot.ARRIVED), time.monotonic()
            time.sleep(0.01)
        time.sleep(1.0)   # what comes twice comes behind


def wait(condition: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise NotStarted(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.01)


def outcomes(outage: Outage, cases: list[Case], systems: list[str]) -> Iterator[Outcome]:
    for case in cases:
        for name in (name for name in case.systems if name in systems):
            if case.catastrophe == "power" and (reason := powercut.reason_against()):
                yield Outcome(case.key, name, error=f"{NOT_MEASURED}: {reason}")
            else:
                yield outage.outcome(case, name)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.outage", description=__doc__)
    parser.add_argument("--only", default=",".join(PLANTS), help="systems, of %(default)s")
    parser.add_argument("--cases", default=",".join(case.key for case in CASES), help="scenarios, of %(default)s")
    parser.add_argument("--scale", type=float, default=1.0, help="of the messages of each scenario (%(default)s)")
    parser.add_argument("--out", type=Path, default=Path("docs"), help="where benchmarks.md and benchmarks/ go (%(default)s)")
    options = parser.parse_args()
    disk.on_disk(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix="bridgehead-outage-"))
    cases = [case for case in CASES if case.key in options.cases.split(",")]
    found = []
    for outcome in outcomes(Outage(folder, options.scale), cases, options.only.split(",")):
        print(outage_page.summary(outcome), flush=True)
        found.append(outcome)
    if not any(outcome.error for outcome in found):
        shutil.rmtree(folder)   # else the logs in it are of use
    about, when = machine.describe("benchmarks.outage"), datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    (options.out / "benchmarks").mkdir(parents=True, exist_ok=True)
    (options.out / "benchmarks" / "outage.json").write_text(json.dumps({
        "when": when, "machine": about, "scale": options.scale, "bounds": [asdict(b) for b in outage_page.bounds(found)],
        "outcomes": [asdict(outcome) for outcome in found]}, indent=2) + "\n")
    outage_page.write(options.out / "benchmarks.md", found, about, when)
    print("\n" + outage_page.tables(found))
    return 1 if any(outcome.error for outcome in found) else 0


if __name__ == "__main__":
    sys.exit(main())
