"""SUBSCRIBE, UNSUBSCRIBE and their acknowledgements."""

from __future__ import annotations

from bridgehead.wire.packets import Suback, Subscribe, Subscription, Unsuback, Unsubscribe
from bridgehead.wire.reason import Reason
from vectors.case import Case, accepted, in_both, p, refused, s, wire

MALFORMED = Reason.MALFORMED_PACKET
FORBIDDEN = Reason.PROTOCOL_ERROR
BAD_FILTER = Reason.TOPIC_FILTER_INVALID

SUBSCRIBE_VALID: list[Case] = [
    accepted("one filter", 4, wire("82", "000A", s("a/b"), "01"), Subscribe(10, [Subscription("a/b", 1)])),
    accepted("one filter", 5, wire("82", "000A", "00", s("a/b"), "01"), Subscribe(10, [Subscription("a/b", 1)])),
    accepted("three filters", 4, wire("82", "000A", s("#"), "00", s("+/x/+"), "01", s("a/#"), "02"),
             Subscribe(10, [Subscription("#"), Subscription("+/x/+", 1), Subscription("a/#", 2)])),
    accepted("every option", 5, wire("82", "000A", "00", s("a"), "04", s("b"), "08", s("c"), "10", s("d"), "2E"),
             Subscribe(10, [Subscription("a", no_local=True), Subscription("b", retain_as_published=True),
                            Subscription("c", retain_handling=1), Subscription("d", 2, True, True, 2)])),
    accepted("every property of SUBSCRIBE", 5, wire("82", "0001", p("0B 8001", "26", s("k"), s("v")), s("a"), "00"),
             Subscribe(1, [Subscription("a")], {"subscription_identifier": 128, "user_property": [("k", "v")]})),
    accepted("a shared subscription", 5, wire("82", "0001", "00", s("$share/g/a/#"), "01"),
             Subscribe(1, [Subscription("$share/g/a/#", 1)])),
    accepted("a shared subscription", 4, wire("82", "0001", s("$share/g/a/#"), "01"),
             Subscribe(1, [Subscription("$share/g/a/#", 1)])),
    accepted("a shared subscription to a filter that starts with a slash", 5,
             wire("82", "0001", "00", s("$share/g//a"), "00"), Subscribe(1, [Subscription("$share/g//a")])),
    accepted("the server's topics", 4, wire("82", "0001", s("$SYS/#"), "00"), Subscribe(1, [Subscription("$SYS/#")])),
    accepted("a SUBSCRIBE sent again in MQTT 3.1", 3, wire("8A", "0001", s("a"), "00"),
             Subscribe(1, [Subscription("a")]), canonical=False),
]  # fmt: skip

