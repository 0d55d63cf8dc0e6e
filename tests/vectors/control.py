"""PINGREQ, PINGRESP, DISCONNECT, AUTH, and what is no packet at all."""

from __future__ import annotations

from bridgehead.wire.packets import Auth, Disconnect, Pingreq, Pingresp
from bridgehead.wire.reason import Reason
from vectors.case import Case, accepted, b, in_both, p, refused, s, wire

MALFORMED = Reason.MALFORMED_PACKET
FORBIDDEN = Reason.PROTOCOL_ERROR

CONTROL_VALID: list[Case] = [
    *in_both(accepted("PINGREQ", 4, wire("C0"), Pingreq())),
    *in_both(accepted("PINGRESP", 4, wire("D0"), Pingresp())),
    *in_both(accepted("DISCONNECT", 4, wire("E0"), Disconnect())),
    accepted("a DISCONNECT that wants its will published", 5, wire("E0", "04"),
             Disconnect(Reason.DISCONNECT_WITH_WILL_MESSAGE)),
    accepted("a normal DISCONNECT spelt out", 5, wire("E0", "00"), Disconnect(), canonical=False),
    accepted("a normal DISCONNECT with an empty property section", 5, wire("E0", "00 00"), Disconnect(),
             canonical=False),
    accepted("a DISCONNECT of a server that moved", 5,
             wire("E0", "9D", p("1C", s("other"), "1F", s("moved"), "26", s("k"), s("v"))),
             Disconnect(Reason.SERVER_MOVED,
                        {"server_reference": "other", "reason_string": "moved", "user_property": [("k", "v")]})),
    accepted("a DISCONNECT that changes the session expiry", 5, wire("E0", "00", p("11 00000000")),
             Disconnect(Reason.NORMAL_DISCONNECTION, {"session_expiry_interval": 0})),
    accepted("AUTH to go on", 5, wire("F0", "18", p("15", s("SCRAM"), "16", b(b"\x01"))),
             Auth(Reason.CONTINUE_AUTHENTICATION, {"authentication_method": "SCRAM", "authentication_data": b"\x01"})),
    accepted("AUTH anew", 5, wire("F0", "19", p("15", s("M"), "1F", s("r"), "26", s("k"), s("v"))),
             Auth(Reason.RE_AUTHENTICATE,
                  {"authentication_method": "M", "reason_string": "r", "user_property": [("k", "v")]})),
    accepted("AUTH in its shortest form", 5, wire("F0"), Auth()),
]  # fmt: skip

CONTROL_REFUSED: list[Case] = [
    *in_both(refused("reserved flags of PINGREQ [MQTT-2.1.3-1]", 4, wire("C1"), MALFORMED)),
    *in_both(refused("reserved flags of PINGRESP [MQTT-2.1.3-1]", 4, wire("D8"), MALFORMED)),
    *in_both(refused("a PINGREQ with a body", 4, wire("C0", "00"), MALFORMED)),
    *in_both(refused("a PINGRESP with a body", 4, wire("D0", "0000"), MALFORMED)),
    *in_both(refused("reserved flags of DISCONNECT [MQTT-3.14.1-1]", 4, wire("E2"), MALFORMED)),
    refused("a reason in DISCONNECT of 3.1.1", 4, wire("E0", "00"), MALFORMED),
    refused("a reason code unknown to DISCONNECT [MQTT-3.14.2-1]", 5, wire("E0", "01"), FORBIDDEN),
    refused("a reason code that only CONNACK has [MQTT-3.14.2-1]", 5, wire("E0", "84"), FORBIDDEN),
    refused("a property unknown to DISCONNECT", 5, wire("E0", "00", p("21 0001")), MALFORMED),
    refused("two session expiries in DISCONNECT", 5, wire("E0", "00", p("11 00000001", "11 00000001")), FORBIDDEN),
    refused("bytes behind DISCONNECT", 5, wire("E0", "00 00 00"), MALFORMED),
    refused("AUTH in 3.1.1", 4, wire("F0"), MALFORMED),
    refused("reserved flags of AUTH [MQTT-3.15.1-1]", 5, wire("F1"), MALFORMED),
    refused("a reason code unknown to AUTH [MQTT-3.15.2-1]", 5, wire("F0", "01", p("15", s("M"))), FORBIDDEN),
    refused("AUTH without a method", 5, wire("F0", "18 00"), FORBIDDEN),
    refused("AUTH with data but without a method", 5, wire("F0", "18", p("16", b(b"x"))), FORBIDDEN),
    refused("AUTH without a property length", 5, wire("F0", "18"), MALFORMED),
    refused("bytes behind AUTH", 5, wire("F0", "18", p("15", s("M")), "00"), MALFORMED),
    *in_both(refused("packet type 0 [MQTT-2.1.2-1]", 4, wire("00"), MALFORMED)),
    *in_both(refused("packet type 0 with a body", 4, wire("0F", "0001"), MALFORMED)),
]

HEADER_REFUSED: list[Case] = [
    *in_both(refused("a remaining length of five bytes", 4, bytes.fromhex("30 80808080 01"), MALFORMED)),
    refused("a remaining length with a needless byte [MQTT-1.5.5-1]", 5, bytes.fromhex("C0 8000"), MALFORMED),
]
"""Faults of the fixed header: ``frame`` finds them, ``decode`` never sees them."""
