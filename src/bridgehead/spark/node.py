"""``node``: the journal of a running node, and its local broker."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.types import StructType

from bridgehead.errors import SettingsError
from bridgehead.spark.nodeoptions import NodeSource
from bridgehead.spark.options import parse


class NodeWay:
    """Each call checks its options; the node is asked only when Spark asks for something."""

    def reader(self, options: Mapping[str, str]) -> DataSourceReader:
        from bridgehead.spark.nodereader import NodeReader

        source = parse(NodeSource, options)
        return NodeReader(source, source.access())

    def stream_reader(self, options: Mapping[str, str]) -> DataSourceStreamReader:
        from bridgehead.spark.nodereader import NodeStreamReader

        source = parse(NodeSource, options)
        return NodeStreamReader(source, source.access())

    def writer(self, options: Mapping[str, str], schema: StructType) -> DataSourceWriter:
        raise _only_read()

    def stream_writer(self, options: Mapping[str, str], schema: StructType) -> DataSourceStreamWriter:
        raise _only_read()


def _only_read() -> SettingsError:
    return SettingsError([("node", "can only be read so far")])
