"""Folders that another tool left in a results tree: known by their names, looked at, never taken for runs of the store.

<scope>/<name>-run_20260125_123456_789/        a search: per-query files, metrics
<scope>/<name>-training_20260125_123456_789/   a learned shift
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from steelyard.errors import UsageError, printable
from steelyard.runs.layout import Scope, folders

Kind = Literal["run", "training"]
_FORM = re.compile(r".+-(run|training)_([0-9]{8}_[0-9]{6}(?:_[0-9]{1,7})?)")
_SHORTEST = 4  # characters of a name's beginning


@dataclass(frozen=True)
class OtherFolder:
    """A folder of another tool: its name, the time in it, and where it is."""

    name: str
    time: str
    folder: Path

    def files(self) -> list[str]:
        """The plain files in it; links are none."""
        with os.scandir(self.folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_file(follow_symlinks=False))


def other_folders(scopes: Iterable[Scope], kind: Kind) -> list[OtherFolder]:
    """The folders of a kind in some scopes, the newest first."""
    others = []
    for scope in scopes:
        for name in folders(scope.folder):
            form = _FORM.fullmatch(name)
            if form is not None and form[1] == kind:
                others.append(OtherFolder(name, form[2], scope.folder / name))
    return sorted(others, key=lambda other: (other.time, other.name), reverse=True)


def find_other(scopes: Iterable[Scope], kind: Kind, name: str) -> OtherFolder | None:
    """One folder by its name, or by the beginning of it; None where there is none."""
    others = other_folders(scopes, kind)
    matches = [other for other in others if other.name == name]
    if not matches and len(name) >= _SHORTEST:
        matches = [other for other in others if other.name.startswith(name)]
    if len(matches) > 1:
        shown = ", ".join(printable(other.folder) for other in matches[:4])
        raise UsageError(f"'{printable(name, limit=60)}' means {len(matches)} folders; choose one: {shown}")
    return matches[0] if matches else None
