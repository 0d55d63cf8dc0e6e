"""Failpoints: a process dies where it is told to, once, and nowhere else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import bridgehead
from bridgehead.failpoints import ARCHIVE_POINTS, HITS, POINTS, VARIABLE

PASS_TWICE = "from bridgehead.failpoints import passing; passing('worker.read'); passing('node.read'); print('alive')"


def passer_by(directory: Path | None) -> subprocess.CompletedProcess[str]:
    given = {VARIABLE: str(directory)} if directory else {}
    environment = {**os.environ, **given}
    return subprocess.run([sys.executable, "-c", PASS_TWICE], capture_output=True, text=True, env=environment, timeout=60)


def test_nothing_happens_where_nothing_is_armed(tmp_path: Path) -> None:
    assert passer_by(None).stdout == passer_by(tmp_path).stdout == "alive\n"


def test_whoever_passes_an_armed_point_first_dies_there_and_the_next_one_lives(tmp_path: Path) -> None:
    (tmp_path / "node.read").touch()
    assert passer_by(tmp_path).returncode == -9
    assert (tmp_path / HITS).read_text().startswith("node.read ")
    assert passer_by(tmp_path).stdout == "alive\n"


def test_every_point_is_passed_somewhere_in_the_product() -> None:
    source = Path(bridgehead.__file__).parent
    passed = {point for path in source.rglob("*.py") for point in re.findall(r'passing\("([^"]+)"\)', path.read_text())}
    assert passed == {*POINTS, *ARCHIVE_POINTS}
