"""What every command does alike: read the settings, and end with one line when something is not as it should be."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from bridgehead.errors import CommandError, RefusedError, SettingsError, StartError, StorageError
from bridgehead.settings.configuration import Configuration
from bridgehead.settings.load import default_settings, load
from bridgehead.settings.model import Settings

ConfigFile = Annotated[Path, typer.Option("-c", "--config", help="The configuration file (YAML).")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def settings_of(config: Path | None, *, report: bool = False) -> Settings:
    """The settings, with what API calls have changed in them, or every fault and exit 2.

    ``report``: the faults of the file are what was asked for: they go to standard output, and nothing else counts.
    """
    if not report:
        return configuration_of(config).settings
    try:
        return load(config, os.environ) if config is not None else default_settings()
    except SettingsError as error:
        report_faults(config, error)


def configuration_of(config: Path | None) -> Configuration:
    """The file and, over it, what API calls have changed; or every fault and exit 2."""
    try:
        return Configuration.read(config, os.environ)
    except SettingsError as error:
        report_faults(config, error, err=True)


def report_faults(config: Path | None, error: SettingsError, *, err: bool = False) -> NoReturn:
    """Every fault in a line, how many there are, and exit 2."""
    typer.echo(str(error), err=err)
    count = len(error.faults)
    typer.echo(f"{config}: {count} fault{'s' if count != 1 else ''}", err=err)
    raise typer.Exit(2) from error


@contextmanager
def one_line_errors() -> Iterator[None]:
    """What cannot start, go on or be done is one clear line (exit 1)."""
    try:
        yield
    except (StartError, StorageError, CommandError, RefusedError) as error:
        typer.echo(f"bridgehead: {error}", err=True)
        raise typer.Exit(1) from error
