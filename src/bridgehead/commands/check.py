"""``bridgehead check``: beyond what the file says, whether its transforms can be used."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bridgehead.errors import StartError
from bridgehead.java import java_home
from bridgehead.node.routes import transform_rule
from bridgehead.pipeline.trial import Finding, Task
from bridgehead.settings.fault import Path as Place
from bridgehead.settings.fault import located, path_text
from bridgehead.settings.load import lines_of
from bridgehead.settings.model import Settings
from bridgehead.settings.transform import Transform

PATIENCE: Final = 300.0
"""Seconds for a Spark to start and look at all transforms."""

NO_ORDER: Final = "the order of messages is not kept; a result that keeps the column journal_offset is sorted by it"


@dataclass(slots=True)
class Outcome:
    """What is wrong with the transforms, and what may not have been meant."""

    faults: list[tuple[str, str]] = field(default_factory=list)  # (place, text)
    warnings: list[str] = field(default_factory=list)


def try_transforms(settings: Settings, config: Path, env: Mapping[str, str]) -> Outcome:
    """Every transform of the file on an empty table. Starts a Spark if there is one, and only then."""
    places = dict(_transforms(settings))
    outcome = Outcome()
    try:
        findings = _found(settings, list(places.values()))
    except StartError as error:
        outcome.warnings.append(f"transforms could not be tried: {error}")
        return outcome
    lines = lines_of(config, env)
    for (place, transform), finding in zip(places.items(), findings, strict=True):
        if finding.fault is not None:
            outcome.faults.append((located((*place, _kind(transform)), lines)[0], finding.fault))
        elif not finding.in_order:
            outcome.warnings.append(f"{path_text(place)}: {NO_ORDER}")
    return outcome


def _transforms(settings: Settings) -> Iterator[tuple[Place, Transform]]:
    """Every transform with its place in the file."""
    for index, bridge in enumerate(settings.bridges):
        both = (("localSubscriptions", bridge.local_subscriptions), ("remoteSubscriptions", bridge.remote_subscriptions))
        for key, rules in both:
            for at, rule in enumerate(rules):
                if rule.transform is not None:
                    yield ("bridges", index, key, at, "transform"), rule.transform


def _kind(transform: Transform) -> str:
    if transform.python is not None:
        return "python"
    return "sql" if transform.sql is not None else "sqlFile"


def _found(settings: Settings, transforms: list[Transform]) -> list[Finding]:
    java = java_home(os.environ, shutil.which, settings.data_dir / "java")
    rules = tuple(transform_rule(each) for each in transforms)
    task = Task(rules, str(java.path), dict(settings.pipeline.conf), str(settings.directory))
    process = subprocess.Popen(
        [sys.executable, "-m", "bridgehead.pipeline.trial"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        told, errors = process.communicate(task.to_json() + "\n", timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise StartError(f"Spark has not answered within {PATIENCE:.0f} s") from None
    if process.returncode != 0 or not told:
        raise StartError(next((line for line in reversed(errors.splitlines()) if line.strip()), "Spark did not start"))
    return [Finding(**each) for each in json.loads(told)]
