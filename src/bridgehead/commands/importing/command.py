"""`bridgehead import`: write our YAML from the configuration of another bridge, and say what it does not say."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from bridgehead.commands.frame import one_line_errors
from bridgehead.commands.importing.report import Report
from bridgehead.commands.importing.writing import read, save, written

app = typer.Typer(no_args_is_help=True, help=__doc__)

Output = Annotated[Path | None, typer.Option("-o", "--output", help="A file that is not there yet; else standard output.")]


@app.command()
def hivemq(config: Annotated[Path, typer.Argument(metavar="config.xml")], output: Output = None) -> None:
    """The bridges of a HiveMQ Edge."""
    from bridgehead.commands.importing.hivemq import import_hivemq

    _import(config, output, lambda report: import_hivemq(read(config), config.name, report))


@app.command()
def mosquitto(config: Annotated[Path, typer.Argument(metavar="mosquitto.conf")], output: Output = None) -> None:
    """The bridges of a mosquitto, with the files it includes."""
    from bridgehead.commands.importing.mosquitto import import_mosquitto

    _import(config, output, lambda report: import_mosquitto(config, report))


def _import(source: Path, output: Path | None, take: Callable[[Report], dict[str, Any]]) -> None:
    """YAML to standard output or a file; everything that became of it to standard error."""
    report = Report()
    with one_line_errors():
        text = written(take(report), report, source, os.environ)
        if output is not None:
            save(text, output)
    if output is None:
        typer.echo(text, nl=False)
    typer.echo(report.text(), err=True)
