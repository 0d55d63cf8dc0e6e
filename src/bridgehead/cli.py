"""The command line: run a node or a pipeline, check a file, look after its dead letters, watch the demo."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from bridgehead import __version__
from bridgehead.commands import bridges, deadletters
from bridgehead.commands.frame import AsJson, ConfigFile, configuration_of, one_line_errors, report_faults, settings_of
from bridgehead.commands.importing import command as importing
from bridgehead.errors import SettingsError
from bridgehead.interpreter import end, hold_collector, release_collector, without_pandas
from bridgehead.settings.advice import advice

log = logging.getLogger(__name__)

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__, pretty_exceptions_enable=False)

app.add_typer(deadletters.app, name="deadletters")
app.add_typer(bridges.app, name="bridges")
app.add_typer(importing.app, name="import")

ENDING = (signal.SIGTERM, signal.SIGINT)

Verbose = Annotated[bool, typer.Option("-v", "--verbose")]
OptionalConfigFile = Annotated[Path | None, typer.Option("-c", "--config", help="The configuration file (YAML).")]


@app.command()
def check(config: ConfigFile) -> None:
    """Validate a configuration file and try its transforms; print every fault with its place (exit 2)."""
    settings = settings_of(config, report=True)
    warnings = list(advice(settings))
    if any(route.transform is not None for route in settings.routes()):
        from bridgehead.commands.check import try_transforms  # which knows Spark

        outcome = try_transforms(settings, config, os.environ)
        if outcome.faults:
            report_faults(config, SettingsError(outcome.faults))
        warnings += outcome.warnings
    for line in warnings:
        typer.echo(f"warning: {line}")
    routes = len(settings.routes())
    typer.echo(f"{config}: node {settings.node}, {len(settings.bridges)} bridges, {routes} routes: good")


@app.command()
def run(config: OptionalConfigFile = None, verbose: Verbose = False) -> None:
    """Run a node in the foreground until SIGTERM or SIGINT."""
    hold_collector()
    _log_to_stderr(verbose=verbose)
    told = threading.Event()
    signal.signal(signal.SIGHUP, lambda *_: told.set())  # until there is a node to be told: it would end us
    _end_by_signal()
    configuration = configuration_of(config)
    settings = configuration.settings
    for line in advice(settings):
        log.warning(line)
    without_pandas()
    from bridgehead.app import Node

    async def serve() -> None:
        node = Node(settings, configuration)
        stopped = _until_told_to_stop()
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, node.reload)
        if told.is_set():
            node.reload()
        await node.start()
        release_collector()
        logging.getLogger("bridgehead").info("node %s listens on %s", settings.node, node.ports)
        await stopped.wait()
        await node.stop()

    _run(serve())
    end(0)


@app.command()
def pipeline(config: ConfigFile, verbose: Verbose = False) -> None:
    """Run only the Spark side, for nodes with pipeline.external: those of pipeline.nodes, or the one of this file."""
    _log_to_stderr(verbose=verbose)
    _end_by_signal()
    settings = settings_of(config)
    from bridgehead.commands import pipeline as command

    async def serve() -> None:
        await command.run(settings, _until_told_to_stop())

    _run(serve())


@app.command()
def prepare(again: Annotated[bool, typer.Option("--again", help="Also if it was done before.")] = False) -> None:
    """Do once what every start of Spark would do again: it starts in half the time from then on (takes a minute, 170 MiB)."""
    without_pandas()
    from bridgehead.commands import prepare as command

    with one_line_errors():
        typer.echo(asyncio.run(command.prepare(again=again)))


@app.command()
def demo(
    messages: Annotated[int, typer.Option(help="End when so many have crossed each way; 0 = until Ctrl-C.", min=0)] = 0,
    rate: Annotated[int, typer.Option(help="Messages a second each way.", min=1)] = 200,
    persistence: Annotated[str, typer.Option(help="in-memory or file-native.")] = "in-memory",
    engine: Annotated[str, typer.Option(help="spark or inline.")] = "spark",
    plant_port: Annotated[int, typer.Option(help="MQTT port of the node plant.", hidden=True)] = 1883,
    cloud_port: Annotated[int, typer.Option(help="MQTT port of the node cloud.", hidden=True)] = 1884,
    console_port: Annotated[int, typer.Option(help="Port of plant's console.", hidden=True)] = 8080,
) -> None:
    """Two nodes, a bridge between them, a small simulated factory, and a live table of what crosses."""
    from bridgehead.demo.demo import Demo, Ports

    try:
        show = Demo(messages, rate, persistence, engine, Ports(plant_port, cloud_port, console_port))
    except SettingsError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error
    _run(show.run())


@app.command()
def backup(
    destination: Annotated[Path, typer.Argument(metavar="DEST", help="A directory that does not exist yet.")],
    config: ConfigFile,
) -> None:
    """Copy what a file-native node keeps, as it is at this moment; the node may run or not."""
    from bridgehead.commands.backup import back_up

    settings = settings_of(config)
    _tell(lambda: back_up(settings, destination))


@app.command()
def restore(
    source: Annotated[Path, typer.Argument(metavar="SRC", help="What `bridgehead backup` has made.")],
    config: ConfigFile,
    replace: Annotated[bool, typer.Option("--replace", help="Set aside the store that is there.")] = False,
) -> None:
    """Bring a backup back into the dataDir of a node that does not run: what was delivered since is sent once more."""
    from bridgehead.commands.backup import restore as bring_back

    settings = settings_of(config)
    _tell(lambda: bring_back(settings, source, replace=replace))


@app.command()
def status(config: OptionalConfigFile = None, as_json: AsJson = False) -> None:
    """Show what a running node does: its bridges, its routes, what waits and why (exit 1 when no node answers)."""
    from bridgehead.commands import status as command

    settings = settings_of(config)
    with one_line_errors():
        snapshot = command.status(settings)
    typer.echo(json.dumps(snapshot, indent=2) if as_json else command.text_of(snapshot))


@app.command()
def reload(config: OptionalConfigFile = None, as_json: AsJson = False) -> None:
    """Let a running node read its configuration file again, and say what has changed by that (exit 1 if it is faulty)."""
    settings = settings_of(config)
    with one_line_errors():
        found = bridges.reload(settings)
    typer.echo(json.dumps(found) if as_json else bridges.text_of(found))


@app.command()
def audit(config: OptionalConfigFile = None, as_json: AsJson = False) -> None:
    """Print both sums of every route and check them: of the running node, or of what a stopped one has left (exit 1)."""
    from bridgehead.commands import audit as command

    settings = settings_of(config)
    with one_line_errors():
        account = command.audit(settings)
    typer.echo(json.dumps(account, indent=2) if as_json else command.text_of(account))
    if not account["addsUp"]:
        raise typer.Exit(1)


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def _log_to_stderr(*, verbose: bool) -> None:
    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )


def _end_by_signal() -> None:
    """Until there is something to be stopped, a stop is an end: nothing is under way yet."""
    for name in ENDING:
        signal.signal(name, lambda *_: os._exit(0))


def _until_told_to_stop() -> asyncio.Event:
    """Set by SIGTERM or SIGINT."""
    stopped = asyncio.Event()
    for name in ENDING:
        asyncio.get_running_loop().add_signal_handler(name, stopped.set)
    return stopped


def _tell(work: Callable[[], str]) -> None:
    """Say what came of it; what cannot be done is one clear line (exit 1)."""
    with one_line_errors():
        typer.echo(work())


def _run(work: object) -> None:
    """Run to the end on the fastest loop there is; what cannot start or go on is one clear line (exit 1)."""
    with contextlib.suppress(ImportError):
        import uvloop

        uvloop.install()
    with one_line_errors():
        asyncio.run(work)  # type: ignore[arg-type]


def main() -> None:
    app()
