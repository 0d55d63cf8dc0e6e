"""``url``: straight from and to any MQTT broker."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.types import StructType

from bridgehead.spark.options import Broker, Sink, Source, parse


class BrokerWay:
    """Each call checks its options; what they name is touched only when Spark asks for something."""

    def reader(self, options: Mapping[str, str]) -> DataSourceReader:
        from bridgehead.spark.brokerreader import BrokerReader

        return BrokerReader(_source(options))

    def stream_reader(self, options: Mapping[str, str]) -> DataSourceStreamReader:
        from bridgehead.spark.brokerreader import BrokerStreamReader

        return BrokerStreamReader(_source(options))

    def writer(self, options: Mapping[str, str], schema: StructType) -> DataSourceWriter:
        from bridgehead.spark.brokerwriter import BrokerWriter

        return BrokerWriter(_sink(options, schema))

    def stream_writer(self, options: Mapping[str, str], schema: StructType) -> DataSourceStreamWriter:
        from bridgehead.spark.brokerwriter import BrokerStreamWriter

        return BrokerStreamWriter(_sink(options, schema))


def _source(options: Mapping[str, str]) -> Source:
    source = parse(Source, options)
    _check_files(source)
    return source


def _sink(options: Mapping[str, str], schema: StructType) -> Sink:
    from bridgehead.spark.sinkrows import check_columns

    sink = parse(Sink, options)
    _check_files(sink)
    check_columns(list(schema.fieldNames()), sink)
    return sink


def _check_files(broker: Broker) -> None:
    from bridgehead.spark.reaching import way_to

    way_to(broker)
