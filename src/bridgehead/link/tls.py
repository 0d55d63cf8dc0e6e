"""TLS as a layer: our side of the handshake, records, and what went wrong in words that say what to do about it."""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import Any, Final, cast

from bridgehead.link.layer import Layer, Upper

RECORD: Final = 16 * 1024
"""What one record carries at most. The peer can read a record only when it has all of it."""

_NOT_TRUSTED: Final = {18, 19, 20, 21, 24}  # X509_V_ERR: self-signed, no issuer found, none of the chain verified, no authority
_NOT_YET, _EXPIRED, _OTHER_NAME, _OTHER_ADDRESS = 9, 10, 62, 64

_ALERTS: Final = {
    "CERTIFICATE_REQUIRED": "the remote wants a client certificate (certFile, keyFile)",
    "BAD_CERTIFICATE": "the remote does not accept our client certificate",
    "UNKNOWN_CA": "the remote does not trust the authority of our client certificate",
    "CERTIFICATE_EXPIRED": "our client certificate has expired",
    "CERTIFICATE_UNKNOWN": "the remote does not accept our client certificate",
    "CERTIFICATE_REVOKED": "our client certificate has been revoked",
    "PROTOCOL_VERSION": "the remote speaks none of the protocol versions that we may (protocols)",
    "UNSUPPORTED_PROTOCOL": "the remote speaks none of the protocol versions that we may (protocols)",
    "HANDSHAKE_FAILURE": "the remote refused the handshake: it may want a client certificate (certFile, keyFile), or other "
    "cipherSuites",
    "UNRECOGNIZED_NAME": "the remote knows no host of this name",
    "WRONG_VERSION_NUMBER": "what the remote answered is not TLS",
}


def explain(error: ssl.SSLError, host: str) -> str:
    """What went wrong, as the user who has to repair it would say it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        text = _certificate(error, host)
    else:
        reason = error.reason or ""
        text = next((text for end, text in _ALERTS.items() if reason.endswith(end)), "")
    detail = getattr(error, "verify_message", "") or (error.reason or "").lower().replace("_", " ") or str(error)
    return f"TLS: {text} ({detail})" if text else f"TLS: {detail}"


def _certificate(error: ssl.SSLCertVerificationError, host: str) -> str:
    match error.verify_code:
        case code if code in _NOT_TRUSTED:
            return f"the certificate of {host} comes from no authority that we trust (caFile)"
        case code if code == _EXPIRED:
            return f"the certificate of {host} has expired"
        case code if code == _NOT_YET:
            return f"the certificate of {host} is not valid yet"
        case code if code in (_OTHER_NAME, _OTHER_ADDRESS):
            return f"the certificate is not for {host} (verifyHostname)"
    return f"the certificate of {host} cannot be verified"


class TlsLayer(Layer):
    """The client's side."""

    def __init__(self, upper: Upper, context: ssl.SSLContext, host: str, within: float, *, identified: bool) -> None:
        """``identified``: the context has a client certificate."""
        super().__init__(upper, within)
        self._host = host
        self._identified = identified
        self._answered = False  # something has come since the handshake
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)

    def begin(self) -> None:
        self._shake_hands()

    def too_late(self) -> str:
        return f"TLS: the handshake with {self._host} was not over within {self._within:g} s (handshakeTimeout)"

    def cut_short(self) -> str:
        return f"TLS: {self._host} ended the connection during the handshake"

    def _shake_hands(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
        except ssl.SSLError as error:
            self._flush()  # the alert that tells the peer
            self._failed(error)
        else:
            self._flush()
            self.stand()
            self.read_on()

    def arrived(self, data: memoryview) -> None:
        self._incoming.write(data)
        if self.standing:
            self.read_on()
        else:
            self._shake_hands()

    def eof_received(self) -> None:
        self._incoming.write_eof()
        super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """With TLS 1.3 our handshake is over before the peer has seen our certificate; its alert may drown in a reset."""
        if self.standing and not self._answered and isinstance(exc, ConnectionError) and self._tls.version() == "TLSv1.3":
            text = _ALERTS["BAD_CERTIFICATE" if self._identified else "CERTIFICATE_REQUIRED"]
            self.fail(f"TLS: {text}, it seems: it broke the connection right after the handshake")
        super().connection_lost(exc)

    def read_on(self) -> None:
        """Decrypt into the buffer of whoever is above, as much at once as there is."""
        more = True
        while more and not (self.paused or self.is_closing()):
            more = self._read_some()
        self._flush()  # an answer that belongs to TLS itself

    def _read_some(self) -> bool:
        """Whether there may be more."""
        buffer = self.upper.get_buffer(-1)
        filled = 0
        try:
            while filled < len(buffer):
                count = self._read(buffer[filled:])
                if not count:
                    self._hand_up(filled)
                    self.peer_ended()
                    return False
                filled += count
        except ssl.SSLWantReadError:
            self._hand_up(filled)
            return False
        except ssl.SSLError as error:
            self._hand_up(filled)
            self._failed(error)
            return False
        self._hand_up(filled)
        return True

    def _read(self, buffer: memoryview) -> int:
        """0: the peer has said the end."""
        try:
            return cast(int, self._tls.read(len(buffer), buffer))
        except ssl.SSLZeroReturnError:  # that is how it is told to whoever has said it first
            return 0

    def _hand_up(self, filled: int) -> None:
        if filled:
            self._answered = True
            self.upper.buffer_updated(filled)

    def write(self, data: Any) -> None:
        view = memoryview(data).cast("B")
        if self.ending:
            self.throw_away(len(view))
            return
        for start in range(0, len(view), RECORD):
            self._tls.write(view[start : start + RECORD])
            self._flush(min(RECORD, len(view) - start))

    def _flush(self, carries: int = 0) -> None:
        if self._outgoing.pending:
            self.hand_down(self._outgoing.read(), carries)

    def write_eof(self) -> None:
        """Without our word the peer would have to take the end for a cut. What has come before is read first."""
        if self.standing:
            self.read_on()
        self._say_the_end()
        super().write_eof()

    def close(self) -> None:
        self._say_the_end()
        super().close()

    def _say_the_end(self) -> None:
        if self.standing and not self.is_closing():
            with suppress(ssl.SSLError):  # it waits for the peer's word, or the conversation is broken: ours is said
                self._tls.unwrap()
            self._flush()

    def _failed(self, error: ssl.SSLError) -> None:
        self.fail(explain(error, self._host))
