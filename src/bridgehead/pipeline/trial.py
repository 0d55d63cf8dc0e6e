"""Tries transforms on an empty table, before any message has to: ``python -m bridgehead.pipeline.trial``.

In: one JSON line on standard input. Out: one JSON line on standard output, for each transform what is wrong with it, or what
is worth to know. A Spark of its own, gone when the answer is there.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bridgehead.columns.schema import MESSAGE_DDL
from bridgehead.errors import TransformError
from bridgehead.pipeline import leash
from bridgehead.pipeline.access import Access
from bridgehead.pipeline.jobconfig import JobConfig, TransformRule
from bridgehead.pipeline.usercode import made_by


@dataclass(frozen=True, slots=True)
class Task:
    """Plain values only."""

    transforms: tuple[TransformRule, ...]
    java_home: str
    conf: dict[str, str]
    modules: str

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Task:
        value = json.loads(text)
        return Task(**{**value, "transforms": tuple(TransformRule(**each) for each in value["transforms"])})


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of one transform."""

    fault: str | None = None
    in_order: bool = True
    has_memory: bool = False


def tried(spark: Any, rule: TransformRule, empty: str) -> Finding:
    """The transform on a stream of no messages, which come from an empty directory."""
    session = spark.newSession()
    messages = session.readStream.schema(MESSAGE_DDL).format("parquet").load(empty)
    try:
        made = made_by(rule, session, messages)
        _runs_as_a_stream(session, made.frame, rule.output_mode)
    except Exception as error:
        return Finding(fault_of(error))
    return Finding(in_order=made.in_order, has_memory=made.has_memory)


def _runs_as_a_stream(session: Any, frame: Any, mode: str) -> None:
    """Spark says what a stream cannot do only when it starts; its own check is asked here."""
    modes = session._jvm.org.apache.spark.sql.streaming.OutputMode
    checker = session._jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    chosen = {"append": modes.Append, "update": modes.Update, "complete": modes.Complete}[mode]()
    checker.checkForStreaming(frame._jdf.queryExecution().analyzed(), chosen)


def fault_of(error: Exception) -> str:
    """One line: what Spark says about the text with the place in it, or what Python says with the line of the user's module."""
    if isinstance(error, TransformError):
        return str(error)
    text = f"{type(error).__name__}: {error}"
    if type(error).__module__.startswith("pyspark.errors"):
        lines = [line for line in str(error).splitlines() if line.strip()]
        text = lines[0].removesuffix(";").strip() if lines else type(error).__name__
    users = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not any(part in frame.filename for part in ("bridgehead/pipeline", "site-packages", "/lib/python"))
    ]
    return text + (f" ({users[-1].filename}, line {users[-1].lineno})" if users else "")


def main() -> None:
    leash.die_with_parent()
    task = Task.from_json(sys.stdin.readline())
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed, by Spark or by a user's module, is no answer
    sys.path.append(task.modules)
    with tempfile.TemporaryDirectory(prefix="bridgehead-check-") as directory:
        findings = _in_spark(task, Path(directory))
        answer.write(json.dumps([asdict(finding) for finding in findings]) + "\n")
        answer.flush()
    os._exit(0)


def _in_spark(task: Task, directory: Path) -> list[Finding]:
    from pyspark.sql import SparkSession

    from bridgehead.pipeline import jvm, sparkconf

    for name in ("logs", "work", "empty"):
        (directory / name).mkdir()
    nowhere = JobConfig(Access("", ""), 0, (), str(directory), task.java_home, "local[1]", task.conf)
    conf = sparkconf.spark_conf(nowhere, directory / "work")
    jvm.start(task.java_home, conf, sparkconf.write_log_config(directory, directory / "work"), directory / "work")
    spark = SparkSession.builder.getOrCreate()
    return [tried(spark, rule, str(directory / "empty")) for rule in task.transforms]


if __name__ == "__main__":
    main()
