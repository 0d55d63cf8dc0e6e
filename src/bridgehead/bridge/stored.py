"""Which messages of the remote are stored ones, where their flag does not tell.

Over plain MQTT 3.1.1 only a stored (retained) message that a subscription brings has the retain flag. To a bridge, mosquitto
and others send new messages with the flag they were published with. The stored ones then are told by their time: they follow
the answer to the subscription, and each answer to a ping that is sent behind our acknowledgements says that a window of them
is over.
"""

from __future__ import annotations

from typing import Final

QUIET_ROUNDS: Final = 2
"""Pings whose answer no stored message came before: the handshake of QoS 2 frees the window only every second time."""


class StoredRound:
    """Begun with a subscription in a new session; over after two pings without a stored message before their answers."""

    def __init__(self) -> None:
        self.running = False
        self._quiet = 0
        self._seen = 0

    def begin(self, seen: int) -> None:
        """``seen``: how many flagged messages have come so far."""
        self.running, self._quiet, self._seen = True, 0, seen

    def end(self) -> None:
        self.running = False

    def answered(self, seen: int) -> None:
        """A ping has been answered."""
        self._quiet = self._quiet + 1 if seen == self._seen else 0
        self._seen = seen
        self.running = self.running and self._quiet < QUIET_ROUNDS
