"""YAML read with care: plain data only, every key once, every path with its line.

The nodes are walked here and not by PyYAML's constructor, because that takes the last of two equal keys in silence,
forgets the lines, and stops at the first fault. Aliases and merge keys work; a document that only unfolds its aliases
into millions of nodes, or contains itself, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from bridgehead.settings.environment import fill_in
from bridgehead.settings.fault import Fault, Path

MAX_NODES = 200_000  # a thousand bridges of a hundred lines each; more is an alias bomb
_TAG = "tag:yaml.org,2002:"
_QUOTED = re.compile(r"'(?!<)[^']{2,}'")  # PyYAML quotes what it found, and that may be a secret


class UnreadableError(Exception):
    """The text is no YAML document at all; ``where`` is its line and column as far as known."""

    def __init__(self, where: str, text: str) -> None:
        self.where = where
        super().__init__(text)


@dataclass(slots=True)
class Document:
    """The plain data of a file, with what was wrong in it."""

    value: Any = None
    lines: dict[Path, int] = field(default_factory=dict)  # path -> line, from 1
    faults: list[Fault] = field(default_factory=list)


def read_document(text: str, env: Mapping[str, str]) -> Document:
    """Read YAML; raises UnreadableError where nothing can be made of it."""
    loader = yaml.SafeLoader("")
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        walk = _Walk(loader, env)
        if root is not None:
            walk.document.value = walk.value_of(root, (), ())
        return walk.document
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = _QUOTED.sub("something else", (error.problem or "not readable").replace(r"character '\t'", "a tab"))
        raise UnreadableError(where, f"not valid YAML: {problem}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        column = error.position - text.rfind("\n", 0, error.position)
        raise UnreadableError(f"line {line}, column {column}", "not valid YAML: a forbidden character") from None
    except RecursionError:
        raise UnreadableError("", "nested too deeply") from None
    finally:
        loader.dispose()


class _Walk:
    def __init__(self, loader: yaml.SafeLoader, env: Mapping[str, str]) -> None:
        self.document = Document()
        self._loader = loader
        self._env = env
        self._seen = 0

    def value_of(self, node: yaml.Node, path: Path, above: tuple[yaml.Node, ...]) -> Any:
        self._seen += 1
        line = node.start_mark.line + 1
        if self._seen > MAX_NODES:
            raise UnreadableError(f"line {line}", f"more than {MAX_NODES} values")
        if any(node is each for each in above):
            raise UnreadableError(f"line {line}", "an alias that contains itself")
        self.document.lines.setdefault(path, line)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        above = (*above, node)
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
            return [self.value_of(each, (*path, index), above) for index, each in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
            pairs = self._pairs(node, path, above)
            return {key: self.value_of(value, (*path, key), above) for key, value in pairs.items()}
        return self._fault(path, "a YAML tag that is not known here")

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> Any:
        try:
            value = self._loader.construct_object(node)
        except yaml.constructor.ConstructorError:
            return self._fault(path, "a YAML tag that is not known here")
        except (ValueError, OverflowError):
            return self._fault(path, "looks like a number or a date, but is none; put it in quotes")
        if isinstance(value, str):
            value, faults = fill_in(value, self._env)
            for text in faults:
                self._fault(path, text)
        return value

    def _pairs(self, node: yaml.MappingNode, path: Path, above: tuple[yaml.Node, ...]) -> dict[str, yaml.Node]:
        """The keys of a mapping; what it merges in comes after its own keys and never replaces one."""
        pairs: dict[str, yaml.Node] = {}
        merged: list[yaml.Node] = []
        for key_node, value in node.value:
            line = key_node.start_mark.line + 1
            if key_node.tag == f"{_TAG}merge":
                merged += value.value if isinstance(value, yaml.SequenceNode) else [value]
            elif not isinstance(key_node, yaml.ScalarNode) or key_node.tag != f"{_TAG}str":
                self._fault(path, f"the key on line {line} must be text; put it in quotes")
            elif key_node.value in pairs:
                first = self.document.lines[*path, key_node.value]
                self._fault((*path, key_node.value), f"given twice: on line {first}, and again on line {line}")
            else:
                pairs[key_node.value] = value
                self.document.lines[*path, key_node.value] = line
        for each in merged:
            if not isinstance(each, yaml.MappingNode):
                self._fault(path, "<< must name a mapping")
            elif any(each is one for one in above):
                raise UnreadableError(f"line {each.start_mark.line + 1}", "an alias that contains itself")
            else:
                for key, value in self._pairs(each, path, (*above, each)).items():
                    pairs.setdefault(key, value)
        return pairs

    def _fault(self, path: Path, text: str) -> None:
        self.document.faults.append(Fault(path, text))
