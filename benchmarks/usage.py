"""What a tree of processes has used: CPU seconds of every process that ever was in it, and the peak of its memory."""

import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

SAMPLE_SECONDS = 0.2
_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def tree(root: int) -> list[int]:
    """The process and all its living descendants."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        fields = _stat(int(folder.name))
        if fields:
            children.setdefault(int(fields[1]), []).append(int(folder.name))
    found = [root] if _stat(root) else []
    for pid in found:   # grows while it is walked
        found += children.get(pid, [])
    return found


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat behind the name, from the state on; empty when the process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def cpu_seconds(pids: list[int]) -> float:
    """User and system time of these processes and of all their children that have ended."""
    ticks = 0
    for pid in pids:
        # one that has ended since the tree was listed counts nothing: its parent has its time now
        ticks += sum(int(field) for field in _stat(pid)[11:15])
    return ticks / _TICK


def resident_bytes(pids: list[int]) -> int:
    pages = 0
    for pid in pids:
        try:
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue   # ended since the tree was listed
    return pages * _PAGE


def machine_busy_seconds() -> float:
    """CPU seconds that all processes of the machine have used since it started."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    user, nice, system, _idle, _iowait, irq, softirq = fields[:7]
    return (user + nice + system + irq + softirq) / _TICK


class Usage:
    """Measures a tree while the `with` block runs; `roots` are the measuring tools, to tell them from strangers."""

    def __init__(self, root: int | None, tools: list[int]) -> None:
        self._root = root
        self._tools = tools
        self._over = threading.Event()
        self._sampler = threading.Thread(target=self._sample, name="usage", daemon=True)
        self.cpu = 0.0            # seconds of the system under test
        self.tools_cpu = 0.0      # seconds of generator, counter and runner
        self.stranger_cpu = 0.0   # seconds of everything else on the machine: above a few per cent the figures are doubtful
        self.peak_rss = 0         # bytes, the largest sum over the tree in any sample

    def _sample(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            if self._root is not None:
                self.peak_rss = max(self.peak_rss, resident_bytes(tree(self._root)))

    def _now(self) -> tuple[float, float, float]:
        system = cpu_seconds(tree(self._root)) if self._root is not None else 0.0
        own = os.times()
        return system, cpu_seconds(self._tools) + own.user + own.system, machine_busy_seconds()

    def __enter__(self) -> Self:
        self._before = self._now()
        self._sampler.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        self._sampler.join()
        after = self._now()
        self.cpu = after[0] - self._before[0]
        self.tools_cpu = after[1] - self._before[1]
        self.stranger_cpu = max(0.0, after[2] - self._before[2] - self.cpu - self.tools_cpu)
