"""The hot path's compiled functions: where they are, and how they are made ready before the first byte comes.

    kernels_scan     intake    bytes of a connection -> row descriptors, replies, acknowledgements
    kernels_columns            row descriptors -> Arrow columns
    kernels_encode   frames    Arrow columns -> PUBLISH frames
    kernels_flow     flow      packet ids and acknowledgements of what we send
    kernels_topics   topics    topics -> small dense numbers
    kernels_websocket          frames of a WebSocket -> what is in them
    columns.kernels_jit        how they are compiled and cached

Each has a plain twin (`plain_*`, or a few lines in its test) that property tests hold it equal to.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from bridgehead.columns.schema import WIRE
from bridgehead.wire.flow import OutboundFlow
from bridgehead.wire.frames import encode_publishes
from bridgehead.wire.intake import Intake
from bridgehead.wire.kernels_columns import to_columns
from bridgehead.wire.kernels_websocket import Unframer
from bridgehead.wire.topics import TopicTable

# One QoS 0 PUBLISH of MQTT 5 with a user property: enough to reach every kernel with its real argument types.
_SAMPLE = b"\x30\x0f\x00\x03a/b\x07\x26\x00\x01k\x00\x01v12"


def warm() -> None:
    """Compile every kernel, or load it from the cache, so that no message waits for it.

    Takes seconds the first time after an installation, less than one after that.
    """
    intake = Intake()
    intake.scan(bytearray(_SAMPLE), 0, len(_SAMPLE), 5, 0, np.zeros(65536, np.uint8))
    batch = pa.RecordBatch.from_arrays(list(to_columns(*intake.take())), schema=WIRE)
    encode_publishes(batch, 5, np.zeros(1, np.uint8), np.zeros(1, np.uint16))
    flow = OutboundFlow(1, last_id=1)
    flow.take(0, np.zeros(1, np.int64), np.ones(1, np.uint8))
    flow.acks(np.array([[4, 1, 0]]), 5)
    topics = TopicTable(limit=2)
    topics.lookup(pa.array(["a", "b", "c"]))
    Unframer().feed(np.array([0x82, 0], np.uint8), 0, np.zeros(1, np.uint8))
