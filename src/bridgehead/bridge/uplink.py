"""The uplink: the one MQTT connection of a bridge to its remote broker, from CONNECT to the next attempt.

The conversation: connecting, keep alive, what the remote says, subscriptions. What goes out is the business of ``Outgoing``;
both keep the session's state (packet ids in flight, QoS 2 ids received), which outlives connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass, replace
from typing import Final

from bridgehead.bridge.asking import Asking, describe
from bridgehead.bridge.backoff import Backoff
from bridgehead.bridge.consumer import Consumer
from bridgehead.bridge.echoes import EchoWindow
from bridgehead.bridge.forwarder import Forwarder
from bridgehead.bridge.hosts import Found, Hosts
from bridgehead.bridge.outgoing import Outgoing
from bridgehead.bridge.pace import Pace
from bridgehead.bridge.uplinkrule import UplinkRule, UplinkStatus
from bridgehead.bridge.watchdog import watch
from bridgehead.clock import monotonic, now_us
from bridgehead.errors import SettingsError
from bridgehead.link.layer import LayerError
from bridgehead.link.link import Buffer, Link
from bridgehead.session.rows import unreceive
from bridgehead.session.stream import Fault, PacketStream
from bridgehead.storage.engine import Engine, synced
from bridgehead.wire.encode import encode
from bridgehead.wire.intake import Rows, ScanResult
from bridgehead.wire.packets import (
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Suback,
    Unsuback,
)
from bridgehead.wire.reason import Reason
from bridgehead.wire.topicnames import share_of

log = logging.getLogger(__name__)

CONNACK_WITHIN: Final = 30.0
STOP_WITHIN: Final = 5.0
PATIENCE: Final = 2.0
"""Seconds that the remote has for its answers when a connection is about to end: acknowledgements, or that to CONNECT."""


@dataclass(frozen=True, slots=True)
class _Owed:
    """Acknowledgements belong to the connection their messages came on: on the next one their ids may mean others."""

    uplink: Uplink
    link: Link

    def reply(self, data: bytes) -> None:
        self.uplink.reply(data, self.link)

    def failed(self, rows: Rows) -> None:
        self.uplink.failed(rows)


class Uplink:
    """Connects, reconnects, sends what the forwarders have, hands to the consumer what comes."""

    def __init__(self, rule: UplinkRule, forwarders: list[Forwarder], consumer: Consumer, engine: Engine) -> None:
        self.rule = rule
        self.status = UplinkStatus()
        self._consumer = consumer
        self._engine = engine
        self._as_bridge = rule.bridge_bit  # until a remote does not answer that
        self.asking = Asking(rule, self.status, consumer, engine)
        # Who else gets what comes by a shared subscription, nobody knows: it brings no echo that could be waited for.
        alone = [wish.filter for wish in rule.subscriptions if share_of(wish.filter)[0] is None]
        self._echoes = EchoWindow(alone) if rule.bridge_bit and alone else None
        pace = None if rule.rate_limit is None else Pace(rule.rate_limit)
        self.outgoing = Outgoing(
            rule.bridge, rule.version, forwarders, engine, rule.session, pace=pace, live_first=rule.live_first
        )
        self.hosts = Hosts(rule.addresses, engine, rule.bridge)
        self._stopping = False
        self._unheard = False  # CONNECT has left, and has no answer in a version that we speak
        self._error = ""  # why the running connection ended, as far as we know
        self._stream = PacketStream(from_server=True, version=rule.version)
        self._link: Link | None = None
        self._identity: tuple[str | None, bytes | None] = (None, None)  # username and password of this connection
        self._online = False
        self._keep_alive = float(rule.keep_alive)
        self._last_heard = 0.0
        self._backoff = Backoff(longest=rule.longest_wait)
        self._opened = asyncio.Event()  # every layer of the connection stands
        self._connack = asyncio.Event()
        self._pong = asyncio.Event()  # an answer to the last ping has come
        self._closed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def connected(self) -> bool:
        return self._online

    @property
    def in_flight(self) -> int:
        return self.outgoing.in_flight

    def follow(self, before: Uplink) -> None:
        """Go on where another one of this bridge has ended: its counts, and what it knew of a session that is still ours."""
        same = before.rule.session == self.rule.session and before.rule.subscriptions == self.rule.subscriptions
        self.status = self.asking.status = replace(before.status, state="disconnected", next_attempt=None)
        if not same or self.rule.unwanted:
            self.status.subscribed, self.status.subscribe_refused = False, {}
        if before.rule.session == self.rule.session:
            self.hosts = before.hosts
        if same and self._echoes is not None and before._echoes is not None:
            self._echoes = before._echoes

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self, patience: float = 0.0) -> None:
        """Acknowledge what has come, say goodbye, then end; what the remote has not acknowledged stays where it is.

        Before CONNECT has left the end is at once. Its answer is waited for: mosquitto 2.0.11 that finds us gone while it
        answers sends messages of QoS 2 once more that it has released, and then nobody can tell them from new ones.
        """
        self._stopping = True
        if patience:
            await self.outgoing.fall_silent(patience)
            if self._opened.is_set() and not self._closed.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(_either(self._connack, self._closed), patience)
        if self._online and self._link is not None:
            try:
                await asyncio.wait_for(self._take_leave(self._link), STOP_WITHIN)
            except TimeoutError:
                log.warning("bridge %s: the connection did not close in time", self.rule.bridge)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self.outgoing.stop()
        self.status.state = "stopped"

    async def _take_leave(self, link: Link) -> None:
        """Nothing more is taken in, so that everything that was can be acknowledged: at QoS 1 it would come twice."""
        link.pause_reading()
        self._consumer.gathering.flush()
        await synced(self._engine)
        link.write(encode(Disconnect(), self.rule.version))
        link.finish()
        await self._closed.wait()

    async def round_trip(self) -> None:
        """Return when the remote has answered a ping: what it had sent before that is read. Without a connection: an error."""
        if self._link is None or not self._online:
            raise ConnectionError("not connected")
        self._pong.clear()
        self._link.write(encode(Pingreq(), self.rule.version))
        await _either(self._pong, self._closed)
        if not self._pong.is_set():
            raise ConnectionError("the connection was lost")

    # -- connecting ---------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while not self._stopping:
            connects = self.status.connects
            error = await self._connect_once(*self.hosts.address)
            self._offline()
            if self._stopping:
                return
            if self._not_answered_as_bridge():
                log.info("bridge %s: the remote broker does not know the bridge bit", self.rule.bridge)
                continue
            self.status.last_error, self.status.last_error_at = error, now_us()
            delay = self._backoff.next() if self.hosts.ended(stood=self.status.connects > connects) else 0.0
            self.status.next_attempt = monotonic() + delay
            log.warning("bridge %s: %s; next attempt in %.1f s", self.rule.bridge, error, delay)
            await asyncio.sleep(delay)

    def _not_answered_as_bridge(self) -> bool:
        """Whether the bridge bit may be why there was no answer. Whoever has not answered is asked the other way next."""
        if not self._unheard or not self.rule.bridge_bit:
            return False
        self._unheard = False
        self._as_bridge = not self._as_bridge
        self.status.subscribed = False  # what we are to the remote is part of a subscription
        return not self._as_bridge

    async def _connect_once(self, host: str, port: int) -> str:
        """One connection from its first byte to its end; returns why it ended."""
        self.status.state = "connecting"
        self.status.next_attempt = None
        for event in (self._opened, self._connack, self._closed):
            event.clear()
        self._stream = PacketStream(from_server=True, version=self.rule.version)
        self._stream.inbound = self._consumer.inbound.marks
        self._stream.greeted = False
        self._error = "the remote broker closed the connection"
        self._link = link = Link(self)
        transport: asyncio.Transport | None = None
        try:
            self._identity = self.rule.credentials.now()
            transport = await self.rule.way.dial(link, host, port)
            await _either(self._opened, self._closed)  # each layer has its own limit
            async with asyncio.timeout(CONNACK_WITHIN):
                await _either(self._connack, self._closed)
            await self._while_connected()
        except SettingsError as error:
            self._error = "; ".join(f"{key} {fault}" for key, fault in error.faults)
        except TimeoutError:
            self._error = f"no answer from {host}:{port}"
        except (OSError, UnicodeError) as error:
            self._error = f"cannot reach {self.rule.way.reached(host, port)}: {getattr(error, 'strerror', None) or error}"
        finally:
            link.abort()
            if transport is not None:
                transport.abort()  # layers that do not stand yet know nothing of a link
            elif not link.opened:
                self._closed.set()
        await self._closed.wait()
        return self._error

    async def _while_connected(self) -> None:
        watching = asyncio.ensure_future(watch(self.rule.watchdog, self.outgoing.work, self._bitten, monotonic))
        try:
            await self._beat()
        finally:
            watching.cancel()

    def _bitten(self, reason: str) -> None:
        self.status.watchdog_resets += 1
        self.status.watchdog_reason = self._error = reason
        if self._link is not None:
            self._link.abort()

    async def _beat(self) -> None:
        """Keep alive, until the connection ends: ping when half the interval has passed, give up after one and a half.

        With each ping what the remote refused to subscribe is asked for again: it may have changed its mind.
        """
        while not self._closed.is_set():
            try:
                async with asyncio.timeout(self._keep_alive / 2 or None):
                    await self._closed.wait()
            except TimeoutError:
                if self._link is not None and not self._link.reading:
                    self._last_heard = monotonic()  # whom we do not listen to is not silent
                if monotonic() - self._last_heard > 1.5 * self._keep_alive:
                    self._error = "the remote broker has been silent for one and a half keep alive intervals"
                    return
                if self._link is not None:
                    self._link.write(encode(Pingreq(), self.rule.version))
                    self.asking.ask_again()

    def link_opened(self) -> None:
        rule = self.rule
        self._last_heard = monotonic()
        properties: dict[str, object] = {}
        if rule.version == 5:
            properties["session_expiry_interval"] = rule.session_expiry
            if rule.user_properties:
                properties["user_property"] = list(rule.user_properties)
        self._unheard = True
        username, password = self._identity
        connect = Connect(
            protocol_level=rule.version,
            client_id=rule.client_id,
            clean_start=rule.clean_start,
            keep_alive=rule.keep_alive,
            username=username,
            password=password,
            properties=properties,
            bridge_bit=self._as_bridge,
        )
        assert self._link is not None
        self._link.write(encode(connect, rule.version))
        self._opened.set()

    def link_closed(self, error: Exception | None) -> None:
        if error is not None:
            self._error = str(error) if isinstance(error, LayerError) else f"connection lost: {error}"
        self._consumer.gathering.flush()
        self._consumer.forget_held()
        self._offline()
        self._closed.set()

    def _offline(self) -> None:
        """What the kernel did not take goes back; tier 2 fills while we are away."""
        if self.status.state != "stopped":
            self.status.state = "disconnected"
        self._online = False
        self._link = None
        self.asking.end()
        self.outgoing.detach()

    # -- what the remote says -----------------------------------------------------------------------------------------

    def link_data(self, data: Buffer, end: int) -> tuple[int, int]:
        self._last_heard = monotonic()
        for item in self._stream.feed(data, end, self._consumer.gathering.intake, 0):
            if isinstance(item, ScanResult):
                if item.row_to > item.row_from or item.replies:  # first: its rows are in the intake already
                    assert self._link is not None
                    changed = self._consumer.inbound.changed(item.ids_from, item.ids_to)
                    self._consumer.gathering.received(_Owed(self, self._link), item.replies, ids_changed=changed)
                if len(item.acks):
                    self.outgoing.acked(item.acks)
            elif isinstance(item, Fault):
                self._fail(item.reason, f"the remote broker broke the protocol: {item.text}")
            else:
                self._control(item)
            if self._link is None or self._link.closing:
                # Asking for the next item would scan it: the rows of a conversation that is over.
                return end, 0
        return self._stream.taken, self._stream.need

    def reply(self, data: bytes, link: Link) -> None:
        """Acknowledgements of what the consumer has made safe."""
        if self._online and self._link is link:
            self._link.write(data)
            if self._consumer.full:
                self._link.pause_reading()
            if self._consumer.has_passed_by:
                self._fail(Reason.QUOTA_EXCEEDED, "there was no room for all that the remote broker sent: it is to come again")

    def failed(self, rows: Rows) -> None:
        unreceive(rows.rows, self._consumer.inbound.marks)
        self._fail(Reason.UNSPECIFIED_ERROR, "what the remote broker sent could not be kept")

    def room_again(self) -> None:
        """Read on, if there is room again for what comes."""
        if self._link is not None and not self._consumer.full:
            self._link.resume_reading()

    def _control(self, packet: Packet) -> None:
        if isinstance(packet, Connack) and not self._online:
            self._connected(packet)
        elif isinstance(packet, Suback | Unsuback):
            self.asking.answered(packet)
        elif isinstance(packet, Disconnect):
            self._error = f"the remote broker said DISCONNECT: {describe(packet.reason, packet.properties)}"
            if self._link is not None:
                self._link.abort()
        elif isinstance(packet, Pingresp):
            self._pong.set()
            self.asking.ping_answered()
        else:
            self._fail(Reason.PROTOCOL_ERROR, f"the remote broker sent {type(packet).__name__.upper()}")

    def _fail(self, reason: int, text: str) -> None:
        self._error = text
        if self._link is not None:
            if self._online and self.rule.version == 5:
                self._link.write(encode(Disconnect(Reason(reason)), 5))
            self._link.close()

    def _connected(self, packet: Connack) -> None:
        link = self._link
        assert link is not None
        self._unheard = packet.reason == Reason.UNSUPPORTED_PROTOCOL_VERSION
        if packet.reason >= 0x80:
            self._error = f"the remote broker refused the connection: {describe(packet.reason, packet.properties)}"
            link.abort()
            return
        self._apply_limits(packet)
        found = self.hosts.connected(session_present=packet.session_present and not self.rule.clean_start)
        resumed = found is Found.OURS
        if resumed:
            self.status.possibly_doubled += self.outgoing.resume()
        else:
            self.status.possibly_doubled += self.outgoing.start_anew(settle=found is Found.OLD)
            self.hosts.settled()
        self._online = self._stream.greeted = True
        self._consumer.flag_means_stored = not self._as_bridge
        self._expect_echoes(resumed=resumed)
        self._backoff.reset()
        self.status.state = "connected"
        self.status.connects += 1
        log.info("bridge %s: connected to %s", self.rule.bridge, link.peer)
        if resumed:
            self._ask_for_messages(link, resumed=True)
        else:
            self.status.subscribed = False
            # A remote that has no session of ours sends nothing before it has our subscriptions.
            self._consumer.session_lost(lambda: self._ask_for_messages(link, resumed=False))
        self._connack.set()
        self.outgoing.attach(link)

    def _expect_echoes(self, *, resumed: bool) -> None:
        """Only a remote that does not know us for a bridge sends back what we send."""
        if self._echoes is not None:
            if resumed:
                self._echoes.resumed()
            else:
                self._echoes.session_lost()
        expected = None if self._as_bridge else self._echoes
        self.outgoing.echoes = self._consumer.echoes = expected

    def _apply_limits(self, packet: Connack) -> None:
        window = packet.properties.get("receive_maximum", 65_535)
        max_packet = packet.properties.get("maximum_packet_size", 0)
        keep_alive = packet.properties.get("server_keep_alive", self.rule.keep_alive)
        assert isinstance(window, int)
        assert isinstance(max_packet, int)
        assert isinstance(keep_alive, int)
        self.outgoing.limit(window, max_packet)
        self.asking.takes_identifiers = packet.properties.get("subscription_identifier_available", True) is True
        self._keep_alive = float(keep_alive)

    def _ask_for_messages(self, link: Link, *, resumed: bool) -> None:
        if self._link is link:
            self.asking.begin(link, resumed=resumed, as_bridge=self._as_bridge)

    def link_writable(self) -> None:
        self.outgoing.pump()


async def _either(one: asyncio.Event, other: asyncio.Event) -> None:
    """Return when one of them has happened."""
    waits = [asyncio.ensure_future(event.wait()) for event in (one, other)]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
