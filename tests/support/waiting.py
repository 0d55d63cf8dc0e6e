"""Waiting for a condition. The limit is a guard against hanging, not a measure: it is far beyond what a slow machine needs."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 90.0
_LOOK_OFTEN = 0.01
_LOOK_AT_LEAST = 0.05
_WAITED = 0.05
"""Who has waited long for something can wait a little longer: to look costs the one who is asked as well."""
_LOOK_SELDOM = 0.5


def until(condition: Callable[[], T], what: str, within: float = PATIENCE, detail: Callable[[], object] | None = None) -> T:
    """The first true value of the condition; fails with ``what`` (and the detail of that moment) when it does not come."""
    began = time.monotonic()
    pause = threading.Event()
    while not (value := condition()):
        waited = time.monotonic() - began
        if waited > within:
            raise AssertionError(f"not within {within:.0f} s: {what}" + (f"\n{detail()}" if detail is not None else ""))
        pause.wait(min(max(_LOOK_OFTEN, _WAITED * waited), _LOOK_AT_LEAST))
    return value


def run_dry(left: Callable[[], int], what: str, detail: Callable[[], object] | None = None) -> None:
    """Return when nothing is left; fails when for long it does not become less.

    Looks seldom: to count what is left of many takes long, and holds up whoever makes it less in this process.
    """
    before, deadline, pause = left(), time.monotonic() + PATIENCE, threading.Event()
    while before:
        pause.wait(_LOOK_SELDOM)
        if (now := left()) < before:
            before, deadline = now, time.monotonic() + PATIENCE
        elif time.monotonic() > deadline:
            seen = f"\n{detail()}" if detail is not None else ""
            raise AssertionError(f"{before} left, and no less for {PATIENCE:.0f} s: {what}{seen}")


def free_ports(count: int) -> list[int]:
    """Ports that nobody uses, and that nobody is given by chance before a test uses them."""
    return [next(_FREE) for _ in range(count)]


def free_port() -> int:
    return next(_FREE)


def _free() -> Iterator[int]:
    """The ports of this process, in turns.

    A port that is chosen and let go is anybody's until it is used: another worker's, or that of a client whose connection
    needs one. So they come from below those that the kernel gives to clients, and each process has a block of its own, which
    it owns as long as it listens on the first port of it.
    """
    owned, owner = next(claimed for block in _BLOCKS if (claimed := _claim(block)))
    with owner:
        while True:
            yield from (port for port in owned[1:] if _is_free(port))


def _claim(block: range) -> tuple[range, socket.socket] | None:
    try:
        return block, _listen(block[0])
    except OSError:
        return None


def _is_free(port: int) -> bool:
    try:
        _listen(port).close()
    except OSError:
        return False
    return True


def _listen(port: int) -> socket.socket:
    return socket.create_server(("127.0.0.1", port))


_BLOCKS = [range(first, first + 500) for first in range(12_000, 32_000, 500)]
_FREE = _free()


def accepts(port: int) -> bool:
    """Whether somebody accepts connections there."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True
