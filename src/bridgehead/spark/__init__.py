"""MQTT for every PySpark user: ``format("mqtt")``, as a source that can be replayed and as a sink that is acknowledged.

In: the options of a reader or a writer. With ``url`` they name any MQTT broker; no node is needed, because the reader keeps a
journal of its own beside the driver. With ``node`` they name a running node: its journal, and its local broker.
Out: a DataFrame with the columns of the message table, and real offsets.
Promised: a message is acknowledged to the broker only when it is synced to the journal, and leaves the journal only when Spark
has committed the batch that took it. Refused: options that make no sense, all at once and by name.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PYTHON: Final = "PYSPARK_PYTHON"
"""Where Spark looks for the Python of its workers; without it the first ``python3`` on the path."""


def register(spark: SparkSession) -> None:
    """Make ``format("mqtt")`` known to this session; where bridgehead is installed beside pyspark, Spark finds it by itself.

    A local session that was not told which Python to use gets this one: the first on the path may know nothing of us.
    """
    from pyspark.sql.utils import is_remote

    from bridgehead.spark.datasource import MqttSource

    if not os.environ.get(PYTHON) and not is_remote() and spark.sparkContext.master.startswith("local"):
        spark.sparkContext.pythonExec = sys.executable
    spark.dataSource.register(MqttSource)


def prepare() -> None:
    """Point Spark at this Python, and at a Java it runs on: the machine's, or the one that came with bridgehead.

    For notebooks and scripts with a local session, before it is built. Raises StartError where there is no Java.
    """
    from bridgehead.java import java_home

    os.environ[PYTHON] = os.environ.get(PYTHON) or sys.executable
    os.environ["JAVA_HOME"] = str(java_home(os.environ, shutil.which, Path.home() / ".bridgehead").path)
