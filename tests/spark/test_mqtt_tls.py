"""``mqtts://``: the reader's journal and the writer's tasks prove who the broker is, and who they are themselves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from bridgehead.errors import RefusedError, SettingsError
from bridgehead.spark.broker import BrokerWay
from bridgehead.spark.brokerreader import BrokerReader
from bridgehead.spark.brokerwriter import write_rows
from bridgehead.spark.options import Sink, Source, parse
from making.certificates import Authority
from support.mosquitto import Mosquitto

pytestmark = pytest.mark.mosquitto


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[Mosquitto]:
    """One that takes only clients whose certificate the authority has signed."""
    cert, key = authority.vouch("broker", "127.0.0.1")
    mosquitto = Mosquitto(
        tmp_path_factory.mktemp("mosquitto"), cafile=authority.cert, certfile=cert, keyfile=key, require_certificate="true"
    ).start()
    yield mosquitto
    mosquitto.stop()


@pytest.fixture
def options(broker: Mosquitto, authority: Authority) -> dict[str, str]:
    cert, key = authority.vouch("client", "127.0.0.1")
    return {
        "url": f"mqtts://127.0.0.1:{broker.port}",
        "caFile": str(authority.cert),
        "certFile": str(cert),
        "keyFile": str(key),
    }


def test_what_is_published_with_tls_is_read_with_tls(options: dict[str, str], tmp_path: Path) -> None:
    reader = BrokerReader(parse(Source, {**options, "topics": "t", "clientId": "tls", "journalDir": str(tmp_path)}))
    reader.partitions()  # the broker knows the session from here on
    payloads = [str(n) * 5000 for n in range(50)]
    batch = pa.RecordBatch.from_pydict({"topic": ["t"] * 50, "payload": payloads})
    assert write_rows(parse(Sink, options), iter([batch]), "q:0:0").messages == 50
    found = [row for part in reader.partitions() for each in reader.read(part) for row in each.column("payload").to_pylist()]
    assert found == [payload.encode() for payload in payloads]


def test_a_broker_that_nobody_vouches_for_is_refused(options: dict[str, str], tmp_path: Path) -> None:
    other = Authority(tmp_path)
    batch = pa.RecordBatch.from_pydict({"topic": ["t"], "payload": ["x"]})
    with pytest.raises(RefusedError, match="no authority that we trust"):
        write_rows(parse(Sink, {**options, "caFile": str(other.cert), "giveUpAfter": "2"}), iter([batch]), "q:0:0")


def test_files_that_cannot_be_used_are_named_before_anything_runs(options: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as refused:
        BrokerWay().stream_reader(
            {**options, "topics": "t", "clientId": "c", "caFile": str(tmp_path / "none"), "certFile": str(tmp_path)}
        )
    assert [name for name, _ in refused.value.faults] == ["caFile", "certFile"]
