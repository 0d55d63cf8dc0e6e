"""``bridgehead check`` tries transforms before any message has to: what is wrong is told with its place and its line."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from support.node import COMMAND

pytestmark = pytest.mark.spark

MODULE = """
def broken(messages):
    return messages.wher("qos > 0")


def nothing(messages):
    return 7


def good(messages, least):
    return messages.where(messages.qos >= least)
"""

FILE = """\
node: edge
bridges:
  - id: b
    host: 127.0.0.1
    localSubscriptions:
      - filters: [one/#]
        transform: {sql: "SELECT * FROM messages WHRE qos > 0"}
      - filters: [two/#]
        transform:
          sqlFile: two.sql
      - {filters: [three/#], transform: {python: "nowhere.at_all:f"}}
      - {filters: [four/#], transform: {python: "plant:missing"}}
      - {filters: [five/#], transform: {python: "plant:broken"}}
      - {filters: [six/#], transform: {python: "plant:nothing"}}
      - {filters: [seven/#], transform: {sql: "SELECT qos AS topic FROM messages"}}
      - {filters: [eight/#], transform: {sql: "SELECT topic, count(*) AS payload FROM messages GROUP BY topic"}}
      - {filters: [nine/#], transform: {python: "plant:good"}}
      - filters: [join/#]
        transform: {sql: "SELECT a.topic, b.payload FROM messages a JOIN messages b ON a.payload = b.payload"}
      - {filters: [ten/#], transform: {sql: "SELECT 't' AS topic, 'p' AS payload"}}
    remoteSubscriptions:
      - {filters: [eleven/#], transform: {sql: "SELECT topic, string(count(*)) AS payload FROM messages GROUP BY topic"}}
"""

GOOD = """\
node: edge
bridges:
  - id: b
    host: 127.0.0.1
    localSubscriptions:
      - {filters: [one/#], transform: {python: "plant:good", options: {least: 1}}}
      - {filters: [two/#], transform: {sqlFile: two.sql}}
      - filters: [common/#]
        transform: {sql: "WITH a AS (SELECT payload, topic FROM messages) SELECT * FROM a UNION ALL SELECT * FROM a"}
      - filters: [three/#]
        transform:
          sql: SELECT topic, cast(count(*) AS string) AS payload FROM messages GROUP BY topic
          outputMode: update
"""


def check(directory: Path, text: str) -> tuple[int, str]:
    (directory / "plant.py").write_text(MODULE)
    (directory / "node.yaml").write_text(text)
    done = subprocess.run(
        [COMMAND, "check", "-c", str(directory / "node.yaml")], capture_output=True, text=True, timeout=400, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_every_transform_that_cannot_be_used_is_told_with_its_place_and_reason(tmp_path: Path) -> None:
    (tmp_path / "two.sql").write_text("SELECT topic,\n  payloadd\nFROM messages")
    status, told = check(tmp_path, FILE)
    assert status == 2, told
    lines = told.splitlines()
    push = "bridges[0].localSubscriptions"
    for place, texts in {
        f"{push}[0].transform.sql (line 7)": ["PARSE_SYNTAX_ERROR", "line 1"],
        f"{push}[1].transform.sqlFile (line 10)": ["payloadd", "line 2"],
        f"{push}[2].transform.python (line 11)": ["there is no module nowhere.at_all"],
        f"{push}[3].transform.python (line 12)": ["the module plant has no missing"],
        f"{push}[4].transform.python (line 13)": ["wher", "plant.py, line 3"],
        f"{push}[5].transform.python (line 14)": ["returned int, not a DataFrame"],
        f"{push}[6].transform.sql (line 15)": ["column topic is int, not string", "no column payload"],
        f"{push}[7].transform.sql (line 16)": ["column payload is bigint"],
        f"{push}[8].transform.python (line 17)": ["least"],
        f"{push}[9].transform.sql (line 19)": ["joined with itself"],
        f"{push}[10].transform.sql (line 20)": ["does not come from the table messages"],
        "bridges[0].remoteSubscriptions[0].transform.sql (line 22)": ["ppend"],
    }.items():
        [line] = [line for line in lines if line.startswith(f"{place}: ")]
        assert all(text in line for text in texts), line
    assert lines[-1].endswith("12 faults")


def test_transforms_that_can_be_used_are_good_and_a_warning_says_where_order_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "two.sql").write_text("SELECT * FROM messages")
    status, told = check(tmp_path, GOOD)
    assert status == 0, told
    warnings = [line for line in told.splitlines() if line.startswith("warning: ")]
    assert [line.split(": ")[1:3] for line in warnings] == [
        [f"bridges[0].localSubscriptions[{at}].transform", warnings[0].split(": ")[2]] for at in (2, 3)
    ]
    assert "the order of messages is not kept" in warnings[0]
