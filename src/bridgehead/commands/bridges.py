"""`bridgehead bridges`: see which bridges a running node has; start, stop and restart them."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer

from bridgehead.commands.frame import AsJson, ConfigFile, one_line_errors, settings_of
from bridgehead.commands.nodeapi import NodeApi
from bridgehead.settings.model import Settings

app = typer.Typer(no_args_is_help=True, help=__doc__)

API: Final = "/api/v1/management"

Bridge = Annotated[str, typer.Argument(metavar="ID", help="The id of the bridge.")]


@app.command("list")
def list_(config: ConfigFile, as_json: AsJson = False) -> None:
    """List the bridges of a running node with their states."""
    settings = settings_of(config)
    with one_line_errors():
        found = NodeApi(settings).get(f"{API}/bridges")["items"]
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    for bridge in found:
        typer.echo(_line(bridge))


@app.command()
def start(bridge: Bridge, config: ConfigFile) -> None:
    """Start a bridge that was stopped."""
    _tell(bridge, config, "START")


@app.command()
def stop(bridge: Bridge, config: ConfigFile) -> None:
    """End the connection of a bridge; what is published is queued until it is started."""
    _tell(bridge, config, "STOP")


@app.command()
def restart(bridge: Bridge, config: ConfigFile) -> None:
    """End the connection of a bridge that runs, and begin it anew."""
    _tell(bridge, config, "RESTART")


def _tell(bridge: str, config: ConfigFile, command: str) -> None:
    settings = settings_of(config)
    with one_line_errors():
        api = NodeApi(settings)
        name = quote(bridge, safe="")
        api.put(f"{API}/bridges/{name}/status", {"command": command})
        status = api.get(f"{API}/bridges/{name}/connection-status")
    typer.echo(f"{bridge}: {_state(status)}")


def reload(settings: Settings) -> dict[str, Any]:
    """What has changed by that; CommandError with all faults if nothing has."""
    found = NodeApi(settings).post(f"{API}/reload", {})
    assert isinstance(found, dict)
    return found


def text_of(found: dict[str, Any]) -> str:
    lines = [f"{what}: {', '.join(found[what])}" for what in ("added", "changed", "removed") if found[what]]
    lines.append(f"{len(found['kept'])} bridge{'s' if len(found['kept']) != 1 else ''} as before")
    if found["atNextStart"]:
        lines.append(f"at the next start: {', '.join(found['atNextStart'])}")
    return "\n".join(lines)


def _line(bridge: dict[str, Any]) -> str:
    routes = [len(bridge[key]) for key in ("localSubscriptions", "remoteSubscriptions")]
    hosts = bridge["hosts"] or [{"host": bridge["host"], "port": bridge["port"]}]
    where = ", ".join(f"{each['host']}:{each.get('port', 1883)}" for each in hosts)
    return f"{bridge['id']}  {_state(bridge['status'])}  {where}  {routes[0]} push, {routes[1]} pull"


def _state(status: dict[str, Any]) -> str:
    message = f" ({status['message']})" if "message" in status else ""
    return f"{status['runtime'].lower()}, {status['connection'].lower()}{message}"
