"""A node as a user runs it: a YAML file, the command, a console port."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import psutil
import yaml

from support import children
from support.proxy import Proxy
from support.waiting import PATIENCE, free_ports, until

COMMAND = str(Path(sys.executable).parent / "bridgehead")
"""The command of this very environment."""

STOPS_WITHIN = 60.0


class NodeProcess:
    """``bridgehead run -c FILE`` on free ports. What the document leaves out (ports, data directory) is filled in."""

    def __init__(self, directory: Path, document: dict[str, Any], environment: dict[str, str] | None = None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.port, self.console_port = free_ports(2)
        self.directory = directory
        self.file = directory / "node.yaml"
        self._log = directory / "node.log"
        self._environment = environment
        self.wires: list[Proxy] = []  # on the way to its remotes
        whole = {
            "node": "edge",
            "dataDir": str(directory / "data"),
            "listeners": [{"type": "tcp", "host": "127.0.0.1", "port": self.port}],
            "console": {"host": "127.0.0.1", "port": self.console_port},
            **document,
        }
        self.file.write_text(yaml.safe_dump(whole))
        self._process: subprocess.Popen[bytes] | None = None
        self.pid = 0

    # -- life ---------------------------------------------------------------------------------------------------------

    def launch(self) -> NodeProcess:
        """Start the process and wait until it answers; it need not be ready."""
        with self._log.open("ab") as log:
            environment = None if self._environment is None else {**os.environ, **self._environment}
            self._process = children.start(
                [COMMAND, "run", "-c", str(self.file)], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
            )
        self.pid = self._process.pid
        until(lambda: self.ended or self.get("/api/v1/health/liveness")[0] == 200, "the node is alive", detail=self.log)
        assert not self.ended, self.log()
        return self

    def start(self) -> NodeProcess:
        """Start the process and wait until it is ready and its bridges are connected and subscribed."""
        self.launch()
        self.wait_ready()
        self.wait_connected()
        return self

    @property
    def ended(self) -> bool:
        assert self._process is not None
        return self._process.poll() is not None

    @property
    def exit_code(self) -> int:
        """Of a node that has ended, or is about to."""
        assert self._process is not None
        return self._process.wait(STOPS_WITHIN)

    def stop(self, by: signal.Signals = signal.SIGTERM) -> None:
        """A clean stop: exit status 0, and nothing that the node started is left."""
        assert self._process is not None
        family = self.family()
        self._process.send_signal(by)
        assert self._process.wait(STOPS_WITHIN) == 0, self.log()
        wait_gone(family)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(STOPS_WITHIN)

    def close(self) -> None:
        """For the end of a test, whatever has become of the node."""
        if self._process is not None and not self.ended:
            self.stop()

    def log(self) -> str:
        """The last of what the node and its driver wrote, for failures."""
        texts = []
        for path in (self._log, self.directory / "data" / "logs" / "driver.log"):
            if path.exists():
                texts.append(f"--- {path.name}\n{path.read_text(errors='replace')[-4000:]}")
        return "\n".join(texts)

    # -- what it says -------------------------------------------------------------------------------------------------

    def get(self, path: str) -> tuple[int, Any]:
        """Status and JSON of a page of the console; (0, None) when nobody answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.console_port}{path}", timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)
        except (urllib.error.URLError, OSError):
            return 0, None

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        """Status and JSON of a request that changes something; None where the answer is empty."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.console_port}{path}",
            data=data,
            method=method,
            headers={"Content-Type": "application/json", **(headers or {})},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def status(self) -> dict[str, Any]:
        code, body = self.get("/api/v1/status")
        assert code == 200, self.log()
        assert isinstance(body, dict)
        return body

    def readiness(self) -> tuple[int, list[str]]:
        code, body = self.get("/api/v1/health/readiness")
        return code, body["reasons"] if body else []

    def bridge(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.status()["bridges"][name]
        return found

    def routes(self, bridge: str, direction: str) -> list[dict[str, Any]]:
        """The routes of a bridge, in the order of the file."""
        every = self.status()["routes"].values()
        return [route for route in every if (route["bridge"], route["direction"]) == (bridge, direction)]

    def wait_ready(self, within: float = PATIENCE) -> None:
        until(lambda: self.ended or self.readiness()[0] == 200, "the node is ready", within, self.log)
        assert not self.ended, self.log()

    def wait_connected(self, *names: str) -> None:
        """These bridges, or all, are connected, and the remote has answered their subscriptions."""

        def connected() -> bool:
            found = self.status()["bridges"]
            return all(found[name]["state"] == "connected" and found[name]["subscribed"] for name in names or found)

        until(
            connected,
            f"{', '.join(names) or 'all bridges'} connected",
            detail=lambda: f"{self.status()['bridges']}\n{self.log()}",
        )

    def wait_drained(self) -> None:
        """Nothing waits or is on its way in any route, nor on the wires to the remote."""
        until(self._is_drained, "everything has left the node", detail=lambda: f"{self._left()}\n{self.log()}")
        for wire in self.wires:  # of QoS 0 nobody knows where it is once the kernel has it
            until(wire.is_quiet, "the wire has handed on what it has")

    def _left(self) -> dict[str, Any]:
        """What is on its way, and why it may be stuck."""
        status = self.status()
        routes = {name: route for name, route in status["routes"].items() if route["depth"]}
        return {"journal": status["journal"], "pipeline": status["pipeline"], "routes": routes}

    def _is_drained(self) -> bool:
        status = self.status()
        return not any(log["waiting"] for log in status["journal"].values()) and not any(
            route["depth"] for route in status["routes"].values()
        )

    # -- its processes ------------------------------------------------------------------------------------------------

    def family(self) -> list[psutil.Process]:
        """Everything the node has started and that runs."""
        return psutil.Process(self.pid).children(recursive=True)

    def driver(self) -> psutil.Process:
        return self._one(lambda command: "bridgehead.pipeline.job" in command)

    def jvm(self) -> psutil.Process:
        return self._one(lambda command: "org.apache.spark.deploy.SparkSubmit" in command)

    def source_reader(self) -> psutil.Process:
        """The Python process beside the JVM that plans batches."""
        return self._one(lambda command: "python_streaming_source_runner" in command)

    def worker(self) -> psutil.Process:
        """A Python worker that runs tasks: a child of Spark's worker daemon."""
        return until(self._worker, "a Python worker runs", detail=lambda: [_command(each) for each in self.family()])

    def _worker(self) -> psutil.Process | None:
        """The daemon forks its workers, so parent and child were started by the same command."""
        family = [each for each in self.family() if _command(each).endswith("daemon pyspark.worker")]
        daemons = {each.pid for each in family}
        return next((each for each in family if _parent(each) in daemons), None)

    def _one(self, wanted: Any) -> psutil.Process:
        return until(
            lambda: next((each for each in self.family() if wanted(_command(each))), None),
            "the process runs",
            detail=lambda: [_command(each) for each in self.family()],
        )


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""  # it ended while we looked


def _parent(process: psutil.Process) -> int:
    try:
        return process.ppid()
    except psutil.Error:
        return 0  # it ended while we looked


def _runs(process: psutil.Process) -> bool:
    """A zombie has ended; that nobody has asked for its status is the business of whoever adopted it."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_gone(processes: list[psutil.Process]) -> None:
    """None of these processes runs any more."""
    until(
        lambda: not any(_runs(each) for each in processes),
        "all processes have ended",
        within=30,
        detail=lambda: [(each.pid, _command(each)) for each in processes if _runs(each)],
    )
