"""How messages are kept: persistence, the bounds of the queues, the journal."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from bridgehead.settings.part import Count, NotNegative, Part, Size
from bridgehead.settings.sizes import parse_size

Strategy = Literal["discard", "discard-oldest", "refuse"]  # what gives way when a queue is full
SizeOrZero = Annotated[int, BeforeValidator(parse_size), Field(ge=0)]


class Persistence(Part):
    """Where tier 1 lives."""

    mode: Literal["in-memory", "file-native"] = "in-memory"
    sync: bool = True
    min_free: SizeOrZero = 256 * 2**20  # file-native stops accepting below this much free disk


class QueuedMessages(Part):
    """The bounds of each route's outbox, unless the route says otherwise."""

    max_queued_messages: Count = 1_000_000
    max_queue_bytes: Size = 2**30
    strategy: Strategy = "discard"


class Retention(Part):
    """How much the journal keeps after it was consumed: what is younger than the one, within the other; 0 = no such bound."""

    hours: Annotated[NotNegative, Field(le=1_000_000)] = 0
    bytes: SizeOrZero = 0


class Journal(Part):
    """The bound of the journal, enforced at the door."""

    max_bytes: Size = 4 * 2**30
    retain: Retention = Retention()
