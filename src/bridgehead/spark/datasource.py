"""``format("mqtt")``: looks at the options, and hands everything to the way that they name.

Each way to the messages is a module of its own; only the one that is asked for is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from typing import Final, Protocol

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from bridgehead.columns.schema import MESSAGE_DDL
from bridgehead.errors import SettingsError

Options = Mapping[str, str]
"""As Spark hands them over: the names in lower case."""


class Way(Protocol):
    """What a way to the messages offers. Each call checks its options and raises SettingsError with every fault."""

    def reader(self, options: Options) -> DataSourceReader: ...

    def stream_reader(self, options: Options) -> DataSourceStreamReader: ...

    def writer(self, options: Options, schema: StructType) -> DataSourceWriter: ...

    def stream_writer(self, options: Options, schema: StructType) -> DataSourceStreamWriter: ...


def _node() -> Way:
    from bridgehead.spark.node import NodeWay

    return NodeWay()


def _broker() -> Way:
    from bridgehead.spark.broker import BrokerWay

    return BrokerWay()


WAYS: Final[dict[str, Callable[[], Way]]] = {"url": _broker, "node": _node}
"""By the option that asks for it."""


class MqttSource(DataSource):  # type: ignore[misc]
    """``spark.readStream.format("mqtt")``, ``spark.read``, ``df.writeStream`` and ``df.write``."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._given = {name.lower(): value for name, value in options.items()}
        self._way = way_of(self._given)

    @classmethod
    def name(cls) -> str:
        return "mqtt"

    def schema(self) -> str:
        return MESSAGE_DDL

    def reader(self, schema: StructType) -> DataSourceReader:
        return WAYS[self._way]().reader(self._given)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return WAYS[self._way]().stream_reader(self._given)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        _refuse_overwriting(overwrite)
        return WAYS[self._way]().writer(self._given, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        _refuse_overwriting(overwrite)
        return WAYS[self._way]().stream_writer(self._given, schema)


def way_of(options: Options) -> str:
    """Which way the options ask for."""
    asked = [name for name in WAYS if name in options]
    if len(asked) != 1:
        raise SettingsError([("", f"format mqtt needs exactly one of the options {', '.join(WAYS)}")])
    return asked[0]


def _refuse_overwriting(overwrite: bool) -> None:
    if overwrite:
        raise SettingsError([("", 'what was published cannot be overwritten: use mode("append")')])
