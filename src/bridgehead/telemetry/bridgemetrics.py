"""The metrics of a bridge: its connection, and what crosses it whatever the route."""

from __future__ import annotations

from collections.abc import Iterator
from math import isinf
from typing import TYPE_CHECKING, Final

from prometheus_client import Metric
from prometheus_client.core import HistogramMetricFamily

from bridgehead.telemetry.families import Family, Values

if TYPE_CHECKING:
    from bridgehead.bridge.service import BridgeService
    from bridgehead.telemetry.snapshot import NodeView

STATES: Final = ("connecting", "connected", "disconnected", "stopped")


def _state(service: BridgeService) -> Values:
    return {state: float(state == service.uplink.status.state) for state in STATES}


def _last_error(service: BridgeService) -> float | None:
    moment = service.uplink.status.last_error_at
    return None if moment is None else moment / 1_000_000


BRIDGES: Final[tuple[Family[BridgeService], ...]] = (
    Family("gauge", "bridge_state", "1 for the state that the connection is in.", _state, ("state",)),
    Family("counter", "bridge_connects", "Connections made.", lambda bridge: bridge.uplink.status.connects),
    Family(
        "counter", "bridge_watchdog_resets", "Connections given up because nothing moved.",
        lambda bridge: bridge.uplink.status.watchdog_resets,
    ),
    Family("gauge", "bridge_last_error_timestamp_seconds", "When the last error of the connection was.", _last_error),
    Family("gauge", "bridge_in_flight_messages", "Messages not acknowledged yet.", lambda bridge: bridge.uplink.in_flight),
    Family(
        "counter", "bridge_possibly_doubled_messages", "Messages sent again as new because the remote had lost the session.",
        lambda bridge: bridge.uplink.status.possibly_doubled,
    ),
    Family(
        "gauge", "bridge_refused_subscriptions", "Filters that the remote refuses.",
        lambda bridge: len(bridge.uplink.status.subscribe_refused),
    ),
    Family("counter", "bridge_received_messages", "Messages that the remote sent.", lambda bridge: bridge.consumer.received),
    Family(
        "counter", "bridge_unheard_messages", "Messages of the remote that nobody had subscribed to here.",
        lambda bridge: sum(publisher.unheard for publisher in bridge.publishers),
    ),
    Family(
        "counter", "bridge_skipped_messages", "Messages of the remote that no route got, by reason.",
        lambda bridge: {
            "unmatched": bridge.consumer.unmatched,
            "retained": bridge.consumer.retained_skipped,
            "copy": bridge.consumer.copies_skipped,
            "echo": bridge.consumer.echoes_skipped,
            "held-lost": bridge.consumer.held_lost,
        },
        ("reason",),
    ),
)  # fmt: skip


def bridge_metrics(view: NodeView) -> Iterator[Metric]:
    bridges = [((name,), service) for name, service in view.bridges.items()]
    for family in BRIDGES:
        yield family.of(("bridge",), bridges)
    latency = HistogramMetricFamily(
        "bridgehead_bridge_ack_latency_seconds", "From sending a message to its acknowledgement.", labels=["bridge"]
    )
    for name, service in view.bridges.items():
        found = service.uplink.outgoing.ack_latency.histogram()
        latency.add_metric([name], [(_bound(end), count) for end, count in found.below], found.total)
    yield latency


def _bound(end: float) -> str:
    return "+Inf" if isinf(end) else str(end)
