"""Processes that are killed, or that stand still for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from support.node import wait_gone


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """SIGSTOP, and SIGCONT at the end whatever happens: the process keeps its sockets and answers nobody."""
    process = psutil.Process(pid)
    process.suspend()
    try:
        yield
    finally:
        process.resume()


def kill(process: psutil.Process) -> None:
    """kill -9, and gone."""
    process.kill()
    wait_gone([process])
