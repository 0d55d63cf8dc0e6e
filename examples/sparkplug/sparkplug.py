"""Sparkplug B to columns: each metric a row, and a message on a topic of its own.

Metrics have their names in birth certificates; afterwards an alias may stand for a name, and the type is left out. What an
edge node and its devices have called their metrics is kept from batch to batch.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as f
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from sparkplug_payload import Metric, Value, metrics_in, signed, type_name

COLUMNS = {
    "topic": "string", "payload": "binary", "qos": "int", "received_at": "timestamp", "journal_offset": "bigint",
    "group_id": "string", "edge_node": "string", "device": "string",
    "metric": "string", "datatype": "string", "value": "string", "measured_at": "timestamp",
}  # fmt: skip
"""The first five make the message; an archive of the route has them all."""


def metrics(messages: DataFrame) -> DataFrame:
    """``spBv1.0/GROUP/TYPE/NODE[/DEVICE]`` becomes ``GROUP/NODE[/DEVICE]/METRIC`` for each of its metrics."""
    levels = f.split("topic", "/")
    schema = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    placed = messages.withColumns({"group_id": levels[1], "edge_node": levels[3]})
    return placed.groupBy("group_id", "edge_node").transformWithState(
        statefulProcessor=EdgeNode(), outputStructType=schema, outputMode="Append", timeMode="None"
    )


class EdgeNode(StatefulProcessor):
    """Knows what one edge node and its devices have called their metrics."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._born = handle.getMapState("born", "key string", "name string, datatype int")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        # Spark brings the rows of an edge node together in any order.
        for row in sorted(rows, key=lambda row: row.journal_offset):
            _, group, kind, node, *rest = row.topic.split("/")
            device = rest[0] if rest else None
            own = {"qos": row.qos, "received_at": row.received_at, "journal_offset": row.journal_offset}
            own |= {"group_id": group, "edge_node": node, "device": device}
            try:
                found = list(metrics_in(bytes(row.payload)))
            except ValueError:  # it is no Sparkplug, and lost it must not be
                yield row_of(topic=f"undecodable/{row.topic}", payload=bytes(row.payload), **own)
                continue
            if kind == "NBIRTH":
                self._born.clear()
            for metric in found:
                name, datatype = self._named(metric, device or "", birth=kind.endswith("BIRTH"))
                yield row_of(**message(metric, name, datatype, [group, node, *rest]), **own)

    def _named(self, metric: Metric, device: str, *, birth: bool) -> tuple[str, int | None]:
        """Name and type of a metric. Aliases are those of the whole edge node, names those of each device."""
        keys = [] if metric.alias is None else [f"#{metric.alias}"]
        keys += [] if metric.name is None else [f"{device}/{metric.name}"]
        if birth and metric.name is not None:
            for key in keys:
                self._born.updateValue((key,), (metric.name, metric.datatype))
        known = next((self._born.getValue((key,)) for key in keys if self._born.containsKey((key,))), (None, None))
        name = metric.name or known[0] or f"alias/{metric.alias}"
        return name, known[1] if metric.datatype is None else metric.datatype

    def close(self) -> None:
        """Nothing is held."""


def row_of(**values: Any) -> Row:
    """Spark takes what a row holds by its place."""
    return Row(**{name: values.get(name) for name in COLUMNS})


def message(metric: Metric, name: str, datatype: int | None, levels: list[str]) -> dict[str, Any]:
    """The columns of one metric."""
    value = plain(signed(metric.value, datatype))
    body = {"value": value, "at": metric.at, "type": type_name(datatype)}
    return {
        "topic": "/".join([*levels, name]),
        "payload": json.dumps(body, ensure_ascii=False).encode(),
        "metric": name,
        "datatype": type_name(datatype),
        "value": value if value is None or isinstance(value, str) else json.dumps(value),
        "measured_at": None if metric.at is None else datetime.fromtimestamp(metric.at / 1000, UTC),
    }


def plain(value: Value) -> int | float | bool | str | None:
    """As JSON can say it."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return None if isinstance(value, float) and not math.isfinite(value) else value
