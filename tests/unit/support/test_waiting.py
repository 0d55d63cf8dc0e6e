"""Ports for tests, which nobody else is given; waiting for what becomes less."""

from __future__ import annotations

import itertools
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from support import waiting
from support.waiting import free_port, free_ports

ANOTHER_PROCESS = "from support.waiting import free_port; print(free_port(), flush=True); input()"


def test_a_port_is_not_given_again_soon() -> None:
    given = free_ports(100)
    assert len(set(given)) == 100
    assert free_port() not in given


def test_a_port_that_somebody_uses_is_passed_over() -> None:
    following = free_port() + 1
    with socket.create_server(("127.0.0.1", following)):
        assert free_port() != following


def test_two_processes_have_ports_of_their_own() -> None:
    tests = str(Path(__file__).parents[2])
    with subprocess.Popen(
        [sys.executable, "-c", ANOTHER_PROCESS], cwd=tests, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        theirs = int(other.stdout.readline())
        ours = free_ports(600)  # more than a block: they come round
        other.stdin.write("\n")
    assert theirs not in ours
    assert other.returncode == 0


def test_what_becomes_less_is_waited_for_and_what_does_not_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "PATIENCE", 0.05)
    monkeypatch.setattr(waiting, "_LOOK_SELDOM", 0.01)
    falling = iter(range(30, -1, -1))
    waiting.run_dry(lambda: next(falling), "steps")
    stuck = itertools.chain([3, 2], itertools.repeat(2))
    with pytest.raises(AssertionError, match="2 left, and no less for 0 s: steps\nhere"):
        waiting.run_dry(lambda: next(stuck), "steps", detail=lambda: "here")
