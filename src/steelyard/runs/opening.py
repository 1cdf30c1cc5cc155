"""A kept run is opened by its name: its id, its folder, or its run.json; never one behind another tenant's wall."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import Any

from steelyard.errors import UsageError, printable
from steelyard.records.readers import readers
from steelyard.records.readers.choosing import is_bundle
from steelyard.runs.index import Index
from steelyard.runs.layout import TENANTS, View, results
from steelyard.runs.run_json import NAME
from steelyard.runs.saved import SavedRun


def open_run(source: Any, view: View, kind: str) -> SavedRun:
    """A kept run: as it is, by its folder, or by its id among the runs that may be seen."""
    if isinstance(source, SavedRun):
        return source
    check_walls(Path(source), view)
    if is_run_folder(source):
        return SavedRun.at(Path(source) if Path(source).name != NAME else Path(source).parent)
    text = os.fspath(source)
    try:
        with Index.within(view) as index:
            return SavedRun.at(index.find(text).folder)
    except UsageError:
        if looks_like_file(text):
            raise UsageError(f"the {kind} {no_file(text)}") from None
        raise


def check_walls(path: Path, view: View) -> None:
    """Refuse a path into the store that is not in the part that may be seen, whether there is something or not."""
    inside = results(view.root).resolve()
    place = path.resolve()
    if len(path.parts) == 1 and not path.exists():  # an id, wherever the command was called
        return
    if inside != place and inside not in place.parents:
        return
    domain, *rest = place.relative_to(inside).parts or ("",)
    tenant = rest[1] if len(rest) > 1 and rest[0] == TENANTS else None
    if tenant != view.tenant or view.domain not in (None, domain):
        raise UsageError("that path lies in a part of the store that is not this tenant's or domain's")


def is_run_folder(source: Any) -> bool:
    """True for the folder of a kept run, and for its run.json."""
    return os.path.isfile(Path(source) / NAME) or (Path(source).name == NAME and os.path.isfile(source))


def is_answers(source: Any) -> bool:
    """True for a file of answers, or a folder of them: one that a reader recognises, and no run's."""
    if is_run_folder(source) or Path(source).name == NAME:
        return False
    return os.path.isfile(source) or (os.path.isdir(source) and is_bundle(os.fspath(source)))


def is_meant_as_answers(source: Any) -> bool:
    """True if a name is meant as answers: standard input, answers that are there, or a file by its suffix."""
    return source == "-" or is_answers(source) or looks_like_file(source)


def looks_like_file(source: Any) -> bool:
    """True if a name is meant as a file of answers, there or not."""
    known = tuple(suffix for reader in readers.values() for suffix in reader.suffixes)
    return os.fspath(source).lower().endswith(known) and not is_run_folder(source)


def no_file(source: Any) -> str:
    """That there is no such file, and which there is."""
    path = Path(source)
    try:
        names = sorted(entry.name for entry in os.scandir(path.parent) if entry.is_file())
    except OSError:
        names = []
    near = difflib.get_close_matches(path.name, names, n=1, cutoff=0.6)
    hint = f"; did you mean '{printable(path.with_name(near[0]))}'?" if near else ""
    return f"'{printable(path)}' is no file{hint}"
