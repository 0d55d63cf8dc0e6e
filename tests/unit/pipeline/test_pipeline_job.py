"""The small decisions of source, configuration and driver."""

from __future__ import annotations

import sys
import tempfile
import threading
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.pipeline.access import TOKENS_VARIABLE, Access
from bridgehead.pipeline.client import NodeClient
from bridgehead.pipeline.jobconfig import JobConfig, QueryConfig, TransformRule
from bridgehead.pipeline.jvm import _escape
from bridgehead.pipeline.rules import RouteRules
from bridgehead.pipeline.runner import QueryRunner, reason_of
from bridgehead.pipeline.source import MIN_ROWS_PER_TASK, split
from bridgehead.pipeline.sparkconf import SHIPPED_PYTHON, master_of, spark_conf, tasks_of


@given(st.integers(0, 10**9), st.integers(1, 10**6), st.integers(1, 64))
def test_a_range_is_split_into_contiguous_parts_none_needlessly_small(start: int, rows: int, tasks: int) -> None:
    parts = split(start, start + rows, tasks)
    assert 1 <= len(parts) <= tasks
    assert parts[0][0] == start
    assert parts[-1][1] == start + rows
    assert all(a[1] == b[0] for a, b in pairwise(parts))
    assert len(parts) == 1 or min(high - low for low, high in parts) >= MIN_ROWS_PER_TASK


def config(**given: object) -> JobConfig:
    values = {
        "access": Access("grpc://127.0.0.1:1", "very-secret"),
        "epoch": 1,
        "queries": (
            QueryConfig("shared", (RouteRules("r", "x/{#}", (("k", "v"),), max_qos=1),)),
            QueryConfig("b.push.1", (RouteRules("b.push.1"),), TransformRule(python="m:f", options={"limit": 3})),
        ),
        "data_dir": "/data",
        "java_home": "/java",
        "master": "local[*]",
        "conf": {"spark.hadoop.fs.s3a.secret.key": "hidden"},
        **given,
    }
    return JobConfig(**values)  # type: ignore[arg-type]


def test_the_configuration_survives_its_way_to_the_driver_and_shows_no_secrets() -> None:
    assert JobConfig.from_json(config().to_json()) == config()
    assert "\n" not in config().to_json()
    assert "very-secret" not in repr(config())
    assert "hidden" not in repr(config())


@pytest.mark.parametrize(
    ("given_master", "used"),
    [
        ("local", "local[1,4]"),
        ("local[*]", "local[*,4]"),
        ("local[3]", "local[3,4]"),
        ("local[3,1]", "local[3,1]"),
        ("spark://host:7077", "spark://host:7077"),
        ("local-cluster[2,1,1024]", "local-cluster[2,1,1024]"),
    ],
)
def test_a_local_master_repeats_lost_tasks_and_any_other_is_left_alone(given_master: str, used: str) -> None:
    assert master_of(given_master) == used


def test_the_number_of_tasks_follows_the_master() -> None:
    assert tasks_of("local[3]", {}) == 3
    assert tasks_of("local", {}) == 1
    assert tasks_of("local[*]", {}) >= 1
    assert tasks_of("spark://host:7077", {"spark.default.parallelism": "12"}) == 12


def test_the_users_configuration_has_the_last_word() -> None:
    conf = spark_conf(config(conf={"spark.driver.memory": "3g", "spark.ui.enabled": "true"}), Path("/data/spark"))
    assert conf["spark.driver.memory"] == "3g"
    assert conf["spark.ui.enabled"] == "true"
    assert conf["spark.master"] == "local[*,4]"


def test_values_are_written_so_that_java_reads_them_back() -> None:
    assert _escape(r"C:\new dir=1#!") == r"C\:\\new\ dir\=1\#\!"


