"""What an exporter is. To add one, write one file: a function from an evaluation to what another tool reads.

    from steelyard.exports.contract import Exported, Place, Subject, exporter

    @exporter("outline", about="a list of numbers", target="a file", facts={"title": "the first line"})
    def outline(subject: Subject, place: Place, facts: Mapping[str, str]) -> Exported:
        ...
        return Exported(files={place.path: text}, numbers=len(subject.evaluation))

A file in this folder is known at once; that of another package by its entry point in the group "steelyard". What is
returned in `files` is checked and written by whoever asked; an exporter that speaks to a server does so itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from steelyard.errors import UsageError, printable
from steelyard.registry import Registry, closest
from steelyard.study.results import Evaluation

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:.*|databricks")


@dataclass(frozen=True, kw_only=True)
class Subject:
    """An evaluation to be exported, and what is known of it beyond its numbers.

    `text` is its evaluation.json as it was read; `version` that of the program that wrote it; `created` when that was.
    """

    evaluation: Evaluation
    text: str
    name: str
    version: str
    created: datetime
    run_id: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Place:
    """Where an export goes: a file or a folder, or the address of a server."""

    text: str

    @property
    def is_address(self) -> bool:
        """True for what is no path: http://…, sqlite:///…, databricks. A file: address is a path."""
        return bool(_ADDRESS.fullmatch(self.text)) and not self.text.lower().startswith("file:")

    @cached_property
    def path(self) -> Path:
        """The file or folder that is meant."""
        if self.is_address:
            raise UsageError(f"{self.shown} is no file or folder; name one")
        return Path(unquote(urlsplit(self.text).path) if self.text.lower().startswith("file:") else self.text)

    @property
    def shown(self) -> str:
        """The place as people may see it: without a name and password before the server's."""
        if not self.is_address:
            return printable(self.path)
        scheme, slashes, rest = self.text.partition("?")[0].partition("//")
        server, slash, path = rest.partition("/")
        return printable(f"{scheme}{slashes}{server.rpartition('@')[2]}{slash}{path}")


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What became of an export: the files to write, how many numbers there are, and what there is to say.

    `about` is what the exporter knows afterwards, such as an id that a server gave.
    """

    files: Mapping[Path, str] = field(default_factory=dict)
    numbers: int = 0
    said: tuple[str, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)


Export = Callable[[Subject, Place, Mapping[str, str]], Exported]


@dataclass(frozen=True, kw_only=True)
class Exporter:
    """A form in which another tool takes an evaluation. `facts` are what it may be told, each with its meaning."""

    name: str
    about: str
    target: str
    export: Export
    facts: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, subject: Subject, place: Place, facts: Mapping[str, str] | None = None) -> Exported:
        """Export an evaluation; a fact that the exporter has no use for is an error."""
        for name in facts or {}:
            if name not in self.facts:
                near = closest(name, list(self.facts))
                hint = f"did you mean '{near}'?" if near else f"it takes: {', '.join(self.facts)}"
                raise UsageError(f"{self.name} has no use for the fact '{printable(name)}'; {hint}")
        return self.export(subject, place, facts or {})


exporters: Registry[Exporter] = Registry("form to export")


def exporter(
    name: str, *, about: str, target: str, facts: Mapping[str, str] | None = None, aliases: tuple[str, ...] = ()
) -> Callable[[Export], Export]:
    """Register a function as the exporter of a name."""

    def register(export: Export) -> Export:
        known = Exporter(name=name, about=about, target=target, export=export, facts=facts or {})
        exporters.add(name, known, aliases=aliases)
        return export

    return register
