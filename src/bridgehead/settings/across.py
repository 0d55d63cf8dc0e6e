"""What one key alone cannot know: rules that span several keys.

They look at the plain document and not at the finished model, because a model with one fault is never finished, and
all faults are to be told at once. So nothing here trusts the shape of what it sees; a wrong shape the model tells.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bridgehead.settings.bridge import USUAL_PORT
from bridgehead.settings.fault import Fault, Path, path_text
from bridgehead.settings.listener import CONSOLE_PORT, USUAL_PORTS, is_loopback
from bridgehead.settings.route import Direction, route_id
from bridgehead.wire.topicnames import intersect, share_of, valid_filter

_Mapping = dict[str, Any]

ANY_ADDRESS = ("0.0.0.0", "::")  # listening everywhere says not where that is


def faults_across(document: object) -> Iterator[Fault]:
    """Every rule between keys that the document breaks."""
    root = _mapping(document)
    yield from _anonymous_within_reach(root)
    yield from _addresses_taken_twice(root)
    yield from _flight_within_reach(root)
    yield from _retained_in_memory(root)
    yield from _pipeline_elsewhere(root)
    for index, listener in _items(root.get("listeners")):
        yield from _listener_of_its_type(listener, ("listeners", index))
    seen: dict[str, int] = {}
    for index, bridge in _items(root.get("bridges")):
        name = bridge.get("id")
        if isinstance(name, str) and seen.setdefault(name, index) != index:
            yield Fault(("bridges", index, "id"), f"already the id of bridges[{seen[name]}]")
        yield from _one_way_to_the_remote(bridge, ("bridges", index))
        yield from _credentials(bridge, ("bridges", index))
        yield from _certificates(bridge, ("bridges", index))
        yield from _routes_twice(bridge, ("bridges", index))
        yield from _retained(bridge, ("bridges", index))
        yield from _spark_only(bridge, ("bridges", index), _mapping(root.get("pipeline")).get("engine"))


def _anonymous_within_reach(root: _Mapping) -> Iterator[Fault]:
    if "allowAnonymous" in _mapping(root.get("auth")):
        return
    for index, listener in _items(root.get("listeners")):
        host = listener.get("host")
        if isinstance(host, str) and not is_loopback(host):
            yield Fault(
                ("listeners", index, "host"),
                "other machines can reach this address, and anybody may connect; auth.allowAnonymous: true allows that",
            )


def _flight_within_reach(root: _Mapping) -> Iterator[Fault]:
    """Whoever speaks to the Flight service reads every message: off loopback only with a token, under TLS."""
    flight = _mapping(_mapping(root.get("pipeline")).get("flight"))
    host = flight.get("host")
    if not isinstance(host, str) or is_loopback(host):
        return
    for key in ("token", "tls"):
        if flight.get(key) is None:
            yield Fault(("pipeline", "flight", key), "required, since other machines can reach pipeline.flight.host")


def _pipeline_elsewhere(root: _Mapping) -> Iterator[Fault]:
    pipeline = _mapping(root.get("pipeline"))
    flight = _mapping(pipeline.get("flight"))
    if pipeline.get("external") in (True, "true"):
        if flight.get("token") is None:
            yield Fault(("pipeline", "flight", "token"), "required with external: the pipeline elsewhere must show it")
        if not _number(flight.get("port", 0)):
            yield Fault(("pipeline", "flight", "port"), "required with external: the pipeline elsewhere must know it")
    elif _runs_elsewhere(pipeline.get("master")) and flight.get("host") in ANY_ADDRESS and not flight.get("advertise"):
        yield Fault(("pipeline", "flight", "advertise"), "required with this master: where executors reach the node")
    seen: dict[str, int] = {}
    for index, node in _items(pipeline.get("nodes")):
        path, address = ("pipeline", "nodes", index), str(node.get("address", ""))
        place = address.rpartition("//")[2]
        if seen.setdefault(place, index) != index:
            yield Fault((*path, "address"), f"already the address of pipeline.nodes[{seen[place]}]")
        tls = node.get("caFile") is not None or address.startswith("grpc+tls://")
        host = place.rpartition(":")[0]
        if host and not tls and not is_loopback(host):
            yield Fault((*path, "caFile"), "required off loopback (or grpc+tls:// for whom the system trusts)")
        if (node.get("certFile") is None) != (node.get("keyFile") is None):
            yield Fault(path, "certFile and keyFile belong together")


def _runs_elsewhere(master: object) -> bool:
    return isinstance(master, str) and not master.startswith("local")


def _addresses_taken_twice(root: _Mapping) -> Iterator[Fault]:
    taken: dict[tuple[object, int], Path] = {}
    doors: list[tuple[Path, _Mapping, int]] = [
        (("listeners", index), listener, USUAL_PORTS.get(str(listener.get("type", "tcp")), 0))
        for index, listener in _items(root.get("listeners"))
    ]
    for path, door, usual in [*doors, (("console",), _mapping(root.get("console")), CONSOLE_PORT)]:
        port = _number(door.get("port", usual))
        address = (door.get("host", "127.0.0.1"), port or 0)
        if port and taken.setdefault(address, path) != path:
            yield Fault((*path, "port"), f"{path_text(taken[address])} already listens on this host and port")


def _retained_in_memory(root: _Mapping) -> Iterator[Fault]:
    retain = _mapping(_mapping(root.get("journal")).get("retain"))
    in_memory = _mapping(root.get("persistence")).get("mode", "in-memory") == "in-memory"
    if in_memory and retain.get("hours") and not retain.get("bytes"):
        yield Fault(("journal", "retain", "bytes"), "required with persistence.mode in-memory: what is retained is in RAM")


def _listener_of_its_type(listener: _Mapping, path: Path) -> Iterator[Fault]:
    kind = listener.get("type", "tcp")
    if kind == "tcp" and listener.get("tls") is not None:
        yield Fault((*path, "tls"), "a listener of type tcp has no TLS; use type tls")
    if kind == "tls" and listener.get("tls") is None:
        yield Fault((*path, "tls"), "required for type tls")
    if kind in ("tcp", "tls") and listener.get("path") is not None:
        yield Fault((*path, "path"), "only for type ws")


def _one_way_to_the_remote(bridge: _Mapping, path: Path) -> Iterator[Fault]:
    host, hosts = bridge.get("host"), bridge.get("hosts")
    if host is None and hosts is None:
        yield Fault((*path, "host"), "required, but missing (or give hosts)")
    elif host is not None and hosts is not None:
        yield Fault((*path, "hosts"), "give either host or hosts, not both")
    elif hosts is not None and "port" in bridge:
        yield Fault((*path, "port"), "belongs to host; with hosts each entry has its own port")
    seen: dict[tuple[object, int | None], int] = {}
    for index, entry in _items(hosts):
        address = (entry.get("host"), _number(entry.get("port", USUAL_PORT)))
        if seen.setdefault(address, index) != index:
            yield Fault((*path, "hosts", index), f"the same address as hosts[{seen[address]}]")


def _credentials(bridge: _Mapping, path: Path) -> Iterator[Fault]:
    for key in ("username", "password"):
        if bridge.get(key) is not None and bridge.get(f"{key}File") is not None:
            yield Fault((*path, f"{key}File"), f"give either {key} or {key}File, not both")
    if bridge.get("mqttVersion") != "3.1.1":
        return
    # [MQTT-3.1.2-22] of MQTT 3.1.1; MQTT 5 allows a password alone
    anonymous = bridge.get("username") is None and bridge.get("usernameFile") is None
    for key in ("password", "passwordFile"):
        if anonymous and bridge.get(key) is not None:
            yield Fault((*path, key), "MQTT 3.1.1 allows no password without a username")
    if bridge.get("connectUserProperties"):
        yield Fault((*path, "connectUserProperties"), "MQTT 3.1.1 has no user properties")


def _certificates(bridge: _Mapping, path: Path) -> Iterator[Fault]:
    tls, path = _mapping(bridge.get("bridgeTls")), (*path, "bridgeTls")
    cert, key = tls.get("certFile"), tls.get("keyFile")
    if _is_pkcs12(cert):
        if key is not None:
            yield Fault((*path, "keyFile"), "a PKCS12 certFile holds the key")
    elif (cert is None) != (key is None):
        yield Fault(path, "certFile and keyFile belong together")
    if tls.get("keyPassword") is not None and cert is None:
        yield Fault((*path, "keyPassword"), "needs certFile")
    if tls.get("caPassword") is not None and not _is_pkcs12(tls.get("caFile")):
        yield Fault((*path, "caPassword"), "needs a caFile of PKCS12 (.p12, .pfx)")


def _is_pkcs12(file: object) -> bool:
    return isinstance(file, str) and file.lower().endswith((".p12", ".pfx"))


def _routes_twice(bridge: _Mapping, path: Path) -> Iterator[Fault]:
    seen: dict[str, Path] = {}
    directions: tuple[tuple[str, Direction], ...] = (("localSubscriptions", "push"), ("remoteSubscriptions", "pull"))
    for key, direction in directions:
        for index, rule in _items(bridge.get(key)):
            filters, destination, here = rule.get("filters"), rule.get("destination"), (*path, key, index)
            if not isinstance(filters, list) or not all(isinstance(each, str) for each in filters):
                continue
            if destination is not None and not isinstance(destination, str):
                continue
            rewrite = [(str(each.get("pattern")), str(each.get("replacement", ""))) for _, each in _items(rule.get("rewrite"))]
            identity = route_id("", direction, filters, destination, rewrite)
            if seen.setdefault(identity, here) != here:
                yield Fault(here, f"the same route as {path_text(seen[identity])}: equal filters, destination and rewrite")


def _retained(bridge: _Mapping, path: Path) -> Iterator[Fault]:
    """Filters that meet share what the remote sends: routes with such filters must want the same of what is stored there."""
    before: list[tuple[int, str, object]] = []
    for index, rule in _items(bridge.get("remoteSubscriptions")):
        wanted, here = rule.get("retained", "skip"), (*path, "remoteSubscriptions", index, "retained")
        filters = _filters(rule)
        if wanted == "level":
            if bridge.get("mqttVersion") == "3.1.1":
                yield Fault(here, "level needs MQTT 5: over 3.1.1 nobody could tell what is to be retained")
            if rule.get("preserveRetain") not in (True, "true"):
                yield Fault(here, "level needs preserveRetain: true")
        if wanted in ("first", "level") and any(share_of(each)[0] is not None for each in filters):
            yield Fault(here, "shared subscriptions get nothing of what is stored")
        others = [at for at, each, its in before if its != wanted and any(intersect(each, one) for one in filters)]
        if others:
            yield Fault(here, f"must be that of remoteSubscriptions[{others[0]}], whose filters overlap")
        before += [(index, each, wanted) for each in filters]


def _spark_only(bridge: _Mapping, path: Path, usual: object) -> Iterator[Fault]:
    for key in ("localSubscriptions", "remoteSubscriptions"):
        for index, rule in _items(bridge.get(key)):
            for part in ("transform", "archive"):
                if rule.get(part) is not None and (rule.get("engine") or usual) == "inline":
                    yield Fault((*path, key, index, part), "runs on Spark only; this route has engine: inline")


def _filters(rule: _Mapping) -> list[str]:
    """Those of a rule that are any."""
    given = rule.get("filters")
    return [each for each in given if isinstance(each, str) and valid_filter(each)] if isinstance(given, list) else []


def _number(value: object) -> int | None:
    try:
        return int(value) if isinstance(value, int | str) else None
    except ValueError:
        return None


def _mapping(value: object) -> _Mapping:
    return value if isinstance(value, dict) else {}


def _items(value: object) -> Iterator[tuple[int, _Mapping]]:
    """The mappings of a list with their positions; anything else is passed over."""
    for index, each in enumerate(value if isinstance(value, list) else ()):
        if isinstance(each, dict):
            yield index, each
