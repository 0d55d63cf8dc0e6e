"""Spark's classes, loaded and checked once for every later start: with this archive a JVM comes up in half the time.

Java makes it from a list of classes that an earlier start has used, for one build of itself and one set of jars. Where either
is another, or a class path has something in front, the archive is passed over without a word. It lies in the Python
environment whose Spark it belongs to, and goes with it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Final

from bridgehead.errors import CommandError

MAKE_WITHIN: Final = 600.0
"""Seconds: half a minute where nothing else runs, much more on a small board."""

LARGEST_IDENTITY: Final = 16 << 10


def location(java_home: Path) -> Path:
    """Another Java would lose its own archive by looking at ours: each has its name."""
    name = sha256(_identity(java_home)).hexdigest()[:12]
    return Path(sys.prefix) / "share" / "bridgehead" / f"spark-{version('pyspark')}-{name}.jsa"


def _identity(java_home: Path) -> bytes:
    """What tells one Java from another: what it says of its release; for one behind a script of ours, the script."""
    for path in (java_home / "release", java_home / "bin" / "java"):
        if path.is_file() and path.stat().st_size < LARGEST_IDENTITY:
            return path.read_bytes()
    return str(java_home).encode()


def use(archive: Path) -> list[str]:
    """What a JVM is told, if there is one."""
    return [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:cds=off"] if archive.is_file() else []


def note_classes(classes: Path) -> str:
    """What a JVM is told that is to write down the classes it loads."""
    return f"-Xshare:off -XX:DumpLoadedClassList={classes}"


def make(java: Path, class_path: str, classes: Path, archive: Path) -> None:
    """Make the archive; it is there when it is whole, or not at all."""
    partial = archive.with_suffix(f".{os.getpid()}")
    command = [str(java), "-Xshare:dump", f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={partial}"]
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [*command, "-Xlog:disable", "-Xlog:all=error", "-cp", class_path],
            capture_output=True,
            text=True,
            timeout=MAKE_WITHIN,
            check=False,
        )
        if done.returncode != 0 or not partial.is_file():
            last = (done.stdout + done.stderr).strip().splitlines()[-1:] or [f"status {done.returncode}"]
            raise CommandError(f"Java made no archive of Spark's classes: {last[0]}")
        os.replace(partial, archive)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CommandError(f"{archive} cannot be made: {error}") from error
    finally:
        partial.unlink(missing_ok=True)
