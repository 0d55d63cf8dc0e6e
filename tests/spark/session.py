"""A Spark session as a user of PySpark has one, in the test's own process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession

from bridgehead.spark import register


@contextmanager
def plain_session() -> Iterator[SparkSession]:
    conf = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
    }
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYSPARK_PYTHON", sys.executable)
        session = SparkSession.builder.master("local[2]").config(map=conf).getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        register(session)
        yield session
        session.stop()
