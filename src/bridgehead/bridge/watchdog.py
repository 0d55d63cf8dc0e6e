"""The watchdog of an uplink: connected and with something to send, but nothing moves, is no connection.

Keep alive sees whether the peer lives; this sees whether messages get through. Progress is an acknowledgement. Where none can
be expected, because the kernel has not yet taken what it would be for or because there is only QoS 0, progress is bytes that
the kernel takes. Without progress for the watchdog's seconds the connection is given up and built anew.

A remote answers in the order of sending. A message that it passes over would wait for as long as there is progress with others:
that is given the same seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

LOOKS: Final = 4
"""How often the watchdog looks within its seconds: it bites at most a quarter later than it could."""


class Work(NamedTuple):
    """What an uplink has to do, and marks that change whenever something of it is done."""

    listening: bool  # False: we do not read, so that no acknowledgement can reach us
    in_flight: int  # sent, and an acknowledgement is to come
    in_socket: int  # sent without one to come, and not yet taken by the kernel
    waiting: bool  # rows that are not sent yet
    acknowledged: int  # acknowledgements so far
    taken: int  # bytes that the kernel has taken, up to those that the next acknowledgement waits for
    overtaken: int | None  # the first message that was passed over, by the order of sending: later ones were answered


class Watchdog:
    """Pure: ``look`` is given the time. One for each connection."""

    def __init__(self, seconds: float, now: float) -> None:
        self._seconds = seconds
        self._since = now  # when there was last progress, or nothing to do
        self._marks = (0, 0)
        self._overtaken: int | None = None
        self._overtaken_since = now

    def look(self, work: Work, now: float) -> str | None:
        """Why the connection is to be given up, or None."""
        return self._no_progress(work, now) or self._passed_over(work, now)

    def _passed_over(self, work: Work, now: float) -> str | None:
        if work.overtaken is None or work.overtaken != self._overtaken or not work.listening:
            self._overtaken, self._overtaken_since = work.overtaken, now
            return None
        waited = now - self._overtaken_since
        return f"a message was not acknowledged for {waited:.0f} s, and later ones were" if waited >= self._seconds else None

    def _no_progress(self, work: Work, now: float) -> str | None:
        marks = (work.acknowledged, work.taken)
        idle = not (work.in_flight or work.in_socket or work.waiting)
        if idle or not work.listening or marks != self._marks:
            self._marks, self._since = marks, now
            return None
        if now < self._since + self._seconds:
            return None
        if work.in_flight:
            what = f"{work.in_flight} messages are in flight and none was acknowledged"
        elif work.in_socket:
            what = f"{work.in_socket} messages wait in the socket and not a byte was taken"
        else:
            what = "messages wait and none was sent"
        return f"no progress for {now - self._since:.0f} s: {what}"


async def watch(
    seconds: float, work: Callable[[], Work], bite: Callable[[str], None], clock: Callable[[], float]
) -> None:
    """Look until there is a reason to bite, or until cancelled with the connection."""
    watchdog = Watchdog(seconds, clock())
    reason = None
    while reason is None:
        await asyncio.sleep(seconds / LOOKS)
        reason = watchdog.look(work(), clock())
    bite(reason)
