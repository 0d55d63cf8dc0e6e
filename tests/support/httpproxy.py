"""An HTTP proxy that knows CONNECT and one user."""

from __future__ import annotations

import base64
import socket
import threading
from types import TracebackType
from typing import Self

from support.waiting import free_port


class HttpProxy:
    """Passes on what is said, once the right user has asked for the way."""

    def __init__(self, user: str, password: str) -> None:
        self._known = base64.b64encode(f"{user}:{password}".encode())
        self._server = socket.create_server(("127.0.0.1", free_port()))
        self.port = self._server.getsockname()[1]
        self.targets: set[str] = set()
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            head = b""
            while b"\r\n\r\n" not in head:
                piece = client.recv(4096)
                if not piece:
                    return
                head += piece
            method, target, _ = head.split(b"\r\n")[0].split(b" ")
            if b"Proxy-Authorization: Basic " + self._known not in head.split(b"\r\n") or method != b"CONNECT":
                client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
                return
            self.targets.add(target.decode())
            host, _, port = target.decode().rpartition(":")
            with socket.create_connection((host, int(port))) as remote:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                back = threading.Thread(target=_pass_on, args=(remote, client), daemon=True)
                back.start()
                _pass_on(client, remote)
                back.join()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65_536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return  # one of the two has gone
