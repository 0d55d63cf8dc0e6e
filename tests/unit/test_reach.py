"""From settings to the two ends of Flight."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridgehead.errors import StartError
from bridgehead.pipeline.access import Access
from bridgehead.reach import accesses, entrance
from bridgehead.settings import from_document
from bridgehead.settings.pipeline import Pipeline


def pipeline(**given: object) -> Pipeline:
    return from_document({"pipeline": given}).pipeline


def test_a_pipeline_reaches_each_of_its_nodes_as_its_file_says(tmp_path: Path) -> None:
    for name in ("ca", "cert", "key"):
        (tmp_path / name).write_text(f"pem of {name}")
    own = {"certFile": str(tmp_path / "cert"), "keyFile": str(tmp_path / "key")}
    nodes = [
        {"address": "127.0.0.1:8815", "token": "one"},
        {"address": "plant:8815", "token": "two", "caFile": str(tmp_path / "ca"), **own},
        {"address": "grpc+tls://other:8816", "token": "three"},
    ]
    assert accesses(pipeline(nodes=nodes)) == [
        Access("grpc://127.0.0.1:8815", "one"),
        Access("grpc+tls://plant:8815", "two", "pem of ca", "pem of cert", "pem of key"),
        Access("grpc+tls://other:8816", "three"),
    ]


def test_without_nodes_it_is_the_node_of_the_same_file() -> None:
    flight = {"port": 8815, "token": "t"}
    assert accesses(pipeline(external=True, flight=flight)) == [Access("grpc://127.0.0.1:8815", "t")]
    with pytest.raises(StartError, match=r"pipeline\.nodes"):
        accesses(pipeline())


def test_a_certificate_that_is_not_there_is_named(tmp_path: Path) -> None:
    tls = {"certFile": str(tmp_path / "none.pem"), "keyFile": "k.pem"}
    with pytest.raises(StartError, match=r"pipeline\.flight\.tls\.certFile: .*none\.pem cannot be read"):
        entrance(pipeline(flight={"tls": tls}).flight)
    with pytest.raises(StartError, match=r"pipeline\.nodes\[0\]\.caFile"):
        accesses(pipeline(nodes=[{"address": "p:1", "token": "t", "caFile": str(tmp_path / "none.pem")}]))
