"""Frames of a WebSocket server -> the bytes inside them, many frames at once.

The kernel copies what data frames carry to one place and stops only at control frames (rare) and at faults; a head that is cut
by the end of the data is kept until the rest of it comes.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridgehead.columns.kernels_jit import kernel

BINARY, CLOSE, PING, PONG = 2, 8, 9, 10

# What the kernel and its caller pass to and fro.
AT, FILLED, LEFT, HEAD, STOP, OPCODE = range(6)
"""Bytes taken, bytes written, bytes still to come of the running data frame, bytes of a head in ``head``, why it stopped, and
where: the opcode of a control frame, whose payload is LEFT bytes long."""
NO_STOP, CONTROL, NOT_BINARY, FROM_US, RESERVED_BITS, BAD_LENGTH = range(6)
FAULTS: Final = {
    NOT_BINARY: "a frame that is not binary",
    FROM_US: "a masked frame",
    RESERVED_BITS: "a frame with reserved bits",
    BAD_LENGTH: "a frame of impossible length",
}

_HEAD_BYTES = 10


@kernel
def unframe(data: NDArray[np.uint8], out: NDArray[np.uint8], head: NDArray[np.uint8], state: NDArray[np.int64]) -> None:
    """Go on from state[AT] until the data ends, the place is full, or something needs a look."""
    at, filled, left, held = state[AT], state[FILLED], state[LEFT], state[HEAD]
    stop = NO_STOP
    while True:
        if left:
            count = min(left, min(len(data) - at, len(out) - filled))
            out[filled : filled + count] = data[at : at + count]
            at += count
            filled += count
            left -= count
            if left:
                break
        # A head: two bytes say how many belong to it.
        while held < 2 and at < len(data):
            head[held] = data[at]
            held += 1
            at += 1
        if held < 2:
            break
        short = head[1] & 127
        whole = 4 if short == 126 else (10 if short == 127 else 2)
        while held < whole and at < len(data):
            head[held] = data[at]
            held += 1
            at += 1
        if held < whole:
            break
        held = 0
        size = np.int64(short)
        if whole > 2:
            size = np.int64(0)
            for i in range(2, whole):
                size = size << 8 | np.int64(head[i])
        opcode = head[0] & 15
        if head[0] & 0x70:
            stop = RESERVED_BITS
        elif head[1] & 0x80:
            stop = FROM_US
        elif size < 0 or (opcode >= 8 and (size > 125 or not head[0] & 0x80)):
            stop = BAD_LENGTH
        elif opcode >= 8:
            stop = CONTROL
            state[OPCODE] = opcode
        elif opcode != 0 and opcode != 2:
            stop = NOT_BINARY
        left = size
        if stop:
            break
    state[AT], state[FILLED], state[LEFT], state[HEAD], state[STOP] = at, filled, left, held, stop


class Unframer:
    """The frames of one connection."""

    def __init__(self) -> None:
        self.fault = ""  # what the peer did wrong
        self._state = np.zeros(6, np.int64)
        self._head = np.zeros(_HEAD_BYTES, np.uint8)
        self._control: bytearray | None = None  # the payload of a control frame, as far as it has come
        self._controls: list[tuple[int, bytes]] = []

    def feed(self, data: NDArray[np.uint8], at: int, out: NDArray[np.uint8]) -> tuple[int, int]:
        """Take bytes of the wire from ``at`` on and write what is inside to ``out``: (where it stopped, bytes written)."""
        state = self._state
        state[AT], state[FILLED] = at, 0
        while True:
            if self._control is None:
                unframe(data, out, self._head, state)
                if state[STOP] in FAULTS:
                    self.fault = FAULTS[int(state[STOP])]
                    return len(data), int(state[FILLED])
                if state[STOP] != CONTROL:
                    return int(state[AT]), int(state[FILLED])
                self._control = bytearray()
            at = int(state[AT])
            piece = data[at : at + int(state[LEFT])]
            self._control += piece.tobytes()
            state[AT] += len(piece)
            state[LEFT] -= len(piece)
            if state[LEFT]:
                return int(state[AT]), int(state[FILLED])
            self._controls.append((int(state[OPCODE]), bytes(self._control)))
            self._control = None

    def controls(self) -> list[tuple[int, bytes]]:
        """The control frames that have come, each once."""
        found, self._controls = self._controls, []
        return found
