"""Keeps one query running: starts it, waits for its end, starts it again with back-off. One thread each.

Queries do not know each other: what one user's transform does wrong costs that transform, and nobody else.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
import tempfile
import threading
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from pyarrow import flight

from bridgehead import clock
from bridgehead.errors import ArchiveError, RefusedError, StaleEpochError, TransformError
from bridgehead.pipeline.archive.compaction import Compactor
from bridgehead.pipeline.archive.desk import ArchiveDesk
from bridgehead.pipeline.archive.housekeeping import Housekeeping
from bridgehead.pipeline.archive.landing import Landing
from bridgehead.pipeline.archive.loading import LoadingDesk
from bridgehead.pipeline.archive.spec import ArchiveSpec
from bridgehead.pipeline.client import NodeClient
from bridgehead.pipeline.jobconfig import JobConfig, QueryConfig
from bridgehead.pipeline.passingtime import LOOK_EVERY, PassingTime
from bridgehead.pipeline.usercode import text_of

FIRST_PAUSE: Final = 0.2
LONGEST_PAUSE: Final = 10.0
"""Seconds between two starts of a query that fails, doubling from the first to the longest."""

LONGEST_PAUSE_OF_A_TRANSFORM: Final = 60.0
"""A user's bug does not go away by trying: each try costs some seconds of CPU time."""

STARTS_LOOK: Final = 0.05
"""Seconds between two looks at a query that starts."""

RAN_WELL: Final = 10.0
"""A query that ran so many seconds had a good start: the next pause is the first again."""

_CAUSE: Final = re.compile(r"[\w.]+(Error|Exception|Refused): .")
"""The line of a traceback that names the exception."""

_OWN: Final = f"{ArchiveError.__module__}."
_WRAPPER: Final = "PythonException: An exception was thrown from the Python worker"
"""What a worker raised stands behind this line."""


