"""From settings to the two ends of Flight: where a node's service listens, and how a pipeline elsewhere reaches nodes."""

from __future__ import annotations

from pathlib import Path

from bridgehead.errors import StartError
from bridgehead.pipeline.access import PLAIN, TLS, Access
from bridgehead.pipeline.entrance import Entrance
from bridgehead.settings.pipeline import Flight, Pipeline, PipelineNode


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


def accesses(pipeline: Pipeline) -> list[Access]:
    """Every node that a pipeline works for: those it lists, or the one of the same file."""
    if pipeline.nodes:
        return [_access(node, f"pipeline.nodes[{index}]") for index, node in enumerate(pipeline.nodes)]
    if pipeline.flight.token is None or not pipeline.flight.port:
        raise StartError("give pipeline.nodes, or the port and the token of this file's own node in pipeline.flight")
    return [entrance(pipeline.flight).access(pipeline.flight.port, pipeline.flight.token.get_secret_value())]


def _access(node: PipelineNode, place: str) -> Access:
    return Access(
        address=f"{TLS if node.tls else PLAIN}://{node.place}",
        token=node.token.get_secret_value(),
        ca=pem(f"{place}.caFile", node.ca_file),
        cert=pem(f"{place}.certFile", node.cert_file),
        key=pem(f"{place}.keyFile", node.key_file),
    )


def pem(setting: str, path: Path | None) -> str | None:
    """What is in a certificate's file; None where none is given."""
    if path is None:
        return None
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise StartError(f"{setting}: {path} cannot be read: {error}") from error