SUBSCRIBE_REFUSED: list[Case] = [
    refused("SUBSCRIBE without its constant flags [MQTT-3.8.1-1]", 4, wire("80", "0001", s("a"), "00"), MALFORMED),
    refused("SUBSCRIBE without its constant flags [MQTT-3.8.1-1]", 5,
            wire("83", "0001", "00", s("a"), "00"), MALFORMED),
    refused("packet id 0 in SUBSCRIBE [MQTT-2.3.1-1]", 4, wire("82", "0000", s("a"), "00"), FORBIDDEN),
    refused("packet id 0 in SUBSCRIBE [MQTT-2.2.1-3]", 5, wire("82", "0000", "00", s("a"), "00"), FORBIDDEN),
    refused("SUBSCRIBE without a filter [MQTT-3.8.3-3]", 4, wire("82", "0001"), FORBIDDEN),
    refused("SUBSCRIBE without a filter [MQTT-3.8.3-2]", 5, wire("82", "0001", "00"), FORBIDDEN),
    refused("an empty filter [MQTT-4.7.3-1]", 4, wire("82", "0001", s(""), "00"), BAD_FILTER),
    refused("an empty filter [MQTT-4.7.3-1]", 5, wire("82", "0001", "00", s(""), "00"), BAD_FILTER),
    refused("a # that is not last [MQTT-4.7.1-2]", 4, wire("82", "0001", s("a/#/b"), "00"), BAD_FILTER),
    refused("a # that does not stand alone [MQTT-4.7.1-1]", 5, wire("82", "0001", "00", s("a#"), "00"), BAD_FILTER),
    refused("a + that does not stand alone [MQTT-4.7.1-3]", 4, wire("82", "0001", s("a+/b"), "00"), BAD_FILTER),
    refused("a + that does not stand alone [MQTT-4.7.1-2]", 5, wire("82", "0001", "00", s("a/+b"), "00"), BAD_FILTER),
    refused("the second filter is bad", 4, wire("82", "0001", s("a"), "00", s("#/a"), "00"), BAD_FILTER),
    refused("a share without a name [MQTT-4.8.2-1]", 5, wire("82", "0001", "00", s("$share//a"), "00"), BAD_FILTER),
    refused("a share without a filter [MQTT-4.8.2-2]", 5, wire("82", "0001", "00", s("$share/g"), "00"), BAD_FILTER),
    refused("a share with an empty filter [MQTT-4.8.2-2]", 5,
            wire("82", "0001", "00", s("$share/g/"), "00"), BAD_FILTER),
    refused("a share with a wildcard in its name [MQTT-4.8.2-2]", 5,
            wire("82", "0001", "00", s("$share/g+/a"), "00"), BAD_FILTER),
    refused("a filter that is not UTF-8 [MQTT-3.8.3-1]", 4, wire("82", "0001", "0001 FF", "00"), MALFORMED),
    refused("a filter with a null character [MQTT-4.7.3-2]", 5, wire("82", "0001", "00", "0001 00", "00"), MALFORMED),
    refused("a filter without options", 4, wire("82", "0001", s("a")), MALFORMED),
    refused("a filter cut short", 4, wire("82", "0001", "0005 61"), MALFORMED),
    refused("QoS 3 in a subscription [MQTT-3-8.3-4]", 4, wire("82", "0001", s("a"), "03"), MALFORMED),
    refused("QoS 3 in a subscription", 5, wire("82", "0001", "00", s("a"), "03"), FORBIDDEN),
    refused("options of 5 in 3.1.1 [MQTT-3-8.3-4]", 4, wire("82", "0001", s("a"), "04"), MALFORMED),
    refused("reserved bits of the options [MQTT-3.8.3-5]", 5, wire("82", "0001", "00", s("a"), "40"), MALFORMED),
    refused("the other reserved bit of the options [MQTT-3.8.3-5]", 5,
            wire("82", "0001", "00", s("a"), "80"), MALFORMED),
    refused("retain handling 3", 5, wire("82", "0001", "00", s("a"), "30"), FORBIDDEN),
    refused("no local on a shared subscription [MQTT-3.8.3-4]", 5,
            wire("82", "0001", "00", s("$share/g/a"), "04"), FORBIDDEN),
    refused("subscription identifier 0", 5, wire("82", "0001", p("0B 00"), s("a"), "00"), FORBIDDEN),
    refused("two subscription identifiers", 5, wire("82", "0001", p("0B 01", "0B 02"), s("a"), "00"), FORBIDDEN),
    refused("a property unknown to SUBSCRIBE", 5, wire("82", "0001", p("1F", s("x")), s("a"), "00"), MALFORMED),
    refused("an empty SUBSCRIBE", 4, wire("82"), MALFORMED),
    refused("no property length in SUBSCRIBE", 5, wire("82", "0001"), MALFORMED),
]  # fmt: skip

SUBACK_VALID: list[Case] = [
    accepted("every answer of 3.1.1", 4, wire("90", "0001", "00010280"),
             Suback(1, [Reason.GRANTED_QOS_0, Reason.GRANTED_QOS_1, Reason.GRANTED_QOS_2, Reason.UNSPECIFIED_ERROR])),
    accepted("answers of 5", 5, wire("90", "0001", "00", "0187A2"),
             Suback(1, [Reason.GRANTED_QOS_1, Reason.NOT_AUTHORIZED, Reason.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED])),
    accepted("SUBACK with properties", 5, wire("90", "0001", p("1F", s("ok"), "26", s("k"), s("v")), "00"),
             Suback(1, [Reason.GRANTED_QOS_0], {"reason_string": "ok", "user_property": [("k", "v")]})),
]  # fmt: skip

