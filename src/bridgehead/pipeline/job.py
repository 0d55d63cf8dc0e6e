"""The driver: ``python -m bridgehead.pipeline.job PARENT``, a child process of the node.

Its configuration is the first line of standard input; a line "stop" asks for its end (the node has frozen the journal
and seen the running batches end before it asks); end-of-file ends it at once. It holds a Spark session and one streaming
query for each log. A query that fails is started again by itself (``runner``); a JVM that is gone ends the driver, and the
node starts a new one with a new epoch.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Final

from bridgehead.errors import StartError
from bridgehead.pipeline import leash
from bridgehead.pipeline.access import as_environment
from bridgehead.pipeline.client import NodeClient, node_client
from bridgehead.pipeline.jobconfig import JobConfig
from bridgehead.pipeline.runner import QueryRunner, reason_of

JVM_GONE: Final = 71
STALE: Final = 72
CANNOT_START: Final = 73
"""Exit statuses; the last line on standard error says the reason."""


class Driver:
    """One Spark session, one query for each log."""

    def __init__(self, config: JobConfig) -> None:
        self._config = config
        self._node: NodeClient = node_client(config.access.address, config.epoch)
        self._work_dir = Path(config.data_dir) / "spark"
        self._wake = threading.Event()
        self._stopping = False
        self._stale = ""  # why this driver has nothing to say any more
        self._jvm: subprocess.Popen[bytes] | None = None

    def request_stop(self) -> None:
        self._stopping = True
        self._wake.set()

    def run(self) -> int:
        spark, tasks = self._start_spark()
        starting = threading.Lock()
        runners = [
            QueryRunner(spark, self._config, query, tasks, self._node, self._work_dir, starting, self._set_stale)
            for query in self._config.queries
        ]
        for runner in runners:
            runner.start()
        while not (self._stopping or self._stale or self._jvm_is_gone()):
            self._wake.wait()
            self._wake.clear()
        for runner in runners:
            runner.end()
        if self._stopping:
            return 0
        if self._jvm_is_gone():
            return self._end(JVM_GONE, "Spark's JVM ended")
        return self._end(STALE, self._stale)

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
        query.register(spark)
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

    def _set_stale(self, reason: str) -> None:
        self._stale = reason
        self._wake.set()

    def _end(self, status: int, reason: str) -> int:
        print(reason, file=sys.stderr, flush=True)
        return status


def main() -> None:
    leash.hold(parent=int(sys.argv[1]))
    config = JobConfig.from_json(sys.stdin.readline())
    os.environ.update(as_environment([config.access]))
    driver = Driver(config)
    leash.watch_stdin(lambda line: driver.request_stop() if line == "stop" else None)
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
