"""The reader's side of the process that owns its journal: starts it, and starts it again if it is killed."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import threading
from time import sleep
from typing import Any, Final

from bridgehead.errors import StartError
from bridgehead.spark.journalclient import JournalClient
from bridgehead.spark.journalprocess import Orders
from bridgehead.spark.options import Source, as_document

STOP_WITHIN: Final = 15.0
AGAIN_AFTER: Final = (0.0, 1.0, 2.0, 5.0, 10.0)
"""Seconds before each further start of a journal that does not stay; the last one for all that follow."""


class Keeper:
    """Starts the journal when created; raises StartError with its reason where it cannot start."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._token = secrets.token_urlsafe(32)
        self._stopping = threading.Event()
        self._process, self._port = start(source, self._token, port=0, leash=True)
        self._watch = threading.Thread(target=self._keep, name="journal-keeper", daemon=True)
        self._watch.start()

    def client(self) -> JournalClient:
        return JournalClient(f"grpc://{self._source.journal_host}:{self._port}", self._token)

    def stop(self) -> None:
        """Let it say goodbye to the broker and close."""
        self._stopping.set()
        let_go(self._process)

    def _keep(self) -> None:
        failed = 0
        while True:
            self._process.wait()
            if self._stopping.is_set():
                return
            let_go(self._process)
            sleep(AGAIN_AFTER[min(failed, len(AGAIN_AFTER) - 1)])
            try:
                self._process, _ = start(self._source, self._token, self._port, leash=True)
                failed = 1
            except StartError as error:
                failed += 1
                print(f"the journal of {self._source.client_id} does not start: {error}", file=sys.stderr)
            if self._stopping.is_set():
                let_go(self._process)
                return


def start(source: Source, token: str, port: int, *, leash: bool) -> tuple[subprocess.Popen[bytes], int]:
    """A journal's process, and the port it listens on. One without a leash outlives whoever started it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bridgehead.spark.journalprocess"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # what it has to say is in its log
        start_new_session=True,  # a Ctrl-C in a notebook's terminal is not meant for it
    )
    assert process.stdin is not None
    assert process.stdout is not None
    orders = Orders(as_document(source), token, port, leash)
    process.stdin.write(orders.to_json().encode() + b"\n")
    process.stdin.flush()
    answer: dict[str, Any] = json.loads(process.stdout.readline() or b'{"error": "it ended without a word"}')
    process.stdout.close()
    if "error" in answer:
        let_go(process)
        raise StartError(answer["error"])
    if not leash:
        process.stdin.close()
    return process, answer["port"]


def let_go(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(STOP_WITHIN)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


_outliving: Final[list[subprocess.Popen[bytes]]] = []
"""Journals that go on without us: nobody waits for them. Those that have ended are let go of when the next one comes."""


def lingering(source: Source) -> JournalClient:
    """The journal of a batch read: it goes on after the planner, for the tasks, and ends by itself."""
    token = secrets.token_urlsafe(32)
    process, port = start(source, token, port=0, leash=False)
    _outliving[:] = [process, *(other for other in _outliving if other.poll() is None)]
    return JournalClient(f"grpc://{source.journal_host}:{port}", token)
