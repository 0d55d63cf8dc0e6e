"""The scan: a run of PUBLISH packets and acknowledgements, from bytes to row descriptors, checked on the way.

In: the bytes of one connection. Out: one row per accepted PUBLISH (positions, no copies), the acknowledgement bytes due
for the run, and the acknowledgements that came in. The scan stops at the first packet that is not its business
(CONTROL), not complete (NEED_MORE) or wrong (ERROR with its MQTT 5 reason); everything before that packet is taken.
`bridgehead.wire.intake` is the door to it; `bridgehead.wire.plain_scan` says the same slowly.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bridgehead.columns.kernels_jit import kernel

# Columns of a row. Positions refer to the arena into which the intake copies the run.
CONN, FLAGS, PACKET_ID, TOPIC_START, TOPIC_LEN, PROPS_START, PROPS_LEN, PAYLOAD_START, PAYLOAD_LEN = range(9)
ROW_WIDTH = 9

# FLAGS: the QoS in the two low bits, then retain, then dup.
QOS_MASK, RETAIN_FLAG, DUP_FLAG = 0x03, 0x04, 0x08

# Why the scan stopped. FULL never leaves the intake: it makes room and goes on.
NEED_MORE, CONTROL, ERROR, FULL = range(4)

# The tally: what the scan has counted so far in this run (in and out, so that a scan can go on after FULL).
ROWS_USED, ACKS_USED, REPLIES_USED, PUBLISHED, RELEASED, COPY_FROM, COPY_TO, NEED, IDS_FROM, IDS_TO = range(10)
TALLY_WIDTH = 10

MALFORMED, PROTOCOL_ERROR, TOPIC_INVALID = 0x81, 0x82, 0x90
ID_NOT_FOUND, ALIAS_INVALID, TOO_LARGE = 0x92, 0x94, 0x95

_LONGEST_REPLY = 5  # PUBCOMP with a reason code
_WILDCARD = -1
_INCOMPLETE, _BAD = -1, -2


@kernel
def _u16(buf: NDArray[np.uint8], at: int) -> int:
    return int((np.int64(buf[at]) << 8) | np.int64(buf[at + 1]))


@kernel
def _varint(buf: NDArray[np.uint8], at: int, end: int, minimal: bool) -> tuple[int, int]:
    """The variable byte integer at `at` and the position behind it; _INCOMPLETE or _BAD in place of the value."""
    value = np.int64(0)
    for shift in range(4):
        if at >= end:
            return _INCOMPLETE, at
        byte = np.int64(buf[at])
        at += 1
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            if minimal and byte == 0 and shift > 0:  # [MQTT-1.5.5-1]
                return _BAD, at
            return int(value), at
    return _BAD, at


@kernel
def _text_fault(buf: NDArray[np.uint8], at: int, end: int) -> int:
    """0 for well-formed UTF-8 without U+0000, MALFORMED otherwise, _WILDCARD if it is fine but holds '+' or '#'."""
    fault = 0
    while at < end:
        byte = np.int64(buf[at])
        at += 1
        if byte < 0x80:
            if byte == 0:  # [MQTT-1.5.4-2]
                return MALFORMED
            if byte == 0x2B or byte == 0x23:
                fault = _WILDCARD
            continue
        # The bounds of the second byte keep out overlong forms, surrogates [MQTT-1.5.4-1] and what is above U+10FFFF.
        low, high = 0x80, 0xBF
        if 0xC2 <= byte <= 0xDF:
            more = 1
        elif 0xE0 <= byte <= 0xEF:
            more = 2
            if byte == 0xE0:
                low = 0xA0
            elif byte == 0xED:
                high = 0x9F
        elif 0xF0 <= byte <= 0xF4:
            more = 3
            if byte == 0xF0:
                low = 0x90
            elif byte == 0xF4:
                high = 0x8F
        else:
            return MALFORMED
        if at + more > end or buf[at] < low or buf[at] > high:
            return MALFORMED
        for k in range(1, more):
            if buf[at + k] < 0x80 or buf[at + k] > 0xBF:
                return MALFORMED
        at += more
    return fault


@kernel
def _publish_properties_fault(buf: NDArray[np.uint8], at: int, end: int, from_server: int) -> int:
    """0, or the reason why the properties of a PUBLISH are refused."""
    seen = np.int64(0)
    while at < end:
        name = np.int64(buf[at])
        at += 1
        if name > 0x26:
            return MALFORMED
        if name != 0x26 and name != 0x0B:  # all but these two may occur once only
            if (seen >> name) & 1:
                return PROTOCOL_ERROR
            seen |= np.int64(1) << name
        if name == 0x01:  # payload format
            if at + 1 > end:
                return MALFORMED
            if buf[at] > 1:
                return PROTOCOL_ERROR
            at += 1
        elif name == 0x02:  # message expiry
            if at + 4 > end:
                return MALFORMED
            at += 4
        elif name == 0x03 or name == 0x08 or name == 0x09:  # content type, response topic, correlation data
            if at + 2 > end:
                return MALFORMED
            stop = at + 2 + _u16(buf, at)
            if stop > end:
                return MALFORMED
            if name != 0x09:
                fault = _text_fault(buf, at + 2, stop)
                if fault == MALFORMED:
                    return MALFORMED
                if name == 0x08 and (fault == _WILDCARD or stop == at + 2):  # [MQTT-3.3.2-14], [MQTT-4.7.3-1]
                    return PROTOCOL_ERROR
            at = stop
        elif name == 0x0B:  # subscription identifier: only a server sends it [MQTT-3.3.4-6]
            if from_server == 0:
                return PROTOCOL_ERROR
            value, at = _varint(buf, at, end, True)
            if value < 0:
                return MALFORMED
            if value == 0:
                return PROTOCOL_ERROR
        elif name == 0x23:  # topic alias: we announce a maximum of 0, so there is no valid one
            if at + 2 > end:
                return MALFORMED
            return ALIAS_INVALID
        elif name == 0x26:  # user property
            for _ in range(2):
                if at + 2 > end:
                    return MALFORMED
                stop = at + 2 + _u16(buf, at)
                if stop > end or _text_fault(buf, at + 2, stop) == MALFORMED:
                    return MALFORMED
                at = stop
        else:
            return MALFORMED
    return 0


@kernel
def _ack_properties_fault(buf: NDArray[np.uint8], at: int, end: int) -> int:
    """0, or the reason why the properties of an acknowledgement are refused."""
    seen = False
    while at < end:
        name = buf[at]
        at += 1
        if name == 0x1F:  # reason string
            if seen:
                return PROTOCOL_ERROR
            seen = True
            texts = 1
        elif name == 0x26:  # user property
            texts = 2
        else:
            return MALFORMED
        for _ in range(texts):
            if at + 2 > end:
                return MALFORMED
            stop = at + 2 + _u16(buf, at)
            if stop > end or _text_fault(buf, at + 2, stop) == MALFORMED:
                return MALFORMED
            at = stop
    return 0


@kernel
def _ack_fault(buf: NDArray[np.uint8], at: int, end: int, version: int) -> int:
    """0, or the reason why the body of a PUBACK, PUBREC, PUBREL or PUBCOMP is refused.

    Its reason code is taken as it comes: a broker that invents one is understood (0x80 and above is a refusal), for a
    cut at each of them would keep a bridge from ever getting past that message.
    """
    length = end - at
    if length < 2 or (version < 5 and length != 2):
        return MALFORMED
    if _u16(buf, at) == 0:  # [MQTT-2.2.1-3]
        return PROTOCOL_ERROR
    if length > 3:
        props, start = _varint(buf, at + 3, end, True)
        if props < 0 or start + props != end:
            return MALFORMED
        return _ack_properties_fault(buf, start, end)
    return 0


@kernel
def _changed(tally: NDArray[np.int64], packet_id: int) -> None:
    """The mark of a QoS 2 packet id has changed: the range of such ids holds this one too."""
    if tally[IDS_TO] == 0 or packet_id < tally[IDS_FROM]:
        tally[IDS_FROM] = packet_id
    if packet_id >= tally[IDS_TO]:
        tally[IDS_TO] = packet_id + 1


@kernel
def scan_run(
    buf: NDArray[np.uint8],
    start: int,
    end: int,
    version: int,
    conn: int,
    max_packet: int,
    from_server: int,
    arena_used: int,
    inbound: NDArray[np.uint8],
    rows: NDArray[np.int64],
    acks: NDArray[np.int64],
    replies: NDArray[np.uint8],
    tally: NDArray[np.int64],
) -> tuple[int, int, int]:
    """Scan buf[start:end]; gives the position behind the last packet taken, why it stopped, and the error's reason."""
    at = start
    n_rows, n_acks, n_replies = tally[ROWS_USED], tally[ACKS_USED], tally[REPLIES_USED]
    stop, reason, need = NEED_MORE, 0, 0
    while at < end:
        if n_rows == len(rows) or n_acks == len(acks) or n_replies + _LONGEST_REPLY > len(replies):
            stop = FULL
            break
        first = np.int64(buf[at])
        kind, flags = first >> 4, first & 0x0F
        remaining, body = _varint(buf, at + 1, end, version >= 5)
        if remaining == _INCOMPLETE:
            break
        if remaining == _BAD:
            stop, reason = ERROR, MALFORMED
            break
        stop_at = body + remaining
        if stop_at - at > max_packet:
            stop, reason = ERROR, TOO_LARGE
            break
        if stop_at > end:
            need = stop_at - at
            break
        if kind < 3 or kind > 7:
            stop, need = CONTROL, stop_at - at
            break

        if kind != 3:
            reserved = 2 if kind == 6 else 0  # [MQTT-2.1.3-1]
            reason = _ack_fault(buf, body, stop_at, version) if flags == reserved else MALFORMED
            if reason:
                stop = ERROR
                break
            packet_id = _u16(buf, body)
            if kind != 6:
                acks[n_acks, 0] = kind
                acks[n_acks, 1] = packet_id
                acks[n_acks, 2] = buf[body + 2] if remaining > 2 else 0
                n_acks += 1
            else:
                if inbound[packet_id] != 0:
                    inbound[packet_id] = 0
                    _changed(tally, packet_id)
                    known = True
                else:
                    known = version < 5
                replies[n_replies] = 0x70
                replies[n_replies + 1] = 2 if known else 3
                replies[n_replies + 2] = packet_id >> 8
                replies[n_replies + 3] = packet_id & 0xFF
                replies[n_replies + 4] = ID_NOT_FOUND
                n_replies += 4 if known else 5
                tally[RELEASED] += 1
            at = stop_at
            continue

        qos = (flags >> 1) & 3
        if qos == 3 or remaining < 2:  # [MQTT-3.3.1-4]
            stop, reason = ERROR, MALFORMED
            break
        if qos == 0 and flags & 8:  # [MQTT-3.3.1-2]
            stop, reason = ERROR, PROTOCOL_ERROR
            break
        topic = body + 2
        topic_end = topic + _u16(buf, body)
        payload = topic_end + (2 if qos else 0)
        if payload > stop_at:
            stop, reason = ERROR, MALFORMED
            break
        fault = _text_fault(buf, topic, topic_end)
        if fault:
            stop, reason = ERROR, (TOPIC_INVALID if fault == _WILDCARD else fault)  # [MQTT-3.3.2-2]
            break
        packet_id = 0
        if qos:
            packet_id = _u16(buf, topic_end)
            if packet_id == 0:  # [MQTT-2.2.1-3]
                stop, reason = ERROR, PROTOCOL_ERROR
                break
        props, props_len = payload, 0
        if version >= 5:
            props_len, props = _varint(buf, payload, stop_at, True)
            if props_len < 0 or props + props_len > stop_at:
                stop, reason = ERROR, MALFORMED
                break
            payload = props + props_len
            reason = _publish_properties_fault(buf, props, payload, from_server)
            if reason:
                stop = ERROR
                break
        if topic_end == topic:  # without an alias, an empty topic names nothing
            stop, reason = ERROR, PROTOCOL_ERROR
            break

        again = qos == 2 and inbound[packet_id] != 0
        if not again:
            if tally[COPY_TO] == 0:
                tally[COPY_FROM] = at
            tally[COPY_TO] = stop_at
            shift = arena_used - tally[COPY_FROM]
            row = rows[n_rows]
            row[CONN] = conn
            row[FLAGS] = qos | (flags & 1) << 2 | (flags & 8)
            row[PACKET_ID] = packet_id
            row[TOPIC_START] = topic + shift
            row[TOPIC_LEN] = topic_end - topic
            row[PROPS_START] = props + shift
            row[PROPS_LEN] = props_len
            row[PAYLOAD_START] = payload + shift
            row[PAYLOAD_LEN] = stop_at - payload
            n_rows += 1
        if qos:
            if qos == 2 and not again:
                inbound[packet_id] = 1
                _changed(tally, packet_id)
            replies[n_replies] = 0x40 if qos == 1 else 0x50
            replies[n_replies + 1] = 2
            replies[n_replies + 2] = packet_id >> 8
            replies[n_replies + 3] = packet_id & 0xFF
            n_replies += 4
        tally[PUBLISHED] += 1
        at = stop_at
    tally[ROWS_USED], tally[ACKS_USED], tally[REPLIES_USED], tally[NEED] = n_rows, n_acks, n_replies, need
    return at, stop, reason
