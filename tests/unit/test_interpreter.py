"""What a node spares itself: looked at in processes of their own."""

from __future__ import annotations

import subprocess
import sys


def said(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)


def test_the_parts_of_a_node_work_without_pandas() -> None:
    code = (
        "import sys; from bridgehead.interpreter import without_pandas; without_pandas();"
        "import bridgehead.app, pyarrow as pa; print(pa.array([1, 2]).to_numpy().sum(), 'pandas' in sys.modules)"
    )
    assert said(code).stdout.split() == ["3", "False"]


def test_pandas_that_is_already_there_stays() -> None:
    code = "import pandas; from bridgehead.interpreter import without_pandas; without_pandas(); print('good')"
    assert said(code).stdout.split() == ["good"]


def test_an_end_keeps_what_was_said_and_the_status() -> None:
    done = said(
        "import sys; from bridgehead.interpreter import end; sys.stdout.write('out'); sys.stderr.write('err'); end(3)"
    )
    assert (done.stdout, done.stderr, done.returncode) == ("out", "err", 3)
