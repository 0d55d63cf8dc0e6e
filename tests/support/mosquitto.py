"""Debian's mosquitto as a process of its own: the remote broker that nobody here wrote."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from support import children
from support.waiting import accepts, free_port, free_ports, until

NEVER_FULL = 60_000
"""What mosquitto 2.0.11 has to queue behind a full window it hands to a slow subscriber out of order."""
HOW_TO_GET_IT = "needs mosquitto: apt-get install mosquitto"
_CONFIGURATION = """\
listener {port} 127.0.0.1
allow_anonymous true
user root
persistence {keeps}
persistence_location {directory}/
max_inflight_messages {window}
max_queued_messages 100000
log_dest file {log}
"""


def executable() -> str | None:
    """Debian keeps it in a directory that is not on everybody's path."""
    return shutil.which("mosquitto", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"]))


class Mosquitto:
    """One broker on one port; it can be killed and started again."""

    def __init__(
        self,
        directory: Path,
        *,
        window: int = NEVER_FULL,
        keeps: bool = False,
        doors: Sequence[Mapping[str, object]] = (),
        **settings: object,
    ) -> None:
        """Settings are lines of its configuration: ``max_packet_size=1000``. More doors: listeners with lines of their own.

        One that ``keeps`` writes its sessions when it stops, not before: a kill costs it what it had acknowledged.
        """
        directory.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self._file = directory / "mosquitto.conf"
        self.doors = free_ports(len(doors))
        lines = _lines(settings)
        for port, door in zip(self.doors, doors, strict=True):
            lines += f"listener {port} 127.0.0.1\n{_lines(door)}"
        head = _CONFIGURATION.format(
            port=self.port, keeps=str(keeps).lower(), directory=directory, window=window, log=directory / "mosquitto.log"
        )
        self._file.write_text(head + lines)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Mosquitto:
        program = executable()
        assert program is not None, HOW_TO_GET_IT
        process = self._process = children.start(
            [program, "-c", str(self._file)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until(lambda: accepts(self.port) or process.poll() is not None, "mosquitto accepts connections")
        assert process.poll() is None, f"mosquitto ended with status {process.returncode}"
        return self

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """Gone without a word, as after a power cut."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, by: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(by)
            process.wait(30)


def _lines(settings: Mapping[str, object]) -> str:
    return "".join(f"{key} {value}\n" for key, value in settings.items())
