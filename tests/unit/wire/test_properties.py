"""The property table against one that others wrote (paho's), and the section around the properties."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties as PahoProperties

from bridgehead.errors import ProtocolError
from bridgehead.wire.fields import Reader
from bridgehead.wire.packettype import PacketType
from bridgehead.wire.properties import BY_NAME, PROPERTIES, Property, decode_properties, encode_properties
from bridgehead.wire.reason import Reason
from vectors.strategies import properties

PAHO_TYPES = {"bit": 0, "flag": 0, "u16": 1, "u32": 2, "varint": 3, "binary": 4, "string": 5, "pair": 6}
HAVE_PROPERTIES = [kind for kind in PacketType if kind not in (PacketType.PINGREQ, PacketType.PINGRESP)]


def paho_kind(packet: PacketType) -> int:
    return int(PacketTypes.WILLMESSAGE) if packet is PacketType.WILL else int(packet)


def paho_name(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_")).replace("Qos", "QoS")


def test_the_table_says_what_pahos_table_says() -> None:
    paho = PahoProperties(PacketTypes.CONNACK)
    theirs = {
        identifier: (name.lower().replace(" ", "_"), paho.properties[identifier])
        for name, identifier in paho.names.items()
    }
    ours = {
        prop.identifier: (prop.name, (PAHO_TYPES[prop.type], sorted(paho_kind(packet) for packet in prop.packets)))
        for prop in PROPERTIES
    }
    assert ours == theirs
    assert len(ours) == 27


@pytest.mark.parametrize("packet", HAVE_PROPERTIES, ids=lambda packet: packet.name)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_paho_reads_the_properties_we_write(packet: PacketType, data: st.DataObject) -> None:
    found = data.draw(properties(packet, 5))
    if "maximum_packet_size" in found:  # paho refuses values that the standard allows here
        found["maximum_packet_size"] = min(found["maximum_packet_size"], 268_435_455)
    paho = PahoProperties(paho_kind(packet))
    paho.unpack(encode_properties(found, packet))
    for name, value in found.items():
        theirs = getattr(paho, paho_name(name))
        if packet is PacketType.SUBSCRIBE and name == "subscription_identifier":
            value = [value]
        assert theirs == value


def test_we_read_the_properties_paho_writes() -> None:
    paho = PahoProperties(PacketTypes.CONNECT)
    paho.SessionExpiryInterval = 4_000_000_000
    paho.ReceiveMaximum = 7
    paho.RequestProblemInformation = 1
    paho.AuthenticationMethod = "Schlüssel"
    paho.AuthenticationData = b"\0\xff"
    paho.UserProperty = [("k", "1"), ("k", "2")]
    assert decode_properties(Reader(paho.pack()), PacketType.CONNECT) == {
        "session_expiry_interval": 4_000_000_000,
        "receive_maximum": 7,
        "request_problem_information": True,
        "authentication_method": "Schlüssel",
        "authentication_data": b"\0\xff",
        "user_property": [("k", "1"), ("k", "2")],
    }


SAMPLES: dict[str, Any] = {
    "bit": 1, "flag": True, "u16": 1, "u32": 1, "varint": 1, "string": "s", "binary": b"b", "pair": ("k", "v"),
}  # fmt: skip


@pytest.mark.parametrize("packet", HAVE_PROPERTIES, ids=lambda packet: packet.name)
@pytest.mark.parametrize("prop", PROPERTIES, ids=lambda prop: prop.name)
def test_each_property_is_taken_where_it_may_stand_and_once_where_it_may_not_repeat(
    packet: PacketType, prop: Property
) -> None:
    sample = SAMPLES[prop.type]
    home = packet if packet in prop.packets else prop.packets[0]
    one = encode_properties({prop.name: [sample] if home in prop.repeats_in else sample}, home)[1:]
    if packet not in prop.packets:
        refuses(one, packet, Reason.MALFORMED_PACKET)
    elif prop.name == "authentication_data":
        refuses(one, packet)  # it needs its method, which other tests give it
    else:
        expected = [sample] if packet in prop.repeats_in else sample
        assert read(one, packet) == {prop.name: expected}
        if packet in prop.repeats_in:
            assert read(one + one, packet) == {prop.name: [sample, sample]}
        else:
            refuses(one + one, packet)


@pytest.mark.parametrize("name", ["receive_maximum", "topic_alias", "subscription_identifier", "maximum_packet_size"])
def test_zero_is_refused_where_the_standard_forbids_it(name: str) -> None:
    prop = BY_NAME[name]
    for packet in prop.packets:
        refuses(encode_properties({name: [0] if packet in prop.repeats_in else 0}, packet)[1:], packet)


@pytest.mark.parametrize("prop", [prop for prop in PROPERTIES if prop.type in ("bit", "flag")], ids=lambda p: p.name)
def test_a_yes_or_no_is_0_or_1(prop: Property) -> None:
    for packet in prop.packets:
        for value in (2, 255):
            refuses(bytes([prop.identifier, value]), packet)


def test_the_section_ends_where_its_length_says() -> None:
    reader = Reader(bytes.fromhex("02 01 01 FFFF"))
    assert decode_properties(reader, PacketType.PUBLISH) == {"payload_format_indicator": 1}
    assert (reader.pos, reader.end) == (3, 5)


def test_a_section_of_more_than_127_bytes_is_read() -> None:
    found = {"user_property": [("k", "v" * 300)]}
    assert decode_properties(Reader(encode_properties(found, PacketType.PUBLISH)), PacketType.PUBLISH) == found


def read(section: bytes, packet: PacketType) -> dict[str, Any]:
    return decode_properties(Reader(bytes([len(section)]) + section), packet)


def refuses(section: bytes, packet: PacketType, reason: Reason = Reason.PROTOCOL_ERROR) -> None:
    with pytest.raises(ProtocolError) as refusal:
        read(section, packet)
    assert refusal.value.reason == reason
