"""A bridge as a whole: its uplink, its forwarders and consumer, and the local end of its pull routes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from bridgehead.bridge.consumer import Consumer
from bridgehead.bridge.dialling import credentials_of, way_of
from bridgehead.bridge.forwarder import Forwarder
from bridgehead.bridge.localpublisher import LocalPublisher
from bridgehead.bridge.subscriptions import Asked, Wishes, wishes_of
from bridgehead.bridge.uplink import PATIENCE, Uplink
from bridgehead.bridge.uplinkrule import UplinkRule
from bridgehead.columns.batches import Batch
from bridgehead.pipeline.door import Door
from bridgehead.settings.bridge import Bridge
from bridgehead.settings.route import Route
from bridgehead.storage.engine import Changes, Engine
from bridgehead.storage.freespace import FreeSpace
from bridgehead.storage.journal import Journal
from bridgehead.storage.outbox import Outbox

WATCHDOG_AT_LEAST: Final = 30.0
"""Seconds, where the configuration does not say: a remote may be slow, and keep alive must have its turn first."""


class BridgeService:
    """Wires the parts of one configured bridge and starts and stops them, once.

    A bridge that changes, or is started again, gets a new one, which goes on where the old one (``before``) has ended. Between
    the two all rows wait in their outboxes.
    """

    def __init__(
        self,
        bridge: Bridge,
        routes: Sequence[Route],
        outboxes: Mapping[str, Outbox],
        pull_doors: list[Door],
        engine: Engine,
        journal: Journal,
        publish: Callable[[Batch, str, Callable[[Changes, int, int], None]], int],
        space: FreeSpace | None = None,
        before: BridgeService | None = None,
    ) -> None:
        self.id = bridge.id
        wishes = wishes_of(bridge, routes)
        rule = _uplink_rule(bridge, wishes)
        self._asked = Asked(engine, bridge.id, rule.session, (wish.filter for wish in wishes.subscriptions))
        rule = replace(rule, unwanted=self._asked.unwanted)
        self.forwarders = [
            Forwarder(number, outboxes[route.id], bridge.tier2_limit, route.max_age)
            for number, route in enumerate(route for route in routes if route.direction == "push")
        ]
        identified = tuple(wish.filter for wish in wishes.subscriptions) if wishes.identified else ()
        self.consumer = Consumer(
            engine,
            journal,
            pull_doors,
            bridge.client_id,
            identified,
            bridge=bridge.id,
            drop_retained=rule.version < 5,
            space=space,
            stored=frozenset(route.id for route in routes if route.retained != "skip"),
            levelled=frozenset(route.id for route in routes if route.retained == "level"),
        )
        self.publishers = [
            LocalPublisher(
                outboxes[route.id], lambda batch, taken: publish(batch, bridge.client_id, taken), route.max_age
            )
            for route in routes
            if route.direction == "pull"
        ]
        self.uplink = Uplink(rule, self.forwarders, self.consumer, engine)
        self.uplink.asking.on_subscribed = self._asked.answered
        if before is not None:
            self.consumer.follow(before.consumer)
            self.uplink.follow(before.uplink)

    def start(self) -> None:
        self._asked.ask()
        self.uplink.start()
        for publisher in self.publishers:
            publisher.wake()  # rows of an earlier life may be there

    def room_again(self) -> None:
        """There may be room, in the journal, in an outbox or on the disk, for what waits for it."""
        self.consumer.room_again()
        self.uplink.room_again()
        for publisher in self.publishers:
            publisher.room_again()

    async def stop(self) -> None:
        """The connection ends; what has come from the remote is still published here."""
        await self.uplink.stop(PATIENCE)
        self.uplink.outgoing.retire()

    def rest(self) -> None:
        """Instead of a start: no connection; what has come from the remote is published here all the same."""
        self.uplink.outgoing.retire()
        self.uplink.status.state = "stopped"
        for publisher in self.publishers:
            publisher.wake()

    def let_go(self) -> None:
        """After a stop: pulled rows that are not published yet wait as well."""
        for publisher in self.publishers:
            publisher.stop()


def _uplink_rule(bridge: Bridge, wishes: Wishes) -> UplinkRule:
    return UplinkRule(
        bridge=bridge.id,
        addresses=bridge.addresses(),
        client_id=bridge.client_id,
        version=5 if bridge.mqtt_version == 5 else 4,
        keep_alive=bridge.keep_alive,
        session_expiry=bridge.session_expiry,
        clean_start=bridge.clean_start,
        subscriptions=wishes.subscriptions,
        identified=wishes.identified,
        bridge_bit=wishes.may_echo and bridge.no_local and bridge.mqtt_version != 5,
        watchdog=bridge.watchdog or max(WATCHDOG_AT_LEAST, 1.5 * bridge.keep_alive),
        credentials=credentials_of(bridge),
        way=way_of(bridge),
        user_properties=tuple((each.key, each.value) for each in bridge.connect_user_properties),
        rate_limit=bridge.rate_limit,
        live_first=bridge.live_first,
    )
