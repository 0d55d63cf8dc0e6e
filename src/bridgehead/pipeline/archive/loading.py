"""Formats that Spark writes: a committed batch is loaded by the format's own writer.

The batch's rows wait as pending Parquet files until the commit names them, as those of a Parquet archive do. Then they are
read back and appended in the format that was asked for. If the driver dies in the middle of that, the next one appends them
again: a format that knows ``txnAppId`` and ``txnVersion`` (Delta) sees that it has them, any other may hold them twice. Its
promise is at least once.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bridgehead.errors import ArchiveError
from bridgehead.pipeline.archive import files
from bridgehead.pipeline.archive.desk import ArchiveDesk
from bridgehead.pipeline.archive.layout import key_of
from bridgehead.pipeline.archive.spec import ArchiveSpec, Published

FILES: Final = ("avro", "csv", "json", "orc", "text", "xml")
"""Formats that are directories of files: whether they can hold the rows is found out by writing none of them."""


class LoadingDesk(ArchiveDesk):
    """An archive in any format that Spark knows."""

    def __init__(self, spec: ArchiveSpec, life: str, spark: Any, schema: Any) -> None:
        """``schema``: of the rows that come."""
        super().__init__(spec, life)
        self._spark = spark
        self._schema = schema
        self._application = f"{key_of(spec)}-{life}"

    def recover(self, committed: Published | None, confirm: Callable[[], object]) -> None:
        self._try_format()
        super().recover(committed, confirm)

    def _try_format(self) -> None:
        """ArchiveError if Spark has no such format here, or one that cannot hold these columns: now, not with rows in hand."""
        wanted = self.spec.format
        try:
            jvm = self._spark._jvm
            jvm.org.apache.spark.sql.execution.datasources.DataSource.lookupDataSource(
                wanted, self._spark._jsparkSession.sessionState().conf()
            )
        except Exception as error:
            raise ArchiveError(f"Spark has no format {wanted} here: its jar is missing, or the name is wrong") from error
        if wanted in FILES:
            aside = self._pending / f"try-{uuid.uuid4().hex}"
            try:
                self._spark.createDataFrame([], self._schema).write.format(wanted).save(str(aside))
            except Exception as error:
                raise ArchiveError(f"the format {wanted} cannot hold these rows: {_first_line(error)}") from error
            finally:
                files.remove_directory(aside)

    def publish(self, committed: Published) -> None:
        """What is no longer pending was loaded before."""
        pending = [Path(committed.path) / each for each, _ in committed.files]
        left = [each for each in pending if each.exists()]
        if not left:
            return
        writer = self._spark.read.parquet(*map(str, left)).write.format(self.spec.format).mode("append")
        options = {"txnAppId": self._application, "txnVersion": str(committed.version)}
        try:
            writer.options(**options).partitionBy(*self.spec.partition_by).save(self.spec.path)
        except Exception as error:
            raise ArchiveError(f"the archive {self.spec.path} cannot be written: {_first_line(error)}") from error
        for each in left:
            files.remove(each)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:300]
