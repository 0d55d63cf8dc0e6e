"""Generator and counter as seen by the runner: child processes that answer one line of JSON with one line of JSON."""

import json
import select
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

START_SECONDS = 120.0   # the first start on a machine compiles the kernels


class ToolFailed(Exception):
    """A tool answered with an error, or not at all."""


class Tool:
    def __init__(self, module: str, board: Path) -> None:
        self._module = module
        self._child = subprocess.Popen(
            [sys.executable, "-m", module, str(board)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.hello = self._reply(START_SECONDS)

    @property
    def pid(self) -> int:
        return self._child.pid

    def ask(self, request: dict[str, Any], patience: float = 30.0) -> dict[str, Any]:
        """Send a request, wait `patience` seconds for its reply."""
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(json.dumps(request) + "\n")
            self._child.stdin.flush()
        except BrokenPipeError as reason:
            raise ToolFailed(f"{self._module} has ended") from reason
        return self._reply(patience)

    def _reply(self, seconds: float) -> dict[str, Any]:
        assert self._child.stdout is not None
        if not select.select([self._child.stdout], [], [], seconds)[0]:
            raise ToolFailed(f"{self._module} did not answer within {seconds:.0f} s")
        line = self._child.stdout.readline()
        if not line:
            raise ToolFailed(f"{self._module} ended with {self._child.wait()}")
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise ToolFailed(f"{self._module}: {reply['error']}")
        return reply

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        if kind is not None:
            self._child.kill()   # it may be in the middle of a run and would not see the end of its stdin
        try:
            self._child.stdin.close()
        except BrokenPipeError:
            self._child.kill()   # it went before us
        self._child.wait(timeout=10)
        self._child.stdout.close()
