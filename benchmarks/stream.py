"""A non-blocking TCP socket with a numpy buffer on either side, so that kernels read and write them in place."""

import socket

import numpy as np
from numpy.typing import NDArray

INBOX_BYTES = 1 << 19
OUTBOX_BYTES = 1 << 21


class Closed(Exception):
    """The other end went away."""


class Stream:
    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = sock
        self.inbox: NDArray[np.uint8] = np.zeros(INBOX_BYTES, np.uint8)
        self.outbox: NDArray[np.uint8] = np.zeros(OUTBOX_BYTES, np.uint8)
        self.received = 0   # bytes in the inbox that nobody has consumed
        self.start = 0      # first byte of the outbox that the kernel has not taken
        self.end = 0        # one behind the last byte of the outbox
        self._inbox_view = self.inbox.data
        self._outbox_view = self.outbox.data

    def fileno(self) -> int:
        return self.sock.fileno()

    @property
    def unsent(self) -> int:
        return self.end - self.start

    def receive(self) -> bool:
        """Read what is there once; False when there was nothing."""
        try:
            count = self.sock.recv_into(self._inbox_view[self.received:])
        except BlockingIOError:
            return False
        except ConnectionError as reason:
            raise Closed(str(reason)) from reason
        if count == 0:
            raise Closed("end of stream")
        self.received += count
        return True

    def consume(self, count: int) -> None:
        """Forget the first `count` bytes of the inbox."""
        rest = self.received - count
        if count and rest:
            self.inbox[:rest] = self.inbox[count:self.received].copy()
        elif not count and self.received == INBOX_BYTES:
            raise Closed("a packet larger than the inbox")
        self.received = rest

    def room(self) -> NDArray[np.uint8]:
        """The free end of the outbox; whoever writes there calls `wrote`."""
        if self.start and self.start == self.end:
            self.start = self.end = 0
        elif self.start > OUTBOX_BYTES // 2:
            rest = self.unsent
            self.outbox[:rest] = self.outbox[self.start:self.end].copy()
            self.start, self.end = 0, rest
        return self.outbox[self.end:]

    def wrote(self, count: int) -> None:
        self.end += count

    def put(self, data: bytes) -> None:
        self.room()[: len(data)] = np.frombuffer(data, np.uint8)
        self.wrote(len(data))

    def flush(self) -> bool:
        """Hand the outbox to the kernel; True when it took all of it."""
        while self.start < self.end:
            try:
                self.start += self.sock.send(self._outbox_view[self.start:self.end])
            except BlockingIOError:
                return False
            except ConnectionError as reason:
                raise Closed(str(reason)) from reason
        return True

    def close(self) -> None:
        self.sock.close()
