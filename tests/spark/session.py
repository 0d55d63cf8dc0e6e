"""Spark sessions as a user of PySpark has them."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bridgehead.java import java_home
from bridgehead.pipeline import classarchive
from bridgehead.pipeline.sparkconf import FEW_ROWS
from bridgehead.spark import register


def light() -> dict[str, str]:
    """What spares the JVM of a session that sees few rows two thirds of its work; as a node has it, and nothing of a source."""
    with tempfile.TemporaryDirectory() as aside:
        archive = classarchive.location(java_home(os.environ, shutil.which, Path(aside)).path)
    options = "spark.driver.extraJavaOptions"
    return {
        **FEW_ROWS,
        options: " ".join([FEW_ROWS[options], *classarchive.use(archive)]),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
    }


@contextmanager
def plain_session() -> Iterator[SparkSession]:
    """In the test's own process."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYSPARK_PYTHON", sys.executable)
        session = SparkSession.builder.master("local[2]").config(map=light()).getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        register(session)
        yield session
        session.stop()
