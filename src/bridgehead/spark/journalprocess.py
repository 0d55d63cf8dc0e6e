"""The process that owns an embedded journal: ``python -m bridgehead.spark.journalprocess``.

Its first line of input says what to do, its one line of output where it listens, or why it cannot. With a leash it ends at
the end of its input, that is with the reader that started it, however that ends. Without one (batch reads, whose planner ends
before its tasks begin) it ends when nobody has asked for anything for a while, or when a successor asks for its seat.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import threading
from dataclasses import asdict, dataclass
from logging.handlers import RotatingFileHandler
from typing import TYPE_CHECKING, Any, Final, NoReturn

import uvloop

from bridgehead.errors import BridgeheadError
from bridgehead.interpreter import hold_collector, release_collector, without_pandas
from bridgehead.spark.journalclient import JournalClient
from bridgehead.spark.options import Source
from bridgehead.spark.seat import Seat

if TYPE_CHECKING:
    from bridgehead.spark.journalservice import JournalService

log = logging.getLogger(__name__)

LOG_BYTES: Final = 1 << 20
LINGER: Final = 60.0
"""Seconds without a question after which a journal without a leash ends."""
STOP_WITHIN: Final = 10.0
"""Seconds until a stop that hangs is an end: nothing is lost by it, what is not synced was not acknowledged."""
FAILED: Final = 1


@dataclass(frozen=True, slots=True)
class Orders:
    """What the first line of input says. The same port and token in every life: tasks find the next one again."""

    source: dict[str, Any]
    token: str
    port: int
    leash: bool

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def main() -> None:
    hold_collector()
    without_pandas()
    orders = Orders(**json.loads(sys.stdin.readline()))
    try:
        source = Source.model_validate(orders.source)
        seat = Seat(source.journal_dir, _ask_to_leave)
        _log_to_file(source)
        uvloop.run(_serve(source, orders, seat))
    except Exception as error:
        ours = not isinstance(error, BridgeheadError | OSError)
        log.error("%s", error, exc_info=ours)
        _say({"error": repr(error) if ours else str(error)})
        os._exit(FAILED)
    os._exit(0)  # threads of gRPC and RocksDB have nothing left to do


async def _serve(source: Source, orders: Orders, seat: Seat) -> None:
    from bridgehead.spark.journalservice import JournalService
    from bridgehead.spark.recorder import Recorder
    from bridgehead.storage import kernels as storage_kernels
    from bridgehead.wire import kernels

    recorder = Recorder(source)
    service = JournalService(recorder, source.journal_host, orders.port, orders.token)
    ending = asyncio.Event()
    if orders.leash:
        _watch_input(asyncio.get_running_loop(), ending)
    else:
        service.on_leave = ending.set
    await asyncio.to_thread(kernels.warm)
    await asyncio.to_thread(storage_kernels.warm)
    recorder.start(_end_at_once)
    told = {"pid": os.getpid(), "address": service.address, "token": orders.token, "leaves": not orders.leash}
    seat.write(told)
    _say({"port": service.port})
    release_collector()
    await _until(ending, service, linger=None if orders.leash else LINGER)
    threading.Timer(STOP_WITHIN, os._exit, (FAILED,)).start()
    await recorder.stop()
    seat.leave()


def _end_at_once(error: BaseException) -> NoReturn:
    """Nothing more is said to the broker: it might not be true for the next life, which finds what the disk has."""
    log.error("the journal's disk has failed: %s", error)
    _say({"error": f"the journal's disk has failed: {error}"})
    os._exit(FAILED)


async def _until(ending: asyncio.Event, service: JournalService, linger: float | None) -> None:
    while not ending.is_set() and (linger is None or service.idle_for < linger):
        try:
            async with asyncio.timeout(None if linger is None else linger / 4):
                await ending.wait()
        except TimeoutError:
            continue


def _watch_input(loop: asyncio.AbstractEventLoop, ending: asyncio.Event) -> None:
    def watch() -> None:
        sys.stdin.read()
        threading.Timer(STOP_WITHIN, os._exit, (FAILED,)).start()
        loop.call_soon_threadsafe(ending.set)

    threading.Thread(target=watch, name="leash", daemon=True).start()


def _ask_to_leave(found: dict[str, Any]) -> None:
    if found.get("leaves"):
        JournalClient(found["address"], found["token"]).leave()


def _say(answer: dict[str, Any]) -> None:
    """The one line of output; nobody reads a second one."""
    os.write(sys.stdout.fileno(), json.dumps(answer).encode() + b"\n")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _log_to_file(source: Source) -> None:
    handler = RotatingFileHandler(source.journal_dir / "journal.log", maxBytes=LOG_BYTES, backupCount=1)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


if __name__ == "__main__":
    main()
