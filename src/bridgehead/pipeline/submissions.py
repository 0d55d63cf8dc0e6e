"""Rows that somebody's Spark query publishes into the node, as if a local client had: each of its batches once.

Tasks stage parts; the driver's word names the query (``app``), the batch (``version``, a number that rises), and every part.
All rows go to routes and subscribers in one write, and with them the version: what comes again with a version that is not above
it is done already. Only the last version of a query is kept, and of many queries those that were heard of last.

Parts that nobody commits give way to new ones: a commit that misses one is refused, and the batch runs again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from bridgehead.clock import now_us
from bridgehead.columns.batches import Batch, concat
from bridgehead.columns.schema import WIRE
from bridgehead.errors import RefusedError
from bridgehead.pipeline.staging import Staged
from bridgehead.storage.engine import Changes, Engine, synced
from bridgehead.wire.topicnames import valid_topic

SUBMITTED: Final = "submitted"
"""The state under (SUBMITTED, app) is the last version of this app, and when it came."""

MAX_APPS: Final = 10_000
"""Beyond these, the one that was silent for longest is forgotten."""

MAX_SUBMITTED_BYTES: Final = 256 << 20
"""Of all that is staged and not committed; so also of one batch."""

Publish = Callable[[Batch, str, Callable[[Changes], None]], bool]
"""Rows of WIRE form, whose they are, and what is to be true with them: all in one write, or False if there is no room."""


@dataclass(frozen=True, slots=True)
class Submission:
    """One batch of one query."""

    app: str
    version: int


class Submissions:
    """Used from the node's event loop only; the Flight service brings its calls there."""

    def __init__(self, engine: Engine, publish: Publish, max_bytes: int) -> None:
        self._engine = engine
        self._publish = publish
        self._max_bytes = max_bytes
        self._staged: dict[Submission, dict[str, Staged]] = {}  # those that were begun last come last
        known = {name[1]: state for name, state in engine.states((SUBMITTED,))}
        self._known: dict[str, int] = {app: known[app]["version"] for app in sorted(known, key=lambda app: known[app]["at"])}

    async def stage(self, told: dict[str, Any], staged: Staged) -> None:
        """Keep a task's rows until the commit; a task that runs again replaces its part."""
        submission = Submission(str(told["app"]), int(told["version"]))
        if self._is_done(submission):
            return
        parts = self._staged.setdefault(submission, {})
        parts.pop(told["part"], None)
        if _size(parts) + staged.size > self._max_bytes:
            del self._staged[submission]
            raise RefusedError(f"one batch of {submission.app} brings more than {self._max_bytes} bytes: let it be smaller")
        parts[told["part"]] = staged
        self._let_go_of_others(submission)

    def _let_go_of_others(self, last: Submission) -> None:
        for other in [each for each in self._staged if each.app == last.app and each.version < last.version]:
            del self._staged[other]
        while sum(map(_size, self._staged.values())) > self._max_bytes:
            del self._staged[next(each for each in self._staged if each != last)]

    async def commit(self, told: dict[str, Any]) -> dict[str, Any]:
        """Publish the parts: True when all of it is safe, False if it was before, None while there is no room."""
        submission = Submission(str(told["app"]), int(told["version"]))
        if self._is_done(submission):
            self._staged.pop(submission, None)
            await synced(self._engine)
            return {"published": False}
        rows = list(self._announced(submission, told["parts"]))
        if not self._publish_once(submission, rows, str(told["client"])):
            return {"published": None}
        self._staged.pop(submission, None)
        await synced(self._engine)
        return {"published": True}

    async def abort(self, told: dict[str, Any]) -> dict[str, Any]:
        self._staged.pop(Submission(str(told["app"]), int(told["version"])), None)
        return {}

    def _announced(self, submission: Submission, parts: Iterable[dict[str, Any]]) -> Iterable[Batch]:
        staged = self._staged.get(submission, {})
        for part in parts:
            found = staged.get(part["name"])
            if found is None:
                raise RefusedError(f"part {part['name']} of {submission.app} is not here: the batch has to run again")
            if (found.rows, found.checksum) != (part["rows"], part["checksum"]):
                raise RefusedError(f"part {part['name']} of {submission.app} is not what was announced")
            yield from found.batches

    def _publish_once(self, submission: Submission, rows: list[Batch], client: str) -> bool:
        def note(changes: Changes) -> None:
            changes.state[SUBMITTED, submission.app] = {"version": submission.version, "at": now_us()}
            self._known.pop(submission.app, None)
            self._known[submission.app] = submission.version
            while len(self._known) > MAX_APPS:
                silent = next(iter(self._known))
                del self._known[silent]
                changes.state[SUBMITTED, silent] = None

        if rows:
            return self._publish(concat(rows), client, note)
        changes = Changes()
        note(changes)
        self._engine.write(changes)
        return True

    def _is_done(self, submission: Submission) -> bool:
        return submission.version <= self._known.get(submission.app, -1)


def _size(parts: dict[str, Staged]) -> int:
    return sum(part.size for part in parts.values())


def must_be_messages(batches: list[Batch]) -> None:
    """What no client could have published is refused."""
    for batch in batches:
        if batch.schema != WIRE:
            raise RefusedError("a part has the schema of messages")
        for name in ("topic", "payload", "qos", "retain", "user_properties"):
            if batch.column(name).null_count:
                raise RefusedError(f"a row has no {name}")
        if any(not valid_topic(topic) for topic in pc.unique(batch.column("topic")).to_pylist()):
            raise RefusedError("a row has a topic that cannot be published to")
        if not pc.all(pc.is_in(batch.column("qos"), pa.array([0, 1, 2], pa.int32()))).as_py() and batch.num_rows:
            raise RefusedError("a row has a qos that is not 0, 1 or 2")
