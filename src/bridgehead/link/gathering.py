"""One batch per turn of the event loop: runs of several connections are gathered, made safe together, then acknowledged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final, Generic, Protocol, TypeVar

from bridgehead.errors import StorageError
from bridgehead.wire.intake import Intake, Rows

log = logging.getLogger(__name__)

INTAKE_BYTES: Final = 32 * 1024 * 1024
"""A turn ends early when this much has come in: a batch stays far below Arrow's 2 GiB."""

ENOUGH_BYTES: Final = 256 * 1024
"""A batch of this size costs no less per message if it grows: it is worked on while the sync runs."""

LOOKS: Final = 8
"""How often the sockets are looked at again before a turn ends, as long as each look brings more: the first packets of a burst
wake the loop, the others are on their way. A turn costs about the same for 100 messages as for 1,000."""


class Source(Protocol):
    """Who sent a run, and is owed its acknowledgements."""

    def reply(self, data: bytes) -> None: ...

    def failed(self, rows: Rows) -> None:
        """Some of these rows were yours and could not be kept: end, so that they come again."""


class Keeper(Protocol):
    """Who knows when what was written is safe: a storage engine."""

    def when_synced(self, callback: Callable[[], None]) -> None: ...

    def between_syncs(self, callback: Callable[[], None]) -> None: ...

    def hurry_sync(self) -> None: ...


S = TypeVar("S", bound=Source)
Answers = Mapping[S, Callable[[bytes], bytes]]
"""Of sources whose rows were not all taken: how the replies due to them change."""


class Gathering(Generic[S]):
    """Collects scanned runs; ``accept`` gets their rows, and the replies leave when the engine says that they are safe.

    A turn that only released QoS 2 ids has no rows, and is accepted all the same if their removal is to be written.
    """

    def __init__(self, engine: Keeper, accept: Callable[[Rows, list[S]], Answers[S] | None]) -> None:
        self.intake = Intake()
        self._engine = engine
        self._accept = accept
        self._runs: list[tuple[S, bytes]] = []
        self._ids_changed = False
        self._turn_due = False
        self._looks = 0  # at the sockets, in this turn
        self._seen = 0  # bytes that had come by the last look
        self._asking = False  # right now, whether a sync runs
        self._stood_aside = False  # at the end of a sync, for what it had made safe

    def received(self, source: S, replies: bytes, *, ids_changed: bool = False) -> None:
        """A run of this source is in the intake; ``replies`` are due when it is safe, and so are changes of QoS 2 ids."""
        self._runs.append((source, replies))
        self._ids_changed |= ids_changed
        if self.intake.bytes_used > INTAKE_BYTES:
            self.flush()
        elif not self._turn_due:
            self._turn_due = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        """What comes while a sync runs waits for the next one in any case: it is gathered until then, into one batch."""
        if self.intake.bytes_used > ENOUGH_BYTES:
            self._turn_over()
        else:
            self._asking = True
            self._engine.between_syncs(self._look)
            self._asking = False

    def _look(self) -> None:
        """No sync runs: the turn ends if nothing has come since the last look.

        Where a sync has just ended the looks begin anew, behind what it has made safe: that is sent first. But once in a turn
        only: others may have begun the next sync by then, and the next, and the turn would wait for as long as they do that.
        """
        used = self.intake.bytes_used
        if not self._asking and not self._stood_aside:
            self._stood_aside = True
            self._looks = self._seen = 0
            asyncio.get_running_loop().call_soon(self._turn)
        elif self._asking and used > self._seen and self._looks < LOOKS:
            self._seen, self._looks = used, self._looks + 1
            asyncio.get_running_loop().call_soon(self._turn)
        else:
            self._turn_over()

    def _turn_over(self) -> None:
        self._turn_due = self._stood_aside = False
        self._looks = self._seen = 0
        self.flush()

    def flush(self) -> None:
        """Everything gathered goes its way now."""
        if not self._runs:
            return
        runs, self._runs = self._runs, []
        if self.intake.rows_used or self._ids_changed:
            self._ids_changed = False
            self.offer(self.intake.take(), runs)
        else:
            self._engine.when_synced(lambda: _reply(runs))

    def offer(self, rows: Rows, runs: list[tuple[S, bytes]]) -> None:
        """These rows, of this turn or held back in an earlier one, go their way; ``runs`` are the replies due for them."""
        try:
            answers = self._accept(rows, [source for source, _ in runs])
        except Exception as error:
            # A fault of ours, or of the disk. Not acknowledged, the senders keep their messages, and bring them again.
            ours = not isinstance(error, StorageError)
            log.error("a turn of %d messages could not be kept: %s", len(rows.rows), error, exc_info=ours)
            for source in dict.fromkeys(source for source, _ in runs):
                source.failed(rows)
            return
        due = runs if answers is None else _answered(runs, answers)
        self._engine.when_synced(lambda: _reply(due))
        self._engine.hurry_sync()  # senders wait for it, and for nothing else that the loop may do meanwhile


def _answered(runs: list[tuple[S, bytes]], answers: Answers[S]) -> list[tuple[S, bytes]]:
    due = [(source, replies) for source, replies in runs if source not in answers]
    for source, answer in answers.items():
        due.append((source, answer(b"".join(replies for other, replies in runs if other == source))))
    return due


def _reply(runs: list[tuple[S, bytes]]) -> None:
    for source, replies in runs:
        source.reply(replies)
