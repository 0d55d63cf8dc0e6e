"""Echoes: what this node sent to a remote that sends it back, because it takes the bridge for any other subscriber.

MQTT 5 asks for no echoes when subscribing, and most 3.1.1 brokers know the bridge bit. For the others this is a bounded memory
of what was sent on topics that the bridge itself subscribes to. Each entry cancels one message with the same topic and payload,
so that of two that are alike, one ours and one somebody else's, one arrives. Entries grow old only while there is a connection:
a remote that keeps our session brings the echo when we are back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bridgehead.clock import monotonic
from bridgehead.columns.batches import Batch
from bridgehead.wire.topicnames import matches

ENTRIES: Final = 10_000
"""Messages remembered; beyond them the oldest is forgotten, and its echo taken for a message."""
SECONDS: Final = 30.0
"""How long an echo is waited for while the connection stands: a remote sends it with the acknowledgement, or not at all."""
TOPICS: Final = 10_000
"""Topics of which it is remembered whether the bridge subscribes to them; beyond them the memory starts anew."""


class EchoWindow:
    """One bridge's memory of what may come back."""

    def __init__(
        self,
        filters: Sequence[str],
        *,
        entries: int = ENTRIES,
        seconds: float = SECONDS,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._filters = filters
        self._entries = entries
        self._seconds = seconds
        self._clock = clock
        self._subscribed: dict[str, bool] = {}
        self._waiting: dict[bytes, deque[float]] = {}  # when what has this digest was sent, oldest first
        self._order: deque[tuple[float, bytes]] = deque()  # all of these; one that is no more in _waiting is passed over
        self.forgotten = 0  # entries that gave way to newer ones

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def sent(self, batch: Batch) -> None:
        """These rows leave now, for the first time."""
        now = self._clock()
        for digest in self._digests(batch):
            self._waiting.setdefault(digest, deque()).append(now)
            self._order.append((now, digest))
        self._expire(now)
        while len(self._order) > self._entries:
            self.forgotten += self._forget_oldest()

    def unsent(self, batch: Batch) -> None:
        """These did not leave after all, and will be sent again: the newest entry of each was for nothing."""
        for digest in self._digests(batch):
            times = self._waiting.get(digest)
            if times:
                times.pop()
                self._tidy(digest)

    def echoes(self, batch: Batch) -> npt.NDArray[np.bool_] | None:
        """Which of the rows that came are echoes: each takes its entry away. None if there are none."""
        if not self._waiting:
            return None
        self._expire(self._clock())
        found = np.zeros(batch.num_rows, np.bool_)
        for row, (topic, payload) in enumerate(_pairs(batch)):
            digest = _digest(topic, payload)
            times = self._waiting.get(digest)
            if times:
                times.popleft()
                self._tidy(digest)
                found[row] = True
        return found if found.any() else None

    def session_lost(self) -> None:
        """The remote has forgotten us, and with us every echo it kept."""
        self._waiting.clear()
        self._order.clear()

    def resumed(self) -> None:
        """We were away, and what the remote kept comes now: entries are as good as new."""
        now = self._clock()
        digests = [digest for digest, times in self._waiting.items() for _ in times]
        self.session_lost()
        for digest in digests:
            self._waiting.setdefault(digest, deque()).append(now)
            self._order.append((now, digest))

    def _digests(self, batch: Batch) -> list[bytes]:
        """Of those rows whose topic the bridge subscribes to."""
        topics = batch.column("topic").dictionary_encode()
        wanted = np.array([self._is_subscribed(topic) for topic in topics.dictionary.to_pylist()], np.bool_)
        rows = np.flatnonzero(wanted[topics.indices.to_numpy()])
        return [_digest(*pair) for pair in _pairs(batch.take(pa.array(rows)))] if len(rows) else []

    def _is_subscribed(self, topic: str) -> bool:
        known = self._subscribed.get(topic)
        if known is None:
            if len(self._subscribed) >= TOPICS:
                self._subscribed.clear()
            known = self._subscribed[topic] = any(matches(each, topic) for each in self._filters)
        return known

    def _expire(self, now: float) -> None:
        while self._order and self._order[0][0] < now - self._seconds:
            self._forget_oldest()

    def _forget_oldest(self) -> bool:
        """Whether it was still waited for."""
        at, digest = self._order.popleft()
        times = self._waiting.get(digest)
        if not times or times[0] > at:
            return False
        times.popleft()
        self._tidy(digest)
        return True

    def _tidy(self, digest: bytes) -> None:
        if not self._waiting[digest]:
            del self._waiting[digest]


def _pairs(batch: Batch) -> list[tuple[str, bytes]]:
    return list(zip(batch.column("topic").to_pylist(), batch.column("payload").to_pylist(), strict=True))


def _digest(topic: str, payload: bytes) -> bytes:
    # No topic contains NUL: where it ends and the payload begins is not to be mistaken.
    return blake2b(b"%b\0%b" % (topic.encode(), payload), digest_size=16).digest()
