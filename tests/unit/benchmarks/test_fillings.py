"""What payloads hold decides what a store that squeezes costs: a filling must be what it says."""

from __future__ import annotations

import json
import random
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from benchmarks import fillings
from benchmarks import generator_kernels as kernels
from benchmarks.packets import publish_template

LZ4 = pa.Codec("lz4_raw")
PAYLOAD = 100
BODY = PAYLOAD - kernels.STAMP_BYTES


def squeezed(data: bytes) -> float:
    return len(LZ4.compress(data, asbytes=True)) / len(data)


def payloads(filling: np.ndarray, count: int, first: int = 0, step: int = 1) -> list[bytes]:
    """What the generator writes behind time and sequence."""
    frame, *places = publish_template("bench/00", 0, 5, PAYLOAD)
    template = np.frombuffer(frame, np.uint8).copy()
    out = np.zeros(template.size * count, np.uint8)
    size = kernels.write_publishes(
        out, template, np.array(places, np.int64), filling, count, 0, 1, first, step, 12, 7,
        np.arange(1, 2, dtype=np.uint16), np.zeros(6, np.int64), np.zeros(65536, np.uint8))
    assert size == out.size
    return [out[at + template.size - BODY:at + template.size].tobytes() for at in range(0, size, template.size)]


@pytest.mark.parametrize("name", fillings.FILLINGS)
def test_a_pool_is_the_same_in_every_run_and_of_one_size(name: str) -> None:
    pool = fillings.pool(name)
    assert pool.size == fillings.POOL_BYTES
    assert pool.tobytes() == fillings.FILLINGS[name](random.Random(fillings.SEED))[:fillings.POOL_BYTES]


def test_telemetry_is_json_in_which_no_two_readings_are_the_same() -> None:
    readings = fillings.pool("telemetry").tobytes().decode().replace("}{", "}\n{").splitlines()[:-1]
    assert {"device", "ts"} <= set.intersection(*(set(json.loads(reading)) for reading in readings))
    assert len(set(readings)) == len(readings) > 5_000


def test_telemetry_can_be_squeezed_and_noise_cannot() -> None:
    assert 0.2 < squeezed(fillings.pool("telemetry").tobytes()) < 0.5
    assert squeezed(fillings.pool("noise").tobytes()) >= 1.0


def test_messages_take_the_bytes_of_the_filling_in_their_order() -> None:
    filling = fillings.pool("telemetry")
    assert b"".join(payloads(filling, 500)) == filling[:500 * BODY].tobytes()


def test_a_second_burst_goes_on_where_the_first_has_ended() -> None:
    filling = fillings.pool("telemetry")
    assert payloads(filling, 20) == payloads(filling, 8) + payloads(filling, 12, first=8)
    assert payloads(filling, 20, first=3, step=4) == payloads(filling, 8, 3, 4) + payloads(filling, 12, 3 + 8 * 4, 4)


def test_a_filling_that_is_used_up_begins_again_elsewhere_in_a_message_and_no_neighbours_are_equal() -> None:
    filling = fillings.pool("noise")[:1000]
    sent = payloads(filling, 2_000)
    assert all(one != other for one, other in pairwise(sent))
    assert len(set(sent)) > 2 * (filling.size // BODY)
    assert all(payload in filling.tobytes() for payload in sent)


@pytest.mark.parametrize("connections", [1, 3, 4])
def test_what_every_connection_sends_of_noise_cannot_be_squeezed_together_either(connections: int) -> None:
    parts = fillings.shares(fillings.pool("noise"), connections, BODY)
    together = [payload for part in parts for payload in payloads(part, 2_000 // connections)]
    assert squeezed(b"".join(together)) >= 1.0


def test_a_payload_too_large_to_differ_from_its_neighbours_is_refused() -> None:
    assert len(fillings.shares(fillings.pool("noise"), 4, 1 << 17)) == 4
    with pytest.raises(ValueError, match="do not differ"):
        fillings.shares(fillings.pool("noise"), 4, (1 << 17) + 1)
