"""From settings to the two ends of Flight: where a node's service listens."""

from __future__ import annotations

from pathlib import Path

from bridgehead.errors import StartError
from bridgehead.pipeline.entrance import Entrance
from bridgehead.settings.pipeline import Flight


def entrance(flight: Flight) -> Entrance:
    """Where the Flight service of a node listens; StartError if a certificate cannot be read."""
    return Entrance(
        host=flight.host,
        port=flight.port,
        advertise=flight.advertise,
        token=None if flight.token is None else flight.token.get_secret_value(),
        cert=None if flight.tls is None else pem("pipeline.flight.tls.certFile", flight.tls.cert_file),
        key=None if flight.tls is None else pem("pipeline.flight.tls.keyFile", flight.tls.key_file),
        client_ca=None if flight.tls is None else pem("pipeline.flight.tls.clientCaFile", flight.tls.client_ca_file),
    )


def pem(setting: str, path: Path | None) -> str | None:
    """What is in a certificate's file; None where none is given."""
    if path is None:
        return None
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise StartError(f"{setting}: {path} cannot be read: {error}") from error
