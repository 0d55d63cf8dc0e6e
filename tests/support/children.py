"""Processes that a test starts end with its process, however that ends: also when somebody kills it.

The kernel kills a child when the thread ends that has started it. So one thread starts them all, and it ends with the process.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from bridgehead.pipeline.leash import hold

_starter = ThreadPoolExecutor(1, thread_name_prefix="starter")


def start(command: Sequence[str], **given: Any) -> subprocess.Popen[bytes]:
    """As ``Popen``."""
    held = partial(hold, os.getpid())
    return _starter.submit(subprocess.Popen[bytes], command, preexec_fn=held, **given).result()
