"""A route: one rule of a bridge, push (local to remote) or pull (remote to local)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from bridgehead.settings.archive import Archive
from bridgehead.settings.keeping import Strategy
from bridgehead.settings.part import Count, MqttText, Part, PropertyName, QoS, Seconds, Size
from bridgehead.settings.pipeline import Engine
from bridgehead.settings.topics import Destination, Filter, rewrite_fault
from bridgehead.settings.transform import Transform

Direction = Literal["push", "pull"]
Retained = Literal["skip", "first", "level"]
"""Messages that are stored at the remote: not fetched, fetched with a new subscription, or kept level, deletions included."""


def _no_repeats(filters: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(filters)) != len(filters):
        raise ValueError("the same filter is given more than once")
    return filters


Filters = Annotated[tuple[Filter, ...], Field(min_length=1), AfterValidator(_no_repeats)]


class UserProperty(Part):
    """One MQTT 5 user property that a route adds to its messages."""

    key: PropertyName
    value: MqttText


class Rewrite(Part):
    """A regular expression (RE2), and what takes the place of each match in a topic; ``\\1`` is its first group."""

    pattern: Annotated[str, Field(min_length=1, max_length=1000)]
    replacement: MqttText = ""

    @model_validator(mode="after")
    def _works(self) -> Rewrite:
        if any(sign in self.replacement for sign in "+#"):
            raise ValueError("replacement must not contain the wildcards '+' or '#'")
        fault = rewrite_fault(self.pattern, self.replacement)
        if fault is not None:
            raise ValueError(fault)
        return self


class Subscription(Part):
    """What both directions can say."""

    filters: Filters
    destination: Destination | None = None  # None = keep the topic
    rewrite: Annotated[tuple[Rewrite, ...], Field(max_length=16)] = ()  # in the topic that the destination makes
    custom_user_properties: tuple[UserProperty, ...] = ()
    preserve_retain: bool = False
    max_qos: QoS = Field(default=2, alias="maxQoS")
    queue_limit: Count | None = None  # None = queuedMessages.maxQueuedMessages
    max_queue_bytes: Size | None = None  # None = queuedMessages.maxQueueBytes
    strategy: Strategy | None = None  # None = queuedMessages.strategy
    max_age: Seconds | None = None  # None = messages never grow too old
    engine: Engine | None = None  # None = pipeline.engine
    transform: Transform | None = None
    archive: Archive | None = None


class LocalSubscription(Subscription):
    """A push rule: what leaves for the remote broker."""

    excludes: tuple[Filter, ...] = ()


class RemoteSubscription(Subscription):
    """A pull rule: what is fetched from the remote broker."""

    retained: Retained = "skip"


@dataclass(frozen=True, slots=True)
class Route:
    """A rule with its identity, as the rest of the node knows it."""

    id: str  # stable while direction, filters, destination and rewrite are; never taken apart
    bridge: str
    direction: Direction
    filters: tuple[str, ...]
    destination: str | None  # a template, as in the file before Settings.routes(), then filled in; None = keep the topic
    excludes: tuple[str, ...]  # push only
    custom_user_properties: tuple[tuple[str, str], ...]
    preserve_retain: bool
    max_qos: int
    queue_limit: int | None  # None only before Settings.routes() filled in the node's bounds
    max_queue_bytes: int | None
    strategy: Strategy | None
    max_age: float | None  # seconds; None = messages never grow too old
    engine: Engine | None
    transform: Transform | None = None
    archive: Archive | None = None
    rewrite: tuple[tuple[str, str], ...] = ()  # patterns and replacements, one after the other
    retained: Retained = "skip"  # pull only

    @property
    def has_own_query(self) -> bool:
        """Its rows have a log and a query of their own, so that what goes wrong there pins no other rows."""
        return self.transform is not None or self.archive is not None

    @property
    def changes_topics(self) -> bool:
        """There may be messages that have no topic where it sends them."""
        return self.destination is not None or bool(self.rewrite)

    @property
    def has_dead_letters(self) -> bool:
        """Its messages may become dead letters."""
        return self.direction == "push" or self.transform is not None or self.changes_topics


def route_id(
    bridge: str,
    direction: Direction,
    filters: Sequence[str],
    destination: str | None,
    rewrite: Sequence[tuple[str, str]] = (),
) -> str:
    """The identity of a route as text.

    The digest is over canonical JSON, so no two different rules can run into the same text by joining their parts.
    """
    identity = [direction, sorted(filters), destination, *([rewrite] if rewrite else [])]
    canonical = json.dumps(identity, ensure_ascii=True, separators=(",", ":"))
    return f"{bridge}.{direction}.{hashlib.sha256(canonical.encode()).hexdigest()[:8]}"


def route_of(bridge: str, rule: Subscription) -> Route:
    """The route that a rule of a bridge describes."""
    push = isinstance(rule, LocalSubscription)
    direction: Direction = "push" if push else "pull"
    rewrite = tuple((each.pattern, each.replacement) for each in rule.rewrite)
    return Route(
        id=route_id(bridge, direction, rule.filters, rule.destination, rewrite),
        bridge=bridge,
        direction=direction,
        filters=rule.filters,
        destination=rule.destination,
        excludes=rule.excludes if isinstance(rule, LocalSubscription) else (),
        custom_user_properties=tuple((each.key, each.value) for each in rule.custom_user_properties),
        preserve_retain=rule.preserve_retain,
        max_qos=rule.max_qos,
        queue_limit=rule.queue_limit,
        max_queue_bytes=rule.max_queue_bytes,
        strategy=rule.strategy,
        max_age=rule.max_age,
        engine=rule.engine,
        transform=rule.transform,
        archive=rule.archive,
        retained=rule.retained if isinstance(rule, RemoteSubscription) else "skip",
        rewrite=rewrite,
    )
