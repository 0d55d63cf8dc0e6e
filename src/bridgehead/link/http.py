"""The little HTTP that opens a tunnel or a WebSocket: one request, and the head of its answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HEAD_AT_MOST: Final = 16 * 1024
"""An answer whose head is longer is none that we have asked for."""
_END: Final = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Answer:
    """The head of an answer; names of headers in lower case."""

    status: int
    reason: str
    headers: dict[str, str]

    def __str__(self) -> str:
        return f"{self.status} {self.reason}".strip()


class AnswerReader:
    """Pure: bytes in, an answer out when its head is whole."""

    def __init__(self) -> None:
        self._head = bytearray()
        self.rest = b""  # what came behind the head

    def feed(self, data: memoryview) -> Answer | None:
        """The answer, once; raises ValueError for what is none."""
        self._head += data
        end = self._head.find(_END)
        if end < 0:
            if len(self._head) > HEAD_AT_MOST or not b"HTTP/".startswith(self._head[:5]):
                raise ValueError("the answer is not HTTP")
            return None
        self.rest = bytes(self._head[end + len(_END) :])
        return _answer(self._head[:end].decode("latin-1"))


def _answer(head: str) -> Answer:
    first, *lines = head.split("\r\n")
    version, _, rest = first.partition(" ")
    status, _, reason = rest.partition(" ")
    if not version.startswith("HTTP/1.") or not status.isdigit():
        raise ValueError("the answer is not HTTP")
    pairs = (line.partition(":") for line in lines)
    return Answer(int(status), reason, {name.strip().lower(): value.strip() for name, _, value in pairs})


def authority(host: str, port: int) -> str:
    """A host and its port as a URL has them."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def request(first: str, headers: dict[str, str]) -> bytes:
    lines = [first, *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1")
