"""Ports for tests: nobody else is given them."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

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
