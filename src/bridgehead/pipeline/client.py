"""The Spark side's end of the Flight service: used by source, tasks and driver, one connection a process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final, TypeVar

import pyarrow as pa
from pyarrow import flight

from bridgehead.columns.batches import Batch
from bridgehead.columns.schema import OUTBOX, WIRE
from bridgehead.failpoints import passing
from bridgehead.pipeline.access import Access, access_to
from bridgehead.pipeline.protocol import TOKEN_HEADER, Action, Form, Planned, pack, raise_refusal, unpack

CALL_PATIENCE: Final = 60.0
"""Seconds until a call counts as failed: a node that is silent that long is gone, or our end soon will be."""

T = TypeVar("T")


class NodeClient:
    """Speaks for one epoch to one node.

    Refusals come out as RefusedError and StaleEpochError, all else as Flight's errors.
    """

    def __init__(self, access: Access, epoch: int, patience: float = CALL_PATIENCE) -> None:
        self._access = access
        self._epoch = epoch
        self._options = flight.FlightCallOptions(
            timeout=patience, headers=[(TOKEN_HEADER.encode(), access.token.encode())]
        )
        self._flight = access.connect()

    def lease(self, holder: str, epoch: int | None) -> dict[str, Any]:
        """Take the lease of the node, or renew the one with this epoch; RefusedError while somebody else holds it."""
        return self._call(Action.LEASE, holder=holder, epoch=epoch)

    def give_up(self, holder: str, epoch: int, wait: float) -> None:
        """End the lease, after up to so many seconds in which running batches may end."""
        self._call(Action.GIVE_UP, holder=holder, epoch=epoch, wait=wait)

    def begin(self, log: str, *, anew: bool = False, ui: str | None = None) -> tuple[str, int]:
        """The incarnation of the offsets, and where to start; ``anew``: a query that has no checkpoint.

        ``ui``: where Spark's own pages are.
        """
        answer = self._call(Action.BEGIN, log=log, anew=anew, ui=ui)
        return answer["incarnation"], answer["offset"]

    def idle(self, log: str) -> int | None:
        """The node's time in milliseconds, if every message that came up to it has become outbox rows."""
        found = self._call(Action.IDLE, log=log)["now"]
        return None if found is None else int(found)

    def latest(self, log: str, start: int, max_rows: int, max_bytes: int, wait: float) -> int:
        """Where a batch from ``start`` would end; waits up to ``wait`` seconds for a first row."""
        answer = self._call(Action.LATEST, log=log, start=start, max_rows=max_rows, max_bytes=max_bytes, wait=wait)
        return int(answer["offset"])

    def plan(self, log: str, start: int, end: int) -> None:
        self._call(Action.PLAN, log=log, start=start, end=end)

    def planned(self, log: str) -> Planned:
        """What the running batch takes in."""
        return Planned(**self._call(Action.PLANNED, log=log))

    def finish(self, log: str, start: int, end: int, parts: list[dict[str, Any]]) -> None:
        """This task has staged everything of its range, as these parts."""
        self._call(Action.FINISH, log=log, start=start, end=end, parts=parts)

    def commit(
        self,
        log: str,
        start: int,
        end: int,
        parts: list[dict[str, Any]] | None = None,
        batch: tuple[str, int] | None = None,
        archived: dict[str, Any] | None = None,
    ) -> bool:
        """Make staged parts outbox rows: these, or by default those of the tasks that finished the range.

        ``batch``: query and number of a batch whose rows a query with a memory has made; they name it better than its range.
        ``archived``: the files of the batch, which belong to its archive with this commit.
        """
        of = {"log": log, "start": start, "end": end}
        passing("driver.commit")
        answer = self._call(Action.COMMIT, **of, parts=parts, batch=batch, archived=archived)
        passing("driver.committed")
        return bool(answer["moved"])

    def archived(self, log: str) -> dict[str, Any] | None:
        """The files that the last commit with files has named."""
        found: dict[str, Any] | None = self._call(Action.ARCHIVED, log=log)["archived"]
        return found

    def release(self, log: str, end: int) -> None:
        passing("driver.release")
        self._call(Action.RELEASE, log=log, end=end)

    def report(self, log: str, state: str, reason: str = "", pause: float | None = None) -> None:
        self._call(Action.REPORT, log=log, state=state, reason=reason, pause=pause)

    def read_messages(self, incarnation: str, log: str, start: int, end: int) -> Iterator[Batch]:
        """The rows of [start, end) as the message table."""
        for chunk in self._read(Form.MESSAGES, incarnation, log, start, end):
            yield chunk.data

    def read_routed(
        self, incarnation: str, log: str, start: int, end: int, *, clients: bool = False
    ) -> Iterator[tuple[int, Batch]]:
        """The rows of [start, end) with what the rules need, each batch with the offset of its first row."""
        for chunk in self._read(Form.CLIENTS if clients else Form.ROUTED, incarnation, log, start, end):
            yield int(chunk.app_metadata.to_pybytes()), chunk.data

    def stage(self, log: str, part: str, rows: Mapping[str, Batch]) -> None:
        """OUTBOX rows by route: all of them are one part."""
        routed = [(route.encode(), batch) for route, batch in rows.items()]
        self._put({"epoch": self._epoch, "log": log, "part": part}, routed, OUTBOX)

    def _put(self, told: dict[str, Any], batches: list[tuple[bytes, Batch]], schema: pa.Schema) -> None:
        def put() -> None:
            descriptor = flight.FlightDescriptor.for_command(pack(told))
            writer, _ = self._flight.do_put(descriptor, schema, options=self._options)
            try:
                for said, batch in batches:
                    writer.write_with_metadata(batch, said)
            finally:
                writer.close()

        self._try_twice(put)

    def stage_submission(self, app: str, version: int, part: str, batches: list[Batch]) -> None:
        """Messages of one batch of a query, to be published into the node by ``submit``."""
        self._put({"app": app, "version": version, "part": part}, [(b"", batch) for batch in batches], WIRE)

    def submit(self, app: str, version: int, parts: list[dict[str, Any]], client: str) -> bool | None:
        """True if they are published now, False if they were before, None while there is no room."""
        published: bool | None = self._call(Action.SUBMIT, app=app, version=version, parts=parts, client=client)["published"]
        return published

    def abort(self, app: str, version: int) -> None:
        self._call(Action.ABORT, app=app, version=version)

    def close(self) -> None:
        self._flight.close()

    def _read(self, form: Form, incarnation: str, log: str, start: int, end: int, **more: Any) -> Iterator[Any]:
        asked = {"epoch": self._epoch, "incarnation": incarnation, "log": log, "start": start, "end": end, "form": form}
        ticket = flight.Ticket(pack({**asked, **more}))
        reader = self._try_twice(lambda: self._flight.do_get(ticket, options=self._options))
        while True:
            try:
                chunk = reader.read_chunk()
            except StopIteration:
                return
            except flight.FlightError as error:
                raise_refusal(error)
            yield chunk

    # -- for those who only look ----------------------------------------------------------------------------------------

    def offsets(self, time_us: int | None = None, **wanted: str) -> dict[str, Any]:
        """What there is to read again of the wanted logs (by log, route or bridge; of all, if nothing is said)."""
        return self._call(Action.OFFSETS, time=time_us, **wanted)

    def ahead(
        self, incarnation: str, starts: dict[str, int], max_rows: int, max_bytes: int, wait: float, *, lossy: bool
    ) -> dict[str, int]:
        """Where a batch from these offsets would end, by log."""
        told = {"incarnation": incarnation, "starts": starts, "max_rows": max_rows, "max_bytes": max_bytes, "lossy": lossy}
        ends: dict[str, int] = self._call(Action.AHEAD, **told, wait=wait)["ends"]
        return ends

    def read_again(
        self, incarnation: str, log: str, start: int, end: int, routes: list[str] | None, *, lossy: bool
    ) -> Iterator[Batch]:
        """The rows of [start, end) as the message table."""
        for chunk in self._read(Form.AGAIN, incarnation, log, start, end, routes=routes, lossy=lossy):
            yield chunk.data

    def _call(self, action: Action, **told: Any) -> dict[str, Any]:
        request = flight.Action(action.value, pack({"epoch": self._epoch, **told}))

        def ask() -> dict[str, Any]:
            answers = list(self._flight.do_action(request, options=self._options))
            return unpack(answers[0].body.to_pybytes())

        return self._try_twice(ask)

    def _try_twice(self, call: Callable[[], T]) -> T:
        """Every call may be repeated (ranges and part names make it so): once more, over a new connection."""
        try:
            return call()
        except flight.FlightUnavailableError:
            self._flight.close()
            self._flight = self._access.connect()
        except (flight.FlightError, pa.ArrowException) as error:
            _raise(error)
        try:
            return call()
        except (flight.FlightError, pa.ArrowException) as error:
            _raise(error)
            raise


def _raise(error: Exception) -> None:
    if isinstance(error, flight.FlightError):
        raise_refusal(error)
    raise error


@cache
def node_client(address: str, epoch: int) -> NodeClient:
    """The client of this process; the token comes from the environment, never from a plan that Spark may print."""
    return NodeClient(access_to(address), epoch)


GUEST: Final = 0
"""The epoch of those who only look, or publish: no driver ever has it."""


@cache
def guest_client(access: Access) -> NodeClient:
    """The client of this process for a node that is not its own."""
    return NodeClient(access, GUEST)
