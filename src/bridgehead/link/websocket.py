"""MQTT inside WebSocket as a layer, the client's side: the upgrade, binary frames, and what belongs to them.

What is written becomes one frame, up to FRAME bytes, masked at once. What comes is unframed by a kernel: brokers send a frame
for each packet, and there may be thousands in one read.
"""

from __future__ import annotations

import base64
import hashlib
import os
from typing import Any, Final

import numpy as np

from bridgehead.link.http import Answer, AnswerReader, authority, request
from bridgehead.link.layer import Layer, Upper
from bridgehead.wire.kernels_websocket import BINARY, CLOSE, PING, PONG, Unframer

FRAME: Final = 64 * 1024
"""A peer may wait for the end of a frame before it looks at what is in it: so frames are not large."""
_FINAL: Final = 0x80
_MASKED: Final = 0x80
_HEAD_AT_MOST: Final = 16  # 2 + 8 + 4, rounded up so that what is masked begins at a good address
_NORMAL: Final = b"\x03\xe8"  # 1000
_ACCEPT: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, 1.3


class WebSocketLayer(Layer):
    """``path`` and ``sub_protocol`` are those of the upgrade; the address is what the peer is told it was called."""

    def __init__(
        self,
        upper: Upper,
        host: str,
        port: int,
        path: str,
        sub_protocol: str,
        within: float,
    ) -> None:
        super().__init__(upper, within)
        self._address = authority(host, port)
        self._path = path
        self._sub_protocol = sub_protocol
        self._key = base64.b64encode(os.urandom(16))
        self._answer = AnswerReader()
        self._frames = Unframer()
        self._waiting = np.zeros(0, np.uint8)  # what came while nobody wanted to read
        self._closing = False  # we have said CLOSE

    @property
    def in_pieces(self) -> bool:
        return True

    def too_late(self) -> str:
        return f"WebSocket: {self._address} did not answer the upgrade within {self._within:g} s"

    def cut_short(self) -> str:
        return f"WebSocket: {self._address} ended the connection instead of an answer to the upgrade at {self._path}"

    # -- the upgrade --------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        headers = {
            "Host": self._address,
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Key": self._key.decode(),
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Protocol": self._sub_protocol,
        }
        self.hand_down(request(f"GET {self._path} HTTP/1.1", headers))

    def _upgrade(self, data: memoryview) -> None:
        try:
            answer = self._answer.feed(data)
            if answer is None:
                return
            self._check(answer)
        except ValueError as error:
            self.fail(f"WebSocket: {error}")
            return
        self.stand()
        self._take(np.array(bytearray(self._answer.rest), np.uint8))

    def _check(self, answer: Answer) -> None:
        if answer.status != 101:
            raise ValueError(f"{self._address} answered {answer} to the upgrade at {self._path}")
        accepted = base64.b64encode(hashlib.sha1(self._key + _ACCEPT).digest()).decode()
        if answer.headers.get("upgrade", "").lower() != "websocket" or answer.headers.get("sec-websocket-accept") != accepted:
            raise ValueError(f"{self._address} answered the upgrade with something else")
        chosen = answer.headers.get("sec-websocket-protocol", self._sub_protocol)
        if chosen != self._sub_protocol:
            raise ValueError(f"{self._address} wants the subprotocol {chosen}, not {self._sub_protocol}")

    # -- what comes ---------------------------------------------------------------------------------------------------

    def arrived(self, data: memoryview) -> None:
        if not self.standing:
            self._upgrade(data)
        else:
            self._take(np.frombuffer(data, np.uint8))

    def read_on(self) -> None:
        waiting, self._waiting = self._waiting, self._waiting[:0]
        self._take(waiting)

    def _take(self, data: np.ndarray[Any, np.dtype[np.uint8]]) -> None:
        """Hand up what is in these frames, as much at once as there is."""
        at = 0
        while at < len(data) and not self.is_closing():
            if self.paused:
                self._waiting = np.concatenate((self._waiting, data[at:]))
                return
            out = np.frombuffer(self.upper.get_buffer(-1), np.uint8)
            at, filled = self._frames.feed(data, at, out)
            if filled:
                self.upper.buffer_updated(filled)
            if self._frames.fault:
                self.fail(f"WebSocket: the remote broke the protocol: {self._frames.fault}")
            for opcode, payload in self._frames.controls():
                self._control(opcode, payload)

    def _control(self, opcode: int, payload: bytes) -> None:
        if opcode == PING:
            self._frame(PONG, payload)
        elif opcode == CLOSE:
            if not self._closing:
                self._closing = True
                self._frame(CLOSE, payload[:2])
            self.peer_ended()

    # -- what goes ----------------------------------------------------------------------------------------------------

    def write(self, data: Any) -> None:
        view = memoryview(data).cast("B")
        if self.ending or self._closing:
            self.throw_away(len(view))
            return
        for start in range(0, len(view), FRAME):
            self._frame(BINARY, view[start : start + FRAME])

    def _frame(self, opcode: int, payload: Any) -> None:
        size = len(payload)
        mask = os.urandom(4)
        if size < 126:
            head = bytes((_FINAL | opcode, _MASKED | size)) + mask
        elif size < 1 << 16:
            head = bytes((_FINAL | opcode, _MASKED | 126)) + size.to_bytes(2, "big") + mask
        else:
            head = bytes((_FINAL | opcode, _MASKED | 127)) + size.to_bytes(8, "big") + mask
        padded = -(-size // 8) * 8
        frame = np.empty(_HEAD_AT_MOST + padded, np.uint8)
        frame[_HEAD_AT_MOST - len(head) : _HEAD_AT_MOST] = np.frombuffer(head, np.uint8)
        frame.data[_HEAD_AT_MOST : _HEAD_AT_MOST + size] = payload
        frame[_HEAD_AT_MOST:].view(np.uint64)[:] ^= np.frombuffer(mask * 2, np.uint64)[0]
        whole = frame[_HEAD_AT_MOST - len(head) : _HEAD_AT_MOST + size].data
        self.hand_down(whole, size if opcode == BINARY else 0, len(head))

    def write_eof(self) -> None:
        """Say CLOSE; the peer says it too, and closes."""
        if self.standing and not self._closing:
            self._closing = True
            self._frame(CLOSE, _NORMAL)

    def close(self) -> None:
        self.write_eof()
        super().close()
