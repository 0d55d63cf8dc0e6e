"""The direction of imports: a package knows those below it, and none above or beside it.

    clock, errors, failpoints ◀─ columns ◀─ wire ◀─ session            pure: no sockets, no clock, no loop, no thread
                        ▲        ▲         ▲
                     storage ◀─ link ◀─ delivery           storage and link do not know each other
                        ▲                  ▲
                     pipeline ◀─ broker, bridge            beside each other: neither knows the other
                                    ▲
                     telemetry ◀─ console        spark        a PySpark user's own: beside the node, on top of its parts
                                    ▲
               reach ◀─ node                               what settings decide of a node, and how it changes
                                    ▲
                             app ◀─ cli, commands, demo    these know everything
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "bridgehead"

MAY_IMPORT = {
    "errors": set[str](),
    "clock": set[str](),
    "failpoints": set[str](),
    "interpreter": set[str](),
    "columns": set[str](),
    "java": {"errors"},
    "wire": {"columns", "errors"},
    "session": {"columns", "errors", "wire"},
    "settings": {"errors", "wire"},
    "storage": {"clock", "columns", "errors"},
    "link": {"errors", "wire"},
    "pipeline": {"clock", "columns", "errors", "failpoints", "java", "storage", "wire"},
    "delivery": {"columns", "errors", "link", "session", "storage", "wire"},
    "broker": {"clock", "columns", "delivery", "errors", "link", "pipeline", "session", "storage", "wire"},
    "bridge": {"clock", "columns", "delivery", "errors", "link", "pipeline", "session", "settings", "storage", "wire"},
    "spark": {
        "bridge", "clock", "columns", "errors", "interpreter", "java", "link", "pipeline", "session", "settings", "storage",
        "wire",
    },
    "telemetry": {"clock"},
    "console": {"clock", "errors", "telemetry"},
    "reach": {"errors", "pipeline", "settings"},
    "node": {
        "bridge", "broker", "clock", "columns", "errors", "pipeline", "reach", "settings", "storage", "wire",
    },
}
KNOW_EVERYTHING = {"__main__", "app", "cli", "commands", "demo"}
PURE = {"columns", "wire", "session"}
NOT_PURE = {"asyncio", "socket", "select", "selectors", "ssl", "threading", "concurrent", "multiprocessing", "time"}
ONLY_THE_CLOCK_ASKS_THE_TIME = {"time", "datetime"}


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, module) of every import that runs; those under TYPE_CHECKING only name types."""

    def walk(node: ast.AST) -> Iterator[tuple[int, str]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
                continue
            if isinstance(child, ast.Import):
                yield from ((child.lineno, alias.name) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{path}:{child.lineno}: imports name the whole path"
                if child.module == "bridgehead":
                    yield from ((child.lineno, f"bridgehead.{alias.name}") for alias in child.names)
                else:
                    yield child.lineno, str(child.module)
            yield from walk(child)

    return walk(ast.parse(path.read_text()))


MODULES = sorted(SOURCE.rglob("*.py"))


def test_every_package_has_its_place() -> None:
    packages = {package_of(path) for path in MODULES} - {"__init__"}
    assert packages == set(MAY_IMPORT) | KNOW_EVERYTHING


@pytest.mark.parametrize("package", sorted(MAY_IMPORT))
def test_a_package_imports_only_what_stands_below_it(package: str) -> None:
    allowed = {package, "__version__", *MAY_IMPORT[package]}
    wrong = [
        f"{path.relative_to(SOURCE)}:{line} imports {module}"
        for path in MODULES
        if package_of(path) == package
        for line, module in imports(path)
        if module.startswith("bridgehead.") and module.split(".")[1] not in allowed
    ]
    assert not wrong, "\n".join(wrong)


def test_nothing_stands_above_itself() -> None:
    for package, allowed in MAY_IMPORT.items():
        for other in allowed:
            assert package not in MAY_IMPORT[other], f"{package} and {other} may import each other"


@pytest.mark.parametrize("package", sorted(PURE))
def test_a_pure_package_knows_no_socket_no_clock_no_loop(package: str) -> None:
    wrong = [
        f"{path.relative_to(SOURCE)}:{line} imports {module}"
        for path in MODULES
        if package_of(path) == package
        for line, module in imports(path)
        if module.split(".")[0] in NOT_PURE or module == "bridgehead.clock"
    ]
    assert not wrong, "\n".join(wrong)
    assert MAY_IMPORT[package] <= PURE | {"errors"}


def test_in_the_node_only_the_clock_asks_the_time() -> None:
    """The processes beside Spark have none of the node's modules and ask for themselves."""
    wrong = [
        f"{path.relative_to(SOURCE)}:{line} imports {module}"
        for path in MODULES
        if package_of(path) not in {"clock", "pipeline", "spark"}
        for line, module in imports(path)
        if module.split(".")[0] in ONLY_THE_CLOCK_ASKS_THE_TIME
    ]
    assert not wrong, "\n".join(wrong)