def test_the_reason_of_a_failure_is_the_root_of_the_traceback_inside(capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        "[STREAM_FAILED] Query terminated with exception:\n"
        "Traceback (most recent call last):\n"
        '  File "x.py", line 1, in f\n'
        "KeyError: 'max_rows'\n"
        "During handling of the above exception, another exception occurred:\n"
        "UnboundLocalError: cannot access local variable\n"
    )
    assert reason_of(RuntimeError(text)) == "KeyError: 'max_rows'"
    assert reason_of(RuntimeError("plain")) == "RuntimeError: plain"
    of_java = "An error occurred while calling o1.start.\n: java.lang.IllegalStateException: a stopped SparkContext.\n\tat"
    assert reason_of(RuntimeError(of_java)) == "java.lang.IllegalStateException: a stopped SparkContext."
    assert "STREAM_FAILED" in capsys.readouterr().err


def test_the_reason_of_a_failure_in_a_worker_is_what_the_worker_raised(capsys: pytest.CaptureFixture[str]) -> None:
    wrapper = "pyspark.errors.exceptions.captured.PythonException: An exception was thrown from the Python worker:"
    theirs = "Traceback (most recent call last):\nValueError: no number"
    ours = "OSError: [Errno 28] full\nThe above was the cause:\nbridgehead.errors.ArchiveError: the archive is full"
    assert reason_of(RuntimeError(f"foreachBatch\n{wrapper}\n{theirs}")) == "ValueError: no number"
    assert reason_of(RuntimeError(f"foreachBatch\n{wrapper}\n{ours}")) == "the archive is full"
    assert "Errno 28" in capsys.readouterr().err


def test_a_query_with_a_memory_keeps_it_where_the_user_says_by_log_life_and_transform(tmp_path: Path) -> None:
    def kept(life: str, sql: str, **given: object) -> str:
        query = QueryConfig("b.push.1", (), TransformRule(sql=sql))
        runner = QueryRunner(None, config(**given), query, 1, cast(NodeClient, None), tmp_path, threading.Lock())
        return runner._kept_checkpoint(life)

    first = kept("life", "SELECT 1", checkpoint="s3a://bucket/x/")
    assert first.startswith("s3a://bucket/x/b.push.1/life-")
    assert kept("life", "SELECT 1", checkpoint="s3a://bucket/x") == first
    assert kept("other", "SELECT 1", checkpoint="s3a://bucket/x") != first
    assert kept("life", "SELECT 2", checkpoint="s3a://bucket/x") != first
    assert kept("life", "SELECT 1", data_dir=str(tmp_path)).startswith(f"{tmp_path}/spark-checkpoints/b.push.1/life-")


def test_processes_on_other_machines_get_their_tokens_by_their_environment() -> None:
    other = Access("grpc+tls://other:1", "another-secret")
    conf = spark_conf(config(master="spark://host:7077", accesses=(other,)), Path("/work"))
    assert "very-secret" in conf[f"spark.executorEnv.{TOKENS_VARIABLE}"]
    assert "another-secret" in conf[f"spark.executorEnv.{TOKENS_VARIABLE}"]
    assert not any(key.startswith("spark.executorEnv.") for key in spark_conf(config(), Path("/work")))


def test_executors_use_the_python_of_an_archive_that_is_shipped_to_them() -> None:
    shipped = {"spark.archives": "/srv/environment.tar.gz#environment"}
    assert spark_conf(config(conf=shipped), Path("/work"))["spark.pyspark.python"] == SHIPPED_PYTHON
    own = {**shipped, "spark.pyspark.python": "/opt/python"}
    assert spark_conf(config(conf=own), Path("/work"))["spark.pyspark.python"] == "/opt/python"
    assert spark_conf(config(), Path("/work"))["spark.pyspark.python"] == sys.executable


def test_sockets_have_short_paths_wherever_temporary_files_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    far = tmp_path / ("far" * 40)
    far.mkdir()
    monkeypatch.setenv("TMPDIR", str(far))
    monkeypatch.setattr(tempfile, "tempdir", None)  # what was found before is forgotten
    assert len(spark_conf(config(), tmp_path)["spark.python.unix.domain.socket.dir"]) < 50