SUBACK_REFUSED: list[Case] = [
    refused("reserved flags of SUBACK [MQTT-2.2.2-2]", 4, wire("92", "0001", "00"), MALFORMED),
    refused("a return code that is reserved [MQTT-3.9.3-2]", 4, wire("90", "0001", "03"), FORBIDDEN),
    refused("a failure of 5 in 3.1.1 [MQTT-3.9.3-2]", 4, wire("90", "0001", "87"), FORBIDDEN),
    refused("a reason code unknown to SUBACK [MQTT-3.9.3-2]", 5, wire("90", "0001", "00", "03"), FORBIDDEN),
    refused("SUBACK without an answer", 4, wire("90", "0001"), FORBIDDEN),
    refused("SUBACK without an answer", 5, wire("90", "0001", "00"), FORBIDDEN),
    refused("packet id 0 in SUBACK", 4, wire("90", "0000", "00"), FORBIDDEN),
    refused("a property unknown to SUBACK", 5, wire("90", "0001", p("0B 01"), "00"), MALFORMED),
]

UNSUBSCRIBE_VALID: list[Case] = [
    accepted("one filter", 4, wire("A2", "0001", s("a/+")), Unsubscribe(1, ["a/+"])),
    accepted("two filters", 5, wire("A2", "0001", "00", s("a"), s("$share/g/#")), Unsubscribe(1, ["a", "$share/g/#"])),
    accepted("UNSUBSCRIBE with a property", 5, wire("A2", "0001", p("26", s("k"), s("v")), s("a")),
             Unsubscribe(1, ["a"], {"user_property": [("k", "v")]})),
    accepted("UNSUBACK, which says nothing more in 3.1.1", 4, wire("B0", "0001"), Unsuback(1)),
    accepted("UNSUBACK", 5, wire("B0", "0001", "00", "0011"),
             Unsuback(1, [Reason.SUCCESS, Reason.NO_SUBSCRIPTION_EXISTED])),
    accepted("UNSUBACK with properties", 5, wire("B0", "0001", p("1F", s("ok"), "26", s("k"), s("v")), "87"),
             Unsuback(1, [Reason.NOT_AUTHORIZED], {"reason_string": "ok", "user_property": [("k", "v")]})),
]  # fmt: skip

UNSUBSCRIBE_REFUSED: list[Case] = [
    refused("UNSUBSCRIBE without its constant flags [MQTT-3.10.1-1]", 4, wire("A0", "0001", s("a")), MALFORMED),
    refused("UNSUBSCRIBE without its constant flags [MQTT-3.10.1-1]", 5, wire("A0", "0001", "00", s("a")), MALFORMED),
    refused("packet id 0 in UNSUBSCRIBE [MQTT-2.3.1-1]", 4, wire("A2", "0000", s("a")), FORBIDDEN),
    refused("UNSUBSCRIBE without a filter [MQTT-3.10.3-2]", 4, wire("A2", "0001"), FORBIDDEN),
    refused("UNSUBSCRIBE without a filter [MQTT-3.10.3-2]", 5, wire("A2", "0001", "00"), FORBIDDEN),
    refused("a filter that is not UTF-8 [MQTT-3.10.3-1]", 4, wire("A2", "0001", "0001 FF"), MALFORMED),
    refused("a bad filter in UNSUBSCRIBE [MQTT-4.7.1-2]", 4, wire("A2", "0001", s("#/a")), BAD_FILTER),
    refused("a filter of UNSUBSCRIBE cut short", 4, wire("A2", "0001", "0002 61"), MALFORMED),
    refused("a property unknown to UNSUBSCRIBE", 5, wire("A2", "0001", p("0B 01"), s("a")), MALFORMED),
    refused("an answer in UNSUBACK of 3.1.1", 4, wire("B0", "0001", "00"), MALFORMED),
    refused("UNSUBACK without an answer", 5, wire("B0", "0001", "00"), FORBIDDEN),
    refused("a reason code unknown to UNSUBACK [MQTT-3.11.3-2]", 5, wire("B0", "0001", "00", "01"), FORBIDDEN),
    *in_both(refused("reserved flags of UNSUBACK [MQTT-2.1.3-1]", 4, wire("B2", "0001"), MALFORMED)),
]
