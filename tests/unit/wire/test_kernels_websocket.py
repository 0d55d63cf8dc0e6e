"""Unframing: whatever is cut wherever, what was inside comes out once and in order."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.wire.kernels_websocket import BINARY, PING, Unframer


def frame(opcode: int, payload: bytes, final: bool) -> bytes:
    size = len(payload)
    if size < 126:
        length = bytes([size])
    elif size < 1 << 16:
        length = bytes([126]) + size.to_bytes(2, "big")
    else:
        length = bytes([127]) + size.to_bytes(8, "big")
    return bytes([opcode | (0x80 if final else 0)]) + length + payload


SIZES = st.one_of(st.integers(0, 3), st.integers(120, 130), st.sampled_from([65_535, 65_536, 70_000]))
FRAMES = st.lists(st.tuples(st.sampled_from(["data", "part", "ping"]), SIZES), max_size=12)


@settings(deadline=None)
@given(FRAMES, st.integers(1, 200) | st.just(100_000), st.integers(100, 50_000))
def test_what_was_framed_comes_out_however_it_is_cut(wanted: list[tuple[str, int]], read: int, room: int) -> None:
    wire, inside, pings = b"", b"", []
    for number, (kind, size) in enumerate(wanted):
        payload = bytes([number]) * (min(size, 125) if kind == "ping" else size)
        if kind == "ping":
            pings.append((PING, payload))
            wire += frame(PING, payload, True)
        else:
            inside += payload
            wire += frame(BINARY, payload, True) if kind == "data" else frame(BINARY, payload, False) + frame(0, b"", True)
    unframer, came, controls = Unframer(), b"", []
    out = np.zeros(room, np.uint8)
    for start in range(0, len(wire), read):
        data = np.array(bytearray(wire[start : start + read]), np.uint8)
        at = 0
        while at < len(data):
            at, filled = unframer.feed(data, at, out)
            came += out[:filled].tobytes()
            controls += unframer.controls()
    assert not unframer.fault
    assert came == inside
    assert controls == pings


def test_a_length_that_no_frame_can_have_is_a_fault() -> None:
    unframer = Unframer()
    data = np.array(bytearray(b"\x82\x7f" + b"\xff" * 8), np.uint8)
    unframer.feed(data, 0, np.zeros(10, np.uint8))
    assert unframer.fault == "a frame of impossible length"
