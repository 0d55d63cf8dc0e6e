"""The driver: ``python -m bridgehead.pipeline.job PARENT``, a child process of the node, or of a pipeline elsewhere.

Its configuration is the first line of standard input, with the job of one node; further lines are jobs of other nodes, or new
ones of the same. A line "stop" asks for its end (the nodes have frozen their journals and seen the running batches end
before); end-of-file ends it at once. It holds a Spark session and one streaming query for each log. A query that fails is
started again by itself (``runner``); a JVM that is gone ends the driver, and its parent starts a new one with a new epoch.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections import deque
from pathlib import Path
from typing import Any, Final

from bridgehead.errors import StartError
from bridgehead.pipeline import leash
from bridgehead.pipeline.client import node_client
from bridgehead.pipeline.jobconfig import JobConfig
from bridgehead.pipeline.runner import QueryRunner, reason_of

JVM_GONE: Final = 71
CANNOT_START: Final = 73
"""Exit statuses; the last line on standard error says the reason."""


class Driver:
    """One Spark session, one query for each log of each node."""

    def __init__(self, config: JobConfig) -> None:
        self._config = config
        self._work_dir = Path(config.data_dir) / "spark"
        self._wake = threading.Event()
        self._stopping = False
        self._jobs = deque([config])  # those that are not begun yet
        self._runners: dict[str, list[QueryRunner]] = {}  # by the address of their node
        self._jvm: subprocess.Popen[bytes] | None = None

    def request_stop(self) -> None:
        self._stopping = True
        self._wake.set()

    def add(self, job: JobConfig) -> None:
        """Another node, or a new epoch of one that is known: then nothing of the old one counts any more."""
        self._jobs.append(job)
        self._wake.set()

    def run(self) -> int:
        spark, tasks = self._start_spark()
        while not (self._stopping or self._jvm_is_gone()):
            while self._jobs:
                self._begin(spark, tasks, self._jobs.popleft())
            self._wake.wait()
            self._wake.clear()
        for runner in (each for runners in self._runners.values() for each in runners):
            runner.end()
        if self._stopping:
            return 0
        print("Spark's JVM ended", file=sys.stderr, flush=True)
        return JVM_GONE

    def _begin(self, spark: Any, tasks: int, job: JobConfig) -> None:
        from bridgehead.pipeline import query

        for runner in self._runners.pop(job.access.address, []):
            runner.end()
        node = node_client(job.access.address, job.epoch)
        own = spark.newSession()  # two nodes may have logs, so queries, of the same name
        query.register(own)
        starting = threading.Lock()
        runners = [QueryRunner(own, job, each, tasks, node, self._work_dir, starting) for each in job.queries]
        self._runners[job.access.address] = runners
        for runner in runners:
            runner.start()

    def _start_spark(self) -> tuple[Any, int]:
        from pyspark.sql import SparkSession

        from bridgehead.pipeline import jvm, query, sparkconf

        shutil.rmtree(self._work_dir, ignore_errors=True)
        (self._work_dir / "checkpoints").mkdir(parents=True)
        conf = sparkconf.spark_conf(self._config, self._work_dir)
        os.environ.setdefault("PYSPARK_PYTHON", conf["spark.pyspark.python"])
        self._find_modules()
        log_config = sparkconf.write_log_config(Path(self._config.data_dir), self._work_dir)
        self._jvm = jvm.start(self._config.java_home, conf, log_config, self._work_dir)
        threading.Thread(target=self._watch_jvm, name="jvm", daemon=True).start()
        tasks = sparkconf.tasks_of(self._config.master, conf)
        spark = SparkSession.builder.getOrCreate()
        query.warm_up(spark, tasks)
        return spark, tasks

    def _find_modules(self) -> None:
        """The user's modules are found here and in every worker, which inherit the environment."""
        if self._config.modules:
            sys.path.append(self._config.modules)
            os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), self._config.modules]))

    def _watch_jvm(self) -> None:
        assert self._jvm is not None
        self._jvm.wait()
        self._wake.set()

    def _jvm_is_gone(self) -> bool:
        return self._jvm is not None and self._jvm.poll() is not None


def main() -> None:
    leash.hold(parent=int(sys.argv[1]))
    config = JobConfig.from_json(sys.stdin.readline())
    os.environ.update(config.environment())
    driver = Driver(config)
    leash.watch_stdin(lambda line: driver.request_stop() if line == "stop" else driver.add(JobConfig.from_json(line)))
    try:
        status = driver.run()
    except Exception as error:
        reason = str(error) if isinstance(error, StartError) else reason_of(error)
        print(reason, file=sys.stderr, flush=True)
        status = CANNOT_START
    # Nothing here needs an orderly end; Spark's takes seconds, and the JVM ends with this process.
    os._exit(status)


if __name__ == "__main__":
    main()
