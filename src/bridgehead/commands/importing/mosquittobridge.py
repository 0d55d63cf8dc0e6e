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
TLS_VERSIONS: Final = {"tlsv1.2": "TLSv1.2", "tlsv1.3": "TLSv1.3"}

PLAIN: Final[dict[str, tuple[str, Callable[[str, str], Any]]]] = {
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
PLAIN_TLS: Final[dict[str, tuple[str, Callable[[str, str], Any]]]] = {
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
    "notification_topic": "the state of a bridge is in the status and in /metrics, not in messages",
    "notifications_local_only": "the state of a bridge is in the status and in /metrics, not in messages",
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
    bridge: Document = {"id": _id(section.opening, key, report)}
    tls: Document = {}
    given: dict[str, Option] = {}
    topics: list[Topic] = []
    for option in section.options:
        if option.name == "topic":
            found = list(topics_of(option))
            topics += found
            report.map(option.place, ", ".join(f"{key}.{SUBSCRIPTIONS[topic.direction]}" for topic in found))
            _parents(option, found, report)
            if len(option.value.split()) < 3:
                report.differ(option.place, "no QoS means 0, as there: written as maxQoS: 0; here 2 is the default")
        else:
            given[option.name] = option
    _addresses(section, given, bridge, key, report)
    for names, into, place in ((PLAIN, bridge, key), (PLAIN_TLS, tls, f"{key}.bridgeTls")):
        for name, (ours, convert) in names.items():
            if name in given:
                option = given.pop(name)
                into[ours] = convert(option.value, option.place)
                report.map(option.place, f"{place}.{ours}")
    _version(section.opening, given.pop("bridge_protocol_version", None), bridge, key, report)
    _tls(given, tls, key, report)
    if tls:
        bridge["bridgeTls"] = tls
    _ways(section.opening, given, bridge, key, report)
    keep = _retain(given.pop("bridge_outgoing_retain", None), key, report)
    for way, retain in (("out", keep), ("in", True)):
        rules = routes(topic for topic in topics if topic.direction == way)
        if rules:
            bridge[SUBSCRIPTIONS[way]] = [{**rule, "preserveRetain": retain} for rule in rules]
    _overlaps(section.opening, topics, report)
    for option in given.values():
        report.miss(option.place, ELSEWHERE.get(option.name, "has no counterpart"))
    return bridge


def _parents(option: Option, topics: list[Topic], report: Report) -> None:
    """``a/#`` matches ``a`` too, which does not begin with the prefix ``a/``."""
    for topic in topics:
        if topic.pattern == "#" and topic.source.endswith("/") and topic.source != topic.target:
            parent, ours = topic.source[:-1], topic.target.rstrip("/") or "a dead letter, for nothing is left of it"
            report.differ(option.place, f"a message on {parent} itself goes to {topic.target}{parent} there; here it is {ours}")


def _id(option: Option, key: str, report: Report) -> str:
    name = re.sub(r"[^a-zA-Z0-9_-]", "-", option.value)
    report.map(option.place, f"{key}.id")
    if name != option.value:
        report.differ(option.place, f"an id has only letters, digits, _ and -: {name}")
    return name


def _addresses(section: Section, given: dict[str, Option], bridge: Document, key: str, report: Report) -> None:
    option = given.pop("addresses", None) or given.get("address")
    given.pop("address", None)
    if option is None:
        raise CommandError(f"{section.opening.place}: has no address")
    hosts = []
    for each in option.value.split():
        host, colon, port = each.rpartition(":")
        if not colon:
            host, port = each, USUAL_PORT
        hosts.append({"host": host.strip("[]"), "port": as_number(port, option.place)})
    if len(hosts) == 1:
        bridge |= hosts[0]
        report.map(option.place, f"{key}.host, port")
    else:
        bridge["hosts"] = hosts
        report.map(option.place, f"{key}.hosts")
    robin = given.pop("round_robin", None)
    if robin is not None and as_yes(robin.value, robin.place):
        report.map(robin.place, f"{key}.hosts: the working one is kept")
    elif robin is not None or len(hosts) > 1:
        place = robin.place if robin is not None else option.place
        report.differ(place, "returns to the first address when it can there; stays with the one that works here")


def _version(opening: Option, option: Option | None, bridge: Document, key: str, report: Report) -> None:
    if option is None:
        bridge["mqttVersion"] = "3.1.1"
        report.differ(opening.place, "no bridge_protocol_version: 3.1.1, as there; 5 carries more, and sees loops")
        return
    if option.value not in VERSIONS:
        raise CommandError(f"{option.place}: must be mqttv31, mqttv311 or mqttv50")
    bridge["mqttVersion"] = VERSIONS[option.value]
    report.map(option.place, f"{key}.mqttVersion")
    if option.value == "mqttv31":
        report.differ(option.place, "MQTT 3.1 is not spoken: 3.1.1")


def _tls(given: dict[str, Option], tls: Document, key: str, report: Report) -> None:
    path = given.pop("bridge_capath", None)
    if path is not None and "caFile" not in tls:
        tls["caFile"] = f"{path.value.rstrip('/')}/ca.pem"
        command = f"cat {path.value.rstrip('/')}/*.crt > {tls['caFile']}"
        report.differ(path.place, f"authorities are read from one file here; make it: {command}")
    version = given.pop("bridge_tls_version", None)
    if version is not None and version.value in TLS_VERSIONS:
        tls["protocols"] = [TLS_VERSIONS[version.value]]
        report.map(version.place, f"{key}.bridgeTls.protocols")
    elif version is not None:
        report.miss(version.place, f"{version.value} is not safe and not used here")
    system = given.pop("bridge_tls_use_os_certs", None)
    if system is not None and as_yes(system.value, system.place):
        tls.setdefault("caFile", None)
        report.map(system.place, f"{key}.bridgeTls: without caFile the system's authorities are trusted")
    for name in ("bridge_identity", "bridge_psk"):
        if name in given:
            report.miss(given.pop(name).place, NO_PSK)
            tls.setdefault("caFile", None)


def _ways(opening: Option, given: dict[str, Option], bridge: Document, key: str, report: Report) -> None:
    """How a bridge starts and comes back, and what it tells about itself."""
    start = given.pop("start_type", None)
    if start is not None and start.value != "automatic":
        report.differ(start.place, f"{start.value} does not exist: the bridge is always connected, or on its way to it")
    elif start is not None:
        report.map(start.place, "so is every bridge")
    restart = given.pop("restart_timeout", None)
    if restart is not None:
        report.differ(restart.place, "attempts follow after 1, 2, 4 … 120 s, each up to a quarter longer")
    told = given.pop("notifications", None)
    if told is None or as_yes(told.value, told.place):
        place = told.place if told is not None else f"{opening.place}: notifications, by default"
        report.miss(place, "the state of a bridge is in the status and in /metrics, not in messages under $SYS")
    else:
        report.map(told.place, "none are published")
    private = given.pop("try_private", None)
    if private is not None and bridge["mqttVersion"] == 5:
        report.map(private.place, "of 3.1.1 only, as there")
    elif private is not None:
        bridge["noLocal"] = as_yes(private.value, private.place)
        report.map(private.place, f"{key}.noLocal")
    if "clientId" not in bridge:
        report.differ(opening.place, f"no remote_clientid: name.hostname there, the id of the bridge here: {bridge['id']}")
    if bridge["mqttVersion"] == 5:
        report.differ(opening.place, "a user property counts bridges; loopPreventionEnabled: false leaves it out")


def _retain(option: Option | None, key: str, report: Report) -> bool:
    if option is None:
        return True
    report.map(option.place, f"{key}.localSubscriptions[*].preserveRetain")
    return as_yes(option.value, option.place) is not False


def _overlaps(opening: Option, topics: list[Topic], report: Report) -> None:
    for one, other in combinations(topics, 2):
        same_route = (one.qos, one.source, one.target) == (other.qos, other.source, other.target)
        valid = valid_filter(one.filter) and valid_filter(other.filter)
        if one.direction == other.direction and not same_route and valid and intersect(one.filter, other.filter):
            both = f"{one.filter} and {other.filter}"
            report.differ(opening.place, f"{both} overlap, with other prefixes or QoS: what matches both comes by both")
