"""`bridgehead import`: YAML that `bridgehead check` takes, with what to look at on top."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from bridgehead.cli import app
from bridgehead.commands.importing.report import Report
from bridgehead.commands.importing.writing import written

DATA = Path(__file__).parents[3] / "data"
FILES = [("hivemq", file) for file in sorted(DATA.glob("hivemq-*.xml"))]
FILES += [("mosquitto", file) for file in sorted(DATA.glob("mosquitto-*.conf"))]
VARIABLES = {
    "CLOUD_HOST": "broker.example.com", "CLOUD_PORT": "8883", "CLOUD_PASSWORD": "p", "STORE_PASSWORD": "p", "OLD_PASSWORD": "p",
}  # fmt: skip


def ready(kind: str, file: Path, directory: Path) -> Path:
    """The file as a user has it; one of a scenario has ports to be filled in."""
    copy = directory / file.name
    copy.write_text(file.read_text().replace("@LOCAL@", "1883").replace("@REMOTE@", "1884"))
    return copy


@pytest.mark.parametrize(("kind", "file"), FILES, ids=lambda value: getattr(value, "name", value))
def test_what_is_written_is_good(kind: str, file: Path, tmp_path: Path) -> None:
    output = tmp_path / "bridgehead.yaml"
    result = CliRunner().invoke(app, ["import", kind, str(ready(kind, file, tmp_path)), "-o", str(output)])
    assert (result.exit_code, result.stdout) == (0, "")
    checked = CliRunner(env=VARIABLES).invoke(app, ["check", "-c", str(output)])
    assert checked.exit_code == 0, checked.output
    assert "refused by" not in result.stderr


def test_the_yaml_goes_to_standard_output_and_the_report_to_standard_error() -> None:
    result = CliRunner().invoke(app, ["import", "hivemq", str(DATA / "hivemq-minimal.xml")])
    assert result.exit_code == 0
    assert yaml.safe_load(result.stdout)["bridges"][0]["id"] == "simplest"
    assert "the same here" in result.stderr
    notes = [line for line in result.stdout.splitlines() if line.startswith("#")]
    assert any("QoS 0 there" in line for line in notes)
    assert not any("the same here" in line for line in notes)


def test_a_file_that_is_there_stays_and_a_new_one_is_its_owners(tmp_path: Path) -> None:
    output = tmp_path / "bridgehead.yaml"
    arguments = ["import", "hivemq", str(DATA / "hivemq-minimal.xml"), "-o", str(output)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert output.stat().st_mode & 0o777 == 0o600
    output.write_text("mine")
    again = CliRunner().invoke(app, arguments)
    assert again.exit_code == 1
    assert again.stderr == f"bridgehead: {output} is there already\n"
    assert output.read_text() == "mine"


@pytest.mark.parametrize("kind", ["hivemq", "mosquitto"])
def test_a_file_that_is_not_there_is_one_line(kind: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["import", kind, str(tmp_path / "nothing")])
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.endswith("cannot be read: No such file or directory\n")


def test_what_our_rules_refuse_is_told_and_not_hidden(tmp_path: Path) -> None:
    report = Report()
    text = written({"bridges": [{"id": "b b", "host": "${ENV:NOT_SET_HERE}"}]}, report, tmp_path / "x.conf", {})
    assert len(report.not_yet) == 1
    assert report.not_yet[0].startswith("bridges[0].id: ")
    assert "bridges[0].id" in text
