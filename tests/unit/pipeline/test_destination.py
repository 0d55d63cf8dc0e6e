"""The destination of a whole column: each distinct topic once, remembered within a bound."""

from __future__ import annotations

import pyarrow as pa
import pytest

from bridgehead.pipeline import destination
from bridgehead.pipeline.destination import LONGEST, NO_TOPIC, Lookup, Where, change_of
from bridgehead.wire.topictemplate import Destination, read_template


class Counted(Destination):
    def __init__(self, template: str) -> None:
        super().__init__(read_template(template), ())
        self.asked: list[str] = []

    def topic(self, topic: str, client: str = "") -> str:
        self.asked.append(topic)
        return super().topic(topic, client)


def changed(where: Where, *topics: str | None) -> list[str | None]:
    found: list[str | None] = change_of(where)(pa.array(topics, pa.string()), None).to_pylist()
    return found


def test_a_topic_is_worked_out_once_however_often_it_comes() -> None:
    counted = Counted("{2}/{1}")
    lookup = Lookup(counted)
    for _ in range(3):
        assert lookup(pa.array(["a/b", "c/d"] * 100), None).to_pylist() == ["b/a", "d/c"] * 100
    assert counted.asked == ["a/b", "c/d"]


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(destination, "TOPICS_LIMIT", 10)
    lookup = Lookup(Counted("x/{1}"))
    for number in range(100):
        assert lookup(pa.array([f"{number}", f"{number + 1}"]), None).to_pylist() == [f"x/{number}", f"x/{number + 1}"]
        assert len(lookup._known) <= 10
    many = [str(number) for number in range(50)]
    assert lookup(pa.array(many), None).to_pylist() == [f"x/{each}" for each in many]


def test_a_slice_and_rows_without_a_topic_are_changed_like_others() -> None:
    for where in (Where("{2}"), Where(None, (), (("b", "c"),)), Where("x/{#}"), Where()):
        column = pa.array(["a/b", None, "c/b"], pa.string())
        whole = change_of(where)(column, None).to_pylist()
        assert change_of(where)(column.slice(1), None).to_pylist() == whole[1:]
        assert whole[1] is None
        assert change_of(where)(column.slice(0, 0), None).to_pylist() == []


@pytest.mark.parametrize("where", [Where("x/{#}"), Where("x/{1-9}"), Where(None, (), (("^", "x/"),))])
def test_a_topic_that_grows_too_long_is_none_and_spoils_no_other(where: Where) -> None:
    longest = "l" * (LONGEST - 2)
    assert changed(where, longest, "a", longest + "l") == ["x/" + longest, "x/a", NO_TOPIC]


def test_a_destination_that_leaves_nothing_gives_no_topic() -> None:
    assert changed(Where("{2}"), "a", "a/b") == [NO_TOPIC, "b"]
    assert changed(Where(None, (), (("^a$", ""),)), "a", "b") == [NO_TOPIC, "b"]


def test_rewrites_follow_each_other_behind_the_destination() -> None:
    rewrite = ((r"^up/([^/]+)/raw/(.*)$", r"\1/\2"), ("temp", "temperature"))
    assert changed(Where("up/{#}", (), rewrite), "m1/raw/temp", "m1/temp") == ["m1/temperature", "up/m1/temperature"]


def test_bytes_that_are_no_text_become_no_topic() -> None:
    """Spark's strings are bytes that nobody has looked at."""
    column = pa.array([b"a/b", b"\xff"], pa.binary()).view(pa.string())
    assert change_of(Where("x/{2}"))(column, None).to_pylist() == ["x/b", NO_TOPIC]


@pytest.mark.parametrize("labels", [False, True])
def test_the_client_that_published_is_a_level(labels: bool) -> None:
    clients = pa.array(["press", "oven", None, "press", "a/b", "a+", ""], pa.string())
    topics = pa.array(["t", "t", "t", "u", "t", "t", "t"], pa.string())
    where = Where("from/${client.id}/{#}")
    column = clients.dictionary_encode() if labels else clients
    expected = ["from/press/t", "from/oven/t", "from/t", "from/press/u", NO_TOPIC, NO_TOPIC, "from/t"]
    assert change_of(where)(topics, column).to_pylist() == expected
    assert change_of(where)(topics.slice(1), column.slice(1)).to_pylist() == expected[1:]
    assert change_of(where)(topics, None).to_pylist() == ["from/t"] * 3 + ["from/u"] + ["from/t"] * 3


def test_a_client_beside_text_and_wildcards_is_found_again_in_workers() -> None:
    where = Where("c-${client.id}.{+1}", ("site/+/#",))
    assert change_of(where)(pa.array(["site/a/b"]), pa.array(["press"])).to_pylist() == ["c-press.a"]
    assert str(read_template(where.destination or "")) == where.destination
