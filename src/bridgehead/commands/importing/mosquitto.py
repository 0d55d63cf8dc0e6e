"""``mosquitto.conf``: its bridges, and of what is around them listeners, queues and persistence."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from bridgehead.commands.importing.mosquittobridge import bridge_of
from bridgehead.commands.importing.mosquittoconf import Conf, Option, Section, parse_conf
from bridgehead.commands.importing.report import NOBODY_ELSE, Report
from bridgehead.commands.importing.values import as_number, as_yes
from bridgehead.settings.listener import is_loopback

Document = dict[str, Any]

ELSEWHERE: Final = {
    "acl_file": "users and permissions are not there yet",
    "password_file": "users and permissions are not there yet",
    "psk_file": "there is no PSK",
    "auth_plugin": "there are no plugins",
    "plugin": "there are no plugins",
    "autosave_interval": "needs nothing: every acknowledged message of QoS 1 and 2 is synced",
    "autosave_on_changes": "needs nothing: every acknowledged message of QoS 1 and 2 is synced",
    "persistence_file": "another format, in dataDir",
    "persistence_location": "another format, in dataDir: what mosquitto has queued is not taken over",
    "max_inflight_messages": "the window is the Receive Maximum that the remote names, at most 16,384; 20 for QoS 2 over 3.1.1",
    "max_inflight_bytes": "in flight is bounded by messages",
    "queue_qos0_messages": "needs nothing: QoS 0 waits as all others do, within the same bounds",
    "upgrade_outgoing_qos": "the QoS is never raised",
    "log_dest": "logs go to standard error",
    "log_type": "logs go to standard error; `-v` for more",
    "sys_interval": "there is no $SYS; the status and /metrics say more",
    "allow_duplicate_messages": "a message comes once for a client, whatever its filters",
}


def import_mosquitto(path: Path, report: Report) -> Document:
    """Our document; what it does not say is in the report."""
    conf = parse_conf(path)
    for option in conf.missing:
        report.miss(option.place, "is no directory here: what would be in it is not imported")
    document: Document = {}
    general = {option.name: option for option in conf.general}
    _listeners(conf, general, document, report)
    _keeping(general, document, report)
    document["pipeline"] = {"engine": "inline"}
    report.differ("the rules of a bridge", "run in the node, as there; without `engine: inline` they run on Spark")
    document["bridges"] = [bridge_of(section, f"bridges[{index}]", report) for index, section in enumerate(conf.bridges)]
    if not conf.bridges:
        report.differ(path.name, "has no connection")
    for option in conf.general:
        if option.name in general:
            report.miss(option.place, ELSEWHERE.get(option.name, "has no counterpart"))
    return document


def _listeners(conf: Conf, general: dict[str, Option], document: Document, report: Report) -> None:
    anonymous = general.pop("allow_anonymous", None)
    open_to_all = anonymous is not None and as_yes(anonymous.value, anonymous.place) is True
    listeners: list[Document] = []
    for section in conf.listeners:
        listener = _listener(section, report)
        if listener is None:
            continue
        if not open_to_all and not is_loopback(listener["host"]):
            listener["host"] = "127.0.0.1"
            report.differ(section.opening.place, NOBODY_ELSE)
        report.map(section.opening.place, f"listeners[{len(listeners)}]")
        listeners.append(listener)
    if listeners:
        document["listeners"] = listeners
    if anonymous is not None and open_to_all:
        document["auth"] = {"allowAnonymous": True}
        report.map(anonymous.place, "auth.allowAnonymous")
    elif anonymous is not None:
        report.differ(anonymous.place, NOBODY_ELSE)


def _listener(section: Section, report: Report) -> Document | None:
    words = section.opening.value.split()
    options = {option.name: option for option in section.options}
    port = options.pop("port").value if "port" in options else words[0] if words else "1883"
    host = options.pop("bind_address").value if "bind_address" in options else words[1] if len(words) > 1 else "0.0.0.0"
    place = section.opening.place
    protocol = options["protocol"].value if "protocol" in options else "mqtt"
    for option in options.values():
        report.miss(option.place, "only listeners of plain TCP for now, without limits of their own")
    if port == "0" or "certfile" in options or "psk_hint" in options or protocol != "mqtt":
        report.miss(place, "only listeners of plain TCP for now: left out")
        return None
    return {"type": "tcp", "host": host, "port": as_number(port, place)}


def _keeping(general: dict[str, Option], document: Document, report: Report) -> None:
    persistence = general.pop("persistence", None)
    if persistence is not None and as_yes(persistence.value, persistence.place):
        document["persistence"] = {"mode": "file-native"}
        report.map(persistence.place, "persistence.mode")
        report.differ(persistence.place, "a snapshot every half an hour there; here synced before it is acknowledged")
    queues: Document = {}
    for name, key in (("max_queued_messages", "maxQueuedMessages"), ("max_queued_bytes", "maxQueueBytes")):
        option = general.pop(name, None)
        limit = as_number(option.value, option.place) if option is not None else 0
        if option is None and name == "max_queued_messages":
            report.differ(name, "not given: 1,000 messages for a whole bridge there, 1,000,000 for each route here")
        elif option is not None and limit == 0:
            report.differ(option.place, f"no limit there; here `queuedMessages.{key}` has its default")
        elif option is not None:
            queues[key] = limit
            report.map(option.place, f"queuedMessages.{key}")
            report.differ(option.place, "for a whole bridge there, without what is in flight; for each route here, with it")
    if queues:
        document["queuedMessages"] = queues
