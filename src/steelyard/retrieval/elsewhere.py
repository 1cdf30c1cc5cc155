"""Searches that another tool left in a results tree, and which per-query file a text means.

A folder `…-run_<time>/` has per-query files and no run.json: what they say is shown, but it is no run of the store.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from steelyard.errors import InputError, UsageError, printable
from steelyard.ground.json import plain, read_strict
from steelyard.retrieval.per_query import ap1, ndcg3, read_per_query
from steelyard.runs.elsewhere import OtherFolder, find_other
from steelyard.runs.index import Index
from steelyard.runs.layout import View
from steelyard.runs.saved import BASELINE, METRICS, SHIFTED, SavedRun


@dataclass(frozen=True, kw_only=True)
class OtherSearch:
    """What a search of another tool says: means of its per-query files, and the numbers of its metrics file."""

    name: str
    folder: Path
    files: tuple[str, ...]
    queries: Mapping[str, int]
    values: Mapping[str, Mapping[str, float]]  # baseline, posneg → metric → mean
    numbers: Mapping[str, float]

    def document(self) -> dict[str, Any]:
        """The same as JSON-ready values."""
        fields = {field: getattr(self, field) for field in self.__dataclass_fields__}
        return plain({"kind": "run-made-elsewhere", **fields, "folder": str(self.folder)})


def read_search(other: OtherFolder) -> OtherSearch:
    """Read what a folder holds; a file that is not there says nothing."""
    files = other.files()
    entries = {
        side: read_per_query(other.folder / name)
        for side, name in (("baseline", BASELINE), ("posneg", SHIFTED))
        if name in files
    }
    document = read_strict(other.folder / METRICS)[0] if METRICS in files else None
    return OtherSearch(
        name=other.name,
        folder=other.folder,
        files=tuple(files),
        queries={side: len(each) for side, each in entries.items()},
        values={
            side: {
                "map@1": float(np.mean([ap1(entry.rank) for entry in each])),
                "ndcg@3": float(np.mean([ndcg3(entry.rank) for entry in each])),
            }
            for side, each in entries.items()
        },
        numbers=dict(_numbers(document)),
    )


def _numbers(document: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """The numbers in a document by their keys, joined with points."""
    if isinstance(document, dict):
        for key, value in document.items():
            yield from _numbers(value, f"{path}.{key}" if path else str(key))
    elif isinstance(document, int | float) and not isinstance(document, bool):
        yield path, document


def per_query_file(text: str, name: str, view: View) -> Path:
    """The per-query file that a text means: itself, or the file of this name in a run, kept or made elsewhere."""
    if os.path.isfile(text) or text.lower().endswith(".json"):
        return Path(text)
    with Index.within(view) as index:
        try:
            return SavedRun.at(index.find(text).folder).file(name)
        except UsageError as problem:
            other = find_other(view.scopes(), "run", text)
            if other is None:
                raise UsageError(f"'{printable(text, limit=60)}' is no file, and no run: {problem}") from None
    if name not in other.files():
        raise InputError(f"there is no {name} in this folder", file=str(other.folder))
    return other.folder / name


def both_files(baseline: str | None, shifted: str, view: View) -> tuple[Path, Path]:
    """The per-query files without and with a shift; a run with a shift has both."""
    new = per_query_file(shifted, SHIFTED, view)
    if baseline is None and os.path.isfile(shifted):
        raise UsageError("name the baseline, too: a run's id names both files, a file only itself")
    return per_query_file(shifted if baseline is None else baseline, BASELINE, view), new
