"""One life of the driver as its parent sees it: a child in a session of its own, its output in a bounded file.

The JVM and the Python workers are born into that session, so all of them can be found and ended with it, even after the
driver is gone. The driver stays unreaped until that is done: its number, which names the session, cannot come to mean
somebody else.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from bridgehead.pipeline.jobconfig import JobConfig

LOG_BYTES: Final = 4 << 20
"""The driver's log is renamed to .1 at this size and begun anew."""

TAIL_LINES: Final = 20


class DriverProcess:
    """Started when created, on the event loop's thread: the kernel ties the child to the thread that made it."""

    def __init__(self, config: JobConfig, log: Path) -> None:
        self._loop = asyncio.get_running_loop()
        self._log = log
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)  # the last lines of output
        self._unread = ""  # why it could not be told something
        self.ended: asyncio.Future[int] = self._loop.create_future()  # the exit status
        log.parent.mkdir(parents=True, exist_ok=True)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bridgehead.pipeline.job", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.pid = self._process.pid
        self._output = threading.Thread(target=self._keep_output, name="driver-output", daemon=True)
        self._output.start()
        self._lines: SimpleQueue[str | None] = SimpleQueue()  # to be told, in order; None ends it
        self.tell(config)
        threading.Thread(target=self._feed, name="driver-input", daemon=True).start()
        threading.Thread(target=self._wait, name="driver-end", daemon=True).start()

    @property
    def reason(self) -> str:
        """What the driver said last. That it could not be told something any more is what its end brings with it: it stands for
        a reason only where the driver gave none."""
        return next((line for line in reversed(self.tail) if line), self._unread or "no output")

    def tell(self, job: JobConfig) -> None:
        """Of another node, or of a new epoch of one that it knows."""
        self._lines.put(job.to_json())

    def ask_to_stop(self) -> None:
        self._lines.put("stop")

    def kill(self) -> None:
        """End the driver, its JVM and its workers now."""
        if not self.ended.done():
            kill_session(self.pid)

    def _feed(self) -> None:
        """On a thread of its own: a driver that does not read must not hold up the loop."""
        stdin = self._process.stdin
        assert stdin is not None
        try:
            while (line := self._lines.get()) is not None:
                stdin.write(line.encode() + b"\n")
                stdin.flush()
        except OSError as error:
            self._unread = f"the driver reads no more: {error}"
        with contextlib.suppress(BrokenPipeError):  # a line that nobody read any more
            stdin.close()

    def _keep_output(self) -> None:
        """Everything the driver's processes print. It is read whatever becomes of the file: on a full disk, too, the driver
        must not wait for somebody who reads."""
        stdout = self._process.stdout
        assert stdout is not None
        unwritten = 0
        with stdout:
            for line in stdout:
                self.tail.append(line.decode(errors="replace").rstrip())
                missing = b"(%d lines could not be written)\n" % unwritten if unwritten else b""
                try:
                    self._write(missing + line)
                    unwritten = 0
                except OSError:
                    unwritten += 1

    def _write(self, text: bytes) -> None:
        """To a file that stays small."""
        with self._log.open("ab", buffering=0) as file:
            file.write(text)
            size = file.tell()
        if size > LOG_BYTES:
            os.replace(self._log, self._log.with_suffix(".log.1"))

    def _wait(self) -> None:
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        kill_session(self.pid)
        status = self._process.wait()
        self._output.join(timeout=5.0)
        self._lines.put(None)
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._set_ended, status)

    def _set_ended(self, status: int) -> None:
        if not self.ended.done():
            self.ended.set_result(status)


def session_members(session: int) -> list[int]:
    """The processes of a session that still run."""
    members = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended while we looked
        if int(fields[3]) == session and fields[0] != "Z":
            members.append(int(entry.name))
    return members


def kill_session(session: int) -> None:
    """Kill every process of a session, also those born while we do it."""
    while members := session_members(session):
        for pid in members:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        # A killed process stays visible until the kernel has taken it apart.
        threading.Event().wait(0.01)
