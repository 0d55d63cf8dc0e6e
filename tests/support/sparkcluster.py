"""A standalone Spark cluster on loopback: a master and workers from the jars of the pyspark wheel."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import psutil
from pyspark.find_spark_home import _find_spark_home

from bridgehead.java import java_home
from bridgehead.pipeline.jvm import module_options
from support import children
from support.waiting import free_port, until

EXECUTOR_CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.default.parallelism": "2",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""What a small machine has for it: two workers with one executor of one core each."""


class SparkCluster:
    """Processes of our own, ended by their numbers."""

    def __init__(self, directory: Path, workers: int = 2) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._home = java_home(os.environ, shutil.which, directory / "java").path
        self._port = free_port()
        self.master = f"spark://127.0.0.1:{self._port}"
        self._master = self._start("master.Master", "master", "--port", str(self._port))
        self.workers = [
            self._start("worker.Worker", f"worker-{n}", *("-c", "1", "-m", "600m"), "-d", str(directory / f"{n}"), self.master)
            for n in range(workers)
        ]
        try:
            until(lambda: self._registered() == workers, "the workers have registered", 240, lambda: self.log("master"))
        except AssertionError:
            self.close()
            raise

    def _start(self, what: str, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        spark_home = _find_spark_home()
        environment = {
            **os.environ,
            "JAVA_HOME": str(self._home),
            "SPARK_HOME": spark_home,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_SCALA_VERSION": "2.13",  # what its shell scripts would find out
        }
        listening = ("--host", "127.0.0.1", "--webui-port", "0")
        small = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        command = [str(self._home / "bin" / "java"), *module_options(), *small]
        command += ["-cp", f"{spark_home}/jars/*", f"org.apache.spark.deploy.{what}", *listening, *arguments]
        with (self._directory / f"{name}.log").open("wb") as log:
            return children.start(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def log(self, name: str) -> str:
        return (self._directory / f"{name}.log").read_text(errors="replace")

    def _registered(self) -> int:
        return len(re.findall(r"Registering worker", self.log("master")))

    def kill_worker(self, number: int) -> None:
        """A machine is gone: the worker, its executors and their Python processes, at once and without a word."""
        worker = self.workers[number]
        family = psutil.Process(worker.pid).children(recursive=True)
        for process in [psutil.Process(worker.pid), *family]:
            with_its_number(process, signal.SIGKILL)
        worker.wait(30)

    def executors(self, number: int) -> list[psutil.Process]:
        return psutil.Process(self.workers[number].pid).children()

    def close(self) -> None:
        everyone = [*self.workers, self._master]
        for daemon in everyone:
            if daemon.poll() is None:
                for process in psutil.Process(daemon.pid).children(recursive=True):
                    with_its_number(process, signal.SIGKILL)
                daemon.kill()
        for daemon in everyone:
            daemon.wait(30)


def with_its_number(process: psutil.Process, by: signal.Signals) -> None:
    try:
        process.send_signal(by)
    except psutil.NoSuchProcess:
        return  # it ended before we came
