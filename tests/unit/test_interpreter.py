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


def test_the_journal_of_a_reader_has_imported_no_pandas_before_it_can_say_so() -> None:
    code = "import sys, bridgehead.spark.journalprocess; print({'pandas', 'numba'} & set(sys.modules))"
    assert said(code).stdout.split() == ["set()"]


def test_pandas_that_is_already_there_stays() -> None:
    code = "import pandas; from bridgehead.interpreter import without_pandas; without_pandas(); print('good')"
    assert said(code).stdout.split() == ["good"]


def test_an_end_keeps_what_was_said_and_the_status() -> None:
    done = said(
        "import sys; from bridgehead.interpreter import end; sys.stdout.write('out'); sys.stderr.write('err'); end(3)"
    )
    assert (done.stdout, done.stderr, done.returncode) == ("out", "err", 3)


def test_nothing_is_collected_before_a_process_is_alive_and_what_is_there_then_is_never_looked_through() -> None:
    code = (
        "import gc; from bridgehead.interpreter import hold_collector, release_collector;"
        "hold_collector(); print(gc.isenabled()); release_collector(); print(gc.isenabled(), gc.get_freeze_count() > 1000)"
    )
    assert said(code).stdout.split() == ["False", "True", "True"]
