"""What Prometheus reads is what happened: every number exact, and both sums at any moment, through a cut and a kill."""

from __future__ import annotations

import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from scenarios.line import Line
from support.client import Client, Message
from support.waiting import until

pytestmark = pytest.mark.mosquitto

LIMIT = 500


class Scrape:
    """One answer of /metrics, read by Prometheus' own parser."""

    def __init__(self, line: Line) -> None:
        with urllib.request.urlopen(f"http://127.0.0.1:{line.node.console_port}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        self._samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]

    def get(self, name: str, **labels: str) -> float:
        """The sum of all samples of this name with these labels."""
        found = [each for each in self._samples if each.name == f"bridgehead_{name}" and labels.items() <= each.labels.items()]
        return sum(each.value for each in found)

    def push(self, name: str, **labels: str) -> float:
        return self.get(f"route_{name}", bridge="line", direction="push", **labels)

    def by(self, label: str, name: str) -> dict[str, float]:
        found: Counter[str] = Counter()
        for sample in self._samples:
            if sample.name == f"bridgehead_route_{name}" and sample.labels["direction"] == "push":
                found[sample.labels[label]] += sample.value
        return dict(found)

    @property
    def sums_hold(self) -> bool:
        push = self.push
        dropped = "dropped_messages_total"
        left = push("delivered_messages_total") + push(dropped, stage="outbox") + push("dead_lettered_messages_total")
        journal = push("consumed_messages_total") + push(dropped, stage="door") + push("journal_messages")
        return (
            push("received_messages_total") == journal
            and push("entered_messages_total") == left + push("outbox_messages")
            and push("consumed_messages_total") == push("entered_messages_total")
        )


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Line]:
    line = Line(tmp_path, mode="file-native", push={"excludes": ["push/no/#"], "queueLimit": LIMIT})
    yield line
    line.close()


def messages(count: int, topic: str = "push/a", qos: int = 1) -> list[Message]:
    return [Message(topic, str(number).encode(), qos) for number in range(count)]


def drained(line: Line) -> Scrape:
    until(lambda: Scrape(line).push("outbox_messages") + Scrape(line).push("journal_messages") == 0, "everything has left")
    return Scrape(line)


def test_the_numbers_are_what_was_sent_and_the_sums_hold_through_a_cut_and_a_kill(line: Line) -> None:
    with Client(line.remote.port) as there, Client(line.node.port) as here:
        there.subscribe("push/#")
        here.publish_all([*messages(60, qos=0), *messages(70, qos=1), *messages(80, qos=2), *messages(9, "push/no/a")])
        there.publish_all(messages(40, "pull/a"))
        there.wait_for(210)
        now = drained(line)
        assert now.by("store", "received_messages_total") == {"disk": 150, "memory": 69}
        assert now.by("store", "delivered_messages_total") == {"disk": 150, "memory": 60}
        assert now.by("reason", "dropped_messages_total") == {"excluded": 9}
        assert now.get("bridge_ack_latency_seconds_count") == 150
        assert 0 < now.get("bridge_ack_latency_seconds_sum") < 150 * 30
        assert now.get("bridge_state", state="connected") == now.get("bridge_connects_total") == 1
        until(lambda: Scrape(line).get("route_delivered_messages_total", direction="pull") == 40, "what came is published")
        assert now.get("bridge_received_messages_total") == 40
        assert now.push("stalled_seconds") == now.push("oldest_message_age_seconds") == now.push("outbox_bytes") == 0
        assert now.sums_hold

        line.go_away()
        sent = [here.publish(message) for message in messages(LIMIT + 100)]
        while not all(one.is_published() for one in sent):
            assert Scrape(line).sums_hold
        now = Scrape(line)
        assert now.get("bridge_state", state="connected") == 0
        assert now.get("bridge_last_error_timestamp_seconds") > 0
        assert now.push("outbox_messages") == now.push("outbox_limit_messages") == LIMIT
        assert now.push("dropped_messages_total", stage="outbox", reason="queue-full", store="disk") == 100
        assert now.push("outbox_bytes") > LIMIT
        assert now.push("in_flight_messages") == 0
        assert 0 < now.push("stalled_seconds") <= now.push("oldest_message_age_seconds")
        assert now.sums_hold

        line.kill()
        now = Scrape(line)
        assert now.by("store", "received_messages_total") == {"disk": 150 + LIMIT + 100, "memory": 0}
        assert now.push("outbox_messages") == LIMIT
        assert now.sums_hold

        line.come_back()
        there.wait_for(210 + LIMIT)
        now = drained(line)
        assert now.by("store", "delivered_messages_total") == {"disk": 150 + LIMIT, "memory": 0}
        assert now.get("bridge_ack_latency_seconds_count") == LIMIT
        assert now.sums_hold
        here.disconnected.wait(30)
