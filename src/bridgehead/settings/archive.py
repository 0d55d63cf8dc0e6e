"""An archive: where a copy of the rows of one route is kept."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo

from bridgehead.settings.part import Part
from bridgehead.settings.transform import DIRECTORY

EXACTLY_ONCE: Final = ("parquet", "delta")
"""Formats that hold each row once whatever is killed; all others hold each at least once."""

_PARTITION: Final = re.compile(r"date|bridge|route|topicLevel[1-9][0-9]{0,3}")


def _no_address(value: object) -> object:
    if isinstance(value, str) and "://" in value:
        raise ValueError("must be a directory, not an address")
    return value


def _from_the_file(path: Path, info: ValidationInfo) -> Path:
    """Relative to the configuration file, as all that belongs to the pipeline of a route is."""
    if "\0" in str(path):
        raise ValueError("must not contain the character NUL")
    return Path((info.context or {}).get(DIRECTORY, Path.cwd())) / path


def _partition_columns(columns: tuple[str, ...]) -> tuple[str, ...]:
    for column in columns:
        if not _PARTITION.fullmatch(column):
            raise ValueError(f"{column!r} is none of date, bridge, route, topicLevel1, topicLevel2, ...")
    if len(set(columns)) != len(columns):
        raise ValueError("the same column is given more than once")
    return columns


class Archive(Part):
    """Rows behind the transform, before the rules."""

    path: Annotated[Path, BeforeValidator(_no_address), AfterValidator(_from_the_file)]
    format: Annotated[str, Field(pattern=r"^[\w.-]+$")] = "parquet"
    partition_by: Annotated[tuple[str, ...], AfterValidator(_partition_columns)] = ("date",)
