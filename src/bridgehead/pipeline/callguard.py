"""At the door of a Flight service: who may call, and how a refusal crosses the wire."""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from pyarrow import flight

from bridgehead.errors import RefusedError
from bridgehead.pipeline.protocol import TOKEN_HEADER, as_flight_error


class Refusals:
    """Our refusals, and calls that make no sense, as the errors that Flight carries to the other side."""

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, RefusedError):
            raise as_flight_error(error) from error
        if isinstance(error, KeyError | TypeError | ValueError):
            raise as_flight_error(RefusedError(f"a call that makes no sense: {error!r}")) from error


class TokenCheck(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Refuses every call that does not carry the token."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token.encode()

    def start_call(self, info: flight.CallInfo, headers: Mapping[str, list[str | bytes]]) -> None:
        for value in headers.get(TOKEN_HEADER, []):
            given = value if isinstance(value, bytes) else value.encode()
            if hmac.compare_digest(given, self._token):
                return
        raise flight.FlightUnauthenticatedError("this call carries no valid token")
