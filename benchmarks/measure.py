"""One measurement: a fresh system under test, a warm-up that is not counted, then the run that is."""

import contextlib
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks import fillings
from benchmarks.board import Board, Slot
from benchmarks.systems import STARTERS, NotStarted, System
from benchmarks.tools import Tool, ToolFailed
from benchmarks.usage import Usage
from benchmarks.waiting import Waiting

QUIET_SECONDS = 10.0   # nothing arrives for this long: what is missing is lost
AFTER_SECONDS = 0.3    # what comes twice comes behind


@dataclass(frozen=True)
class Job:
    """One thing to measure."""

    qos: int
    rate: int            # demanded messages/s; 0: as many as possible
    connections: int     # that publish
    window: int = 400    # unacknowledged messages a connection, or the broker's Receive Maximum if that is lower
    filling: str = fillings.DEFAULT


@dataclass(frozen=True)
class Load:
    """What the generator does; the same for every system."""

    seconds: float = 10.0
    warmup: float = 3.0
    started: float = 0.0           # seconds of warm-up more for a system that has just started, with ``youth``
    topics: int = 12
    level: int = 5                 # MQTT protocol level: 4 is 3.1.1
    payload: int = 100
    backlog: int = 200_000         # messages between generator and counter at most, unpaced
    messages: int = 40_000_000     # a run's bound in count
    gather: float = 0.0003         # unpaced: both tools pause this long between reads
    youth: Job = Job(1, 0, 4, 10_000)   # brings a system that has just started to what it does for the rest of its days


@dataclass(frozen=True)
class Result:
    system: str
    qos: int
    rate: int
    connections: int
    window: int
    filling: str
    error: str | None = None
    sent: int = 0
    arrived: int = 0
    lost: int = 0                  # not there when nothing had arrived for QUIET_SECONDS
    doubled: int = 0
    reordered: int = 0             # arrived after a later message of the same topic
    seconds: float = 0.0           # from the first publish to the last arrival
    per_second: float = 0.0
    p50_ms: float | None = None
    p99_ms: float | None = None
    max_ms: float | None = None
    cpu_per_million: float | None = None
    peak_rss: int | None = None    # bytes
    tools_cpu: float = 0.0         # seconds of generator, counter and runner
    stranger_cpu: float = 0.0      # seconds of processes that have nothing to do with this
    latest_slice_ms: float = 0.0   # paced: how late the generator was at worst
    waiting_early: float = 0.0     # messages on their way in the first third of the run: the median of many looks
    waiting_late: float = 0.0      # the same in the last third: much more means that the lag grows
    syncs: int = 0                 # that the node has made meanwhile
    sync_ms: float | None = None   # what one of them took on average, until the node had heard of its end

    @property
    def job(self) -> Job:
        return Job(self.qos, self.rate, self.connections, self.window, self.filling)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def synced_by(system: System) -> tuple[float, float]:
    """How many syncs a node has made so far, and the seconds they took; nothing of a system that has none."""
    if system.console is None:
        return 0, 0.0
    with urllib.request.urlopen(f"http://127.0.0.1:{system.console}/api/v1/status", timeout=10) as answer:
        storage = json.load(answer)["storage"]
    return storage.get("syncs", 0), storage.get("syncSeconds", 0.0)


@dataclass(frozen=True)
class Rig:
    """What stands around the system under test."""

    generator: Tool
    counter: Tool
    board: Board


@dataclass(frozen=True)
class Place:
    """A system that runs, and what stands around it."""

    system: System
    rig: Rig


