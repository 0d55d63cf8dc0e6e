"""Figures come to the page between two markers, with whatever speaks against them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from benchmarks import page
from benchmarks.figures import Figures
from benchmarks.measure import Result

ONE = Result("inline", 1, 0, 1, 400, "telemetry", sent=10, arrived=10, per_second=200.0, seconds=1.0)


def test_what_is_between_the_markers_is_replaced_and_the_rest_stays(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text("before\n<a>\nold\n<b>\nafter\n")
    page.put_between(file, "<a>", "<b>", "new\n")
    assert file.read_text() == "before\n<a>\n\nnew\n\n<b>\nafter\n"


def test_a_page_without_markers_gets_them_at_its_end(tmp_path: Path) -> None:
    page.put_between(tmp_path / "page.md", "<a>", "<b>", "new\n")
    assert (tmp_path / "page.md").read_text() == "# Benchmarks\n\n<a>\n\nnew\n\n<b>\n"


def test_a_busy_machine_and_faults_of_any_repetition_are_told() -> None:
    assert page.doubt([ONE]) == page.faults([ONE]) == []
    assert "0.50 of a core" in page.doubt([replace(ONE, stranger_cpu=0.5)])[0]
    assert page.faults([ONE, replace(ONE, rate=5_000, error="gone")])[1] == "- inline, QoS 1 at 5,000/s: gone"


def test_the_tools_rate_stands_beside_how_near_the_fastest_system_comes_to_it() -> None:
    others = [replace(ONE, system="mosquitto", per_second=50.0), replace(ONE, system="direct", per_second=400.0)]
    assert page.direct_table(Figures([ONE, *others], 1)).splitlines()[-1] == "| 1 | 400 | 0.50 | 0 |"
