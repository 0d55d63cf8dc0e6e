"""MQTT for every PySpark user: ``format("mqtt")``, as a source that can be replayed and as a sink that is acknowledged.

In: the options of a reader or a writer. With ``url`` they name any MQTT broker; no node is needed, because the reader keeps a
journal of its own beside the driver.
Out: a DataFrame with the columns of the message table, and real offsets.
Promised: a message is acknowledged to the broker only when it is synced to the journal, and leaves the journal only when Spark
has committed the batch that took it. Refused: options that make no sense, all at once and by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Make ``format("mqtt")`` known to this session; where bridgehead is installed beside pyspark, Spark finds it by itself."""
    from bridgehead.spark.datasource import MqttSource

    spark.dataSource.register(MqttSource)
