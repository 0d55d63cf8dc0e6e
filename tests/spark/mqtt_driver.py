"""A PySpark program: a query over ``format("mqtt")`` whose batches are files, one each, replaced when a batch is repeated.

    python -m spark.mqtt_driver OPTIONS_AS_JSON DIRECTORY
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bridgehead.spark import register
from spark.session import light


def main(options: dict[str, str], directory: Path) -> None:
    spark = SparkSession.builder.master("local[2]").config(map=light()).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)

    def keep(rows: DataFrame, batch: int) -> None:
        found = [int(bytes(row["payload"])) for row in sorted(rows.collect(), key=lambda row: row["journal_offset"])]
        aside = directory / f".{batch}"
        aside.write_text(json.dumps(found))
        os.replace(aside, directory / f"{batch:05}.json")

    query = (
        spark.readStream.format("mqtt")
        .options(**options)
        .load()
        .writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(directory / "checkpoint"))
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), Path(sys.argv[2]))
