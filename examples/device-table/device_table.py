"""A stream joined with a table: what a device sends under its serial number goes on under the place where it stands."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

HERE = Path(__file__).parent
DEVICE = "serial string, site string, name string, unit string"


def placed(messages: DataFrame, table: str) -> DataFrame:
    """``devices/SERIAL`` becomes ``plant/SITE/NAME``, or ``unknown/SERIAL`` when the table beside this file has none of it."""
    devices = messages.sparkSession.read.csv(str(HERE / table), header=True, schema=DEVICE)
    serial = f.element_at(f.split("topic", "/"), -1)
    known = f.concat_ws("/", f.lit("plant"), "site", "name")
    unknown = f.concat_ws("/", f.lit("unknown"), serial)
    value = f.col("payload").cast("string")
    return messages.join(f.broadcast(devices), serial == devices.serial, "left").select(
        f.when(devices.serial.isNull(), unknown).otherwise(known).alias("topic"),
        f.when(devices.unit.isNull(), value).otherwise(f.concat_ws(" ", value, "unit")).alias("payload"),
        "qos", "retain", "received_at", "message_expiry", "user_properties", "journal_offset",
    )  # fmt: skip
