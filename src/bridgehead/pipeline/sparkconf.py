"""Spark's configuration for a pipeline of small, frequent batches, and where its logs go.

Why each value: docs/decisions/0010-a-lean-micro-batch.md.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Final

from bridgehead.pipeline.jobconfig import JobConfig

MESSAGES_CONF: Final = "spark.bridgehead.messages"
"""Set to true, a log without a transform also takes the way through the message table."""

SHIPPED: Final = "environment"
SHIPPED_PYTHON: Final = f"./{SHIPPED}/bin/python"
"""The Python of an archive that Spark ships under this name (scripts/pack-env), as executors find it."""

SOCKETS: Final = "/tmp"
"""Java's own folder for temporary files, whatever TMPDIR says: the path of a socket has 107 bytes at most."""

TASK_ATTEMPTS: Final = 4
"""Local masters fail a job at the first lost task unless told otherwise; a killed worker is only a task to repeat."""

_LOCAL: Final = re.compile(r"local(?:\[(\*|\d+)(?:,(\d+))?\])?$")

_LOG4J: Final = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {path}
appender.file.filePattern = {path}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 3
"""


FEW_ROWS: Final = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""For a JVM that plans and schedules but sees next to no rows: compiling for speed costs more than it ever gives."""


def master_of(master: str) -> str:
    """The user's master; a local one that does not say how often a task is tried gets TASK_ATTEMPTS."""
    local = _LOCAL.match(master)
    if local is None or local[2] is not None:
        return master
    return f"local[{local[1] or 1},{TASK_ATTEMPTS}]"


def tasks_of(master: str, conf: dict[str, str]) -> int:
    """How many tasks a full batch is split into."""
    local = _LOCAL.match(master)
    if local is None:
        return int(conf.get("spark.default.parallelism", "8"))
    return len(os.sched_getaffinity(0)) if local[1] == "*" else int(local[1] or 1)


def spark_conf(config: JobConfig, work_dir: Path) -> dict[str, str]:
    """Ours first, the user's last."""
    ours = {
        "spark.master": master_of(config.master),
        "spark.app.name": "bridgehead",
        "spark.submit.deployMode": "client",
        "spark.driver.memory": "1g",
        "spark.local.dir": str(work_dir / "local"),
        "spark.sql.warehouse.dir": str(work_dir / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.pyspark.python": sys.executable,
        "spark.pyspark.driver.python": sys.executable,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "32768",
        "spark.sql.adaptive.enabled": "false",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.ui.explainMode": "simple",
        "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
    }
    if config.conf.get("spark.archives", "").endswith(f"#{SHIPPED}"):
        ours["spark.pyspark.python"] = SHIPPED_PYTHON
    if config.conf.get(MESSAGES_CONF) != "true":
        ours |= FEW_ROWS
    if _LOCAL.match(config.master):
        ours |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.python.daemon.module": "bridgehead.pipeline.daemon",
            "spark.python.unix.domain.socket.dir": SOCKETS,
        }
    else:
        # Processes on other machines inherit nothing from us.
        ours |= {f"spark.executorEnv.{name}": value for name, value in config.environment().items()}
    return ours | config.conf


def write_log_config(data_dir: Path, work_dir: Path) -> Path:
    """Log4j's configuration: everything to a file, bounded, nothing on the terminal."""
    path = work_dir / "log4j2.properties"
    path.write_text(_LOG4J.format(path=data_dir / "logs" / "spark.log"))
    return path
