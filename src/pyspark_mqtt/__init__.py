"""How Spark finds ``format("mqtt")`` by itself: it looks for modules whose names begin with ``pyspark_``."""

from bridgehead.spark.datasource import MqttSource as DefaultSource

__all__ = ["DefaultSource"]
