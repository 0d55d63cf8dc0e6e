"""paho-mqtt as the client that nobody here wrote: it connects, collects what comes, publishes and waits for answers."""

from __future__ import annotations

import itertools
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from support.waiting import PATIENCE

PROTOCOLS = {"3.1.1": paho.MQTTv311, "5": paho.MQTTv5}
VERSIONS = tuple(PROTOCOLS)
LASTS = 3600
COMES_BACK_AFTER = 0.2
"""Seconds: a lasting client's session, and how long it waits before it connects again."""

_numbers = itertools.count()


def properties(packet: int, **values: Any) -> Properties:
    """Properties by their names in paho: ``properties(PacketTypes.PUBLISH, ContentType="text/plain")``."""
    result = Properties(packet)
    for name, value in values.items():
        setattr(result, name, value)
    return result


@dataclass(frozen=True, slots=True)
class Message:
    """One message to publish, or one that came."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: dict[str, Any] = field(default_factory=dict)


class Client:
    """A connected client. Everything that comes is in ``messages``, in order of arrival.

    A lasting one keeps its session and comes back by itself after every cut.
    """

    def __init__(
        self,
        port: int,
        version: str = "5",
        client_id: str | None = None,
        *,
        clean: bool = True,
        lasting: bool = False,
        keep_alive: int = 60,
        will: Message | None = None,
        connect: dict[str, Any] | None = None,
    ) -> None:
        self.version = version
        self._lasting = lasting
        if lasting:
            clean, connect = False, {"SessionExpiryInterval": LASTS, **(connect or {})}
        self.messages: list[Message] = []
        self.came: Counter[str] = Counter()  # how many on each topic: for those who wait in a flood and look often
        self.session_present = False
        self.connack: ReasonCode | None = None
        self.disconnected = threading.Event()
        self.goodbye: ReasonCode | None = None  # what the broker said in its DISCONNECT, or what paho makes of a cut
        self._changed = threading.Condition()
        self._answers: dict[int, list[ReasonCode]] = {}
        self._connected = threading.Event()
        name = f"test-{next(_numbers)}-{uuid.uuid4().hex[:8]}" if client_id is None else client_id
        arguments = {} if version == "5" else {"clean_session": clean}
        self.paho = paho.Client(
            paho.CallbackAPIVersion.VERSION2, name, protocol=PROTOCOLS[version], reconnect_on_failure=lasting, **arguments
        )
        self.paho.reconnect_delay_set(COMES_BACK_AFTER, COMES_BACK_AFTER)
        self.paho.max_inflight_messages_set(1000)
        self.paho.on_connect = self._on_connect
        self.paho.on_disconnect = self._on_disconnect
        self.paho.on_message = self._on_message
        self.paho.on_subscribe = self._on_answer
        self.paho.on_unsubscribe = self._on_answer
        if will is not None:
            given = properties(PacketTypes.WILLMESSAGE, **will.properties) if will.properties else None
            self.paho.will_set(will.topic, will.payload, will.qos, will.retain, given)
        extra: dict[str, Any] = {}
        if version == "5":
            extra = {"clean_start": clean, "properties": properties(PacketTypes.CONNECT, **(connect or {}))}
        self.paho.connect("127.0.0.1", port, keep_alive, **extra)
        self.paho.loop_start()
        assert self._connected.wait(PATIENCE), "no CONNACK"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self, session_expiry: int | None = None) -> None:
        """Say goodbye and end the thread."""
        if self._lasting:
            self.paho.disconnect()  # which may find no connection to say it on
        elif not self.disconnected.is_set():
            given = None
            if session_expiry is not None:
                given = properties(PacketTypes.DISCONNECT, SessionExpiryInterval=session_expiry)
            self.paho.disconnect(properties=given)
            assert self.disconnected.wait(PATIENCE), "the connection did not close"
        self.paho.loop_stop()

    def cut(self) -> None:
        """End the connection without a DISCONNECT."""
        sock = self.paho.socket()
        assert sock is not None
        sock.shutdown(2)
        assert self.disconnected.wait(PATIENCE), "the connection did not close"
        self.paho.loop_stop()

    # -- subscribing and receiving ------------------------------------------------------------------------------------

    def subscribe(self, topic_filter: str, qos: int = 2, identifier: int | None = None, **options: Any) -> ReasonCode:
        """Subscribe and wait for the answer; options are those of SubscribeOptions (MQTT 5)."""
        if self.version == "5":
            given = None if identifier is None else properties(PacketTypes.SUBSCRIBE, SubscriptionIdentifier=identifier)
            _, mid = self.paho.subscribe(topic_filter, options=SubscribeOptions(qos, **options), properties=given)
        else:
            _, mid = self.paho.subscribe(topic_filter, qos)
        assert mid is not None
        return self._answer(mid)[0]

    def unsubscribe(self, topic_filter: str) -> list[ReasonCode]:
        _, mid = self.paho.unsubscribe(topic_filter)
        assert mid is not None
        return self._answer(mid)

    def _answer(self, mid: int) -> list[ReasonCode]:
        self._wait(lambda: mid in self._answers, "the broker answers")
        return self._answers.pop(mid)

    def wait_for(self, count: int, within: float = PATIENCE) -> list[Message]:
        """So many messages, counted from the first."""
        self._wait(lambda: len(self.messages) >= count, f"{count} messages come", within)
        return list(self.messages)

    def wait_until(self, condition: Callable[[list[Message]], bool], what: str, within: float = PATIENCE) -> None:
        self._wait(lambda: condition(self.messages), what, within)

    def barrier(self) -> list[Message]:
        """Everything the broker had for this client when this was called; a message to itself comes behind all of it.

        QoS 2, because paho hands such a message out at its PUBREL: one of QoS 1 would overtake those before it.
        """
        assert self._connected.wait(PATIENCE), "no connection"
        name = f"barrier/{uuid.uuid4().hex}"
        self.subscribe(name, 2)
        self.publish_all([Message(name, b"", 2)])
        self._wait(lambda: name in self.came, "the barrier comes")
        self.unsubscribe(name)
        with self._changed:
            self.messages = [message for message in self.messages if message.topic != name]
            return list(self.messages)

    def topics(self) -> dict[str, list[bytes]]:
        """The payloads of each topic, in order of arrival."""
        result: dict[str, list[bytes]] = {}
        for message in list(self.messages):
            result.setdefault(message.topic, []).append(message.payload)
        return result

    # -- publishing ---------------------------------------------------------------------------------------------------

    def publish(self, message: Message) -> paho.MQTTMessageInfo:
        given = None
        if self.version == "5" and message.properties:
            given = properties(PacketTypes.PUBLISH, **message.properties)
        return self.paho.publish(message.topic, message.payload, message.qos, message.retain, given)

    def publish_all(self, messages: Iterable[Message]) -> None:
        """Publish in order, and wait until the broker has acknowledged every one (QoS 0: until it is on the wire)."""
        for info in [self.publish(message) for message in messages]:
            info.wait_for_publish(PATIENCE)
            assert info.is_published(), "no acknowledgement"

    # -- paho's thread ------------------------------------------------------------------------------------------------

    def _on_connect(self, client: Any, userdata: Any, flags: paho.ConnectFlags, reason: ReasonCode, _: Any) -> None:
        self.session_present = flags.session_present
        self.connack = reason
        self.disconnected.clear()
        self._connected.set()

    def _on_disconnect(self, client: Any, userdata: Any, flags: Any, reason: ReasonCode, _: Any) -> None:
        self.goodbye = reason
        self._connected.clear()
        self.disconnected.set()

    def _on_message(self, client: Any, userdata: Any, message: paho.MQTTMessage) -> None:
        given = message.properties.json() if message.properties is not None else {}
        if "CorrelationData" in given:
            given["CorrelationData"] = message.properties.CorrelationData
        with self._changed:
            self.messages.append(Message(message.topic, message.payload, message.qos, message.retain, given))
            self.came[message.topic] += 1
            self._changed.notify_all()

    def _on_answer(self, client: Any, userdata: Any, mid: int, reasons: list[ReasonCode], _: Any) -> None:
        with self._changed:
            self._answers[mid] = reasons
            self._changed.notify_all()

    def _wait(self, condition: Callable[[], bool], what: str, within: float = PATIENCE) -> None:
        with self._changed:
            done = self._changed.wait_for(condition, within)
        assert done, f"not within {within:.0f} s: {what}; {len(self.messages)} messages came"
