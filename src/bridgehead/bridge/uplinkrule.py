"""What an uplink is told, and what it tells."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bridgehead.bridge.backoff import LONGEST
from bridgehead.bridge.dialling import NOBODY, PLAIN, Credentials, Way
from bridgehead.wire.packets import Subscription


@dataclass(slots=True)
class UplinkStatus:
    """What a user sees of the connection."""

    state: str = "disconnected"  # connecting, connected, disconnected, stopped
    last_error: str | None = None  # stays when the connection stands again: ``state`` says that
    last_error_at: int | None = None  # wall-clock microseconds
    next_attempt: float | None = None  # monotonic seconds
    connects: int = 0
    possibly_doubled: int = 0
    watchdog_resets: int = 0
    watchdog_reason: str | None = None  # of the last of them
    subscribed: bool = False  # the remote has answered every subscription of this session
    subscribe_refused: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UplinkRule:
    """How to connect: the same CONNECT on the first and on every later attempt."""

    bridge: str
    addresses: tuple[tuple[str, int], ...]
    client_id: str
    version: int
    keep_alive: int
    session_expiry: int
    clean_start: bool
    subscriptions: tuple[Subscription, ...]
    watchdog: float = 30.0  # seconds without progress after which a connection is given up
    identified: bool = False  # each subscription under its own identifier: its place in the list, from 1 on
    unwanted: tuple[str, ...] = ()  # filters of an earlier life: a session that was kept may still have them
    bridge_bit: bool = False  # say in CONNECT what we are: remotes that know it send nothing of ours back (MQTT 3.1.1)
    credentials: Credentials = NOBODY
    way: Way = PLAIN
    user_properties: tuple[tuple[str, str], ...] = ()  # of CONNECT, MQTT 5
    rate_limit: float | None = None  # messages a second
    live_first: bool = False  # what comes while there is a connection goes before what waited when it was made
    longest_wait: float = LONGEST  # seconds between two attempts

    @property
    def session(self) -> list[Any]:
        """Whose session it is that the remote keeps for us, as JSON has it."""
        return [self.client_id, [list(address) for address in self.addresses]]
