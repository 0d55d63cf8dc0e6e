"""Waiting for a condition. The limit is a guard against hanging, not a measure: it is far beyond what a slow machine needs."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 90.0
_LOOK_EVERY = 0.02


def until(condition: Callable[[], T], what: str, within: float = PATIENCE, detail: Callable[[], object] | None = None) -> T:
    """The first true value of the condition; fails with ``what`` (and the detail of that moment) when it does not come."""
    deadline = time.monotonic() + within
    pause = threading.Event()
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within:.0f} s: {what}" + (f"\n{detail()}" if detail is not None else ""))
        pause.wait(_LOOK_EVERY)
    return value


def free_ports(count: int) -> list[int]:
    """Ports that nobody uses; all different, because they are held together while they are chosen."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def free_port() -> int:
    return free_ports(1)[0]


def accepts(port: int) -> bool:
    """Whether somebody accepts connections there."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True
