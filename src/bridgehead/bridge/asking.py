"""What a bridge asks its remote for: its subscriptions, those again that were refused, and what is stored there."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from bridgehead.bridge.consumer import Consumer
from bridgehead.bridge.stored import StoredRound
from bridgehead.bridge.uplinkrule import UplinkRule, UplinkStatus
from bridgehead.link.link import Link
from bridgehead.storage.engine import Engine
from bridgehead.wire.encode import encode
from bridgehead.wire.packets import Pingreq, Suback, Subscribe, Subscription, Unsuback, Unsubscribe
from bridgehead.wire.reason import Reason

log = logging.getLogger(__name__)

SUBSCRIBE_IDS: Final = 60_000
"""Packet ids of SUBSCRIBE start here: never one that a PUBLISH may have."""
UNSUBSCRIBE_ID: Final = SUBSCRIBE_IDS - 1


class Asking:
    """The subscriptions of an uplink, from one connection to the next."""

    def __init__(self, rule: UplinkRule, status: UplinkStatus, consumer: Consumer, engine: Engine) -> None:
        self._rule = rule
        self.status = status
        self._consumer = consumer
        self._engine = engine
        self._stored = StoredRound()
        self._link: Link | None = None
        self._as_bridge = False
        self._unanswered: dict[int, list[Subscription]] = {}  # what is asked for and not answered yet, by packet id
        self.takes_identifiers = True  # the remote has not said otherwise
        self.on_subscribed: Callable[[], None] = lambda: None  # the remote has answered every subscription

    def begin(self, link: Link, *, resumed: bool, as_bridge: bool) -> None:
        """The connection stands. In a session that was kept only what the remote does not know is asked for."""
        self._link, self._as_bridge = link, as_bridge
        if resumed and self.status.subscribed:
            self._ask(link, {*self.status.subscribe_refused, *self._level_filters()})
        else:
            self._consumer.takes_stored = not resumed
            self.status.subscribed = not self._rule.subscriptions
            self.status.subscribe_refused = {}
            self._ask(link, {wish.filter for wish in self._rule.subscriptions})
            if resumed and self._rule.unwanted:  # behind what takes its place: between the two nothing is lost
                self._unanswered[UNSUBSCRIBE_ID] = []
                link.write(encode(Unsubscribe(UNSUBSCRIBE_ID, list(self._rule.unwanted)), self._rule.version))
        if self._consumer.levels or (as_bridge and self._rule.subscriptions and not resumed):
            self._stored.begin(self._consumer.flagged)
            self._consumer.levels.begin()
            self._consumer.flag_means_stored = True
            self._ping(link)

    def end(self) -> None:
        """The connection is gone."""
        self._link = None
        self._stored.end()

    def ask_again(self) -> None:
        """What the remote refused is asked for again: it may have changed its mind."""
        if self._link is not None and self.status.subscribe_refused and not self._unanswered:
            self._ask(self._link, set(self.status.subscribe_refused))

    def answered(self, packet: Suback | Unsuback) -> None:
        wishes = self._unanswered.pop(packet.packet_id, [])
        refused = self.status.subscribe_refused
        for wish, reason in zip(wishes, packet.reasons, strict=False):
            if reason < 0x80:
                refused.pop(wish.filter, None)
                continue
            if wish.filter not in refused:  # said once, tried again with every beat
                log.error("bridge %s: subscribing to %s was refused: %s", self._rule.bridge, wish.filter, reason.name)
            refused[wish.filter] = describe(reason, packet.properties)
        self._settle()

    def ping_answered(self) -> None:
        """What is stored at the remote comes in rounds: after two without any there is no more."""
        if not self._stored.running:
            return
        self._consumer.gathering.flush()
        self._stored.answered(self._consumer.flagged)
        if self._stored.running:
            self._engine.when_synced(partial(self._ping, self._link))  # behind our acknowledgements
            return
        self._consumer.flag_means_stored = not self._as_bridge
        if self._consumer.levels and not self._unanswered and not self.status.subscribe_refused:
            self._consumer.end_level()
        self._settle()

    def _settle(self) -> None:
        self.status.subscribed = not self._unanswered and not self._stored.running
        if self.status.subscribed:
            self.on_subscribed()

    def _ping(self, link: Link | None) -> None:
        if link is not None and self._link is link:
            link.write(encode(Pingreq(), self._rule.version))

    def _level_filters(self) -> set[str]:
        """Those that bring what is stored at the remote whenever they are asked for."""
        if not self._consumer.levels:
            return set()
        return {wish.filter for wish in self._rule.subscriptions if wish.retain_handling == 0}

    def _ask(self, link: Link, filters: set[str]) -> None:
        """Subscribe to these of our filters."""
        wishes = [(at, wish) for at, wish in enumerate(self._rule.subscriptions, 1) if wish.filter in filters]
        parts: list[tuple[list[Subscription], dict[str, object]]]
        if self._rule.identified and self.takes_identifiers:
            parts = [([wish], {"subscription_identifier": at}) for at, wish in wishes]
        else:
            parts = [([wish for _, wish in wishes], {})] if wishes else []
        self._unanswered = {SUBSCRIBE_IDS + at: wanted for at, (wanted, _) in enumerate(parts)}
        for packet_id, (wanted, properties) in enumerate(parts, SUBSCRIBE_IDS):
            link.write(encode(Subscribe(packet_id, wanted, properties), self._rule.version))


def describe(reason: Reason, properties: dict[str, object]) -> str:
    text = properties.get("reason_string")
    name = reason.name.lower().replace("_", " ")
    return f"{name} (0x{int(reason):02x}){f': {text}' if text else ''}"
