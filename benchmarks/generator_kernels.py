"""The generator's two loops at machine speed: write many PUBLISH packets, read many acknowledgements.

A message carries its send time and its sequence in the first 16 bytes of the payload, and behind them the next bytes of the
filling.  Sequences are dealt out so that each topic belongs to one connection (sequence % topics is the topic): order per
topic can be checked at the far end.

Packet ids of a connection lie in a ring: taken at its head, returned at its tail.
"""

import numpy as np
from numpy.typing import NDArray

from benchmarks.compiled import compiled

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.int64]

# `window`, the numbers of one connection's flow control
HEAD, FREE, RELEASED, REFUSED, STRANGE, WROTE = range(6)
# what an id is waiting for
IDLE, ACKNOWLEDGEMENT, COMPLETION = range(3)

RUN_SHIFT = 48   # the run's number above, the sequence below
STAMP_BYTES = 16


@compiled("void(uint8[::1], int64, int64)")
def put_number(out: Bytes, at: int, value: int) -> None:
    for byte in range(8):
        out[at + byte] = (value >> (8 * byte)) & 0xFF


@compiled("int64(uint8[::1], uint8[::1], int64[::1], uint8[::1], int64, int64, int64, int64, int64, int64, int64,"
          " uint16[::1], int64[::1], uint8[::1])")
def write_publishes(
    out: Bytes, template: Bytes, places: Numbers, filling: Bytes, count: int, qos: int, run: int, first: int, step: int,
    topics: int, now: int, ring: NDArray[np.uint16], window: Numbers, waits: Bytes,
) -> int:
    """Write `count` messages with sequences first, first + step, ...; the bytes written."""
    size = template.size
    topic_at, id_at, payload_at = places[0], places[1], places[2]
    body_at = payload_at + STAMP_BYTES
    body = size - body_at
    lap = filling.size - body
    taken = first // step * body % lap   # where in the filling this connection is
    at = 0
    sequence = first
    for _ in range(count):
        for place in range(payload_at):   # a copy of so few bytes is slower than this
            out[at + place] = template[place]
        topic = sequence % topics
        out[at + topic_at] = 48 + topic // 10
        out[at + topic_at + 1] = 48 + topic % 10
        if qos > 0:
            packet_id = ring[window[HEAD]]
            window[HEAD] = (window[HEAD] + 1) % ring.size
            window[FREE] -= 1
            waits[packet_id] = ACKNOWLEDGEMENT
            out[at + id_at] = packet_id >> 8
            out[at + id_at + 1] = packet_id & 0xFF
        put_number(out, at + payload_at, now)
        put_number(out, at + payload_at + 8, (run << RUN_SHIFT) | sequence)
        out[at + body_at:at + size] = filling[taken:taken + body]
        taken += body
        if taken >= lap:
            taken -= lap
        sequence += step
        at += size
    return at


@compiled("void(uint16[::1], int64[::1], uint8[::1], int64)")
def give_back(ring: NDArray[np.uint16], window: Numbers, waits: Bytes, packet_id: int) -> None:
    ring[(window[HEAD] + window[FREE]) % ring.size] = packet_id
    window[FREE] += 1
    window[RELEASED] += 1
    waits[packet_id] = IDLE


@compiled("int64(uint8[::1], int64, uint8[::1], uint16[::1], int64[::1], uint8[::1])")
def read_acknowledgements(
    inbox: Bytes, length: int, out: Bytes, ring: NDArray[np.uint16], window: Numbers, waits: Bytes
) -> int:
    """Consume whole packets; PUBRELs go to `out` (their bytes: window[WROTE]).  Stops before any other packet type.

    A PUBREL is never longer than the PUBREC that asks for it, so `out` needs `length` bytes at most.
    """
    at = 0
    wrote = 0
    while at + 2 <= length:
        kind = inbox[at] >> 4
        rest = int(inbox[at + 1])
        if rest >= 0x80 or kind < 4 or kind > 7 or kind == 6:
            break
        if at + 2 + rest > length:
            break
        packet_id = (int(inbox[at + 2]) << 8) | int(inbox[at + 3])
        refused = rest > 2 and inbox[at + 4] >= 0x80
        if waits[packet_id] == IDLE or (kind == 7) != (waits[packet_id] == COMPLETION):
            window[STRANGE] += 1
        elif refused:
            window[REFUSED] += 1
            give_back(ring, window, waits, packet_id)
        elif kind == 5:
            waits[packet_id] = COMPLETION
            out[wrote] = 0x62
            out[wrote + 1] = 2
            out[wrote + 2] = inbox[at + 2]
            out[wrote + 3] = inbox[at + 3]
            wrote += 4
        else:
            give_back(ring, window, waits, packet_id)
        at += 2 + rest
    window[WROTE] = wrote
    return at
