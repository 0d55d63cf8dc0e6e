"""Two places to run the rules: a transform that changes nothing lands what the inline engine would."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pyarrow as pa
import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridgehead.columns.schema import STORED
from bridgehead.pipeline.jobconfig import TransformRule
from bridgehead.pipeline.rules import apply
from spark.conftest import START
from spark.host import Host

pytestmark = [pytest.mark.spark, pytest.mark.asyncio(loop_scope="module")]

ROUTE = "b.push.1"
PATIENCE = 120.0

text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
topics = st.text(st.characters(codec="utf-8", exclude_characters="\0+#"), min_size=1, max_size=20)
rows = st.fixed_dictionaries(
    {
        "topic": topics,
        "payload": st.binary(max_size=200),
        "qos": st.integers(0, 2),
        "retain": st.booleans(),
        "received_at": st.integers(1_500_000_000_000_000, 2_000_000_000_000_000),
        "client_id": text,
        "route": st.just(ROUTE),
        "message_expiry": st.none() | st.integers(0, 2**32 - 1),
        "payload_format": st.none() | st.integers(0, 1),
        "content_type": st.none() | text,
        "response_topic": st.none() | topics,
        "correlation_data": st.none() | st.binary(max_size=20),
        "user_properties": st.lists(st.fixed_dictionaries({"key": text, "value": text}), max_size=3),
    }
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def host(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Host]:
    host = Host(tmp_path_factory.mktemp("data"), [ROUTE], transform=TransformRule(sql="SELECT * FROM messages"))
    host.supervisor.start()
    async with asyncio.timeout(2 * START):
        await host.ready()
    yield host
    await host.close()


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(given_rows=st.lists(rows, min_size=1, max_size=200))
async def test_a_transform_that_changes_nothing_lands_what_the_inline_engine_lands(
    host: Host, given_rows: list[dict[str, Any]]
) -> None:
    stored = pa.RecordBatch.from_pylist(given_rows, schema=STORED)
    host.append(stored)
    async with asyncio.timeout(PATIENCE):
        await host.consumed()
    landed = [row for batch in host.take(ROUTE) for row in batch.to_pylist()]
    assert landed == apply(stored, host.rules[0]).to_pylist()
