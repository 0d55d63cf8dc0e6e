"""A wire that can be cut: a TCP port that hands on to another, until it is told not to."""

from __future__ import annotations

import contextlib
import socket
import threading

from support.waiting import free_port


class Proxy:
    """Closed when made: nobody can connect before ``open``."""

    def __init__(self, target: int) -> None:
        self.port = free_port()
        self._target = target
        self._listener: socket.socket | None = None
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def open(self) -> Proxy:
        listener = self._listener = socket.create_server(("127.0.0.1", self.port))
        self._start(self._accept, listener)
        return self

    def cut(self) -> None:
        """End every connection now; new ones are welcome."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for end in (end for pair in pairs for end in pair):
            _end(end)

    def close(self) -> None:
        """End every connection and refuse new ones."""
        if self._listener is not None:
            _end(self._listener)
            self._listener = None
        self.cut()
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()
        self._threads = []

    def _start(self, work: object, *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                listener.close()
                return
            try:
                far = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                near.close()
                continue
            with self._lock:
                self._pairs.append((near, far))
            open_halves = threading.Semaphore(1)
            self._start(self._pump, near, far, open_halves)
            self._start(self._pump, far, near, open_halves)

    def _pump(self, source: socket.socket, target: socket.socket, open_halves: threading.Semaphore) -> None:
        with contextlib.suppress(OSError):  # cut: that is what it is for
            while data := source.recv(65536):
                target.sendall(data)
        _end(source)
        _end(target)
        if not open_halves.acquire(blocking=False):  # the second of the two: nobody uses the sockets any more
            source.close()
            target.close()


def _end(end: socket.socket) -> None:
    """Wake whoever waits on it; the socket itself is closed by its own thread."""
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
