"""``config.xml`` of HiveMQ Edge: its bridges, and of what is around them listeners, queues, persistence and the admin API."""

from __future__ import annotations

from typing import Any, Final

from bridgehead.commands.importing.hivemqroutes import routes_of
from bridgehead.commands.importing.hivemqtls import bridge_tls
from bridgehead.commands.importing.report import NOBODY_ELSE, Report
from bridgehead.commands.importing.taking import Taking
from bridgehead.commands.importing.values import as_number, as_yes
from bridgehead.commands.importing.xmltree import Element, parse_xml
from bridgehead.errors import CommandError
from bridgehead.settings.listener import is_loopback

Document = dict[str, Any]

ELSEWHERE: Final = {
    "protocol-adapters": "there are no protocol adapters",
    "data-combiners": "combine data in a transform of a route",
    "data-hub": "check and change data in a transform of a route",
    "uns": "there is no Unified Namespace",
    "pulse": "there are no Pulse assets",
    "mqtt-sn-listeners": "there is no MQTT-SN",
    "usage-tracking": "nothing is reported to anybody",
    "modules": "there are no modules",
    "extensions": "there are no extensions",
    "admin-api/users": "whoever reaches the console may read; only this machine may change something",
}
MOST_HOPS: Final = 100


def import_hivemq(text: bytes, name: str, report: Report) -> Document:
    """Our document; what it does not say is in the report."""
    root = parse_xml(text, name)
    if root.name != "hivemq":
        raise CommandError(f"{name}: begins with <{root.name}>, a configuration of HiveMQ Edge with <hivemq>")
    if b"${FRAGMENT:" in text:
        report.miss(name, "${FRAGMENT:...} is not read: import the file with its fragments filled in")
    document: Document = {}
    _listeners(root, document, report)
    limit = _around(root, document, report)
    bridges = root.at("mqtt-bridges")
    found = bridges.all("mqtt-bridge") if bridges is not None else []
    if not found:
        report.differ(name, "has no mqtt-bridge")
    document["pipeline"] = {"engine": "inline"}
    report.differ("the rules of a bridge", "run in the node, as there; without `engine: inline` they run on Spark")
    document["bridges"] = [_bridge(each, f"bridges[{index}]", limit, report) for index, each in enumerate(found)]
    for left in root.unread():
        report.miss(left.place, ELSEWHERE.get(left.path, "has no counterpart"))
    return document


def _listeners(root: Element, document: Document, report: Report) -> None:
    section = root.one("mqtt-listeners")
    listeners: list[Document] = []
    for element in section.children if section is not None else ():
        element.read = True
        if element.name != "tcp-listener":
            report.miss(element.place, "only listeners of plain TCP for now")
            element.skip()
            continue
        listener: Document = {"type": "tcp", "host": "0.0.0.0"}
        taking = Taking(element, listener, f"listeners[{len(listeners)}]", report)
        taking("bind-address", "host")
        taking("port", "port", as_number)
        element.all("name")  # nothing here needs it
        if not is_loopback(listener["host"]):
            listener["host"] = "127.0.0.1"
            report.differ(element.place, NOBODY_ELSE)
        listeners.append(listener)
    if listeners:
        document["listeners"] = listeners


def _around(root: Element, document: Document, report: Report) -> int | None:
    """What is said for the whole broker. Returns the limit of a queue, if one is given."""
    limit = None
    queues = root.at("mqtt/queued-messages")
    if queues is not None:
        given: Document = {}
        limit = Taking(queues, given, "queuedMessages", report)("max-queue-size", "maxQueuedMessages", as_number)
        Taking(queues, given, "queuedMessages", report)("strategy", "strategy")
        document["queuedMessages"] = given
    if limit is None:
        report.differ("max-queue-size", "not given: 1,000 messages for each filter there, 1,000,000 for each route here")
    mode = root.at("persistence/mode")
    if mode is not None:
        document["persistence"] = {"mode": mode.text.lower().replace("_", "-")}
        report.map(mode.place, "persistence.mode")
    root.one("config-version")  # of the file's format
    enabled = root.at("admin-api/enabled")
    if enabled is not None and as_yes(enabled.text, enabled.place) is False:
        report.differ(enabled.place, "the console is always there")
    elif enabled is not None:
        report.map(enabled.place, "console")
    admin = root.at("admin-api/listeners/http-listener")
    if admin is not None:
        console: Document = {}
        taking = Taking(admin, console, "console", report)
        taking("port", "port", as_number)
        taking("bind-address", "host")
        document["console"] = console
    return limit if isinstance(limit, int) else None


