"""A way through an HTTP proxy: CONNECT, and from its answer on the proxy passes on what is said."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import dataclass, field
from typing import cast

from bridgehead.link.http import AnswerReader, authority, request
from bridgehead.link.layer import Layer, Upper


@dataclass(frozen=True, slots=True)
class Proxy:
    """Where the proxy is, and who we are there."""

    host: str
    port: int
    username: str | None = None
    password: str | None = field(default=None, repr=False)

    def headers(self) -> dict[str, str]:
        if self.username is None:
            return {}
        known = f"{self.username}:{self.password or ''}".encode()
        return {"Proxy-Authorization": f"Basic {base64.b64encode(known).decode()}"}


class Tunnel(Layer):
    """It steps aside when the way is open: what is above then speaks with the transport below."""

    def __init__(self, upper: Upper, proxy: Proxy, host: str, port: int, within: float) -> None:
        super().__init__(upper, within)
        self._proxy = proxy
        self._target = authority(host, port)
        self._reader = AnswerReader()

    @property
    def _name(self) -> str:
        return f"the proxy {authority(self._proxy.host, self._proxy.port)}"

    def begin(self) -> None:
        headers = {"Host": self._target, **self._proxy.headers()}
        self.hand_down(request(f"CONNECT {self._target} HTTP/1.1", headers))

    def too_late(self) -> str:
        return f"{self._name} did not answer within {self._within:g} s"

    def cut_short(self) -> str:
        return f"{self._name} ended the connection before it answered"

    def arrived(self, data: memoryview) -> None:
        try:
            answer = self._reader.feed(data)
        except ValueError as error:
            self.fail(f"{self._name}: {error}")
            return
        if answer is None:
            return
        if not 200 <= answer.status < 300:
            self.fail(f"{self._name} refused the way to {self._target}: {answer}")
        elif self._reader.rest:
            self.fail(f"{self._name} said more than that the way is open")
        else:
            self._step_aside()

    def _step_aside(self) -> None:
        self._stop_waiting()
        transport, self._lower = self._lower, None
        assert transport is not None
        transport.set_protocol(cast("asyncio.BufferedProtocol", self.upper))
        self.upper.connection_made(transport)
