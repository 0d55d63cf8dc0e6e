"""A pipeline as a user runs it: a YAML file and the command."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil
import yaml

from support import children
from support.node import COMMAND, STOPS_WITHIN, wait_gone
from support.waiting import until


class PipelineProcess:
    """``bridgehead pipeline -c FILE``. Started when created."""

    def __init__(self, directory: Path, document: dict[str, Any], environment: dict[str, str] | None = None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._log = directory / "pipeline.log"
        self._data = directory / "data"
        file = directory / "pipeline.yaml"
        file.write_text(yaml.safe_dump({"dataDir": str(self._data), **document}))
        with self._log.open("ab") as log:
            self._process = children.start(
                [COMMAND, "pipeline", "-c", str(file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **(environment or {})},
            )
        self.pid = self._process.pid

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def says(self, text: str, times: int = 1) -> None:
        """Return when it has said so that often."""
        until(lambda: self.ended or self.own_log().count(text) >= times, f"the pipeline says {text!r}", detail=self.log)
        assert self.own_log().count(text) >= times, self.log()

    def own_log(self) -> str:
        return self._log.read_text(errors="replace")

    def log(self) -> str:
        """The last of what the pipeline, its driver and Spark wrote, for failures."""
        texts = [self.own_log()[-3000:]]
        for path in self._data.glob("pipeline-*/logs/*.log"):
            texts.append(f"--- {path}\n{path.read_text(errors='replace')[-3000:]}")
        return "\n".join(texts)

    def family(self) -> list[psutil.Process]:
        return psutil.Process(self.pid).children(recursive=True)

    def kill(self) -> None:
        """As after a power cut of its machine; what it had started ends by itself."""
        family = self.family()
        self._process.kill()
        self._process.wait(STOPS_WITHIN)
        wait_gone(family)

    def stop(self) -> float:
        """A clean stop; how many seconds it took."""
        family, began = self.family(), time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(STOPS_WITHIN) == 0, self.log()
        took = time.monotonic() - began
        wait_gone(family)
        return took

    def close(self) -> None:
        """For the end of a test, whatever has become of it."""
        if not self.ended:
            self.kill()
