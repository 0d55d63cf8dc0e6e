"""What ties a driver to its node: it ends when its parent ends, however that happens.

Two ties, because each has a gap: the kernel's death signal comes at once but only on Linux, and only if it was asked
for before the parent ended; end-of-file on standard input comes always, but only to a process that can still read it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Final

PR_SET_PDEATHSIG: Final = 1
ORPHANED: Final = 70
"""The exit status of a driver whose node is gone."""


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends. Also safe between fork and exec."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def hold(parent: int) -> None:
    """The first thing a driver does; ``parent`` is who started it, which may be gone by now."""
    die_with_parent()
    if os.getppid() != parent:
        os._exit(ORPHANED)


def watch_stdin(on_line: Callable[[str], None]) -> None:
    """Hand on each line of standard input; at its end, end this process at once."""

    def watch() -> None:
        for line in sys.stdin:
            on_line(line.strip())
        os._exit(ORPHANED)

    threading.Thread(target=watch, name="stdin", daemon=True).start()
