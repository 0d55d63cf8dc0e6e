"""Processes that a test starts end with its process, however that ends: also when somebody kills it.

The kernel kills a child when the thread ends that has started it. So one thread starts them all, and it ends with the process.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

_ENDS_WITH_US: Final = ("setpriv", "--pdeathsig", "KILL")
"""Not a ``preexec_fn``: for that Python forks, and in the copy py4j shuts the connections of all threads that are not there,
which are ours as well."""

_starter = ThreadPoolExecutor(1, thread_name_prefix="starter")


def start(command: Sequence[str], **given: Any) -> subprocess.Popen[bytes]:
    """As ``Popen``."""
    return _starter.submit(subprocess.Popen[bytes], [*_ENDS_WITH_US, *command], **given).result()
