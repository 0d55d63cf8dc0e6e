"""Rows of the three schemas, from as little as a test cares to say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from bridgehead.columns.batches import Batch
from bridgehead.columns.schema import OUTBOX, STORED, WIRE


def _row(given: dict[str, Any]) -> dict[str, Any]:
    defaults = {"topic": "t", "payload": b"", "qos": 1, "retain": False, "user_properties": []}
    row = {**defaults, **given}
    row.setdefault("wire_qos", row["qos"])
    return row


def _batch(rows: Sequence[dict[str, Any]], schema: pa.Schema) -> Batch:
    complete = [{name: _row(row).get(name) for name in schema.names} for row in rows]
    return pa.RecordBatch.from_pylist(complete, schema=schema)


def wire_rows(*rows: dict[str, Any]) -> Batch:
    return _batch(rows, WIRE)


def outbox_rows(*rows: dict[str, Any]) -> Batch:
    return _batch(rows, OUTBOX)


def stored_rows(*rows: dict[str, Any]) -> Batch:
    return _batch([{"route": "r", "client_id": "c", "received_at": 0, **row} for row in rows], STORED)


def numbered(first: int, count: int, **given: Any) -> list[dict[str, Any]]:
    """So many rows whose payload is their number: what order and completeness are told by."""
    return [{"payload": str(number).encode(), **given} for number in range(first, first + count)]


def numbers(batch: Batch) -> list[int]:
    return [int(payload) for payload in batch.column("payload").to_pylist()]
