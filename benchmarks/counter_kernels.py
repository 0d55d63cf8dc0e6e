"""The counter's loop at machine speed: count and judge many PUBLISH packets, write their acknowledgements."""

import numpy as np
from numpy.typing import NDArray

from benchmarks.compiled import compiled
from benchmarks.generator_kernels import RUN_SHIFT
from benchmarks.histogram import bucket_of

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.int64]

# `tally`, what the counter knows about the run
ARRIVED, DOUBLED, REORDERED, STALE, FOREIGN, SLOWEST, WROTE, QOS0, QOS1, QOS2, REPEATED = range(11)
TALLIES = 11


@compiled("int64(uint8[::1], int64)")
def get_number(data: Bytes, at: int) -> int:
    value = 0
    for byte in range(8):
        value |= int(data[at + byte]) << (8 * byte)
    return value


@compiled("int64(uint8[::1], int64, int64, int64[::1], uint8[::1], int64[::1], int64[::1], int64, int64)")
def count_message(
    data: Bytes, payload: int, end: int, tally: Numbers, seen: Bytes, buckets: Numbers, newest: Numbers, run: int, now: int
) -> int:
    """Judge one payload: new, doubled, out of order, left over from an earlier run, or not ours at all."""
    if end - payload < 16:
        tally[FOREIGN] += 1
        return 0
    sent = get_number(data, payload)
    tag = get_number(data, payload + 8)
    sequence = tag & ((1 << RUN_SHIFT) - 1)
    if tag >> RUN_SHIFT != run or sequence >= seen.size:
        tally[STALE] += 1
        return 0
    if seen[sequence]:
        tally[DOUBLED] += 1
        return 0
    seen[sequence] = 1
    tally[ARRIVED] += 1
    topic = sequence % newest.size
    if sequence < newest[topic]:
        tally[REORDERED] += 1
    else:
        newest[topic] = sequence
    latency = now - sent
    tally[SLOWEST] = max(tally[SLOWEST], latency)
    buckets[bucket_of(latency)] += 1
    return 1


@compiled("void(uint8[::1], int64, int64, uint8, uint8)")
def put_acknowledgement(out: Bytes, at: int, first: int, high: int, low: int) -> None:
    out[at] = first
    out[at + 1] = 2
    out[at + 2] = high
    out[at + 3] = low


@compiled("int64(uint8[::1], int64, int64, uint8[::1], uint8[::1], int64[::1], uint8[::1], int64[::1], int64[::1],"
          " int64, int64)")
def read_publishes(
    inbox: Bytes, length: int, level: int, out: Bytes, held: Bytes, tally: Numbers, seen: Bytes, buckets: Numbers,
    newest: Numbers, run: int, now: int,
) -> int:
    """Consume whole PUBLISH and PUBREL packets, answer into `out` (bytes: tally[WROTE]).  Stops before anything else."""
    at = 0
    wrote = 0
    while at + 2 <= length:
        kind = inbox[at] >> 4
        if (kind != 3 and kind != 6) or wrote + 4 > out.size:
            break
        rest = 0
        body = at + 1
        shift = 0
        whole = False
        while body < length and shift < 28:
            rest |= int(inbox[body] & 0x7F) << shift
            shift += 7
            body += 1
            if inbox[body - 1] < 0x80:
                whole = True
                break
        end = body + rest
        if not whole or end > length:
            break
        if kind == 6:
            high, low = inbox[body], inbox[body + 1]
            held[(int(high) << 8) | int(low)] = 0
            put_acknowledgement(out, wrote, 0x70, high, low)
            wrote += 4
            at = end
            continue
        qos = (inbox[at] >> 1) & 3
        topic_bytes = (int(inbox[body]) << 8) | int(inbox[body + 1])
        place = body + 2 + topic_bytes
        ours = topic_bytes >= 6 and inbox[body + 2] == 98 and inbox[body + 7] == 47   # "b" of bench, and its "/"
        repeated = False
        if qos > 0:
            high, low = inbox[place], inbox[place + 1]
            place += 2
            put_acknowledgement(out, wrote, 0x40 if qos == 1 else 0x50, high, low)
            wrote += 4
            if qos == 2:
                packet_id = (int(high) << 8) | int(low)
                repeated = held[packet_id] != 0
                held[packet_id] = 1
        if level == 5:
            properties = 0
            shift = 0
            while place < end:
                properties |= int(inbox[place] & 0x7F) << shift
                shift += 7
                place += 1
                if inbox[place - 1] < 0x80:
                    break
            place += properties
        if not ours:
            tally[FOREIGN] += 1
        elif repeated:
            tally[REPEATED] += 1
        else:
            tally[QOS0 + qos] += count_message(inbox, place, end, tally, seen, buckets, newest, run, now)
        at = end
    tally[WROTE] = wrote
    return at
