"""Journals of batch reads go on by themselves; whoever started them keeps nothing of those that have ended."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil
import pytest

from bridgehead.spark import keeper
from bridgehead.spark.options import Source, parse


def test_journals_that_have_ended_leave_no_process_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def start(*_: object, **__: object) -> tuple[subprocess.Popen[bytes], int]:
        started.append(subprocess.Popen([sys.executable, "-c", ""]))
        os.waitid(os.P_PID, started[-1].pid, os.WEXITED | os.WNOWAIT)
        return started[-1], 1

    monkeypatch.setattr(keeper, "start", start)
    monkeypatch.setattr(keeper, "_outliving", [])
    source = parse(Source, {"url": "mqtt://127.0.0.1:1", "topics": "t", "clientId": "c"})
    for _ in range(3):
        keeper.lingering(source)
    assert [each for each in started if psutil.pid_exists(each.pid)] == started[-1:]
    for each in started:
        each.wait()
