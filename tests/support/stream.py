"""A steady stream of numbered messages, for tests in which something breaks meanwhile."""

from __future__ import annotations

import threading

from support.client import Client, Message
from support.waiting import PATIENCE

BURST = 10
PAUSE = 0.02
"""The pace, in seconds between bursts: about 500 messages a second. Nothing waits for it to be exact."""


class Stream:
    """Publishes 0, 1, 2, ... on one topic, each burst acknowledged before the next, until it is told to stop."""

    def __init__(self, client: Client, topic: str, qos: int) -> None:
        self.topic = topic
        self.sent = 0  # so many have been acknowledged
        self._client = client
        self._qos = qos
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"stream {topic}", daemon=True)
        self._thread.start()

    def stop(self) -> int:
        """How many were published and acknowledged in all."""
        self._stop.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        assert self._error is None, self._error
        return self.sent

    def _run(self) -> None:
        try:
            while not self._stop.wait(PAUSE):
                numbers = range(self.sent, self.sent + BURST)
                self._client.publish_all([Message(self.topic, b"%d" % number, self._qos) for number in numbers])
                self.sent += BURST
        except BaseException as error:
            self._error = error


def numbers(client: Client, topic: str) -> list[int]:
    """The numbers that have come on a topic, in order of arrival."""
    return [int(payload) for payload in client.topics().get(topic, [])]
