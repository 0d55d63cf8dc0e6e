"""What a configuration is allowed to say and somebody may not have meant: told by ``check``, and by ``run`` at the start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bridgehead.settings.archive import EXACTLY_ONCE
from bridgehead.settings.bridge import Bridge
from bridgehead.settings.fault import Path, path_text
from bridgehead.settings.model import Settings
from bridgehead.settings.templates import left_out_of
from bridgehead.wire.filtersets import overlaps


def advice(settings: Settings) -> Iterator[str]:
    """A line for everything that is worth a second look, with its place in the file."""
    for index, bridge in enumerate(settings.bridges):
        if not bridge.persist and any(route.max_qos > 0 for route in bridge.routes()):
            place = path_text(("bridges", index, "persist"))
            yield (
                f"{place}: bridge {bridge.id} lowers QoS 1 and 2 to QoS 0: "
                "no acknowledgement is waited for, nothing is sent again, nothing survives a restart"
            )
        if bridge.loop_prevention_enabled and bridge.loop_prevention_hop_count > 1 and bridge.mqtt_version != 5:
            yield (
                f"{path_text(('bridges', index, 'loopPreventionHopCount'))}: MQTT 3.1.1 carries no hop count: "
                "only messages that have crossed no bridge leave this way, and what comes counts as having crossed as many"
            )
        if bridge.mqtt_version != 5:
            yield from _overlaps(bridge, ("bridges", index, "remoteSubscriptions"))
        tls = bridge.bridge_tls
        if tls is not None and tls.cipher_suites and tls.protocols and "TLSv1.2" not in tls.protocols:
            place = path_text(("bridges", index, "bridgeTls", "cipherSuites"))
            yield f"{place}: all of TLS 1.2, which protocols does not allow: they have no effect"
        yield from _archives(bridge, ("bridges", index))
    yield from _shared_names(settings.bridges)
    for path, what in left_out_of(settings):
        yield f"{path_text(path)}: {what} is left out of the topic"


def _shared_names(bridges: Sequence[Bridge]) -> Iterator[str]:
    """A broker lets a client id connect once: of two bridges that share one, each pushes the other out, for ever."""
    owners: dict[tuple[str, tuple[str, int]], str] = {}
    for index, bridge in enumerate(bridges):
        known = [owners[key] for address in bridge.addresses() if (key := (bridge.client_id, address)) in owners]
        if known:
            place = path_text(("bridges", index, "clientId"))
            yield f"{place}: bridge {known[0]} has the same at the same remote: they push each other out of their connection"
        owners |= {(bridge.client_id, address): bridge.id for address in bridge.addresses()}


def _overlaps(bridge: Bridge, path: Path) -> Iterator[str]:
    for found in overlaps(each for rule in bridge.remote_subscriptions for each in rule.filters):
        line = f"{path_text(path)}: {' and '.join(found.parts)} overlap"
        if found.joined and bridge.join_filters:
            line += f" and are subscribed to as {found.wide} over MQTT 3.1.1: what else it brings crosses the link for nothing"
        else:
            line += ": a remote of MQTT 3.1.1 that sends a copy for each brings a message twice"
        yield f"{line}; with mqttVersion 5 each is subscribed to as it is, and a message comes once"


def _archives(bridge: Bridge, path: Path) -> Iterator[str]:
    directions = (("localSubscriptions", bridge.local_subscriptions), ("remoteSubscriptions", bridge.remote_subscriptions))
    for key, rules in directions:
        for index, rule in enumerate(rules):
            archive = rule.archive
            if archive is None:
                continue
            place = (*path, key, index, "archive")
            if archive.format not in EXACTLY_ONCE:
                yield (
                    f"{path_text((*place, 'format'))}: {archive.format} holds each row at least once: "
                    f"a kill of the pipeline can leave rows twice; {' and '.join(EXACTLY_ONCE)} hold each exactly once"
                )
            if not archive.partition_by and archive.format == "parquet":
                yield f"{path_text((*place, 'partitionBy'))}: without partitions small files are never merged"
