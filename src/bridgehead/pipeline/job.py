"""The driver: ``python -m bridgehead.pipeline.job PARENT``, a child process of the node.

Its configuration is the first line of standard input; a line "stop" asks for its end (the node has frozen the journal
and seen the running batch end before it asks); end-of-file ends it at once. It holds a Spark session and one streaming
query. A query that fails is started again from the consumed offset; a JVM that is gone ends the driver, and the node
starts a new one with a new epoch.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import traceback
from pathlib import Path
from typing import Any, Final

from bridgehead import clock
from bridgehead.errors import StaleEpochError, StartError
from bridgehead.pipeline import leash
from bridgehead.pipeline.access import as_environment
from bridgehead.pipeline.client import NodeClient, node_client
from bridgehead.pipeline.jobconfig import JobConfig

FIRST_PAUSE: Final = 0.2
LONGEST_PAUSE: Final = 10.0
"""Seconds between two starts of a query that fails, doubling from the first to the longest."""

RAN_WELL: Final = 10.0
"""A query that ran so many seconds had a good start: the next pause is the first again."""

JVM_GONE: Final = 71
STALE: Final = 72
CANNOT_START: Final = 73
"""Exit statuses; the last line on standard error says the reason."""


_CAUSE: Final = re.compile(r"[\w.]+(Error|Exception|Refused): .")
"""The line of a traceback that names the exception."""


class Driver:
    """One Spark session, one query at a time."""

    def __init__(self, config: JobConfig) -> None:
        self._config = config
        self._node: NodeClient = node_client(config.access.address, config.epoch)
        self._work_dir = Path(config.data_dir) / "spark"
        self._checkpoints = self._work_dir / "checkpoints"
        self._wake = threading.Event()
        self._stopping = False
        self._jvm: subprocess.Popen[bytes] | None = None
        self._spark: Any = None

    def request_stop(self) -> None:
        self._stopping = True
        self._wake.set()

    def run(self) -> int:
        self._start_spark()
        pause = FIRST_PAUSE
        while not self._stopping:
            started = clock.monotonic()
            reason = self._run_query()
            if self._stopping:
                break
            if self._jvm_is_gone():
                return self._end(JVM_GONE, f"Spark's JVM ended: {reason}")
            if StaleEpochError.__name__ in reason:
                return self._end(STALE, reason)
            self._node.report("failed", reason)
            if clock.monotonic() - started >= RAN_WELL:
                pause = FIRST_PAUSE
            self._wake.wait(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
        return 0

    def _start_spark(self) -> None:
        from pyspark.sql import SparkSession

        from bridgehead.pipeline import jvm, query, sparkconf

        shutil.rmtree(self._work_dir, ignore_errors=True)
        self._checkpoints.mkdir(parents=True)
        conf = sparkconf.spark_conf(self._config, self._work_dir)
        os.environ.setdefault("PYSPARK_PYTHON", conf["spark.pyspark.python"])
        log_config = sparkconf.write_log_config(Path(self._config.data_dir), self._work_dir)
        self._jvm = jvm.start(self._config.java_home, conf, log_config, self._work_dir)
        threading.Thread(target=self._watch_jvm, name="jvm", daemon=True).start()
        self._tasks = sparkconf.tasks_of(self._config.master, conf)
        self._spark = SparkSession.builder.getOrCreate()
        query.register(self._spark)
        query.warm_up(self._spark, self._tasks)

    def _run_query(self) -> str:
        """Run a query until it ends or a stop is asked for; the reason why it ended."""
        try:
            query = self._start_query()
        except Exception as error:
            return reason_of(error)
        self._wake.clear()
        ended: list[str] = []

        def wait() -> None:
            try:
                query.awaitTermination()
                ended.append("the query ended")
            except Exception as error:
                ended.append(reason_of(error))
            self._wake.set()

        waiter = threading.Thread(target=wait, name="query", daemon=True)
        waiter.start()
        while not (self._stopping or ended or self._jvm_is_gone()):
            self._wake.wait()
            self._wake.clear()
        return ended[0] if ended else "the JVM is gone"

    def _start_query(self) -> Any:
        from bridgehead.pipeline import query, sparkconf

        # A query begins at the consumed offset: what an earlier one wrote down means nothing to it.
        checkpoint = tempfile.mkdtemp(prefix=f"{self._config.epoch}-", dir=self._checkpoints)
        if self._config.conf.get(sparkconf.MESSAGES_CONF) == "true":
            return query.start_messages(self._spark, self._config, self._tasks, checkpoint, self._node)
        return query.start_scan(self._spark, self._config, self._tasks, checkpoint)

    def _watch_jvm(self) -> None:
        assert self._jvm is not None
        self._jvm.wait()
        self._wake.set()

    def _jvm_is_gone(self) -> bool:
        return self._jvm is not None and self._jvm.poll() is not None

    def _end(self, status: int, reason: str) -> int:
        print(reason, file=sys.stderr, flush=True)
        return status


def reason_of(error: Exception) -> str:
    """One line that says why: the root of a Python traceback inside Spark's text, else the first line."""
    print("".join(traceback.format_exception(error)), file=sys.stderr, flush=True)
    lines = [line.strip() for line in f"{type(error).__name__}: {error}".splitlines()]
    return next((line for line in lines[1:] if _CAUSE.match(line)), lines[0])[:500]


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