class QueryRunner:
    """The life of one query, until the driver ends."""

    def __init__(
        self,
        spark: Any,
        config: JobConfig,
        query: QueryConfig,
        tasks: int,
        node: NodeClient,
        work_dir: Path,
        starting: threading.Lock,
    ) -> None:
        """``starting``: held while a query starts, since each takes seconds of every core there is; one after the other is
        sooner there.
        """
        self._spark = spark
        self._config = config
        self._query = query
        self._tasks = tasks
        self._node = node
        self._work_dir = work_dir
        self._starting = starting
        self._ended = threading.Event()
        self._housekeeping = _housekeeping(query.archive)

    def start(self) -> None:
        threading.Thread(target=self._run, name=self._query.log, daemon=True).start()

    def end(self) -> None:
        """Start nothing again."""
        self._ended.set()
        if self._housekeeping is not None:
            self._housekeeping.end()

    def _run(self) -> None:
        pause = FIRST_PAUSE
        longest = LONGEST_PAUSE if self._query.transform is None else LONGEST_PAUSE_OF_A_TRANSFORM
        while not self._ended.is_set():
            started = clock.monotonic()
            reason = self._run_once()
            if self._ended.is_set():
                return
            if StaleEpochError.__name__ in reason:
                return  # our time is over; whoever gave us this job knows, or has a new one for us
            if clock.monotonic() - started >= RAN_WELL:
                pause = FIRST_PAUSE
            self._tell(reason, pause)
            self._ended.wait(pause)
            pause = min(pause * 2, longest)

    def _tell(self, reason: str, pause: float) -> None:
        try:
            self._node.report(self._query.log, "failed", reason, pause)
        except (RefusedError, flight.FlightError) as error:
            # The node is away, which may be the reason itself: its rows wait there.
            print(f"{self._query.log}: {reason}; and the node does not hear it: {error}", file=sys.stderr, flush=True)

    def _run_once(self) -> str:
        """Run the query to its end; why it ended."""
        try:
            with self._starting:
                query, passing = self._start()
                while query.isActive and query.status["message"].startswith("Initializing"):
                    self._ended.wait(STARTS_LOOK)
            if passing is None:
                query.awaitTermination()
            while passing is not None and not query.awaitTermination(LOOK_EVERY):
                passing.look()
        except Exception as error:
            return reason_of(error)
        return "the query ended"

    def _start(self) -> tuple[Any, PassingTime | None]:
        """The query, and what moves its time on where that is known."""
        from bridgehead.pipeline import query, sparkconf, transformquery

        incarnation, _ = self._node.begin(self._query.log, ui=self._spark.sparkContext.uiWebUrl)
        if self._query.transform is not None or self._query.archive is not None:
            session = transformquery.session_of(self._spark)
            result = transformquery.made(session, self._config, self._query, self._tasks)
            checkpoint = self._kept_checkpoint(incarnation) if result.has_memory else self._new_checkpoint()
            archive = self._archive(session, incarnation, result.frame.schema)
            lander = transformquery.Lander(
                session, self._config, self._query, result, self._tasks, self._node, incarnation, archive
            )
            started = lander.start(checkpoint)
            if result.lateness is None or not result.has_memory:
                return started, None
            return started, PassingTime(started, self._node, self._query.log, result.lateness)
        args = self._spark, self._config, self._query, self._tasks, self._new_checkpoint()
        if self._config.conf.get(sparkconf.MESSAGES_CONF) == "true":
            return query.start_messages(*args, self._node), None
        return query.start_scan(*args), None

    def _archive(self, session: Any, life: str, schema: Any) -> Landing | None:
        """The archive of this query, brought to where the last commit is."""
        spec = self._query.archive
        if spec is None:
            return None
        desk = ArchiveDesk(spec, life) if spec.is_parquet else LoadingDesk(spec, life, session, schema)
        if self._housekeeping is not None:
            desk.on_published = self._housekeeping.published
        landing = Landing(desk, self._node, self._query.log)
        landing.recover()
        if self._housekeeping is not None:
            self._housekeeping.start()
        return landing

    def _new_checkpoint(self) -> str:
        """For a query that begins at the consumed offset: what an earlier one wrote down means nothing to it."""
        return tempfile.mkdtemp(prefix=f"{self._config.epoch}-", dir=self._work_dir / "checkpoints")

    def _kept_checkpoint(self, incarnation: str) -> str:
        """For a query with a memory: of these offsets, and of this transform. That of any other means nothing to it."""
        assert self._query.transform is not None
        definition = json.dumps([text_of(self._query.transform), asdict(self._query.transform)], sort_keys=True)
        name = f"{incarnation}-{hashlib.sha256(definition.encode()).hexdigest()[:12]}"
        if self._config.checkpoint is not None:
            return f"{self._config.checkpoint.rstrip('/')}/{self._query.log}/{name}"
        home = Path(self._config.data_dir) / "spark-checkpoints" / self._query.log
        home.mkdir(parents=True, exist_ok=True)
        for other in home.iterdir():
            if other.name != name:
                shutil.rmtree(other, ignore_errors=True)
        return str(home / name)


def _housekeeping(spec: ArchiveSpec | None) -> Housekeeping | None:
    return Housekeeping(Compactor(spec)) if spec is not None and spec.is_parquet else None


def reason_of(error: Exception) -> str:
    """One line that says why: our own error, or the root of a Python traceback, inside Spark's text; else the first line."""
    print("".join(traceback.format_exception(error)), file=sys.stderr, flush=True)
    if isinstance(error, TransformError | ArchiveError):
        return str(error)[:500]
    lines = [line.strip().removeprefix(": ") for line in f"{type(error).__name__}: {error}".splitlines()]  # py4j's
    own = (line.partition(": ")[2] for line in lines if line.startswith(_OWN))
    causes = (line for line in lines[1:] if _CAUSE.match(line) and _WRAPPER not in line)
    return next(own, next(causes, lines[0]))[:500]
