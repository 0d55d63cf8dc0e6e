"""How a pipeline and its queries are doing, as far as their node knows: for status and readiness."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from bridgehead import clock
from bridgehead.pipeline.service import Report, Service
from bridgehead.storage.journal import SHARED

Phase = Literal["stopped", "waiting", "starting", "running", "failed"]
"""waiting: the pipeline is elsewhere, and nobody holds its lease."""


@dataclass(frozen=True, slots=True)
class State:
    """How the pipeline, or one of its queries, is doing."""

    phase: Phase
    reason: str = ""
    next_attempt: float | None = None  # on the clock that never jumps


class Watch:
    """Listens to what the driver reports, wherever that runs. Used from the node's event loop."""

    def __init__(self, logs: Iterable[str], service: Service) -> None:
        self._logs = tuple(logs)
        service.on_report = self.report
        service.on_ui = self._set_ui
        self.state = State("stopped")
        self.queries: dict[str, State] = {}  # by their log
        self.starts = 0
        self.ui: str | None = None  # where Spark's own pages are, if it serves them
        self.holder: str | None = None  # who has the lease, where the pipeline is elsewhere
        self.ran_since: float | None = None  # when the running driver's shared query began to
        self.on_change: Callable[[State], None] = lambda state: None

    @property
    def ready(self) -> bool:
        """The shared query runs: rows that come now are on their way. Transforms are their users' own."""
        return self.state.phase == "running"

    def report(self, report: Report) -> None:
        """The driver says how a query is doing; the service lets only the current epoch through."""
        running = report.state == "running"
        again = None if report.pause is None else clock.monotonic() + report.pause
        state = State("running") if running else State("failed", report.reason, again)
        if self.queries.get(report.log) == state:
            return
        self.queries[report.log] = state
        if SHARED in self.queries:
            self.set(State(self.queries[SHARED].phase, self.queries[SHARED].reason))
        else:
            self.set(State("running"))  # there is no shared query, and Spark runs
        if self.ready:
            self.ran_since = self.ran_since or clock.monotonic()

    def watch(self, logs: Iterable[str]) -> None:
        """These logs have queries from now on; how the pipeline as a whole is doing stays as it was."""
        self._logs = tuple(logs)
        self.queries = {log: self.queries.get(log, State("starting")) for log in self._logs}

    def forget_queries(self, phase: Phase) -> None:
        """No query runs; why one failed stays visible until it does."""
        self.ui = None
        for log in self._logs:
            self.queries[log] = State(phase, self.queries.get(log, self.state).reason)

    def _set_ui(self, address: str) -> None:
        self.ui = address

    def set(self, state: State) -> None:
        if state != self.state:
            self.state = state
            self.on_change(state)
