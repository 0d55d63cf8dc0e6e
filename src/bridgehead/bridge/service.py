"""A bridge as a whole: its uplink, its forwarders and consumer, and the local end of its pull routes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bridgehead.bridge.consumer import Consumer
from bridgehead.bridge.forwarder import Forwarder
from bridgehead.bridge.localpublisher import LocalPublisher
from bridgehead.bridge.uplink import Uplink, UplinkRule
from bridgehead.columns.batches import Batch
from bridgehead.pipeline.door import Door
from bridgehead.settings.bridge import Bridge
from bridgehead.settings.route import Route
from bridgehead.storage.engine import Engine
from bridgehead.storage.outbox import Outbox
from bridgehead.wire.packets import Subscription

RETAIN_NEVER = 2
"""Retain handling: stored messages of the remote are not fetched when subscribing."""


class BridgeService:
    """Wires the parts of one configured bridge and starts and stops them."""

    def __init__(
        self,
        bridge: Bridge,
        routes: Sequence[Route],
        outboxes: Mapping[str, Outbox],
        pull_doors: list[Door],
        engine: Engine,
        publish: Callable[[Batch, str], None],
    ) -> None:
        self.id = bridge.id
        rule = _uplink_rule(bridge, routes)
        self.forwarders = [
            Forwarder(number, outboxes[route.id], bridge.tier2_limit)
            for number, route in enumerate(route for route in routes if route.direction == "push")
        ]
        self.consumer = Consumer(engine, pull_doors, bridge.client_id, drop_retained=rule.version < 5)
        self.publishers = [
            LocalPublisher(outboxes[route.id], lambda batch: publish(batch, bridge.client_id))
            for route in routes
            if route.direction == "pull"
        ]
        self.uplink = Uplink(rule, self.forwarders, self.consumer)

    def start(self) -> None:
        self.uplink.start()

    async def stop(self) -> None:
        await self.uplink.stop()


def _uplink_rule(bridge: Bridge, routes: Sequence[Route]) -> UplinkRule:
    version = 5 if bridge.mqtt_version == 5 else 4
    return UplinkRule(
        bridge=bridge.id,
        addresses=bridge.addresses(),
        client_id=bridge.client_id,
        version=version,
        keep_alive=bridge.keep_alive,
        session_expiry=bridge.session_expiry,
        clean_start=bridge.clean_start,
        username=bridge.username,
        password=bridge.password.get_secret_value().encode() if bridge.password is not None else None,
        subscriptions=tuple(_subscriptions(bridge, routes, version)),
    )


def _subscriptions(bridge: Bridge, routes: Sequence[Route], version: int) -> list[Subscription]:
    """One subscription per distinct filter; where two routes share a filter, the higher QoS and wish win."""
    wishes: dict[str, Subscription] = {}
    for route in routes:
        if route.direction != "pull":
            continue
        for topic_filter in route.filters:
            known = wishes.get(topic_filter)
            wishes[topic_filter] = Subscription(
                topic_filter,
                qos=max(route.max_qos, known.qos if known else 0),
                no_local=bridge.no_local and version == 5,
                retain_as_published=version == 5
                and (route.preserve_retain or (known is not None and known.retain_as_published)),
                retain_handling=RETAIN_NEVER if version == 5 else 0,
            )
    return list(wishes.values())
