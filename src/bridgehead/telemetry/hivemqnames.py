"""The counters of a bridge under the names that HiveMQ Edge has for them, for whoever asks for these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bridgehead.bridge.service import BridgeService
    from bridgehead.telemetry.snapshot import NodeView, RouteView

PREFIX: Final = "com.hivemq.edge"


def hivemq_values(view: NodeView) -> dict[str, int]:
    """The ten of each bridge, as sums over its routes, and two of the node."""
    found = {
        f"{PREFIX}.bridges.current": len(view.bridges),
        f"{PREFIX}.messages.dropped.count": sum(_dropped(each) for each in view.routes),
    }
    for name, service in view.bridges.items():
        routes = [each for each in view.routes if each.route.bridge == name]
        for suffix, value in _of_bridge(service, routes).items():
            found[f"{PREFIX}.bridge.{name}.{suffix}"] = value
    return found


def _of_bridge(service: BridgeService, routes: list[RouteView]) -> dict[str, int]:
    push, pull = ([each for each in routes if each.route.direction == way] for way in ("push", "pull"))
    return {
        "forward.publish.count": sum(each.outbox.delivered for each in push),
        "forward.publish.failed.count": sum(each.forwarder.refusals for each in push if each.forwarder is not None),
        "forward.publish.excluded.count": _kept_out(push, "excluded"),
        "forward.publish.loop-hops-exceeded.count": _kept_out(push, "loop"),
        "local.publish.received.count": sum(each.door.received for each in push),
        "remote.publish.received.count": service.consumer.received,
        "remote.publish.loop-hops-exceeded.count": _kept_out(pull, "loop"),
        "local.publish.count": sum(each.outbox.delivered for each in pull),
        "local.publish.no-subscriber-present.count": sum(publisher.unheard for publisher in service.publishers),
        "local.publish.failed.count": sum(sum(each.outbox.dead_lettered.values()) for each in pull),
    }


def _kept_out(routes: list[RouteView], reason: str) -> int:
    return sum(each.door.dropped.get(reason, 0) for each in routes)


def _dropped(each: RouteView) -> int:
    return sum(each.door.dropped.values()) + sum(each.outbox.dropped.values())
