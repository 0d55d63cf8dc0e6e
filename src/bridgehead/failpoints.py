"""Named moments at which a process of ours can be made to die, for those who prove that nothing is lost when it does.

Nothing happens unless the environment names a directory. There, a file with the name of a point arms it: whoever passes the
point first takes the file away, writes its name down and is gone as by ``kill -9``. One file, one death.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Final

VARIABLE: Final = "BRIDGEHEAD_FAILPOINTS"
HITS: Final = "hits"
"""The file in that directory to which each death adds a line: the point and the process."""

POINTS: Final = (
    "worker.read",  # rows are read, nothing of them is staged
    "worker.staged",  # a part is staged, the task has not finished
    "driver.commit",  # all is staged, the commit is not asked for
    "driver.committed",  # the commit is done, Spark's checkpoint does not know
    "driver.release",  # the batch is over, its rows are not let go
    "node.read",  # a range is asked for
    "node.staged",  # a part has come
    "node.commit",  # the commit has come, nothing is written
    "node.committed",  # it is written, not synced, and not answered
    "node.trimmed",  # rows that were let go are deleted, not synced
)

ARCHIVE_POINTS: Final = (
    "worker.archived",  # the files of a task are written, nobody has heard of them
    "driver.renamed",  # a file of a committed batch is in its place, others may not be
    "driver.published",  # all of them are, Spark's checkpoint does not know
)
"""These are passed where a route has an archive."""

_directory: Final = os.environ.get(VARIABLE)


def passing(point: str) -> None:
    """This process comes by here."""
    if _directory is not None:
        _die_if_armed(Path(_directory), point)


def _die_if_armed(directory: Path, point: str) -> None:
    try:
        (directory / point).unlink()
    except FileNotFoundError:
        return
    with (directory / HITS).open("a") as hits:
        hits.write(f"{point} {os.getpid()}\n")
    os.kill(os.getpid(), signal.SIGKILL)
