"""Make ``tests/`` a source root, so that the shared tables import as ``vectors``, whichever way pytest is started."""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = str(Path(__file__).resolve().parents[2])
if TESTS not in sys.path:
    sys.path.insert(0, TESTS)