def _bridge(element: Element, key: str, limit: int | None, report: Report) -> Document:
    bridge: Document = {}
    remote = element.one("remote-broker")
    if element.one("id") is None or remote is None:
        raise CommandError(f"{element.place}: id and remote-broker are required")
    taking = Taking(element, bridge, key, report)
    taking("id", "id")
    of_remote = Taking(remote, bridge, key, report)
    of_remote("host", "host")
    of_remote("port", "port", as_number)
    of_remote("mqtt/client-id", "clientId")
    of_remote("mqtt/clean-start", "cleanStart", as_yes)
    of_remote("mqtt/session-expiry", "sessionExpiry", as_number)
    of_remote("mqtt/keep-alive", "keepAlive", as_number)
    _credentials(remote, of_remote, report)
    tls = remote.one("tls")
    if tls is not None:
        found = bridge_tls(tls, f"{key}.bridgeTls", report)
        if found is not None:
            bridge["bridgeTls"] = found
    _websocket(remote.one("websocket"), bridge, key, report)
    taking("persist", "persist", as_yes)
    _loops(element.one("loop-prevention"), bridge, key, report)
    for section, name, ours in (
        ("forwarded-topics", "forwarded-topic", "localSubscriptions"),
        ("remote-subscriptions", "remote-subscription", "remoteSubscriptions"),
    ):
        rules = element.one(section)
        if rules is not None:
            bridge[ours] = routes_of(rules.all(name), f"{key}.{ours}", limit, report)
    if not bridge.get("localSubscriptions") and not bridge.get("remoteSubscriptions"):
        report.differ(element.place, "has no rules: nothing will cross")
    return bridge


def _credentials(remote: Element, taking: Taking, report: Report) -> None:
    simple = remote.at("authentication/mqtt-simple-authentication")
    if simple is None:
        return
    if simple.one("username") is None or simple.one("password") is None:
        report.differ(simple.place, "needs both to be used there: left out; here either may be alone")
        return
    taking("authentication/mqtt-simple-authentication/username", "username")
    if "${ENV:" not in str(taking("authentication/mqtt-simple-authentication/password", "password")):
        report.differ(simple.place, "the password is in the file as it was; `${ENV:NAME}` or passwordFile keep it out")


def _websocket(element: Element | None, bridge: Document, key: str, report: Report) -> None:
    if element is None:
        return
    enabled = element.one("enabled")
    if enabled is None or as_yes(enabled.text, enabled.place) is False:
        report.differ(element.place, "is not enabled: what else it says is left out")
        element.skip()
        return
    found: Document = {"path": "/mqtt", "subProtocol": "mqtt"}
    taking = Taking(element, found, f"{key}.bridgeWebsocketConfig", report)
    taking("server-path", "path")
    taking("subprotocol", "subProtocol")
    report.map(enabled.place, f"{key}.bridgeWebsocketConfig")
    bridge["bridgeWebsocketConfig"] = found


def _loops(element: Element | None, bridge: Document, key: str, report: Report) -> None:
    if element is None:
        return
    taking = Taking(element, bridge, key, report)
    if taking("enabled", "loopPreventionEnabled", as_yes) is False:
        report.differ(element.place, "when off, the hop count is taken away there; here it is passed on as it came")
    limit = taking("hop-count-limit", "loopPreventionHopCount", as_number)
    if isinstance(limit, int) and limit > MOST_HOPS:
        bridge["loopPreventionHopCount"] = MOST_HOPS
        report.differ(element.place, f"at most {MOST_HOPS} hops here")
