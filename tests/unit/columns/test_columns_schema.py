"""One definition of the message table, in Arrow and in Spark's words."""

from __future__ import annotations

import pyarrow as pa

from bridgehead.columns.schema import MESSAGE, MESSAGE_DDL, OUTBOX, STORED, WIRE

SPARK = {
    pa.string(): "string",
    pa.binary(): "binary",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.bool_(): "boolean",
    pa.timestamp("us", tz="UTC"): "timestamp",
}


def test_the_ddl_names_the_columns_of_the_message_table_with_their_types() -> None:
    words = [f"{field.name} {SPARK.get(field.type, 'array<struct<key: string, value: string>>')}" for field in MESSAGE]
    assert ", ".join(words) == MESSAGE_DDL


def test_the_journal_stores_what_the_wire_brings() -> None:
    assert set(WIRE.names) < set(STORED.names) < set(MESSAGE.names)
    assert all(STORED.field(name).type == WIRE.field(name).type for name in WIRE.names)


def test_the_outbox_keeps_what_the_wire_needs() -> None:
    assert set(OUTBOX.names) == {*WIRE.names, "wire_qos", "received_at"}
    assert all(OUTBOX.field(name).type == MESSAGE.field(name).type for name in OUTBOX.names if name != "wire_qos")
