"""Random packets of every type, as hypothesis strategies."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from bridgehead.wire.packets import (
    Acknowledgement,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
    Will,
)
from bridgehead.wire.packettype import PacketType
from bridgehead.wire.properties import PROPERTIES, Properties, Property
from bridgehead.wire.reason import CONNACK_REASONS_V4, REASONS_IN, SUBACK_REASONS_V4, Reason

text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
level = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0/+#"), max_size=5)
topic = st.lists(level, min_size=1, max_size=4).map("/".join).filter(bool)
binary = st.binary(max_size=20)
packet_id = st.integers(1, 65535)
qos = st.integers(0, 2)
flag = st.booleans()

_filter_levels = st.lists(level | st.just("+"), max_size=3)
plain_filter = st.builds(lambda levels, end: "/".join([*levels, *end]), _filter_levels, st.sampled_from([["#"], ["a"]]))
shared_filter = st.builds("$share/{}/{}".format, level.filter(bool), plain_filter)
topic_filter = plain_filter.filter(lambda each: not each.startswith("$share/")) | shared_filter

_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bit": st.integers(0, 1),
    "flag": flag,
    "u16": st.integers(0, 0xFFFF),
    "u32": st.integers(0, 0xFFFFFFFF),
    "varint": st.integers(0, 268_435_455),
    "string": text,
    "binary": binary,
    "pair": st.tuples(text, text),
}


def _value(prop: Property, packet: PacketType) -> st.SearchStrategy[Any]:
    value = topic if prop.name == "response_topic" else _VALUES[prop.type]
    if prop.nonzero:
        value = value.filter(bool)
    return st.lists(value, min_size=1, max_size=4) if packet in prop.repeats_in else value


def _method_before_data(properties: Properties) -> Properties:
    if "authentication_data" in properties:
        properties.setdefault("authentication_method", "M")
    return properties


def properties(packet: PacketType, version: int) -> st.SearchStrategy[Properties]:
    if version < 5:
        return st.builds(dict)
    allowed = {prop.name: _value(prop, packet) for prop in PROPERTIES if packet in prop.packets}
    return st.fixed_dictionaries({}, optional=allowed).map(_method_before_data)


def reasons(packet: PacketType, version: int) -> st.SearchStrategy[Reason]:
    if version >= 5:
        return st.sampled_from(sorted(REASONS_IN[packet].values()))
    if packet is PacketType.CONNACK:
        return st.sampled_from(CONNACK_REASONS_V4)
    if packet is PacketType.SUBACK:
        return st.sampled_from(sorted(SUBACK_REASONS_V4.values()))
    return st.just(Reason.SUCCESS)


def _connects(version: int) -> st.SearchStrategy[Connect]:
    will = st.builds(Will, topic, binary, qos, flag, properties(PacketType.WILL, version))
    connect = st.builds(
        Connect, st.just(version), text, flag, st.integers(0, 0xFFFF), st.none() | text, st.none() | binary,
        st.none() | will, properties(PacketType.CONNECT, version), flag,
    )  # fmt: skip
    if version == 5:
        return connect
    return connect.filter(
        lambda each: bool(each.client_id) and not (each.username is None and each.password is not None)
    )


def _publish(
    name: str, payload: bytes, level: int, retain: bool, dup: bool, identifier: int, found: Properties, use_alias: bool
) -> Publish:
    if use_alias and "topic_alias" in found:
        name = ""
    return Publish(name, payload, level, retain, dup and level > 0, identifier if level else 0, found)


def _acknowledgements(version: int, packet: type[Acknowledgement]) -> st.SearchStrategy[Acknowledgement]:
    return st.builds(packet, packet_id, reasons(packet.type, version), properties(packet.type, version))


def _subscription(version: int) -> st.SearchStrategy[Subscription]:
    if version < 5:
        return st.builds(Subscription, topic_filter, qos)
    options = (qos, flag, flag, st.integers(0, 2))
    return st.builds(Subscription, topic_filter, *options).filter(
        lambda each: not (each.no_local and each.filter.startswith("$share/"))
    )


def packets(version: int) -> st.SearchStrategy[Packet]:
    """Any packet that ``version`` can carry."""
    kinds: list[st.SearchStrategy[Packet]] = [
        _connects(version),
        st.builds(
            lambda present, reason, found: Connack(present and not reason, reason, found),
            flag, reasons(PacketType.CONNACK, version), properties(PacketType.CONNACK, version),
        ),
        st.builds(_publish, topic, binary, qos, flag, flag, packet_id, properties(PacketType.PUBLISH, version), flag),
        *(_acknowledgements(version, kind) for kind in (Puback, Pubrec, Pubrel, Pubcomp)),
        st.builds(
            Subscribe, packet_id, st.lists(_subscription(version), min_size=1, max_size=4),
            properties(PacketType.SUBSCRIBE, version),
        ),
        st.builds(
            Suback, packet_id, st.lists(reasons(PacketType.SUBACK, version), min_size=1, max_size=4),
            properties(PacketType.SUBACK, version),
        ),
        st.builds(
            Unsubscribe, packet_id, st.lists(topic_filter, min_size=1, max_size=4),
            properties(PacketType.UNSUBSCRIBE, version),
        ),
        st.builds(
            Unsuback, packet_id,
            st.lists(reasons(PacketType.UNSUBACK, 5), min_size=1, max_size=4) if version == 5 else st.builds(list),
            properties(PacketType.UNSUBACK, version),
        ),
        st.builds(Pingreq),
        st.builds(Pingresp),
        st.builds(Disconnect, reasons(PacketType.DISCONNECT, version), properties(PacketType.DISCONNECT, version)),
    ]  # fmt: skip
    if version == 5:
        with_method = properties(PacketType.AUTH, 5).map(lambda found: {"authentication_method": "M"} | found)
        kinds.append(st.builds(Auth, reasons(PacketType.AUTH, 5), with_method) | st.builds(Auth))
    return st.one_of(kinds)
