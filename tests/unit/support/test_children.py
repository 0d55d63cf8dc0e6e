"""What a test starts does not outlive it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from support import children
from support.node import wait_gone
from support.waiting import until

SLEEPS = [sys.executable, "-c", "import time; time.sleep(600)"]
STARTS_ONE = f"from support import children; print(children.start({SLEEPS!r}).pid, flush=True); input()"
ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("ends_by", [signal.SIGKILL, None], ids=["killed", "by itself"])
def test_a_child_ends_with_the_process_that_has_started_it(ends_by: signal.Signals | None) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}"}
    with subprocess.Popen(
        [sys.executable, "-c", STARTS_ONE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as test:
        assert test.stdin is not None
        assert test.stdout is not None
        child = psutil.Process(int(test.stdout.readline()))
        until(lambda: child.cmdline()[:1] == SLEEPS[:1], "it has been told with whom it ends")
        if ends_by is not None:
            test.send_signal(ends_by)
        test.stdin.close()
        test.wait(60)
    wait_gone([child])


def test_a_child_outlives_the_thread_that_wanted_it() -> None:
    found: list[subprocess.Popen[bytes]] = []
    thread = threading.Thread(target=lambda: found.append(children.start(SLEEPS)))
    thread.start()
    thread.join()
    until(lambda: thread.native_id not in [each.id for each in psutil.Process().threads()], "the thread is gone")
    assert found[0].poll() is None
    found[0].kill()
    found[0].wait(60)
