"""The API of a running node, as commands use it."""

from __future__ import annotations

import http.client
import json
from typing import Any, Final

from bridgehead.errors import CommandError, NotRunningError
from bridgehead.settings.model import Settings

ANSWER_WITHIN: Final = 60.0


class NodeApi:
    """Asks the console of the node that these settings describe."""

    def __init__(self, settings: Settings) -> None:
        host = settings.console.host
        self._host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)
        self._port = settings.console.port
        self._token = settings.console.token

    def get(self, path: str) -> Any:
        return self._ask("GET", path, None)

    def post(self, path: str, body: dict[str, Any], *, within: float = ANSWER_WITHIN) -> Any:
        return self._ask("POST", path, body, within)

    def put(self, path: str, body: dict[str, Any], *, within: float = ANSWER_WITHIN) -> Any:
        return self._ask("PUT", path, body, within)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None, within: float = ANSWER_WITHIN) -> Any:
        """The answer; NotRunningError if nobody listens there, CommandError with the node's words if it refuses."""
        connection = http.client.HTTPConnection(self._host, self._port, timeout=within)
        try:
            data = json.dumps(body).encode() if body is not None else None
            headers = {"Content-Type": "application/json"} if data is not None else {}
            if self._token is not None:
                headers["Authorization"] = f"Bearer {self._token.get_secret_value()}"
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            text = answer.read()
        except ConnectionRefusedError:
            raise NotRunningError(f"no node answers on {self._host}:{self._port}") from None
        except (OSError, http.client.HTTPException) as error:
            raise CommandError(f"the node on {self._host}:{self._port} does not answer: {error}") from error
        finally:
            connection.close()
        try:
            found = json.loads(text)
        except ValueError:
            raise CommandError(f"what answers on {self._host}:{self._port} is not a node") from None
        if answer.status >= 400:
            detail = found.get("detail") if isinstance(found, dict) else None
            raise CommandError(f"the node refused: {detail or answer.reason}")
        return found
