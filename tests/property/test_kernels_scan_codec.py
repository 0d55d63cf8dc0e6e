"""The scan and the plain codec accept the same PUBLISH and acknowledgement packets, and read the same from them.

Two differences are meant: the scan refuses every topic alias (none is announced), and takes the reason codes of
acknowledgements as they come.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from test_kernels_scan_twin import acks, publishes

from bridgehead.errors import ProtocolError
from bridgehead.wire.decode import decode
from bridgehead.wire.intake import ERROR, Intake
from bridgehead.wire.kernels_columns import to_columns
from bridgehead.wire.packets import Acknowledgement, Publish
from bridgehead.wire.reason import REASONS_IN


@st.composite
def packets(draw: Any) -> tuple[int, int, bytes]:
    """Version, first byte and body of a packet, at times with one byte changed."""
    version = draw(st.sampled_from([4, 5]))
    packet = draw(publishes(version) | acks())
    body = bytearray(packet[2:])
    if body and draw(st.booleans()):
        body[draw(st.integers(0, len(body) - 1))] = draw(st.integers(0, 255))
    assume(packet[1] == len(body))
    return version, packet[0], bytes(body)


@settings(max_examples=500, deadline=None)
@given(packets())
def test_scan_and_codec_agree(sample: tuple[int, int, bytes]) -> None:
    version, first, body = sample
    data, intake = bytes([first, len(body)]) + body, Intake()
    result = intake.scan(data, 0, len(data), version, 1, np.zeros(65536, np.uint8), from_server=True)
    try:
        packet = decode(first, body, version)
    except ProtocolError:
        invented = not result.row_to and result.stop != ERROR and len(body) > 2 and body[2] not in allowed(first)
        assert result.stop == ERROR or invented
        return
    if isinstance(packet, Publish) and "topic_alias" in packet.properties:
        assert (result.stop, result.reason) == (ERROR, 0x94)
        return
    assert result.consumed == len(data)
    if isinstance(packet, Publish):
        columns = {name: column.to_pylist() for name, column in to_columns(*intake.take())._asdict().items()}
        properties = packet.properties
        assert columns == {
            "topic": [packet.topic],
            "payload": [packet.payload],
            "qos": [packet.qos],
            "retain": [packet.retain],
            "message_expiry": [properties.get("message_expiry_interval")],
            "payload_format": [properties.get("payload_format_indicator")],
            "content_type": [properties.get("content_type")],
            "response_topic": [properties.get("response_topic")],
            "correlation_data": [properties.get("correlation_data")],
            "user_properties": [[{"key": key, "value": value} for key, value in properties.get("user_property", [])]],
        }
    elif isinstance(packet, Acknowledgement) and first >> 4 != 6:
        assert result.acks.tolist() == [[first >> 4, packet.packet_id, int(packet.reason)]]


def allowed(first: int) -> set[int]:
    return {code for kind, codes in REASONS_IN.items() if kind.value == first >> 4 for code in codes}
