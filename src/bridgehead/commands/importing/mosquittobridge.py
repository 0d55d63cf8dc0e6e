"""A ``connection`` of mosquitto as a bridge."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import combinations
from typing import Any, Final

from bridgehead.commands.importing.mosquittoconf import Option, Section
from bridgehead.commands.importing.mosquittotopics import Topic, routes, topics_of
from bridgehead.commands.importing.report import Report
from bridgehead.commands.importing.values import as_number, as_text, as_yes
from bridgehead.errors import CommandError
from bridgehead.wire.topicnames import intersect, valid_filter

Document = dict[str, Any]

USUAL_PORT: Final = "1883"
SUBSCRIPTIONS: Final = {"out": "localSubscriptions", "in": "remoteSubscriptions"}
VERSIONS: Final = {"mqttv50": 5, "mqttv311": "3.1.1", "mqttv31": "3.1.1"}
NO_PSK: Final = "there is no PSK: bridgeTls stands in its place, so that nothing goes in clear; the remote needs a certificate"
NOT_IN_MESSAGES: Final = "the state of a bridge is in the status and in /metrics, not in messages under $SYS"
STORED: Final = {
    "out": "retained messages of the local broker are sent when it connects there; here what is published from then on",
    "in": "retained messages of the remote come with every connect there; here with the subscription: retained: first",
}
TLS_VERSIONS: Final = {"tlsv1.2": "TLSv1.2", "tlsv1.3": "TLSv1.3"}

Names = dict[str, tuple[str, Callable[[str, str], Any]]]
"""Our key for an option, and what makes our value of its text."""

PLAIN: Final[Names] = {
    "remote_clientid": ("clientId", as_text),
    "clientid": ("clientId", as_text),
    "cleansession": ("cleanStart", as_yes),
    "bridge_session_expiry_interval": ("sessionExpiry", as_number),
    "keepalive_interval": ("keepAlive", as_number),
    "remote_username": ("username", as_text),
    "username": ("username", as_text),
    "remote_password": ("password", as_text),
    "password": ("password", as_text),
}
PLAIN_TLS: Final[Names] = {
    "bridge_cafile": ("caFile", as_text),
    "bridge_certfile": ("certFile", as_text),
    "bridge_keyfile": ("keyFile", as_text),
    "bridge_insecure": ("verifyHostname", lambda text, place: not as_yes(text, place)),
    "bridge_ciphers": ("cipherSuites", lambda text, place: text.split(":")),
}
ELSEWHERE: Final = {
    "local_clientid": "the bridge is a part of the node, not a client of it",
    "local_username": "the bridge is a part of the node, not a client of it",
    "local_password": "the bridge is a part of the node, not a client of it",
    "local_cleansession": "what waits for the remote is always kept",
    "idle_timeout": "a bridge is always connected",
    "threshold": "a bridge is always connected",
    "notification_topic": NOT_IN_MESSAGES,
    "notifications_local_only": NOT_IN_MESSAGES,
    "bridge_bind_address": "the operating system chooses the way",
    "bridge_max_packet_size": "the remote's own limit counts; what is larger becomes a dead letter",
    "bridge_attempt_unsubscribe": "only what an earlier life of the node had subscribed is unsubscribed",
    "bridge_max_topic_alias": "topic aliases are not sent",
    "bridge_receive_maximum": "the remote may send as much as there is room for",
    "bridge_reload_type": "a change restarts only what it changes",
    "bridge_alpn": "there is no ALPN",
    "bridge_require_ocsp": "there is no OCSP",
    "bridge_ciphers_tls1.3": "the cipher suites of TLS 1.3 cannot be chosen",
    "bridge_tcp_keepalive": "MQTT's keep alive and the watchdog see a dead connection",
    "bridge_tcp_user_timeout": "MQTT's keep alive and the watchdog see a dead connection",
}


def bridge_of(section: Section, key: str, report: Report) -> Document:
    """Our bridge, under this key of our file."""
    return _Connection(section, key, report).bridge()


class _Connection:
    """One ``connection``: each step takes the options that it knows; what nobody has taken in the end has no counterpart."""

    def __init__(self, section: Section, key: str, report: Report) -> None:
        self._opening, self._key, self._report = section.opening, key, report
        self._topics = [option for option in section.options if option.name == "topic"]
        self._given = {option.name: option for option in section.options if option.name != "topic"}
        self._bridge: Document = {}

    def bridge(self) -> Document:
        self._name()
        self._addresses()
        self._plain(PLAIN, self._bridge, self._key)
        self._version()
        self._tls()
        self._coming_back()
        self._being_seen()
        self._routes()
        for option in self._given.values():
            self._report.miss(option.place, ELSEWHERE.get(option.name, "has no counterpart"))
        return self._bridge

    def _take(self, name: str) -> Option | None:
        return self._given.pop(name, None)

    def _plain(self, names: Names, into: Document, key: str) -> None:
        """Options that have a key of their own here."""
        for name, (ours, convert) in names.items():
            option = self._take(name)
            if option is not None:
                into[ours] = convert(option.value, option.place)
                self._report.map(option.place, f"{key}.{ours}")

    def _name(self) -> None:
        name = self._bridge["id"] = re.sub(r"[^a-zA-Z0-9_-]", "-", self._opening.value)
        self._report.map(self._opening.place, f"{self._key}.id")
        if name != self._opening.value:
            self._report.differ(self._opening.place, f"an id has only letters, digits, _ and -: {name}")

    def _addresses(self) -> None:
        option = self._take("addresses") or self._take("address")
        if option is None:
            raise CommandError(f"{self._opening.place}: has no address")
        hosts = []
        for each in option.value.split():
            host, colon, port = each.rpartition(":")
            if not colon:
                host, port = each, USUAL_PORT
            hosts.append({"host": host.strip("[]"), "port": as_number(port, option.place)})
        self._bridge |= hosts[0] if len(hosts) == 1 else {"hosts": hosts}
        self._report.map(option.place, f"{self._key}.{'host, port' if len(hosts) == 1 else 'hosts'}")
        robin = self._take("round_robin")
        if robin is not None and as_yes(robin.value, robin.place):
            self._report.map(robin.place, f"{self._key}.hosts: the working one is kept")
        elif robin is not None or len(hosts) > 1:
            text = "returns to the first address when it can there; stays with the one that works here"
            self._report.differ((robin or option).place, text)

    def _version(self) -> None:
        option = self._take("bridge_protocol_version")
        if option is None:
            self._bridge["mqttVersion"] = "3.1.1"
            text = "no bridge_protocol_version: 3.1.1, as there; 5 carries more, and sees loops"
            self._report.differ(self._opening.place, text)
            return
        if option.value not in VERSIONS:
            raise CommandError(f"{option.place}: must be mqttv31, mqttv311 or mqttv50")
        self._bridge["mqttVersion"] = VERSIONS[option.value]
        self._report.map(option.place, f"{self._key}.mqttVersion")
        if option.value == "mqttv31":
            self._report.differ(option.place, "MQTT 3.1 is not spoken: 3.1.1")

    def _tls(self) -> None:
        tls: Document = {}
        self._plain(PLAIN_TLS, tls, f"{self._key}.bridgeTls")
        path = self._take("bridge_capath")
        if path is not None and "caFile" not in tls:
            directory = path.value.rstrip("/")
            tls["caFile"] = f"{directory}/ca.pem"
            command = f"cat {directory}/*.crt > {directory}/ca.pem"
            self._report.differ(path.place, f"authorities are read from one file here; make it: {command}")
        elif path is not None:
            self._report.differ(path.place, "bridge_cafile is there too: only that is used")
        version = self._take("bridge_tls_version")
        if version is not None and version.value in TLS_VERSIONS:
            tls["protocols"] = [TLS_VERSIONS[version.value]]
            self._report.map(version.place, f"{self._key}.bridgeTls.protocols")
        elif version is not None:
            self._report.miss(version.place, f"{version.value} is not safe and not used here")
        system = self._take("bridge_tls_use_os_certs")
        if system is not None and as_yes(system.value, system.place):
            tls.setdefault("caFile", None)
            self._report.map(system.place, f"{self._key}.bridgeTls: without caFile the system's authorities are trusted")
        for secret in (self._take("bridge_identity"), self._take("bridge_psk")):
            if secret is not None:
                tls.setdefault("caFile", None)
                self._report.miss(secret.place, NO_PSK)
        if tls:
            self._bridge["bridgeTls"] = tls

    def _coming_back(self) -> None:
        """How a bridge starts, and starts again."""
        start = self._take("start_type")
        if start is not None and start.value != "automatic":
            text = f"{start.value} does not exist: the bridge is always connected, or on its way to it"
            self._report.differ(start.place, text)
        elif start is not None:
            self._report.map(start.place, "so is every bridge")
        restart = self._take("restart_timeout")
        if restart is not None:
            self._report.differ(restart.place, "attempts follow after 1, 2, 4 … 120 s, each up to a quarter longer")

    def _being_seen(self) -> None:
        """What a bridge tells about itself."""
        told = self._take("notifications")
        if told is None or as_yes(told.value, told.place):
            place = told.place if told is not None else f"{self._opening.place}: notifications, by default"
            self._report.miss(place, NOT_IN_MESSAGES)
        else:
            self._report.map(told.place, "none are published")
        private = self._take("try_private")
        if private is not None and self._bridge["mqttVersion"] == 5:
            self._report.map(private.place, "of 3.1.1 only, as there")
        elif private is not None:
            self._bridge["noLocal"] = as_yes(private.value, private.place)
            self._report.map(private.place, f"{self._key}.noLocal")
        if "clientId" not in self._bridge:
            text = f"no remote_clientid: name.hostname there, the id of the bridge here: {self._bridge['id']}"
            self._report.differ(self._opening.place, text)
        if self._bridge["mqttVersion"] == 5:
            text = "a user property counts bridges; loopPreventionEnabled: false leaves it out"
            self._report.differ(self._opening.place, text)

    def _routes(self) -> None:
        topics = [topic for option in self._topics for topic in self._topics_of(option)]
        retain = self._take("bridge_outgoing_retain")
        keep = retain is None or as_yes(retain.value, retain.place) is not False
        if retain is not None:
            self._report.map(retain.place, f"{self._key}.localSubscriptions[*].preserveRetain")
        for way, more in (("out", {"preserveRetain": keep}), ("in", {"preserveRetain": True, "retained": "first"})):
            rules = routes(topic for topic in topics if topic.direction == way)
            if rules:
                self._bridge[SUBSCRIPTIONS[way]] = [rule | more for rule in rules]
                self._report.differ(self._opening.place, STORED[way])
        self._overlaps(topics)

    def _topics_of(self, option: Option) -> list[Topic]:
        topics = list(topics_of(option))
        self._report.map(option.place, ", ".join(f"{self._key}.{SUBSCRIPTIONS[topic.direction]}" for topic in topics))
        if len(option.value.split()) < 3:
            self._report.differ(option.place, "no QoS means 0, as there: written as maxQoS: 0; here 2 is the default")
        for topic in topics:  # a/# matches a too, which does not begin with the prefix a/
            if topic.pattern == "#" and topic.source.endswith("/") and topic.source != topic.target:
                parent, ours = topic.source[:-1], topic.target.rstrip("/") or "a dead letter, for nothing is left of it"
                text = f"a message on {parent} itself goes to {topic.target}{parent} there; here it is {ours}"
                self._report.differ(option.place, text)
        return topics

    def _overlaps(self, topics: list[Topic]) -> None:
        for one, other in combinations(topics, 2):
            same_route = (one.qos, one.source, one.target) == (other.qos, other.source, other.target)
            valid = valid_filter(one.filter) and valid_filter(other.filter)
            if one.direction == other.direction and not same_route and valid and intersect(one.filter, other.filter):
                text = f"{one.filter} and {other.filter} overlap, with other prefixes or QoS: what matches both comes by both"
                self._report.differ(self._opening.place, text)
