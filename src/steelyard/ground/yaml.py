"""YAML files as people mean them: a safe loader that refuses what YAML would silently turn into something else.

`NO` as false, `012` as ten, a duplicate key, an alias bomb: all are errors with the line.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from steelyard.errors import UsageError, printable
from steelyard.halves import whole_text

_LARGEST = 1_000_000
_SURPRISES = re.compile(r"(?i:yes|no|on|off|y|n)|[+-]?0[0-9_]+|[+-]?[0-9][0-9_]*(:[0-5]?[0-9])+|0x\w+|0b\w+|0o\w+")


def load_yaml(path: Path) -> Any:
    """The document in `path`; every problem is a UsageError that names file and line."""
    try:
        if path.stat().st_size > _LARGEST:
            raise UsageError(f"{printable(path)}: larger than {_LARGEST:,} bytes; this does not look like a spec")
        text = path.read_text(encoding="utf-8-sig")
    except OSError as problem:
        raise UsageError(f"{printable(path)}: cannot be read ({problem.strerror})") from None
    except UnicodeDecodeError as problem:
        raise UsageError(f"{printable(path)}: not UTF-8 text (byte {problem.start})") from None
    return parse_yaml(text, source=str(path))


def parse_yaml(text: str, *, source: str) -> Any:
    """The document in `text`."""
    try:
        return yaml.load(text, Loader=_StrictLoader)
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark
        line = f":{mark.line + 1}" if mark else ""
        raise UsageError(f"{printable(source)}{line}: {problem.problem or 'not valid YAML'}") from None
    except (yaml.YAMLError, RecursionError):
        raise UsageError(f"{printable(source)}: not valid YAML") from None


def places(path: Path) -> dict[tuple[str | int, ...], int]:
    """The line on which every part of a document begins, by the keys and numbers that lead to it."""
    found: dict[tuple[str | int, ...], int] = {}
    waiting: list[tuple[tuple[str | int, ...], Any]] = [((), yaml.compose(path.read_text(encoding="utf-8-sig")))]
    while waiting:
        place, node = waiting.pop()
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                below = (*place, whole_text(key.value))
                found[below] = key.start_mark.line + 1
                waiting.append((below, value))
        elif isinstance(node, yaml.SequenceNode):
            for number, value in enumerate(node.value):
                found[*place, number] = value.start_mark.line + 1
                waiting.append(((*place, number), value))
    return found


class _StrictLoader(yaml.SafeLoader):
    """SafeLoader without aliases, duplicate keys and plain scalars of surprising type."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, "aliases are not allowed", event.start_mark)
        return super().compose_node(parent, index)

    def construct_scalar(self, node: Any) -> Any:
        return whole_text(super().construct_scalar(node))

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str | int):
                raise yaml.constructor.ConstructorError(None, None, "keys are plain words", key_node.start_mark)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, "a key appears twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        if isinstance(node, yaml.ScalarNode) and node.style is None and _SURPRISES.fullmatch(node.value):
            raise yaml.constructor.ConstructorError(
                None, None, "this word means something else in YAML; put it in quotes", node.start_mark
            )
        if node.tag == "tag:yaml.org,2002:timestamp":
            node.tag = "tag:yaml.org,2002:str"
        return super().construct_object(node, deep)
