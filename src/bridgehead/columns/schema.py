"""The schemas: what the journal stores, what Spark sees, what the outbox keeps.

Three views of one message:

- STORED: what the journal keeps. What the node knows anyway (node, the bridge of a route) or can count (journal_offset)
  is not stored; it joins the row when somebody outside reads it. Few distinct values (client, route) are dictionaries.
- MESSAGE: the message table of the contract, what a transform sees as ``messages``. Its Arrow form is Spark's own.
- OUTBOX: what the rules made of it, ready for the wire. ``qos`` decides tracking and durability, ``wire_qos`` is sent.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

USER_PROPERTY: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.string())])
USER_PROPERTIES: Final = pa.list_(pa.field("element", USER_PROPERTY))
TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
LABEL: Final = pa.dictionary(pa.int32(), pa.string())

_BODY: Final = [
    pa.field("topic", pa.string()),
    pa.field("payload", pa.binary()),
    pa.field("qos", pa.int32()),
    pa.field("retain", pa.bool_()),
]
_PROPERTIES: Final = [
    pa.field("message_expiry", pa.int64()),
    pa.field("payload_format", pa.int32()),
    pa.field("content_type", pa.string()),
    pa.field("response_topic", pa.string()),
    pa.field("correlation_data", pa.binary()),
    pa.field("user_properties", USER_PROPERTIES),
]

# What a PUBLISH itself says; the columns that the wire scan produces.
WIRE: Final = pa.schema([*_BODY, *_PROPERTIES])

STORED: Final = pa.schema(
    [
        *_BODY,
        pa.field("received_at", TIMESTAMP),
        pa.field("client_id", LABEL),
        pa.field("route", LABEL),
        *_PROPERTIES,
    ]
)

MESSAGE: Final = pa.schema(
    [
        *_BODY,
        pa.field("received_at", TIMESTAMP),
        pa.field("client_id", pa.string()),
        pa.field("route", pa.string()),
        pa.field("bridge", pa.string()),
        *_PROPERTIES,
        pa.field("node", pa.string()),
        pa.field("journal_partition", pa.int32()),
        pa.field("journal_offset", pa.int64()),
    ]
)

OUTBOX: Final = pa.schema(
    [
        *_BODY,
        pa.field("wire_qos", pa.int32()),
        pa.field("received_at", TIMESTAMP),
        *_PROPERTIES,
    ]
)

# A dead letter: an outbox row, and why, when and after how many attempts it was given up.
DEAD: Final = pa.schema(
    [
        *OUTBOX,
        pa.field("reason", pa.string()),
        pa.field("died_at", TIMESTAMP),
        pa.field("attempts", pa.int32()),
    ]
)

# The message table as Spark's DDL; a test holds it equal to MESSAGE.
MESSAGE_DDL: Final = (
    "topic string, payload binary, qos int, retain boolean, received_at timestamp, client_id string, route string, "
    "bridge string, message_expiry bigint, payload_format int, content_type string, response_topic string, "
    "correlation_data binary, user_properties array<struct<key: string, value: string>>, node string, "
    "journal_partition int, journal_offset bigint"
)
