"""`bridgehead deadletters`: look at the messages that a remote would not take, send them again, drop them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar
from urllib.parse import urlencode

import typer

from bridgehead.commands.frame import AsJson, ConfigFile, one_line_errors, settings_of
from bridgehead.commands.nodeapi import NodeApi
from bridgehead.commands.stopped import open_store
from bridgehead.errors import NotRunningError
from bridgehead.settings.model import Settings
from bridgehead.wire.reason import Reason

if TYPE_CHECKING:
    from bridgehead.storage.deaddesk import DeadLetterDesk

app = typer.Typer(no_args_is_help=True, help=__doc__)

T = TypeVar("T")
API: Final = "/api/v1/deadletters"
LISTED: Final = 1000
"""How many are listed unless somebody asks for more."""

OfRoute = Annotated[str | None, typer.Option("--route", help="Only those of this route.")]
Ids = Annotated[list[int] | None, typer.Option("--id", min=0, max=2**63 - 1, help="One of them; may be given several times.")]
All = Annotated[bool, typer.Option("--all", help="All of them.")]
Limit = Annotated[int, typer.Option(min=1, max=100_000, help="How many to list at most.")]


@app.command("list")
def list_(config: ConfigFile, route: OfRoute = None, limit: Limit = LISTED, as_json: AsJson = False) -> None:
    """List dead letters, the oldest of each route first."""
    settings = settings_of(config)
    query = urlencode({"limit": limit, **({"route": route} if route is not None else {})})
    with one_line_errors():
        found = _ask(settings, lambda api: api.get(f"{API}?{query}"), lambda desk: desk.listed(route, limit))
    for letter in found["deadLetters"]:
        letter["reasonName"] = reason_name(letter["reason"])
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    for letter in found["deadLetters"]:
        typer.echo(_line(letter))
    more = found["total"] - len(found["deadLetters"])
    typer.echo(f"{found['total']} dead letters" + (f", {more} of them not listed" if more else ""))


@app.command()
def resend(
    config: ConfigFile, route: OfRoute = None, ids: Ids = None, every: All = False, as_json: AsJson = False
) -> None:
    """Put dead letters back at the end of the queue of their route, as new messages."""
    _change("resend", "resent", config, route, ids, every, as_json)


@app.command()
def drop(
    config: ConfigFile, route: OfRoute = None, ids: Ids = None, every: All = False, as_json: AsJson = False
) -> None:
    """Drop dead letters for good."""
    _change("drop", "dropped", config, route, ids, every, as_json)


def _change(
    verb: str, done: str, config: ConfigFile, route: str | None, ids: list[int] | None, every: bool, as_json: bool
) -> None:
    if every == bool(ids):
        raise typer.BadParameter("say which ones: either --id (as often as needed) or --all")
    settings = settings_of(config)
    chosen = None if every else ids
    body = {"route": route, "ids": chosen, "all": every}
    with one_line_errors():
        answer = _ask(
            settings,
            lambda api: api.post(f"{API}/{verb}", body),
            lambda desk: {done: (desk.resend if verb == "resend" else desk.drop)(route, chosen)},
        )
    typer.echo(json.dumps(answer) if as_json else f"{answer[done]} dead letters {done}")


def _ask(settings: Settings, running: Callable[[NodeApi], T], stopped: Callable[[DeadLetterDesk], T]) -> T:
    """Ask the node, or look into its dataDir while it does not run."""
    try:
        return running(NodeApi(settings))
    except NotRunningError as error:
        return asyncio.run(_in_store(settings, error, stopped))


async def _in_store(settings: Settings, why: NotRunningError, do: Callable[[DeadLetterDesk], T]) -> T:
    from bridgehead.storage.deaddesk import DeadLetterDesk
    from bridgehead.storage.ledger import Ledger
    from bridgehead.storage.outbox import Outbox

    engine = open_store(settings, why)
    try:
        outboxes = {}
        for route in (route for route in settings.routes() if route.has_dead_letters):
            assert route.queue_limit is not None
            assert route.max_queue_bytes is not None
            ledger = Ledger(route.id, engine)
            outboxes[route.id] = Outbox(route.id, engine, route.queue_limit, route.max_queue_bytes, ledger)
        return do(DeadLetterDesk(engine, outboxes))
    finally:
        engine.close()


def reason_name(reason: str) -> str:
    """What the code of a refusal means."""
    try:
        return Reason(int(reason.removeprefix("refused-"), 16)).name.lower().replace("_", " ")
    except ValueError:  # never sent, or a code that MQTT does not know
        return reason


def _line(letter: dict[str, Any]) -> str:
    name = letter["reasonName"]
    why = letter["reason"] + (f" ({name})" if name != letter["reason"] else "")
    tries = f"{letter['attempts']} attempt{'s' if letter['attempts'] != 1 else ''}"
    return (
        f"{letter['id']}  {letter['route']}  {letter['topic']}  QoS {letter['qos']}  {why}  {letter['diedAt']}  "
        f"{tries}  {letter['size']} bytes"
    )
