"""The driver's JVM, started directly and not by Spark's shell scripts.

That saves a second JVM that only assembles the command line, lets the kernel end the JVM with its driver, and leaves
out `--add-modules=jdk.incubator.vector`, which a slim JRE lacks and nothing here needs. The configuration travels in a
file that only the owner can read: it may hold keys, and a command line is public.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from pyspark.find_spark_home import _find_spark_home
from pyspark.serializers import UTF8Deserializer, read_int

from bridgehead.errors import StartError
from bridgehead.pipeline import classarchive
from bridgehead.pipeline.leash import die_with_parent
from bridgehead.pipeline.sparkconf import SHIPPED, SHIPPED_PYTHON

START_PATIENCE: Final = 120.0
"""Seconds until a JVM that has not called back counts as failed."""

_OPENS: Final = (
    "java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util",
    "java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs",
    "sun.security.action", "sun.util.calendar",
)  # fmt: skip
"""What Spark's own launcher opens (its JavaModuleOptions)."""

_FLAGS: Final = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-XX:-UsePerfData",
    "-XX:+ExitOnOutOfMemoryError",  # a JVM without memory limps on in silence; a dead one is started again
)


def module_options() -> list[str]:
    """What any of Spark's JVMs is started with."""
    return [*(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENS), *_FLAGS]


def class_path(in_front: str | None = None) -> str:
    home = _find_spark_home()
    return ":".join([*([in_front] if in_front else []), f"{home}/conf", f"{home}/jars/*"])


def start(java_home: str, conf: dict[str, str], log_config: Path, work_dir: Path) -> subprocess.Popen[bytes]:
    """Start the JVM and wait until it can be reached; pyspark then finds it through the environment."""
    properties = work_dir / "spark.properties"
    _write_private(properties, "".join(f"{_escape(key)} {_escape(value)}\n" for key, value in sorted(conf.items())))
    java = Path(java_home) / "bin" / "java" if java_home else Path("java")
    command = [
        str(java),
        *module_options(),
        *_temporary_files(conf, work_dir),
        f"-Xmx{conf['spark.driver.memory']}",
        f"-Dlog4j2.configurationFile={log_config}",
        *(classarchive.use(classarchive.location(Path(java_home))) if java_home else ()),
        *shlex.split(conf.get("spark.driver.extraJavaOptions", "")),
        *("-cp", class_path(conf.get("spark.driver.extraClassPath"))),
        "org.apache.spark.deploy.SparkSubmit",
        *("--properties-file", str(properties)),
        "pyspark-shell",
    ]
    with tempfile.TemporaryDirectory(dir=work_dir) as meeting:
        call_back = Path(meeting) / "gateway"
        try:
            jvm = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,  # its end ends the gateway
                env=_environment(conf, call_back),
                preexec_fn=_in_the_child,
                cwd=_where_it_runs(conf, work_dir),
            )
        except OSError as error:
            raise StartError(f"cannot start {java}: {error}") from error
        deadline = time.monotonic() + START_PATIENCE
        while not call_back.exists():
            if jvm.poll() is not None:
                raise StartError(f"the JVM ended with status {jvm.returncode} before Spark was up")
            if time.monotonic() > deadline:
                raise StartError(f"Spark's JVM did not call back within {START_PATIENCE:.0f} s")
            time.sleep(0.02)
        with call_back.open("rb") as told:
            os.environ["PYSPARK_GATEWAY_PORT"] = str(read_int(told))
            os.environ["PYSPARK_GATEWAY_SECRET"] = UTF8Deserializer().loads(told)
    return jvm


def _temporary_files(conf: dict[str, str], work_dir: Path) -> list[str]:
    """For libraries that it unpacks: a JVM that is killed leaves them, and the next one begins with an empty folder.

    With executors elsewhere it is Java's own folder, as it is theirs: sockets are made there, too, and bear no long path.
    """
    if not conf["spark.master"].startswith("local"):
        return []
    unpacked = work_dir / "unpacked"
    unpacked.mkdir()
    return [f"-Djava.io.tmpdir={unpacked}"]


def _where_it_runs(conf: dict[str, str], work_dir: Path) -> Path | None:
    """Where we are; but with an archive of Python's, where the path that its executors use leads to our own Python."""
    if conf["spark.pyspark.python"] != SHIPPED_PYTHON:
        return None
    (work_dir / SHIPPED).symlink_to(sys.prefix)
    return work_dir


def _environment(conf: dict[str, str], call_back: Path) -> dict[str, str]:
    environment = {**os.environ, "_PYSPARK_DRIVER_CONN_INFO_PATH": str(call_back), "SPARK_CONNECT_MODE": "0"}
    if conf["spark.master"].startswith("local"):
        # With SPARK_HOME set, workers import pyspark from a zip file without compiled modules: slow at every start.
        environment.pop("SPARK_HOME", None)
    return environment


def _in_the_child() -> None:
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _write_private(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)


def _escape(text: str) -> str:
    """As java.util.Properties reads it back."""
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return re.sub(r"([ =:#!])", r"\\\1", text)
