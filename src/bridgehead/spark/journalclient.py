"""A reader's, and a task's, end of an embedded journal's Flight service."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic, sleep
from typing import Any, Final, TypeVar

from pyarrow import flight

from bridgehead.columns.batches import Batch
from bridgehead.errors import RefusedError
from bridgehead.pipeline.protocol import TOKEN_HEADER, pack, raise_refusal, unpack

CALL_WITHIN: Final = 90.0
"""Seconds until a call counts as failed; longer than any of them may wait for the broker."""
COMES_BACK_WITHIN: Final = 60.0
"""Seconds in which a journal that was killed is started again by its reader."""
TRY_AGAIN: Final = 0.2

T = TypeVar("T")


class JournalClient:
    """One connection. While the journal is away it is asked again; refusals come out as RefusedError."""

    def __init__(self, address: str, token: str, patience: float = COMES_BACK_WITHIN) -> None:
        self.address = address
        self.token = token
        self._patience = patience
        self._headers = [(TOKEN_HEADER.encode(), token.encode())]
        self._flight = flight.FlightClient(address)

    def reach(self) -> None:
        self._call("reach")

    def offsets(self) -> tuple[str, int, int]:
        """Incarnation, the first offset that is there, the one behind the last."""
        answer = self._call("offsets")
        return answer["incarnation"], answer["earliest"], answer["latest"]

    def catch_up(self, within: float) -> None:
        self._call("catch_up", waits=within, within=within)

    def plan(self, start: int, max_rows: int, max_bytes: int, wait: float) -> int:
        return int(self._call("plan", start=start, max_rows=max_rows, max_bytes=max_bytes, wait=wait)["end"])

    def split(self, start: int, end: int, parts: int, least: int) -> list[tuple[int, int]]:
        ranges = self._call("split", start=start, end=end, parts=parts, least=least)["ranges"]
        return [(first, last) for first, last in ranges]

    def release(self, end: int) -> None:
        self._call("release", end=end)

    def leave(self) -> None:
        """Ask it once; one that is gone has left."""
        try:
            self._ask("leave", {}, CALL_WITHIN)
        except flight.FlightError:
            return

    def read(self, incarnation: str, start: int, end: int) -> Iterator[Batch]:
        """The rows of [start, end); if the journal ends in the middle, its next life goes on where it ended."""
        deadline = monotonic() + self._patience
        while True:
            try:
                for first, batch in self._stream(incarnation, start, end):
                    yield batch
                    start, deadline = first + batch.num_rows, monotonic() + self._patience
                return
            except (flight.FlightUnavailableError, flight.FlightInternalError):
                self._wait(deadline)

    def close(self) -> None:
        self._flight.close()

    def _stream(self, incarnation: str, start: int, end: int) -> Iterator[tuple[int, Batch]]:
        ticket = flight.Ticket(pack({"incarnation": incarnation, "start": start, "end": end}))
        try:
            reader = self._flight.do_get(ticket, flight.FlightCallOptions(headers=self._headers))
            while True:
                chunk = reader.read_chunk()
                yield int(chunk.app_metadata.to_pybytes()), chunk.data
        except StopIteration:
            return
        except flight.FlightServerError as error:
            raise_refusal(error)

    def _call(self, action: str, *, waits: float = 0.0, **told: Any) -> dict[str, Any]:
        return self._patiently(lambda: self._ask(action, told, CALL_WITHIN + waits))

    def _ask(self, action: str, told: dict[str, Any], within: float) -> dict[str, Any]:
        options = flight.FlightCallOptions(timeout=within, headers=self._headers)
        try:
            answers = list(self._flight.do_action(flight.Action(action, pack(told)), options))
        except flight.FlightServerError as error:
            raise_refusal(error)
        return unpack(answers[0].body.to_pybytes())

    def _patiently(self, call: Callable[[], T]) -> T:
        """Every call may be repeated: once more and again, over new connections, while the journal may come back."""
        deadline = monotonic() + self._patience
        while True:
            try:
                return call()
            except flight.FlightUnavailableError:
                self._wait(deadline)

    def _wait(self, deadline: float) -> None:
        if monotonic() > deadline:
            raise RefusedError(f"the journal at {self.address} does not answer any more: its journal.log may say why")
        self._flight.close()
        sleep(TRY_AGAIN)
        self._flight = flight.FlightClient(self.address)
