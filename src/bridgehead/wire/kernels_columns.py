"""From scanned rows to Arrow columns, in two passes: one plans the buffers, one fills them.

In: row descriptors and their arena (`bridgehead.wire.intake.Rows`, or any selection of its rows). Out: the ten columns
of `bridgehead.columns.schema.WIRE`. Everything was checked by the scan; nothing is checked again. All columns of a call
lie in one allocation. Offsets are 32 bits wide: the caller keeps the bytes of one call below 1 GiB.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bridgehead.columns.kernels_jit import kernel
from bridgehead.columns.schema import USER_PROPERTIES, USER_PROPERTY
from bridgehead.wire.arrays import prepared

# Columns of a row; a test holds them equal to those of kernels_scan (see kernels_jit on why they are not imported).
_FLAGS, _TOPIC_START, _TOPIC_LEN, _PROPS_START, _PROPS_LEN, _PAYLOAD_START, _PAYLOAD_LEN = 1, 3, 4, 5, 6, 7, 8

# The sections of the allocation, in order. Those from EXPIRY on are empty if no row has a property.
(
    TOPIC_OFFSETS, TOPIC, PAYLOAD_OFFSETS, PAYLOAD, QOS, RETAIN,
    EXPIRY, EXPIRY_SET, FORMAT, FORMAT_SET, CONTENT_OFFSETS, CONTENT, CONTENT_SET,
    RESPONSE_OFFSETS, RESPONSE, RESPONSE_SET, CORRELATION_OFFSETS, CORRELATION, CORRELATION_SET,
    USER_OFFSETS, KEY_OFFSETS, KEY, VALUE_OFFSETS, VALUE,
) = range(24)  # fmt: skip
SECTIONS = 24
# The plan: start and length of each section, then these counts.
EXPIRIES, FORMATS, CONTENTS, RESPONSES, CORRELATIONS, USERS, TOTAL = range(2 * SECTIONS, 2 * SECTIONS + 7)
PLAN_WIDTH = 2 * SECTIONS + 7

_STRING, _BINARY, _INT32, _INT64, _BOOL = pa.string(), pa.binary(), pa.int32(), pa.int64(), pa.bool_()


class MessageColumns(NamedTuple):
    """The columns of `bridgehead.columns.schema.WIRE`, in its order."""

    topic: Any
    payload: Any
    qos: Any
    retain: Any
    message_expiry: Any
    payload_format: Any
    content_type: Any
    response_topic: Any
    correlation_data: Any
    user_properties: Any


@kernel
def _u16(buf: NDArray[np.uint8], at: int) -> int:
    return int((np.int64(buf[at]) << 8) | np.int64(buf[at + 1]))


@kernel
def plan_columns(rows: NDArray[np.int64], arena: NDArray[np.uint8], plan: NDArray[np.int64]) -> None:
    """First pass: how many bytes and values each column has, and where its sections start."""
    n = len(rows)
    plan[:] = 0
    topic, payload, props, keys, values, content, response, correlation = 0, 0, 0, 0, 0, 0, 0, 0
    for i in range(n):
        row = rows[i]
        topic += row[_TOPIC_LEN]
        payload += row[_PAYLOAD_LEN]
        if row[_PROPS_LEN] == 0:
            continue
        props += 1
        at = row[_PROPS_START]
        end = at + row[_PROPS_LEN]
        while at < end:
            name = arena[at]
            at += 1
            if name == 0x26:
                length = _u16(arena, at)
                keys += length
                at += 2 + length
                length = _u16(arena, at)
                values += length
                at += 2 + length
                plan[USERS] += 1
            elif name == 0x01:
                plan[FORMATS] += 1
                at += 1
            elif name == 0x02:
                plan[EXPIRIES] += 1
                at += 4
            elif name == 0x0B:
                while arena[at] >= 0x80:
                    at += 1
                at += 1
            else:
                length = _u16(arena, at)
                if name == 0x03:
                    plan[CONTENTS] += 1
                    content += length
                elif name == 0x08:
                    plan[RESPONSES] += 1
                    response += length
                else:
                    plan[CORRELATIONS] += 1
                    correlation += length
                at += 2 + length
    offsets, bits = 4 * (n + 1), (n + 7) // 8
    plan[2 * TOPIC_OFFSETS + 1] = offsets
    plan[2 * TOPIC + 1] = topic
    plan[2 * PAYLOAD_OFFSETS + 1] = offsets
    plan[2 * PAYLOAD + 1] = payload
    plan[2 * QOS + 1] = 4 * n
    plan[2 * RETAIN + 1] = bits
    if props:
        plan[2 * EXPIRY + 1] = 8 * n
        plan[2 * FORMAT + 1] = 4 * n
        plan[2 * CONTENT_OFFSETS + 1] = offsets
        plan[2 * CONTENT + 1] = content
        plan[2 * RESPONSE_OFFSETS + 1] = offsets
        plan[2 * RESPONSE + 1] = response
        plan[2 * CORRELATION_OFFSETS + 1] = offsets
        plan[2 * CORRELATION + 1] = correlation
        for section in (EXPIRY_SET, FORMAT_SET, CONTENT_SET, RESPONSE_SET, CORRELATION_SET):
            plan[2 * section + 1] = bits
        plan[2 * USER_OFFSETS + 1] = offsets
        plan[2 * KEY_OFFSETS + 1] = 4 * (plan[USERS] + 1)
        plan[2 * KEY + 1] = keys
        plan[2 * VALUE_OFFSETS + 1] = 4 * (plan[USERS] + 1)
        plan[2 * VALUE + 1] = values
    at = 0
    for section in range(SECTIONS):
        plan[2 * section] = at
        at += (plan[2 * section + 1] + 63) // 64 * 64  # Arrow's recommended alignment
    plan[TOTAL] = at


@kernel
def _section(out: NDArray[np.uint8], plan: NDArray[np.int64], section: int) -> NDArray[np.uint8]:
    return out[plan[2 * section] : plan[2 * section] + plan[2 * section + 1]]


@kernel
def _copy(source: NDArray[np.uint8], at: int, target: NDArray[np.uint8], to: int, length: int) -> int:
    # Unsigned positions spare numba the check for negative ones, and the loop becomes wide moves: ten times faster.
    read, write = np.uint64(at), np.uint64(to)
    for k in range(np.uint64(length)):
        target[write + k] = source[read + k]
    return to + length


@kernel
def fill_columns(
    rows: NDArray[np.int64], arena: NDArray[np.uint8], plan: NDArray[np.int64], out: NDArray[np.uint8]
) -> None:
    """Second pass for what every message has: topic, payload, qos, retain."""
    topic_offsets = _section(out, plan, TOPIC_OFFSETS).view(np.int32)
    payload_offsets = _section(out, plan, PAYLOAD_OFFSETS).view(np.int32)
    topic, payload = _section(out, plan, TOPIC), _section(out, plan, PAYLOAD)
    qos, retain = _section(out, plan, QOS).view(np.int32), _section(out, plan, RETAIN)
    retain[:] = 0
    topic_used, payload_used = 0, 0
    topic_offsets[0] = 0
    payload_offsets[0] = 0
    for i in range(len(rows)):
        row = rows[i]
        topic_used = _copy(arena, row[_TOPIC_START], topic, topic_used, row[_TOPIC_LEN])
        payload_used = _copy(arena, row[_PAYLOAD_START], payload, payload_used, row[_PAYLOAD_LEN])
        topic_offsets[i + 1] = topic_used
        payload_offsets[i + 1] = payload_used
        qos[i] = row[_FLAGS] & 3
        retain[i >> 3] |= ((row[_FLAGS] >> 2) & 1) << (i & 7)


@kernel
def fill_properties(
    rows: NDArray[np.int64], arena: NDArray[np.uint8], plan: NDArray[np.int64], out: NDArray[np.uint8]
) -> None:
    """Second pass for the properties; run only if some row has one."""
    expiry, expiry_set = _section(out, plan, EXPIRY).view(np.int64), _section(out, plan, EXPIRY_SET)
    form, form_set = _section(out, plan, FORMAT).view(np.int32), _section(out, plan, FORMAT_SET)
    content, content_set = _section(out, plan, CONTENT), _section(out, plan, CONTENT_SET)
    response, response_set = _section(out, plan, RESPONSE), _section(out, plan, RESPONSE_SET)
    correlation, correlation_set = _section(out, plan, CORRELATION), _section(out, plan, CORRELATION_SET)
    content_offsets = _section(out, plan, CONTENT_OFFSETS).view(np.int32)
    response_offsets = _section(out, plan, RESPONSE_OFFSETS).view(np.int32)
    correlation_offsets = _section(out, plan, CORRELATION_OFFSETS).view(np.int32)
    user_offsets = _section(out, plan, USER_OFFSETS).view(np.int32)
    key_offsets, key = _section(out, plan, KEY_OFFSETS).view(np.int32), _section(out, plan, KEY)
    value_offsets, value = _section(out, plan, VALUE_OFFSETS).view(np.int32), _section(out, plan, VALUE)
    expiry_set[:] = 0
    form_set[:] = 0
    content_set[:] = 0
    response_set[:] = 0
    correlation_set[:] = 0
    content_offsets[0] = response_offsets[0] = correlation_offsets[0] = 0
    user_offsets[0] = key_offsets[0] = value_offsets[0] = 0
    content_used, response_used, correlation_used, users, key_used, value_used = 0, 0, 0, 0, 0, 0
    for i in range(len(rows)):
        byte, bit = i >> 3, 1 << (i & 7)
        expiry[i] = 0
        form[i] = 0
        at = rows[i, _PROPS_START]
        end = at + rows[i, _PROPS_LEN]
        while at < end:
            name = arena[at]
            at += 1
            if name == 0x26:
                length = _u16(arena, at)
                key_used = _copy(arena, at + 2, key, key_used, length)
                at += 2 + length
                length = _u16(arena, at)
                value_used = _copy(arena, at + 2, value, value_used, length)
                at += 2 + length
                users += 1
                key_offsets[users] = key_used
                value_offsets[users] = value_used
            elif name == 0x01:
                form[i] = arena[at]
                form_set[byte] |= bit
                at += 1
            elif name == 0x02:
                expiry[i] = _u16(arena, at) << 16 | _u16(arena, at + 2)
                expiry_set[byte] |= bit
                at += 4
            elif name == 0x0B:  # which subscription matched is no part of the message
                while arena[at] >= 0x80:
                    at += 1
                at += 1
            else:
                length = _u16(arena, at)
                at += 2
                if name == 0x03:
                    content_used = _copy(arena, at, content, content_used, length)
                    content_set[byte] |= bit
                elif name == 0x08:
                    response_used = _copy(arena, at, response, response_used, length)
                    response_set[byte] |= bit
                else:
                    correlation_used = _copy(arena, at, correlation, correlation_used, length)
                    correlation_set[byte] |= bit
                at += length
        content_offsets[i + 1] = content_used
        response_offsets[i + 1] = response_used
        correlation_offsets[i + 1] = correlation_used
        user_offsets[i + 1] = users


_NO_PROPERTY = pa.array([], USER_PROPERTY)


def to_columns(rows: NDArray[np.int64], arena: NDArray[np.uint8]) -> MessageColumns:
    """The messages of `rows` as Arrow columns. What a message does not say is null; its user properties are a list."""
    rows, arena = prepared(rows, np.int64), prepared(arena, np.uint8)
    n = len(rows)
    planned = np.empty(PLAN_WIDTH, np.int64)
    plan_columns(rows, arena, planned)
    plan: list[int] = planned.tolist()
    memory = pa.allocate_buffer(plan[TOTAL])
    out = np.frombuffer(memory, np.uint8)
    fill_columns(rows, arena, planned, out)

    def part(section: int) -> Any:
        return memory.slice(plan[2 * section], plan[2 * section + 1])

    def text(kind: Any, offsets: int, validity: Any = None, nulls: int = 0) -> Any:
        return pa.Array.from_buffers(kind, n, [validity, part(offsets), part(offsets + 1)], nulls)

    build = pa.Array.from_buffers
    topic, payload = text(_STRING, TOPIC_OFFSETS), text(_BINARY, PAYLOAD_OFFSETS)
    qos = build(_INT32, n, [None, part(QOS)], 0)
    retain = build(_BOOL, n, [None, part(RETAIN)], 0)
    if plan[2 * USER_OFFSETS + 1] == 0:
        no_text = pa.nulls(n, _STRING)
        zeros = pa.py_buffer(bytes(4 * (n + 1)))
        users = build(USER_PROPERTIES, n, [None, zeros], 0, 0, [_NO_PROPERTY])
        return MessageColumns(
            topic, payload, qos, retain, pa.nulls(n, _INT64), pa.nulls(n, _INT32),
            no_text, no_text, pa.nulls(n, _BINARY), users,
        )  # fmt: skip
    fill_properties(rows, arena, planned, out)
    count = plan[USERS]
    pairs = build(
        USER_PROPERTY, count, [None], 0, 0,
        [
            build(_STRING, count, [None, part(KEY_OFFSETS), part(KEY)], 0),
            build(_STRING, count, [None, part(VALUE_OFFSETS), part(VALUE)], 0),
        ],
    )  # fmt: skip
    return MessageColumns(
        topic,
        payload,
        qos,
        retain,
        build(_INT64, n, [part(EXPIRY_SET), part(EXPIRY)], n - plan[EXPIRIES]),
        build(_INT32, n, [part(FORMAT_SET), part(FORMAT)], n - plan[FORMATS]),
        text(_STRING, CONTENT_OFFSETS, part(CONTENT_SET), n - plan[CONTENTS]),
        text(_STRING, RESPONSE_OFFSETS, part(RESPONSE_SET), n - plan[RESPONSES]),
        text(_BINARY, CORRELATION_OFFSETS, part(CORRELATION_SET), n - plan[CORRELATIONS]),
        build(USER_PROPERTIES, n, [None, part(USER_OFFSETS)], 0, 0, [pairs]),
    )
