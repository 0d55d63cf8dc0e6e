"""The metrics of a route, read from its ledger, its outbox and its part of the journal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from prometheus_client import Metric

from bridgehead.clock import monotonic, now_us
from bridgehead.telemetry.families import Family

if TYPE_CHECKING:
    from bridgehead.bridge.forwarder import Forwarder
    from bridgehead.storage.journal import Journal
    from bridgehead.storage.ledger import Ledger, Tally
    from bridgehead.telemetry.snapshot import NodeView, RouteView

DISK: Final = "disk"
MEMORY: Final = "memory"


@dataclass(frozen=True)
class RouteNow:
    """A route at the moment of a scrape."""

    view: RouteView
    journal: Journal

    @cached_property
    def waiting(self) -> int:
        """Rows in the journal."""
        return self.journal.waiting_of(self.view.route.id)

    @cached_property
    def oldest_age(self) -> float:
        """Seconds since the oldest message that is still here arrived; 0 where there is none."""
        found = [each for each in (self.view.outbox.oldest, self.journal.oldest_of(self.view.route.id)) if each is not None]
        return max(now_us() - min(found), 0) / 1_000_000 if found else 0.0

    @property
    def stalled(self) -> float:
        """Seconds in which messages were here and none was delivered: none has waited longer than the oldest of them."""
        return min(monotonic() - self.view.outbox.ledger.progress_at, self.oldest_age)

    @property
    def in_flight(self) -> int:
        forwarder = self.view.forwarder
        held = forwarder.tier2 + forwarder.poison.held if forwarder is not None else 0
        return self.view.outbox.in_flight - held


def _stored(number: Callable[[Tally], float]) -> Callable[[RouteNow], dict[str, float]]:
    """A number of the ledger: of rows on the disk it goes on after a restart, of others it begins anew."""
    return lambda now: {store: number(tally) for store, tally in _tallies(now.view.outbox.ledger)}


def _tallies(ledger: Ledger) -> Iterator[tuple[str, Tally]]:
    if ledger.keeps:
        yield DISK, ledger.kept
    yield MEMORY, ledger.passing


def _dropped(now: RouteNow) -> dict[tuple[str, ...], float]:
    return {
        (stage, reason, store): rows
        for store, tally in _tallies(now.view.outbox.ledger)
        for stage, reasons in (("door", tally.dropped_before), ("outbox", tally.dropped))
        for reason, rows in reasons.items()
    }


def _dead_lettered(now: RouteNow) -> dict[tuple[str, ...], float]:
    return {
        (reason, store): rows
        for store, tally in _tallies(now.view.outbox.ledger)
        for reason, rows in tally.dead_lettered.items()
    }


def _transformed(now: RouteNow) -> dict[tuple[str, ...], float]:
    return {
        (way, store): rows
        for store, tally in _tallies(now.view.outbox.ledger)
        for way, rows in tally.transformed.items()
    }


def _pushing(number: Callable[[Forwarder], float]) -> Callable[[RouteNow], float | None]:
    return lambda now: None if now.view.forwarder is None else number(now.view.forwarder)


STORE: Final = ("store",)

ROUTES: Final[tuple[Family[RouteNow], ...]] = (
    Family("counter", "route_received_messages", "Messages that matched the route.", _stored(lambda t: t.received), STORE),
    Family("counter", "route_consumed_messages", "Messages taken out of the journal.", _stored(lambda t: t.consumed), STORE),
    Family("counter", "route_entered_messages", "Messages that came to the outbox.", _stored(lambda t: t.entered), STORE),
    Family("counter", "route_delivered_messages", "Messages delivered.", _stored(lambda t: t.delivered), STORE),
    Family("counter", "route_dropped_messages", "Messages dropped, by reason.", _dropped, ("stage", "reason", *STORE)),
    Family("counter", "route_dead_lettered_messages", "Messages that became dead letters.", _dead_lettered, ("reason", *STORE)),
    Family(
        "counter", "route_dead_letters_left", "Dead letters that are kept no more, by what became of them.",
        lambda now: dict(now.view.outbox.dead.left), ("reason",),
    ),
    Family("counter", "route_transformed_messages", "Messages in and out of a transform.", _transformed, ("way", *STORE)),
    Family(
        "counter", "route_turned_away_messages", "Messages without room whose publisher was told.",
        lambda now: now.view.door.refused,
    ),
    Family(
        "counter", "route_refusals", "Times that the remote refused a message.",
        _pushing(lambda forwarder: forwarder.refusals),
    ),
    Family(
        "counter", "route_reordered_messages", "Messages delivered before an older one of their topic that was refused.",
        _pushing(lambda forwarder: forwarder.poison.reordered),
    ),
    Family("gauge", "route_journal_messages", "Messages that wait in the journal.", lambda now: now.waiting),
    Family("gauge", "route_outbox_messages", "Messages in the outbox, also in flight.", lambda now: now.view.outbox.depth),
    Family("gauge", "route_outbox_bytes", "Bytes of the messages in the outbox.", lambda now: now.view.outbox.live_weight),
    Family("gauge", "route_outbox_limit_messages", "queueLimit of the route.", lambda now: now.view.outbox.max_rows),
    Family("gauge", "route_outbox_limit_bytes", "maxQueueBytes of the route.", lambda now: now.view.outbox.max_bytes),
    Family("gauge", "route_in_flight_messages", "Messages that wait for an acknowledgement.", lambda now: now.in_flight),
    Family(
        "gauge", "route_tier2_messages", "Messages taken from the outbox and not sent.",
        _pushing(lambda forwarder: forwarder.tier2),
    ),
    Family(
        "gauge", "route_held_messages", "Messages that wait behind a refused one of their topic.",
        _pushing(lambda forwarder: forwarder.poison.held),
    ),
    Family("gauge", "route_dead_letters", "Dead letters that are kept.", lambda now: len(now.view.outbox.dead)),
    Family("gauge", "route_dead_letter_bytes", "Bytes of the dead letters.", lambda now: now.view.outbox.dead.weight),
    Family("gauge", "route_oldest_message_age_seconds", "Age of the oldest message that waits.", lambda now: now.oldest_age),
    Family("gauge", "route_stalled_seconds", "For how long messages wait and none is delivered.", lambda now: now.stalled),
)  # fmt: skip


def route_metrics(view: NodeView) -> Iterator[Metric]:
    routes = [
        ((each.route.bridge, each.route.id, each.route.direction), RouteNow(each, view.journal)) for each in view.routes
    ]
    for family in ROUTES:
        yield family.of(("bridge", "route", "direction"), routes)
