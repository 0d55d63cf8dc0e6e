"""A transform: what the user's pipeline does with the messages of one route."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, JsonValue, PrivateAttr, ValidationInfo, model_validator

from bridgehead.settings.part import Part

OutputMode = Literal["append", "update", "complete"]
OnError = Literal["fail", "dead-letter"]

DIRECTORY = "directory"
"""In the context of a validation: where the configuration file is."""

_KINDS = ("sql", "sqlFile", "python")


def _beside_the_file(path: Path, info: ValidationInfo) -> Path:
    """Relative to the configuration file, and there: who names a file wants what is in it."""
    if "\0" in str(path):
        raise ValueError("must not contain the character NUL")
    path = Path((info.context or {}).get(DIRECTORY, Path.cwd())) / path
    try:
        path.read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8 text") from None
    return path


class Transform(Part):
    """SQL over the table ``messages``, or a Python function from DataFrame to DataFrame; exactly one of them is given."""

    sql: Annotated[str, Field(min_length=1)] | None = None
    sql_file: Annotated[Path, AfterValidator(_beside_the_file)] | None = None
    python: Annotated[str, Field(pattern=r"^[^\W\d][\w.]*:[^\W\d]\w*$")] | None = None  # package.module:function
    options: dict[str, JsonValue] = Field(default={}, repr=False)  # keyword arguments of the function, or :names in SQL
    output_mode: OutputMode = "append"
    on_error: OnError = "fail"
    _text: str | None = PrivateAttr(default=None)  # of sql_file: with another text it is another transform

    def model_post_init(self, context: Any) -> None:
        if self.sql_file is not None:
            self._text = self.sql_file.read_text(encoding="utf-8")

    @model_validator(mode="after")
    def _exactly_one(self) -> Transform:
        given = [kind for kind, value in zip(_KINDS, (self.sql, self.sql_file, self.python), strict=True) if value is not None]
        if len(given) != 1:
            raise ValueError(f"give one of {', '.join(_KINDS)}" + (f", not {' and '.join(given)}" if given else ""))
        return self
