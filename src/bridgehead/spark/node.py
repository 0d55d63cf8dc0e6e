"""``node``: the journal of a running node, and its local broker."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.types import StructType

from bridgehead.spark.nodeoptions import NodeSink, NodeSource
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
        from bridgehead.spark.nodewriter import NodeWriter

        sink = _sink(options, schema)
        return NodeWriter(sink, sink.access())

    def stream_writer(self, options: Mapping[str, str], schema: StructType) -> DataSourceStreamWriter:
        from bridgehead.spark.nodewriter import NodeStreamWriter

        sink = _sink(options, schema)
        return NodeStreamWriter(sink, sink.access())


def _sink(options: Mapping[str, str], schema: StructType) -> NodeSink:
    from bridgehead.spark.sinkrows import check_columns

    sink = parse(NodeSink, options)
    check_columns(list(schema.fieldNames()), sink)
    return sink
