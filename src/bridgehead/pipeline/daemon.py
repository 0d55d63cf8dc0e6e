"""pyspark's daemon, with everything its workers import loaded before it forks them.

Spark ends workers that were idle for a minute; with this the next one is there in milliseconds, not after a second of
imports, and workers share the memory of the modules. pyspark imports nothing before it forks because a library may
start threads, and a lock that such a thread holds stays locked in the fork: so whatever did start one is a reason not to
fork, and the daemon says so and ends.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from pathlib import Path
from typing import Final

TASK_WORKER: Final = "pyspark.worker"

PRELOADED: Final = ("pandas", TASK_WORKER, "bridgehead.pipeline.scan")

SAFE_THREADS: Final = {"jemalloc_bg_thd"}
"""Started by pyarrow's allocator, which brings itself in order around a fork (it registers for it)."""


def preload() -> None:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # else numpy starts threads; nothing here needs them
    for module in PRELOADED:
        importlib.import_module(module)
    others = _other_threads() - SAFE_THREADS
    if others:
        raise SystemExit(f"threads run in the daemon, a fork of it might hang: {', '.join(sorted(others))}")
    gc.collect()
    gc.freeze()


def _other_threads() -> set[str]:
    """The names of all threads of this process but the first."""
    own = str(os.getpid())
    tasks = Path("/proc/self/task")
    return {(task / "comm").read_text().strip() for task in tasks.iterdir() if task.name != own}


if __name__ == "__main__":
    if sys.argv[1:] == [TASK_WORKER]:
        preload()
    from pyspark.daemon import manager

    manager()
