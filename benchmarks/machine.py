"""What the figures were measured on."""

import os
import platform
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path


def describe(module: str = "benchmarks") -> dict[str, str]:
    return {
        "processor": _value("/proc/cpuinfo", "model name"),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{int(_value('/proc/meminfo', 'MemTotal').split()[0]) / 2**20:.0f} GiB",
        "kernel": platform.release(),
        "python": platform.python_version(),
        "pyspark": _version("pyspark"),
        "mosquitto": _mosquitto(),
        "command": _command(module),
    }


def _command(module: str) -> str:
    """As typed, without where the results went."""
    words = sys.argv[1:]
    if "--out" in words:
        at = words.index("--out")
        del words[at:at + 2]
    return " ".join([f"python -m {module}", *words])


def _value(file: str, key: str) -> str:
    for line in Path(file).read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return "unknown"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _mosquitto() -> str:
    program = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
    if not Path(program).exists():
        return "not installed"
    lines = subprocess.run([program, "-h"], capture_output=True, text=True, check=False).stdout.splitlines()
    return lines[0].removeprefix("mosquitto version ") if lines else "unknown"