class Bench:
    """Measures systems one after the other; their files and logs go to a folder each."""

    def __init__(self, folder: Path, load: Load, profile: bool = False) -> None:
        self._folder = folder
        self._load = load
        self._profile = profile
        self._run = 0

    def rows(self, name: str, jobs: list[Job]) -> Iterator[Result]:
        """Measure job after job on one fresh system with fresh tools; a failure becomes a row too."""
        return self.in_turns([name], jobs, 1)

    def in_turns(self, names: list[str], jobs: list[Job], rounds: int) -> Iterator[Result]:
        """Measure systems that stand side by side: each job so many times, one system at work right behind the other."""
        done = 0
        try:
            with contextlib.ExitStack() as stack:
                places = [stack.enter_context(self._place(name)) for name in names]
                for job in jobs:
                    allowed = [self._prepared(place, job) for place in places]
                    for _ in range(rounds):
                        for place, own in zip(places, allowed, strict=True):
                            yield self._measured(place.system, place.rig, own)
                    done += 1
        except (NotStarted, ToolFailed) as reason:
            for job in jobs[done:]:
                for name in names:
                    yield Result(name, **asdict(job), error=str(reason))

    @contextlib.contextmanager
    def _place(self, name: str) -> Iterator[Place]:
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self._folder))
        folder.chmod(0o755)   # mosquitto gives up root before it opens what it needs
        board_file = folder / "board"
        board = Board(board_file, create=True)
        with (
            Tool("benchmarks.counter", board_file) as counter,
            Tool("benchmarks.generator", board_file) as generator,
            STARTERS[name](counter.hello["port"], board, folder) as system,
        ):
            place = Place(system, Rig(generator, counter, board))
            if self._load.started:
                self._connect(generator, system.port, self._load.youth)
                self._one(place.rig, self._load.youth, self._load.started)
            yield place

    def _prepared(self, place: Place, job: Job) -> Job:
        """Connected and warmed up; the job with the window that the broker allows."""
        allowed = self._connect(place.rig.generator, place.system.port, job)
        self._one(place.rig, job, self._load.warmup)
        return replace(job, window=allowed)

    def _connect(self, generator: Tool, port: int, job: Job) -> int:
        """The window that the broker allows."""
        answer = generator.ask({
            "do": "connect", "port": port, "connections": job.connections, "level": self._load.level,
            "topics": self._load.topics, "window": job.window, "payload": self._load.payload, "filling": job.filling})
        return int(answer["window"])

    def _measured(self, system: System, rig: Rig, job: Job) -> Result:
        before = synced_by(system)
        with (
            self._profiled(system, job),
            Usage(system.root, [rig.generator.pid, rig.counter.pid]) as usage,
            Waiting(rig.board, self._load.seconds) as waiting,
        ):
            sent, report = self._one(rig, job, self._load.seconds)
        time.sleep(AFTER_SECONDS)
        behind = rig.counter.ask({"do": "report"})
        arrived = report["arrived"]
        seconds = max(1, report["last_arrival"] - sent["first_ns"]) / 1e9
        wrong = {f"{key} acknowledgements": sent[key] for key in ("refused", "strange", "missing") if sent[key]}
        if report["by_qos"][job.qos] != arrived:
            wrong["arrived at another QoS"] = arrived - report["by_qos"][job.qos]
        if behind["stale"]:
            wrong["left over from the warm-up"] = behind["stale"]
        under_test = system.root is not None
        syncs, sync_seconds = (now - then for now, then in zip(synced_by(system), before, strict=True))
        return Result(
            system=system.name, **asdict(job),
            error=", ".join(f"{count:,} {what}" for what, count in wrong.items()) or None,
            sent=sent["sent"], arrived=arrived, lost=sent["sent"] - arrived, doubled=behind["doubled"],
            reordered=report["reordered"], seconds=seconds, per_second=arrived / seconds,
            p50_ms=report["p50_ms"], p99_ms=report["p99_ms"], max_ms=report["max_ms"],
            cpu_per_million=usage.cpu / arrived * 1e6 if under_test and arrived else None,
            peak_rss=usage.peak_rss if under_test else None,
            tools_cpu=usage.tools_cpu, stranger_cpu=usage.stranger_cpu, latest_slice_ms=sent["latest_slice_ms"],
            waiting_early=waiting.early(), waiting_late=waiting.late(),
            syncs=int(syncs), sync_ms=sync_seconds / syncs * 1000 if syncs else None)

    def _one(self, rig: Rig, job: Job, seconds: float) -> tuple[dict[str, Any], dict[str, Any]]:
        """A run from the first publish to the last arrival: what the generator says, what the counter says."""
        self._run += 1
        gather = 0.0 if job.rate else self._load.gather
        rig.counter.ask({
            "do": "begin", "run": self._run, "capacity": self._load.messages, "topics": self._load.topics,
            "gather": gather})
        sent = rig.generator.ask({
            "do": "run", "run": self._run, "qos": job.qos, "seconds": seconds, "messages": self._load.messages,
            "rate": job.rate, "backlog": self._load.backlog, "gather": gather}, patience=seconds + 60)
        self._drain(rig.board, sent["sent"])
        return sent, rig.counter.ask({"do": "report"})

    @staticmethod
    def _drain(board: Board, sent: int) -> None:
        """Until all has arrived, or nothing more comes."""
        arrived, since = -1, time.monotonic()
        while board.get(Slot.ARRIVED) < sent and time.monotonic() - since < QUIET_SECONDS:
            if board.get(Slot.ARRIVED) != arrived:
                arrived, since = board.get(Slot.ARRIVED), time.monotonic()
            time.sleep(0.005)

    @contextlib.contextmanager
    def _profiled(self, system: System, job: Job) -> Iterator[None]:
        """With --profile: py-spy's collapsed stacks of the node's own process (not of its JVM) during the run."""
        if not self._profile or system.root is None or system.name == "mosquitto":
            yield
            return
        output = self._folder / f"{system.name}-qos{job.qos}-{job.rate or 'max'}-{job.connections}.stacks"
        spy = subprocess.Popen(
            [str(Path(sys.executable).with_name("py-spy")), "record", "--pid", str(system.root), "--format", "raw",
             "--rate", "200", "--duration", str(int(self._load.seconds)), "--output", str(output)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        yield
        spy.wait(timeout=30)
        print(f"profile: {output}", file=sys.stderr)
