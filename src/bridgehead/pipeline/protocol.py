"""What a node and its Spark side say to each other: Flight actions with JSON bodies, tickets, parts, refusals.

| call | says | answer |
|---|---|---|
| begin | epoch, log, anew (, ui) | incarnation, and the offset where the query of this log starts |
| idle | epoch, log | the time, if nothing waits that came before it |
| latest | epoch, log, start, max_rows, max_bytes, wait | the offset a batch from start would end at |
| plan | epoch, log, start, end | the running batch covers this range |
| planned | epoch, log | that range, the highest hop count and QoS of its rows |
| finish | epoch, log, start, end, parts | a task has staged everything of its range |
| commit | epoch, log, start, end (, parts, batch, archived) | whether it moved the rows; without parts: of finished tasks |
| archived | epoch, log | the files that the last commit with files has named |
| release | epoch, log, end | the reader never asks below end again |
| report | epoch, log, state, reason, pause | how the query of this log is doing, and when it is tried again |
| offsets | log or route or bridge or none of them (, time) | incarnation, first and next offset of each log, routes |
| ahead | incarnation, starts, max_rows, max_bytes, wait, lossy | where a batch of a guest from these offsets would end |
| lease | holder, epoch or none | epoch, seconds, job: the holder is the node's driver for so long |
| give-up | holder, epoch, wait | the lease is over, and running batches had so long to end |
| do_get | ticket: epoch, incarnation, log, start, end, form | batches of the range |
| submit | app, version, parts, client | whether these rows are published now; None: there is no room yet |
| abort | app, version | what was staged of this batch is forgotten |
| do_get | ticket: incarnation, log, start, end, routes, lossy, form "again" | the same for a guest |
| do_put | command: epoch, log, part; each batch with its route | the part is staged |
| do_put | command: app, version, part | the part is staged, to be published into the node |
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any, Final, NamedTuple, NoReturn

import pyarrow as pa
from pyarrow import flight

from bridgehead.columns.schema import OUTBOX
from bridgehead.errors import NotRetainedError, RefusedError, StaleEpochError

TOKEN_HEADER: Final = "bridgehead-token"

MAX_BATCH_ROWS: Final = 32_768
MAX_BATCH_BYTES: Final = 16 << 20
"""A batch on the way to a task is cut at these bounds (one row is never cut): bounded memory on both sides."""

MAX_PART_BYTES: Final = 64 << 20
"""A task stages what it has at this size and goes on with the next part."""


class Action(StrEnum):
    BEGIN = "begin"
    IDLE = "idle"
    LATEST = "latest"
    PLAN = "plan"
    PLANNED = "planned"
    FINISH = "finish"
    COMMIT = "commit"
    ARCHIVED = "archived"
    RELEASE = "release"
    REPORT = "report"
    OFFSETS = "offsets"
    AHEAD = "ahead"
    SUBMIT = "submit"
    ABORT = "abort"
    LEASE = "lease"
    GIVE_UP = "give-up"


class Form(StrEnum):
    """How the rows of a range travel: as the message table, or with what the rules need and no more."""

    MESSAGES = "messages"
    ROUTED = "routed"
    CLIENTS = "clients"  # the same, where rules ask who published
    AGAIN = "again"  # the message table, for those who only look


class Planned(NamedTuple):
    """The range of a batch, and the highest that its rows came with."""

    start: int
    end: int
    hops: int
    qos: int


ROUTED: Final = pa.schema([field for field in OUTBOX if field.name != "wire_qos"] + [pa.field("route", pa.string())])
ROUTED_CLIENTS: Final = ROUTED.append(pa.field("client_id", pa.string()))


_STALE: Final = b"stale-epoch"
_REFUSED: Final = b"refused"
_NOT_RETAINED: Final = b"not-retained:"


def pack(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def unpack(data: bytes) -> dict[str, Any]:
    value = json.loads(data)
    if not isinstance(value, dict):
        raise RefusedError("a call's body is a JSON object")
    return value


def as_flight_error(error: RefusedError) -> flight.FlightError:
    """A refusal as it crosses the wire: the mark says which one, the text stays readable."""
    mark = _STALE if isinstance(error, StaleEpochError) else _REFUSED
    if isinstance(error, NotRetainedError):
        mark = _NOT_RETAINED + pack({"log": error.log, "start": error.start, "end": error.end})
    return flight.FlightServerError(str(error), extra_info=mark)


def raise_refusal(error: flight.FlightError) -> NoReturn:
    """The same refusal on the other side; whatever is not a refusal goes on as it is."""
    mark = bytes(error.extra_info or b"")
    text = str(error).split(". gRPC client debug context", 1)[0]
    if mark == _STALE:
        raise StaleEpochError(text) from error
    if mark.startswith(_NOT_RETAINED):
        raise NotRetainedError(**unpack(mark.removeprefix(_NOT_RETAINED))) from error
    if mark == _REFUSED:
        raise RefusedError(text) from error
    raise error
