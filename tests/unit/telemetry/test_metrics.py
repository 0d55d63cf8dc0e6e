"""The metrics of a node: every name is documented, every documented name is there, and the values are those of the parts."""

from __future__ import annotations

import re
from pathlib import Path

import aiomqtt
import httpx
import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from bridgehead.app import Node
from bridgehead.clock import monotonic, now_us
from bridgehead.pipeline.gate import Gate
from bridgehead.storage.engine import Changes
from bridgehead.telemetry.metrics import NodeCollector
from bridgehead.telemetry.snapshot import NodeView
from bridgehead.wire.packets import Puback, Publish
from bridgehead.wire.reason import Reason
from making.house import House
from making.node import inline_node
from making.remote import Remote
from making.rows import numbered, wire_rows
from making.span import until

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"


async def families(node: Node) -> dict[str, Metric]:
    async with httpx.AsyncClient(verify=False) as client:
        answer = await client.get(f"http://127.0.0.1:{node.console_port}/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return {family.name: family for family in text_string_to_metric_families(answer.text)}


async def value(node: Node, name: str, /, **labels: str) -> float:
    """The sum of all samples of this name with these labels."""
    samples = [sample for family in (await families(node)).values() for sample in family.samples if sample.name == name]
    return sum(sample.value for sample in samples if labels.items() <= sample.labels.items())


def full_name(family: Metric) -> str:
    return {"counter": f"{family.name}_total"}.get(family.type, family.name)


async def test_what_is_exposed_is_documented_and_the_other_way_round(node: Node) -> None:
    rows = re.findall(r"^\| `(\w+)` \| (counter|gauge|histogram) \|", PAGE.read_text(), re.MULTILINE)
    exposed = {full_name(family): family.type for family in (await families(node)).values()}
    assert len(rows) == len(dict(rows))
    assert exposed == dict(rows)


async def test_labels_are_documented_and_none_is_a_topic_or_a_client(node: Node) -> None:
    known = {"bridge", "route", "direction", "log", "store", "stage", "reason", "state", "way", "le", "node", "version"}
    assert all(f"`{label}`" in PAGE.read_text() for label in known)
    node.broker.publish(wire_rows(*numbered(0, 3, topic="out/a"), {"topic": "out/no/b"}), "machine")
    for family in (await families(node)).values():
        for sample in family.samples:
            assert set(sample.labels) <= known, sample
            assert not {"out/a", "machine"} & set(sample.labels.values()), sample


async def test_a_push_is_counted_at_every_door(node: Node, remote: Remote) -> None:
    visit = await remote.accept(receive_maximum=2)
    await visit.granted()
    node.broker.publish(wire_rows(*numbered(0, 5, topic="out/a"), {"topic": "out/no/b"}, {"topic": "else"}), "machine")
    first, second = await visit.publishes(2)
    push = {"bridge": "cloud", "direction": "push"}
    assert await value(node, "bridgehead_route_received_messages_total", **push) == 6
    assert await value(node, "bridgehead_route_dropped_messages_total", **push, stage="door", reason="excluded") == 1
    assert await value(node, "bridgehead_route_in_flight_messages", **push) == 2
    assert await value(node, "bridgehead_route_outbox_messages", **push) == 5
    assert await value(node, "bridgehead_route_outbox_bytes", **push) > 0
    visit.send(Puback(first.packet_id), Puback(second.packet_id, Reason.NOT_AUTHORIZED))
    await visit.publishes(2)
    assert await value(node, "bridgehead_route_delivered_messages_total", **push, store="memory") == 1
    assert await value(node, "bridgehead_route_refusals_total", **push) == 1
    assert await value(node, "bridgehead_route_dead_lettered_messages_total", **push, reason="refused-0x87") == 1
    assert await value(node, "bridgehead_route_dead_letters", **push) == 1
    dead_letters = f"http://127.0.0.1:{node.console_port}/api/v1/deadletters"
    async with httpx.AsyncClient(verify=False) as client:
        assert (await client.post(f"{dead_letters}/drop", json={"all": True})).json() == {"dropped": 1}
    assert await value(node, "bridgehead_route_dead_letters", **push) == 0
    assert await value(node, "bridgehead_route_dead_letters_left_total", **push, reason="dropped") == 1
    assert await value(node, "bridgehead_route_outbox_messages", **push) == 3
    assert await value(node, "bridgehead_bridge_ack_latency_seconds_count", bridge="cloud") == 2
    assert await value(node, "bridgehead_bridge_ack_latency_seconds_bucket", bridge="cloud", le="+Inf") == 2
    assert await value(node, "bridgehead_bridge_in_flight_messages", bridge="cloud") == 2


async def test_a_pull_is_counted_at_every_door(node: Node, remote: Remote) -> None:
    visit = await remote.accept()
    await visit.granted()
    visit.send(*[Publish("in/x", b"", 1, packet_id=number) for number in (1, 2, 3)], Publish("other", b"", 0))
    await until(lambda: node.broker.received_rows == 3)
    pull = {"bridge": "cloud", "direction": "pull"}
    assert await value(node, "bridgehead_bridge_received_messages_total", bridge="cloud") == 4
    assert await value(node, "bridgehead_bridge_skipped_messages_total", reason="unmatched") == 1
    assert await value(node, "bridgehead_route_received_messages_total", **pull) == 3
    assert await value(node, "bridgehead_route_delivered_messages_total", **pull) == 3
    assert await value(node, "bridgehead_route_tier2_messages", **pull) == 0
    assert await value(node, "bridgehead_bridge_unheard_messages_total", bridge="cloud") == 3, "nobody has subscribed here"


async def test_what_somebody_has_subscribed_to_is_heard(node: Node, remote: Remote) -> None:
    visit = await remote.accept()
    await visit.granted()
    async with aiomqtt.Client("127.0.0.1", node.ports[0]) as client:
        await client.subscribe("in/x/#")
        await client.subscribe("in/+/b")
        visit.send(*[Publish(topic, b"", 1, packet_id=at) for at, topic in enumerate(("in/x/a", "in/x/b", "in/y/a"), 1)])
        await until(lambda: node.broker.received_rows == 3)
    assert await value(node, "bridgehead_bridge_unheard_messages_total", bridge="cloud") == 1


async def test_the_ten_counters_of_a_bridge_have_the_names_of_hivemq_edge_too(node: Node, remote: Remote) -> None:
    visit = await remote.accept()
    await visit.granted()
    hops = [("hmq-bridge-hop-count", "1")]
    rows = wire_rows(*numbered(0, 5, topic="out/a"), {"topic": "out/no/b"}, {"topic": "out/c", "user_properties": hops})
    node.broker.publish(rows, "machine")
    first, *others = await visit.publishes(5)
    visit.send(Puback(first.packet_id, Reason.NOT_AUTHORIZED), *[Puback(each.packet_id) for each in others])
    incoming = [Publish("in/x", b"", 1, packet_id=number) for number in (1, 2, 3)]
    visit.send(*incoming, Publish("in/y", b"", 1, packet_id=4, properties={"user_property": hops}))
    await until(lambda: node.broker.received_rows == 10 and node.view().snapshot()["routes"].popitem()[1]["delivered"] == 3)
    expected = {
        "forward.publish.count": 4,
        "forward.publish.failed.count": 1,
        "forward.publish.excluded.count": 1,
        "forward.publish.loop-hops-exceeded.count": 1,
        "local.publish.received.count": 7,
        "remote.publish.received.count": 4,
        "remote.publish.loop-hops-exceeded.count": 1,
        "local.publish.count": 3,
        "local.publish.no-subscriber-present.count": 3,
        "local.publish.failed.count": 0,
    }
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{node.console_port}/api/v1", verify=False) as client:
        names = {item["name"] for item in (await client.get("/metrics")).json()["items"]}
        prefix = "com.hivemq.edge.bridge.cloud."
        assert {name.removeprefix(prefix) for name in names if name.startswith(prefix)} == set(expected)
        found = {suffix: (await client.get(f"/metrics/{prefix}{suffix}/latest")).json()["value"] for suffix in expected}
        dropped = (await client.get("/metrics/com.hivemq.edge.messages.dropped.count/latest")).json()
        unknown = await client.get("/metrics/com.hivemq.edge.nothing/latest")
    assert found == expected
    assert dropped["value"] == 3
    assert dropped["sampleTime"].endswith("Z")
    assert unknown.status_code == 404
    assert all(f"`{suffix}`" in PAGE.read_text() for suffix in expected)


async def test_the_state_of_a_connection_is_one_of_a_list(node: Node, remote: Remote) -> None:
    visit = await remote.accept()
    await visit.granted()
    assert await value(node, "bridgehead_bridge_state", bridge="cloud", state="connected") == 1
    assert await value(node, "bridgehead_bridge_state", bridge="cloud") == 1
    assert await value(node, "bridgehead_bridge_connects_total", bridge="cloud") == 1
    assert await value(node, "bridgehead_bridge_last_error_timestamp_seconds") == 0
    visit.cut()
    await remote.stop()
    await until(lambda: node.view().snapshot()["bridges"]["cloud"]["lastErrorAt"] is not None)
    assert await value(node, "bridgehead_bridge_state", bridge="cloud", state="connected") == 0
    assert abs(await value(node, "bridgehead_bridge_last_error_timestamp_seconds") - now_us() / 1e6) < 60


async def test_a_route_that_waits_for_nothing_is_not_stalled_however_long_it_delivered_nothing(
    node: Node, remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    visit = await remote.accept(receive_maximum=1)
    await visit.granted()
    now, start = now_us(), monotonic()
    monkeypatch.setattr("bridgehead.telemetry.routemetrics.monotonic", lambda: start + 1000.0)
    assert await value(node, "bridgehead_route_stalled_seconds", direction="push") == 0
    for _ in range(2):
        node.broker.publish(wire_rows({"topic": "out/a"}), "machine")
    assert await value(node, "bridgehead_route_stalled_seconds", direction="push") < 100, "they have just come"
    monkeypatch.setattr("bridgehead.telemetry.routemetrics.now_us", lambda: now + 500_000_000)
    assert 490 <= await value(node, "bridgehead_route_oldest_message_age_seconds", direction="push") < 510
    assert 490 <= await value(node, "bridgehead_route_stalled_seconds", direction="push") < 510
    (first,) = await visit.publishes(1)
    monkeypatch.setattr("bridgehead.telemetry.routemetrics.monotonic", monotonic)
    visit.send(Puback(first.packet_id))
    await visit.publishes(1)
    assert await value(node, "bridgehead_route_stalled_seconds", direction="push") < 100, "one was delivered just now"


async def test_what_is_on_the_disk_and_what_is_not_are_counted_apart(remote: Remote, tmp_path: Path) -> None:
    node = inline_node(tmp_path, remote.port, persistence={"mode": "file-native"})
    await node.start()
    visit = await remote.accept()
    await visit.granted()
    node.broker.publish(wire_rows(*numbered(0, 3, topic="out/a", qos=1), {"topic": "out/b", "qos": 0}), "machine")
    await visit.publishes(4)
    received = "bridgehead_route_received_messages_total"
    assert await value(node, received, direction="push", store="disk") == 3
    assert await value(node, received, direction="push", store="memory") == 1
    assert await value(node, "bridgehead_storage_min_free_bytes") == 256 * 2**20
    await remote.stop()
    await node.stop()


async def test_bridges_come_and_go_with_their_metrics(node: Node, remote: Remote) -> None:
    rule = {"id": "late", "host": "127.0.0.1", "port": remote.port, "localSubscriptions": [{"filters": ["late/#"]}]}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{node.console_port}/api/v1/management", verify=False) as client:
        assert (await client.post("/bridges", json=rule)).status_code == 200
        node.broker.publish(wire_rows(*numbered(0, 3, topic="late/a")), "machine")
        assert await value(node, "bridgehead_route_outbox_messages", bridge="late") == 3
        assert await value(node, "bridgehead_bridge_state", bridge="late") == 1
        command = {"headers": {"Content-Type": "application/json"}}
        assert (await client.delete("/bridges/late", **command)).status_code == 200
    assert await value(node, "bridgehead_route_outbox_messages", bridge="late") == 0
    assert await value(node, "bridgehead_removed_route_messages") == 3
    assert await value(node, "bridgehead_bridges") == 1


async def test_the_lag_of_the_pipeline_is_what_it_has_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House()
    view = NodeView(
        name="edge",
        listening=lambda: True,
        broker=house.broker,
        journal=house.journal,
        gate=Gate(house.engine, house.journal, {}),
        pipeline=None,
        bridges={},
        routes=[],
    )

    def lag() -> tuple[float, float]:
        found = {metric.name: metric for metric in NodeCollector(view).collect()}
        rows, seconds = (found[f"bridgehead_pipeline_lag_{unit}"].samples for unit in ("rows", "seconds"))
        assert rows[0].labels == seconds[0].labels == {"log": "shared"}
        return rows[0].value, seconds[0].value

    assert lag() == (0, 0)
    now = now_us()
    for late in (50, 20):
        monkeypatch.setattr("bridgehead.broker.broker.now_us", lambda late=late: now - late * 1_000_000)
        house.broker.publish(wire_rows(*numbered(0, 3, topic="out/a")), "machine")
    rows, seconds = lag()
    assert rows == 6
    assert 50 <= seconds < 80
    changes = Changes()
    house.log.consume(changes, 3)
    house.engine.write(changes)
    rows, seconds = lag()
    assert rows == 3
    assert 20 <= seconds < 50
    house.broker.close()


async def test_a_node_with_a_route_without_messages_shows_its_zeros(node: Node) -> None:
    assert await value(node, "bridgehead_info", node="edge") == 1
    found = await families(node)
    samples = found["bridgehead_route_delivered_messages"].samples
    assert {(sample.labels["direction"], sample.value) for sample in samples} == {("push", 0.0), ("pull", 0.0)}
